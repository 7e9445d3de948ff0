"""What a load opens or needs outside of its deliverable: seen, refused and named, and no look of a library taken for it."""

import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from transformers import DetrConfig, DetrForObjectDetection, ResNetConfig

from pytest_campaign import discovery, inventory
from pytest_campaign.formats.base import Depth, Problem, ProblemKind, Reading, Unit
from pytest_campaign.reload import outside, reach
from pytest_campaign.reload.client import Reloader
from pytest_campaign.reload.confinement import IsolationLevel
from pytest_campaign.reload.protocol import FileSpec, Job, Limits

OUTSIDE = (ProblemKind.OUTSIDE_NEEDED, ProblemKind.OUTSIDE_TRIED)


# ---- a model that names its backbone by a path ---------------------------------------------------------------


@pytest.fixture(scope="module")
def detector(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A detector with a small backbone, whose configuration it holds; the backbone alone lies beside it."""
    folder = tmp_path_factory.mktemp("detector")
    backbone = ResNetConfig(embedding_size=8, hidden_sizes=[8, 8, 8, 8], depths=[1, 1, 1, 1], layer_type="basic",
                            out_features=["stage4"])
    sizes = dict.fromkeys(("encoder_layers", "decoder_layers"), 1) | dict.fromkeys(("encoder_ffn_dim", "decoder_ffn_dim"), 16)
    DetrForObjectDetection(DetrConfig(
        use_timm_backbone=False, backbone=None, backbone_config=backbone, d_model=16, num_queries=4,
        encoder_attention_heads=2, decoder_attention_heads=2, **sizes)).save_pretrained(folder / "out/model")
    backbone.save_pretrained(folder / "backbone")
    return folder


@pytest.fixture(scope="module", params=[IsolationLevel.BASIC, IsolationLevel.ISOLATED], ids=["basic", "highest"])
def reloader(request: pytest.FixtureRequest) -> Iterator[Reloader]:
    with Reloader(Limits(120.0, 1 << 30, 1), level=request.param) as reloader:
        yield reloader


def read(folder: Path, reloader: Reloader) -> Reading:
    table = inventory.take(folder)
    (unit,) = [unit for unit in discovery.recognise(table)[0] if unit.format == "Hugging Face model"]
    specs = [FileSpec(e.path, e.path, e.device, e.inode, e.size, e.mtime_ns) for e in table.entries if e.kind == inventory.FILE]
    answer = reloader.run(Job(str(folder), [unit], specs, Depth.MODEL))
    assert answer.readings[0] is not None, answer.deaths
    return answer.readings[0]


def named(detector: Path, target: Path, backbone: str) -> Path:
    """The detector with a backbone that is named instead of described."""
    (target / "model").mkdir()
    config = json.loads((detector / "out/model/config.json").read_text())
    config |= {"backbone": backbone, "use_pretrained_backbone": False}
    del config["backbone_config"]
    (target / "model/config.json").write_text(json.dumps(config))
    (target / "model/model.safetensors").write_bytes((detector / "out/model/model.safetensors").read_bytes())
    return target


def test_a_model_that_holds_all_that_it_needs(detector: Path, reloader: Reloader) -> None:
    reading = read(detector / "out", reloader)
    assert reading.depth is Depth.MODEL
    assert not reading.problems


@pytest.mark.parametrize("place", ["{}/backbone", "/scratch/job-4711/backbone"])
def test_a_backbone_in_a_folder_of_some_machine(detector: Path, reloader: Reloader, tmp_path: Path, place: str) -> None:
    place = place.format(detector)
    reading = read(named(detector, tmp_path, place), reloader)
    (problem,) = reading.problems
    assert (problem.kind, problem.path) == (ProblemKind.OUTSIDE_NEEDED, "model/config.json")
    assert f"cannot be loaded without {place}" in problem.observed


def test_a_backbone_by_its_name_on_the_hub_is_no_path(detector: Path, reloader: Reloader, tmp_path: Path) -> None:
    reading = read(named(detector, tmp_path, "acme/tiny-resnet"), reloader)
    assert not [problem for problem in reading.problems if problem.kind in OUTSIDE]
    assert [problem.kind for problem in reading.problems] == [ProblemKind.NOT_REBUILT]


# ---- what counts ---------------------------------------------------------------------------------------------


@pytest.fixture
def watch(tmp_path: Path) -> outside.Watch:
    (tmp_path / "campaign/model").mkdir(parents=True)
    (tmp_path / "campaign/model/a.bin").touch()
    (tmp_path / "campaign/other.bin").touch()
    (tmp_path / "home/scratch").mkdir(parents=True)
    job = Job(str(tmp_path / "campaign"), [Unit("toy", "model", ("model/a.bin",))],
              [FileSpec("model/a.bin", "model/a.bin", 0, 0, 0, 0)])
    return outside.Watch(reach.of(job, str(tmp_path / "home/scratch"), ()))


READ, WRITE = os.O_RDONLY, os.O_WRONLY | os.O_CREAT


def opened(watch: outside.Watch, path: object, flags: int = READ) -> str:
    """Whether an open is refused, and what is remembered of it."""
    watch.paths.clear()
    try:
        watch("open", (path, None, flags))
    except PermissionError as error:
        return f"refused {len(watch.paths)}" if error.filename == path else "refused for another path"
    return f"allowed {len(watch.paths)}"


def test_what_may_be_opened(watch: outside.Watch, tmp_path: Path) -> None:
    campaign, home = tmp_path / "campaign", tmp_path / "home"
    (tmp_path / "link").symlink_to(campaign / "other.bin")
    for path in (campaign / "model/a.bin", campaign / "model", home / "scratch/x", home / ".config/library.toml", os.__file__,
                 tempfile.__file__, pytest.__file__, "/proc/self/maps", "/proc/cpuinfo", "/etc/localtime", "/dev/urandom"):
        assert opened(watch, str(path)) == "allowed 0", path
    for path in (campaign / "other.bin", tmp_path / "link", "/etc/passwd", "/proc/self/root/etc/passwd"):
        assert opened(watch, str(path)) == "refused 1", path
    assert opened(watch, str(tmp_path / "absent")) == "allowed 1"  # the system says that it is not there
    for path in (campaign / "model/a.bin", campaign / "new", "/etc/new"):
        assert opened(watch, str(path), WRITE).startswith("refused"), path
    assert opened(watch, str(home / "scratch/new"), WRITE) == opened(watch, "/dev/null", WRITE) == "allowed 0"
    assert opened(watch, 7) == opened(watch, "relative") == "allowed 0"
    watch("os.listdir", ("/etc",))
    watch("import", ("secret", None, None, None, None))


def judged(watch: outside.Watch, *problems: Problem, looked: tuple[str, ...] = ()) -> list[tuple[ProblemKind, str]]:
    reading = outside.judged(Reading("toy", Depth.TENSORS, problems=problems), "model", looked, watch.reach)
    return [(problem.kind, problem.observed) for problem in reading.problems if problem.kind in OUTSIDE]


@pytest.mark.parametrize("text", [
    "OSError: Incorrect path_or_model_id: '/root/models/base'. Please provide either the path to a local folder or the repo_id",
    "HFValidationError: Repo id must be in the form 'repo_name' or 'namespace/repo_name': '/root/models/base'. Use `repo_type`",
    "FileNotFoundError: [Errno 2] No such file or directory: '/root/models/base'",
    "RuntimeError: unable to open file </root/models/base> in read-only mode: No such file or directory (2)",
    "OSError: Can't load the configuration of '/root/models/base'. If you were trying to load it from 'https://huggingface.co'",
])
def test_a_failure_that_names_a_path_outside(watch: outside.Watch, text: str) -> None:
    ((kind, observed),) = judged(watch, Problem(ProblemKind.NOT_REBUILT, "model/config.json", text, ""))
    assert kind is ProblemKind.OUTSIDE_NEEDED
    assert "it cannot be loaded without /root/models/base," in observed
    assert outside.needed(ValueError(text), text, watch.reach) == "/root/models/base"


@pytest.mark.parametrize("text", [
    "OSError: acme/tiny is not a local folder and is not a valid model identifier listed on 'https://huggingface.co/models'",
    "We couldn't connect to 'https://huggingface.co' to load the files, and couldn't find them in the cached files: not found",
    f"ImportError: cannot import name 'x' from 'os' ({os.__file__}): not found",
    "KeyError: 'encoder/layers/0' not found",
    "ValueError: /model/layers/0 has the wrong shape",
    "FileNotFoundError: the key /encoder not found",
    "a library is missing: No module named 'timm' (not found in ~/site-packages/timm or ./lib/timm)",
])
def test_a_failure_that_names_none(watch: outside.Watch, text: str) -> None:
    assert not judged(watch, Problem(ProblemKind.NOT_REBUILT, "model/config.json", text, ""))
    assert outside.needed(ValueError(text), text, watch.reach) is None


def test_what_was_only_looked_for(watch: outside.Watch) -> None:
    fine = Problem(ProblemKind.NAN, "model/a.bin", "No such file: '/root/models/base'", "")  # a text of the file's own
    assert not judged(watch, fine)
    ((kind, observed),) = judged(watch, fine, looked=("/root/a.json", "/root/b.json"))
    assert kind is ProblemKind.OUTSIDE_TRIED
    assert "/root/a.json and 1 more" in observed
    assert not judged(watch, fine, looked=("/etc/library.conf", "/usr/share/library", "/sys/class/x"))
    failed = Problem(ProblemKind.NOT_REBUILT, "model/config.json", "PermissionError: '/etc/library.conf'", "")
    assert judged(watch, failed, looked=("/etc/library.conf",))[0][0] is ProblemKind.OUTSIDE_NEEDED


def test_an_error_of_a_file_of_the_job_is_none(watch: outside.Watch, tmp_path: Path) -> None:
    own = str(tmp_path / "campaign/model/a.bin")
    assert outside.needed(PermissionError(13, "Permission denied", own), "", watch.reach) is None
    assert outside.needed(FileNotFoundError(2, "No such file", "/root/x/y"), "", watch.reach) == "/root/x/y"
    assert outside.needed(FileNotFoundError(2, "No such file", "relative"), "", watch.reach) is None
