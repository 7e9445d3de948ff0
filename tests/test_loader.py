"""The reviewer's own loaders: what they reach, what is said when they fail, and code that is never taken from a campaign."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sessions
import torch
from reviewers_loaders import Net
from rule_examples import LOADERS

from pytest_campaign import loaders, proof, snapshot
from pytest_campaign.campaign import Asked, Campaign, Deliverable
from pytest_campaign.checks import Pair
from pytest_campaign.evidence import Files
from pytest_campaign.formats.base import Depth
from pytest_campaign.loaders import Loader
from pytest_campaign.record import Result
from pytest_campaign.reload.client import Reloader
from pytest_campaign.reload.protocol import Limits
from pytest_campaign.session import run_check


@pytest.fixture(scope="module")
def reloader() -> Iterator[Reloader]:
    with Reloader(Limits(timeout=60.0, memory=1 << 29, threads=1)) as running:
        yield running


@pytest.fixture(scope="module")
def impatient() -> Iterator[Reloader]:
    with Reloader(Limits(timeout=2.0, memory=1 << 29, threads=1)) as running:
        yield running


def net(file: Path, seed: int = 0) -> Net:
    torch.manual_seed(seed)
    made = Net()
    file.parent.mkdir(parents=True, exist_ok=True)
    torch.save(made.state_dict(), file)
    return made


def described(out: Path, path: str, **more: Any) -> Campaign:
    sessions.manifest(out, sessions.entry("net", path, "checkpoint", **more))
    return snapshot.campaign(snapshot.take(out), Asked())


def reloaded(campaign: Campaign, running: Reloader, function: str | None, code: Path = LOADERS) -> Result:
    own = {"net": Loader("*", str(code), function)} if function else {}
    return run_check(campaign, Pair("net", "reload"), Files(campaign.inventory, running.run, digest=False, loaders=own))


def rules(result: Result) -> list[str]:
    return [finding.rule for finding in result.findings]


def messages(result: Result) -> str:
    return "\n".join(finding.message for finding in result.findings)


# ---- what a loader reaches ----------------------------------------------------------------------------------


def home_made(out: Path) -> tuple[str, Net]:
    return "net.pt", net(out / "net.pt")


def in_a_folder(out: Path) -> tuple[str, Net]:
    return "model", net(out / "model/net.pt")


def lightning(out: Path) -> tuple[str, Net]:
    import warnings

    import lightning.pytorch as pl

    torch.manual_seed(0)

    class Module(pl.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.net = Net()

        def training_step(self, batch: Any) -> Any:
            return self.net(batch[0]).square().mean()

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), lr=0.1)

    module = Module()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trainer = pl.Trainer(max_steps=2, accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False,
                             enable_model_summary=False)
        trainer.fit(module, torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.randn(8, 6)), batch_size=4))
        trainer.save_checkpoint(out / "last.ckpt")
    return "last.ckpt", module.net


def distributed(out: Path) -> tuple[str, Net]:
    import warnings

    from torch.distributed.checkpoint import FileSystemWriter, save

    torch.manual_seed(0)
    made = Net()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        save({"model": made.state_dict()}, storage_writer=FileSystemWriter(out / "dcp"))
    return "dcp", made


@pytest.mark.parametrize(("write", "function"), [
    (home_made, "net"), (in_a_folder, "folder"), (lightning, "lightning"), (distributed, "distributed"),
    (home_made, "compiled"), (home_made, "compiled_inside"), (home_made, "scripted")])
def test_depth_model_and_with_a_probe_depth_probe(tmp_path: Path, reloader: Reloader, write: Any, function: str) -> None:
    tmp_path /= "out"
    tmp_path.mkdir()
    path, made = write(tmp_path)
    proof.record(made, torch.randn(4, 6), tmp_path / "probe.safetensors")
    alone = reloaded(described(tmp_path, path), reloader, None)
    assert (alone.depth, alone.loader) == (Depth.TENSORS, None)
    loaded = reloaded(described(tmp_path, path, reload={"depth": "model"}), reloader, function)
    assert (loaded.outcome, loaded.depth, loaded.loader) == ("passed", Depth.MODEL, f"reviewers_loaders.py:{function}"), loaded
    proved = reloaded(described(tmp_path, path, reload={"depth": "probe", "probe": "probe.safetensors"}), reloader, function)
    assert (proved.outcome, proved.depth) == ("passed", Depth.PROBE), proved


def test_a_new_interpreter_does_the_same(tmp_path: Path) -> None:
    made = net(tmp_path / "net.pt")
    proof.record(made, torch.randn(4, 6), tmp_path / "probe.safetensors")
    with Reloader(Limits(timeout=60.0, memory=1 << 29, threads=1), mode="spawn") as running:
        result = reloaded(described(tmp_path, "net.pt", reload={"probe": "probe.safetensors"}), running, "net")
    assert (rules(result), result.depth) == ([], Depth.PROBE)


def test_the_whole_campaign_directory(tmp_path: Path, reloader: Reloader) -> None:
    net(tmp_path / "net.pt")
    assert reloaded(described(tmp_path, ".", purpose="inference"), reloader, "folder").depth is Depth.MODEL


def test_a_swapped_pair_of_layers_is_found_by_the_probe_and_by_nothing_else(tmp_path: Path, reloader: Reloader) -> None:
    made = net(tmp_path / "net.pt")
    proof.record(made, {"points": torch.randn(4, 6)}, tmp_path / "probe.safetensors")
    state = made.state_dict()
    swapped = {name: state[name.replace("first", "#").replace("second", "first").replace("#", "second")] for name in state}
    torch.save(swapped, tmp_path / "net.pt")
    assert rules(reloaded(described(tmp_path, "net.pt"), reloader, "net")) == []
    found = reloaded(described(tmp_path, "net.pt", reload={"probe": "probe.safetensors"}), reloader, "net")
    assert (rules(found), found.depth) == (["reload.probe-differs"], Depth.MODEL)


# ---- what is said when it fails -----------------------------------------------------------------------------


@pytest.mark.parametrize(("function", "words"), [
    ("raises", "it raised ValueError: net.pt is not mine (at reviewers_loaders.py:"),
    ("exits", "SystemExit: usage: loaders.py FILE"),
    ("returns_the_tensors", "it returned OrderedDict"),
    ("has_no_values", "6 of 6 parameters have no values: first.weight"),
    ("is_lazy", "2 of 2 parameters have no values"),
    ("is_empty", "a module without a parameter"),
    ("crashes", "SIGSEGV"),
    ("no_such_name", "it cannot be imported: AttributeError"),
    ("NOT_A_FUNCTION", "is no function"),
])
def test_a_loader_that_fails_rejects(tmp_path: Path, reloader: Reloader, function: str, words: str) -> None:
    net(tmp_path / "net.pt")
    result = reloaded(described(tmp_path, "net.pt"), reloader, function)
    assert rules(result) == ["reload.loader-failed"]
    assert (result.outcome, result.depth) == ("failed", Depth.TENSORS)
    assert words in messages(result)
    assert f"reviewers_loaders.py:{function}" in messages(result)


def test_the_wrong_class_is_named_with_the_tensors(tmp_path: Path, reloader: Reloader) -> None:
    torch.save(torch.nn.Linear(3, 3).state_dict(), tmp_path / "net.pt")
    assert "Missing key(s) in state_dict" in messages(reloaded(described(tmp_path, "net.pt"), reloader, "net"))


def test_values_of_the_model_that_are_not_finite(tmp_path: Path, reloader: Reloader) -> None:
    net(tmp_path / "net.pt")
    assert rules(reloaded(described(tmp_path, "net.pt"), reloader, "has_nan")) == ["reload.nan"]
    assert rules(reloaded(described(tmp_path, "net.pt"), reloader, "has_a_mask")) == []


def test_what_the_machine_cannot_do_leaves_it_unverified(tmp_path: Path, reloader: Reloader, impatient: Reloader) -> None:
    net(tmp_path / "net.pt")
    for running, function, rule in ((impatient, "never_ends", "reload.time-limit"),
                                    (reloader, "needs_much_memory", "reload.memory-limit")):
        result = reloaded(described(tmp_path, "net.pt"), running, function)
        assert (rules(result), result.outcome) == ([rule], "unverified")


def test_a_broken_file_is_said_once(tmp_path: Path, reloader: Reloader) -> None:
    net(tmp_path / "net.pt")
    (tmp_path / "net.pt").write_bytes((tmp_path / "net.pt").read_bytes()[:-40])
    assert "reload.loader-failed" not in rules(reloaded(described(tmp_path, "net.pt"), reloader, "net"))


def test_a_module_beside_the_loader_is_found(tmp_path: Path, reloader: Reloader) -> None:
    net(tmp_path / "out/net.pt")
    code = tmp_path / "code"
    sessions.write(code, {"shapes.py": "WIDTH = 3\n", "mine.py":
                          "from shapes import WIDTH\nimport torch\n\ndef load(path):\n    return torch.nn.Linear(WIDTH, 1)\n"})
    assert reloaded(described(tmp_path / "out", "net.pt"), reloader, "load", code / "mine.py").depth is Depth.MODEL


def test_a_loader_in_the_campaign_is_not_called(tmp_path: Path, reloader: Reloader) -> None:
    """The last of several fences: a link that turned up after the session began."""
    net(tmp_path / "net.pt")
    (tmp_path / "mine.py").write_text("def load(path):\n    raise SystemExit\n")
    result = reloaded(described(tmp_path, "net.pt"), reloader, "load", tmp_path / "mine.py")
    assert "lies in the campaign directory" in messages(result)


# ---- which deliverables, which code -------------------------------------------------------------------------


def test_the_form_of_the_option(tmp_path: Path) -> None:
    (tmp_path / "mine.py").touch()
    assert loaders.parse("adapter=pkg.mod:Class.load", "/") == Loader("adapter", "pkg.mod", "Class.load")
    file = f"{tmp_path}/mine.py"
    assert loaders.parse("epoch=1-*.ckpt=mine.py:load", str(tmp_path)) == Loader("epoch=1-*.ckpt", file, "load")
    for text, words in (("mine:load", "does not say which"), ("=mine:load", "does not say which"), ("a=m", "names no function"),
                        ("a=mine:", "names no function"), ("a=mine:lo ad", "names no function"), ("a=other.py:load", "no file"),
                        ("a=m/ine:load", "neither the name"), ("a=:load", "names no function")):
        with pytest.raises(ValueError, match=words):
            loaders.parse(text, str(tmp_path))


def test_the_last_that_fits_is_taken() -> None:
    def of(pattern: str) -> Loader:
        return Loader(pattern, "m", pattern)

    deliverable = Deliverable("rank8/adapter", "adapter", "runs/rank8/adapter")
    for pattern in ("adapter", "rank8/adapter", "rank8/*", "*/adapter", "runs/rank8/*", "*"):
        assert loaders.chosen([of("checkpoint"), of(pattern), of("rank2/*")], deliverable) == of(pattern)
    assert loaders.chosen([of("adapter"), of("rank8/*"), of("x")], deliverable) == of("rank8/*")
    assert loaders.chosen([of("checkpoint"), of("Rank8/*"), of("rank8")], deliverable) is None


def checked(cwd: Path, *words: str, **more: str) -> sessions.Ended:
    return sessions.pytest_session(cwd, "-p", "no:cacheprovider", "--campaign-dir=out", *words, **more)


@pytest.fixture
def out(tmp_path: Path) -> Path:
    made = net(tmp_path / "out/net.pt")
    proof.record(made, torch.randn(4, 6), tmp_path / "out/probe.safetensors")
    sessions.manifest(tmp_path / "out", sessions.entry("net", "net.pt", "checkpoint", reload={"probe": "probe.safetensors"}))
    (tmp_path / "mine.py").write_text(LOADERS.read_text())
    return tmp_path / "out"


@pytest.mark.parametrize("words", [[], ["-n2"]])
def test_a_session_with_a_loader_says_which(tmp_path: Path, out: Path, words: list[str]) -> None:
    ended = checked(tmp_path, "--campaign-loader=net=mine.py:net", "--campaign-report=report.json", *words)
    assert ended.status == 0, ended.out
    assert "to probe by mine.py:net" in ended.out
    (entry,) = json.loads((tmp_path / "report.json").read_text())["deliverables"]
    assert (entry["depth"], entry["loader"], entry["findings"][:0]) == ("probe", "mine.py:net", [])
    assert str(tmp_path) not in json.dumps(entry)


def test_a_session_without_says_that_one_is_needed(tmp_path: Path, out: Path) -> None:
    ended = checked(tmp_path, "--campaign-report=report.json")
    assert ended.status == 0, ended.out
    assert "reload.probe-skipped" in ended.out
    assert "--campaign-loader=net=/path/file.py:function" in ended.out


def test_a_loader_from_the_ini_file_and_from_a_module(tmp_path: Path, out: Path) -> None:
    (tmp_path / "pytest.ini").write_text(
        "[pytest]\npythonpath = .\ncampaign_loader =\n    adapter=mine:raises\n    checkpoint=mine:net\n")
    ended = checked(tmp_path)
    assert ended.status == 0, ended.out
    assert "to probe by mine:net" in ended.out
    assert "adapter fits no deliverable" in ended.out + ended.err


def test_a_loader_from_a_hook(tmp_path: Path, out: Path) -> None:
    (tmp_path / "conftest.py").write_text(
        "def pytest_campaign_loader(config, deliverable_id, kind, path, format):\n"
        "    assert (deliverable_id, kind, path.name, format) == ('net', 'checkpoint', 'net.pt', 'torch zip')\n"
        "    return 'mine.py:net'\n")
    ended = checked(tmp_path, f"--rootdir={tmp_path}")
    assert ended.status == 0, ended.out
    assert "to probe by mine.py:net" in ended.out


@pytest.mark.parametrize(("word", "words"), [
    ("chekpoint=mine.py:net", "chekpoint fits no deliverable that is reloaded; there is net"),
    ("net=mine.py", "names no function"),
    ("net=absent.py:load", "there is no file"),
    ("net=no_such_module_here:load", "there is no module no_such_module_here"),
    ("net=out/code.py:load", "lies in the campaign directory"),
    ("net=link.py:load", "lies in the campaign directory"),
])
def test_usage_errors(tmp_path: Path, out: Path, word: str, words: str) -> None:
    (out / "code.py").write_text("raise SystemExit('it was run')\n")
    (tmp_path / "link.py").symlink_to(out / "code.py")
    ended = checked(tmp_path, f"--campaign-loader={word}")
    assert ended.status == 4, ended.out
    assert words in ended.err
    assert "it was run" not in ended.out + ended.err


def test_a_module_in_the_campaign_is_not_imported(tmp_path: Path, out: Path) -> None:
    (out / "evil.py").write_text("raise SystemExit('it was run')\n")
    ended = checked(tmp_path, "--campaign-loader=net=evil:load", PYTHONPATH=str(out))
    assert ended.status == 4, ended.out
    assert "it was run" not in ended.out + ended.err
