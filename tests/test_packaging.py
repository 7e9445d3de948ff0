"""The package as users get it: from a wheel, a source distribution, an editable install and a bare checkout.

Each of the four is made for real in a virtual environment of its own. The dependencies come from the environment that
runs this test, as links; the package itself never does, and every test holds the place that it was loaded from.
"""

from __future__ import annotations

import dataclasses
import email.message
import email.parser
import json
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterable
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

ROOT = Path(__file__).resolve().parents[1]
NAME = "pytest-campaign"
SHIPPED = ["pytest_campaign", "schemas", "tests", "examples", "docs", "benchmarks",
           "README.md", "CHANGELOG.md", "LICENSE", "constraints.txt", "pyproject.toml", ".gitignore"]
NEEDED = ["pytest_campaign/py.typed", "pytest_campaign/isolated.ini", "schemas/manifest-1.schema.json", "tests/test_packaging.py",
          "examples/train_campaign.py", "README.md", "CHANGELOG.md", "LICENSE", "pyproject.toml"]
JUNK = [".git/HEAD", ".venv/lib/site.py", "pytest_campaign/__pycache__/plugin.cpython-311.pyc", "tests/.pytest_cache/README.md",
        "tests/.hypothesis/examples/1", "schemas/.ruff_cache/1", "examples/build/a.py", "dist/old.whl", "out/model.safetensors",
        "notes.txt"]
SCHEMAS = ["manifest-1", "plan-1", "report-1"]
MANIFEST = {
    "manifest_version": 1,
    "campaign": "tiny",
    "runs": [{"id": "a", "status": "completed", "deliverables": [{"id": "metrics", "kind": "metrics", "path": "metrics.json"}]}],
}
PROBE = """
import importlib.metadata, json, pathlib, pytest_campaign
from pytest_campaign import schema_files
package = pathlib.Path(pytest_campaign.__file__).parent
print(json.dumps({
    "package": str(package),
    "folder": str(schema_files.folder()),
    "schemas": {name: schema_files.schema(name)["$id"] for name in schema_files.names()},
    "validators": [schema_files.validator(name).is_valid({}) for name in schema_files.names()],
    "files": sorted(name for name in ("isolated.ini", "py.typed") if (package / name).is_file()),
    "installed": [str(found.locate_file("")) for found in importlib.metadata.distributions(name="pytest-campaign")],
    "entries": sorted(f"{entry.group}: {entry.name} = {entry.value}"
                      for found in importlib.metadata.distributions(name="pytest-campaign") for entry in found.entry_points),
}))
"""


def run(*command: object, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run without what the caller's environment says to Python, pip and pytest."""
    private = ("PYTHON", "PIP_", "PYTEST_", "VIRTUAL_ENV")
    inherited = {key: value for key, value in os.environ.items() if not key.startswith(private)}
    fixed = {"PIP_CONFIG_FILE": os.devnull, "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    return subprocess.run([str(word) for word in command], cwd=cwd, env={**inherited, **fixed, **environment},
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120)


def sound(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def sources() -> list[str]:
    """The files of this checkout that git does not ignore; without git, as in an unpacked source distribution, all but caches."""
    if (ROOT / ".git").exists():
        git = ("git", "-c", f"safe.directory={ROOT}", "ls-files", "-z")
        names = sound(run(*git, "--cached", "--others", "--exclude-standard", cwd=ROOT)).split("\0")
    else:
        names = [file.relative_to(ROOT).as_posix() for file in ROOT.rglob("*") if file.suffix != ".pyc"]
    shipped = [name for name in names if name.partition("/")[0] in SHIPPED and "/." not in name]
    return sorted(name for name in shipped if (ROOT / name).is_file())


@pytest.fixture(scope="module")
def checkout(sources: list[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of this checkout, so that nothing is written into it."""
    copy = tmp_path_factory.mktemp("checkout")
    for name in sources:
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, copy / name)
    return copy


@pytest.fixture(scope="module")
def built(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The source distribution, the wheel and the wheel made from the source distribution; there was junk in the checkout."""
    work = tmp_path_factory.mktemp("built")
    littered = work / "littered"
    shutil.copytree(checkout, littered)
    for name in JUNK:
        (littered / name).parent.mkdir(parents=True, exist_ok=True)
        (littered / name).write_text("junk")
    build = (sys.executable, "-m", "build", "--no-isolation")
    sound(run(*build, "--wheel", "--outdir", work / "direct", littered, cwd=work))
    sound(run(*build, "--outdir", work / "through", littered, cwd=work))  # without a choice: the sdist, and the wheel from it
    return {"sdist": next(work.glob("through/*.tar.gz")), "wheel": next(work.glob("direct/*.whl")),
            "wheel from sdist": next(work.glob("through/*.whl"))}


@pytest.fixture(scope="module")
def dependencies(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Links to everything that is installed in the running environment, except the package itself."""
    folder = tmp_path_factory.mktemp("dependencies")
    for site in (Path(entry) for entry in sys.path if any(Path(entry).glob("*.dist-info"))):
        for entry in site.iterdir():
            own = entry.name.lower().replace("-", "_").lstrip("_").startswith(("pytest_campaign", "editable_"))
            if not (own or entry.suffix == ".pth" or (folder / entry.name).exists()):
                (folder / entry.name).symlink_to(entry)
    return folder


@dataclasses.dataclass(frozen=True)
class Environment:
    """A virtual environment, and where the package and its schemas must come from in it."""

    folder: Path
    package: Path
    schemas: Path
    variables: dict[str, str]

    @property
    def installed(self) -> bool:
        return not self.variables

    def run(self, program: str, *arguments: object) -> subprocess.CompletedProcess[str]:
        return run(self.folder / "bin" / program, *arguments, cwd=self.folder, **self.variables)


@pytest.fixture(scope="module", params=["wheel", "wheel from sdist", "editable", "checkout"])
def environment(request: pytest.FixtureRequest, checkout: Path, built: dict[str, Path], dependencies: Path,
                tmp_path_factory: pytest.TempPathFactory) -> Environment:
    folder = tmp_path_factory.mktemp("environment").resolve()
    sound(run(sys.executable, "-m", "venv", "--without-pip", folder, cwd=folder))
    site = next(folder.glob("lib/python3*/site-packages"))
    (site / "dependencies.pth").write_text(f"{dependencies}\n")
    if request.param == "checkout":
        return Environment(folder, checkout / "pytest_campaign", checkout / "schemas", {"PYTHONPATH": str(checkout)})
    pip = (folder / "bin" / "python", "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--no-build-isolation")
    if request.param == "editable":
        sound(run(*pip, "--editable", checkout, cwd=folder))
        return Environment(folder, checkout / "pytest_campaign", checkout / "schemas", {})
    sound(run(*pip, built[request.param], cwd=folder))
    return Environment(folder, site / "pytest_campaign", site / "pytest_campaign" / "schemas", {})


@pytest.fixture
def campaign(tmp_path: Path) -> Path:
    """The smallest campaign that is accepted."""
    folder = tmp_path / "out"
    folder.mkdir()
    (folder / "manifest.json").write_text(json.dumps(MANIFEST))
    (folder / "metrics.json").write_text('{"loss": 0.5}')
    return folder


def test_everything_is_found_in_its_place(environment: Environment) -> None:
    found = json.loads(sound(environment.run("python", "-c", PROBE)))
    assert found["package"] == str(environment.package)
    assert found["folder"] == str(environment.schemas)
    assert found["schemas"] == {name: f"urn:pytest-campaign:{name}" for name in SCHEMAS}
    assert found["validators"] == [False] * len(SCHEMAS)
    assert found["files"] == ["isolated.ini", "py.typed"]
    if environment.installed:
        assert [Path(place).is_relative_to(environment.folder) for place in found["installed"]] == [True]
        assert found["entries"] == ["console_scripts: pytest-campaign = pytest_campaign.cli:main",
                                    "pytest11: campaign = pytest_campaign.plugin"]
    else:
        assert found["installed"] == found["entries"] == []


def test_pytest_accepts_and_rejects(environment: Environment, campaign: Path) -> None:
    plugin = () if environment.installed else ("-p", "pytest_campaign.plugin")
    pytest_ = ("python", "-m", "pytest", *plugin, "-p", "no:cacheprovider", "--campaign-dir", campaign)
    assert "campaign tiny: ACCEPTED, 1 of 1 deliverable" in sound(environment.run(*pytest_))
    (campaign / "manifest.json").write_text(json.dumps({**MANIFEST, "surprise": 1}))  # only the schema forbids it
    done = environment.run(*pytest_)
    assert (done.returncode, "surprise" in done.stdout) == (1, True), done.stdout + done.stderr


def test_console_script(environment: Environment, campaign: Path) -> None:
    """The packaged isolated.ini is taken, and not the hostile one of the campaign."""
    assert (environment.folder / "bin" / NAME).exists() == environment.installed
    if environment.installed:
        (campaign / "pytest.ini").write_text("[pytest]\naddopts = --no-such-option\n")
        assert "campaign tiny: ACCEPTED, 1 of 1 deliverable" in sound(environment.run(NAME, "check", campaign))
    else:
        assert "manifest.absent" in sound(environment.run("python", "-m", "pytest_campaign.cli", "rules"))


def test_source_distribution_is_the_checkout_without_junk(built: dict[str, Path], sources: list[str]) -> None:
    with tarfile.open(built["sdist"]) as archive:
        members = archive.getmembers()
    assert all(member.isfile() and member.size < 1_000_000 for member in members)
    top = {member.name.partition("/")[0] for member in members}
    assert len(top) == 1
    names = {member.name.partition("/")[2] for member in members}
    assert names >= set(NEEDED)
    assert names == {*sources, "PKG-INFO"}


def test_wheels_are_the_package_and_the_schemas(built: dict[str, Path], sources: list[str]) -> None:
    direct, through = contents(built["wheel"]), contents(built["wheel from sdist"])
    assert direct == through
    package = {name for name in sources if name.startswith("pytest_campaign/")}
    schemas = {f"pytest_campaign/{name}" for name in sources if name.startswith("schemas/")}
    assert len(schemas) == len(SCHEMAS)
    assert {name for name in direct if ".dist-info/" not in name} == package | schemas
    assert all(len(data) < 1_000_000 for data in direct.values())
    assert [name for name in direct if name.endswith(".dist-info/licenses/LICENSE")]


def contents(archive: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(archive) as opened:
        return {name: opened.read(name) for name in opened.namelist()}


@pytest.fixture
def metadata(built: dict[str, Path]) -> email.message.Message:
    data = next(data for name, data in contents(built["wheel"]).items() if name.endswith(".dist-info/METADATA"))
    return email.parser.Parser().parsestr(data.decode())


def test_metadata(metadata: email.message.Message) -> None:
    assert (metadata["Name"], metadata["License-Expression"]) == (NAME, "MIT")
    assert metadata["Description-Content-Type"] == "text/markdown"
    assert "Framework :: Pytest" in metadata.get_all("Classifier", [])
    assert set(metadata.get_all("Provides-Extra", [])) == {"hf", "parquet", "xdist", "html", "test"}
    assert versions(metadata["Requires-Python"], "3.10.14", "3.11.0", "3.14.0") == ["3.11.0", "3.14.0"]


def test_requirements(metadata: email.message.Message) -> None:
    requirements = [Requirement(line) for line in metadata.get_all("Requires-Dist", [])]
    always = {found.name.lower(): str(found.specifier) for found in requirements if found.marker is None}
    assert set(always) == {"pytest", "pluggy", "jsonschema", "referencing", "safetensors", "torch", "pyyaml"}
    assert versions(always["pytest"], "8.4.2", "9.0.2", "9.0.3", "9.2.0") == ["9.0.3", "9.2.0"]
    assert versions(always["torch"], "2.5.1", "2.6.0", "2.13.0") == ["2.6.0", "2.13.0"]
    assert extra(requirements, "hf") == {"transformers", "peft"}
    assert extra(requirements, "parquet") == {"pyarrow"}
    assert extra(requirements, "xdist") == {"pytest-xdist"}
    assert extra(requirements, "html") == {"pytest-html"}
    assert extra(requirements, "test") >= {"pytest-xdist", "pytest-html", "build", "hatchling", "packaging", "pip"}


def extra(requirements: Iterable[Requirement], name: str) -> set[str]:
    return {found.name for found in requirements if found.marker is not None and found.marker.evaluate({"extra": name})}


def versions(specifier: str, *candidates: str) -> list[str]:
    return list(SpecifierSet(specifier).filter(candidates))
