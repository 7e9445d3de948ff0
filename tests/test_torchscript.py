"""TorchScript archives: the container is checked, and nothing in it is run."""

import hashlib
import struct
import zipfile

import pytest
import torch
from disk_source import DiskSource, candidate

from pytest_campaign.formats import formats, torchscript
from pytest_campaign.formats.base import Depth, ProblemKind, Unit

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(3, 2)

    def forward(self, x):
        return self.layer(x).relu()


class Bare(torch.nn.Module):
    def forward(self, x):
        return x + 1


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.pt"


def save(path, module=Net):
    torch.jit.save(torch.jit.trace(module(), torch.ones(1, 3)), path)
    return path


def read(path, **options):
    return torchscript.read(Unit(torchscript.NAME, path.name, (path.name,)), DiskSource(path.parent, **options))


def kinds(reading):
    return [problem.kind for problem in reading.problems]


def recognised(path):
    return [name for name, form in formats().items() if form.recognise(candidate(path))]


def flip(path, wanted):
    """Change one bit in the middle of a member's data."""
    member = next(member for member in zipfile.ZipFile(path).infolist() if wanted in member.filename)
    data = bytearray(path.read_bytes())
    at = member.header_offset + 30 + sum(struct.unpack_from("<HH", data, member.header_offset + 26)) + member.compress_size // 2
    data[at] ^= 1
    path.write_bytes(data)
    return member.filename


@pytest.mark.parametrize("module", [Net, Bare])
def test_sound(path, module, monkeypatch):
    save(path, module)
    assert recognised(path) == ["TorchScript"]
    monkeypatch.setattr(torch.jit, "load", lambda *_: pytest.fail("loaded"))
    reading = read(path, digest=True)
    assert (list(reading.problems), reading.depth) == ([], Depth.HEADER)
    assert reading.tensors == (2 if module is Net else 0)
    assert reading.files[0].sha256 == hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.parametrize("module", [Net, Bare])
@pytest.mark.parametrize("part", [0.5, 1])
def test_truncated(path, module, part):
    whole = save(path, module).read_bytes()
    path.write_bytes(whole[: int(len(whole) * part) - 1])
    assert recognised(path) == ["TorchScript"]
    reading = read(path)
    assert (kinds(reading), reading.depth) == ([ProblemKind.TRUNCATED], None)


def test_appended_byte(path):
    path.write_bytes(save(path).read_bytes() + b"\n")
    assert kinds(read(path)) == [ProblemKind.TRAILING]


def test_flipped_bit_in_a_tensor(path):
    flip(save(path), "/data/0")
    torch.jit.load(path)  # torch does not see it
    reading = read(path)
    assert (kinds(reading), reading.problems[0].where) == ([ProblemKind.CHECKSUM], "data/0")
    assert kinds(read(path, depth=Depth.HEADER)) == []


def test_flipped_bit_in_the_code(path):
    save(path)
    name = flip(path, "/code/")
    reading = read(path)
    assert reading.problems[0].kind in (ProblemKind.CHECKSUM, ProblemKind.DAMAGED)
    assert reading.problems[0].where == name


@pytest.mark.parametrize("needed", ["data.pkl", "version"])
def test_a_member_is_missing(path, needed):
    with zipfile.ZipFile(save(path)) as old:
        members = [(member, old.read(member)) for member in old.infolist() if not member.filename.endswith("/" + needed)]
    with zipfile.ZipFile(path, "w") as new:
        for member, data in members:
            new.writestr(member.filename, data, compress_type=member.compress_type)
    assert recognised(path) == ["TorchScript"]
    assert kinds(read(path)) == [ProblemKind.DAMAGED]


def test_compressed_tensors_and_bombs(path, monkeypatch):
    with zipfile.ZipFile(save(path)) as old:
        members = [(member.filename, old.read(member)) for member in old.infolist()]
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as new:
        for name, data in members:
            new.writestr(name, data, compress_type=zipfile.ZIP_STORED if "/code/" not in name else None)
    assert kinds(read(path)) == []
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as new:
        new.writestr("model/data/9", bytes(1 << 20))
    assert kinds(read(path)) == [ProblemKind.DAMAGED]
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as new:
        new.writestr("model/code/bomb.py", bytes(2 << 20))
    assert kinds(read(path)) == [ProblemKind.DAMAGED]
    monkeypatch.setattr(torchscript, "_LARGEST_CODE", 2 << 20)
    assert set(kinds(read(path))) == {ProblemKind.DAMAGED, ProblemKind.TOO_LARGE}


def test_more_code_than_stated(path):
    save(path)
    data = bytearray(path.read_bytes())
    member = next(member for member in zipfile.ZipFile(path).infolist() if member.filename.endswith(".py"))
    sizes = struct.pack("<II", member.compress_size, member.file_size)
    assert data.count(sizes) == 2  # in the data descriptor and in the directory
    path.write_bytes(data.replace(sizes, struct.pack("<II", member.compress_size, member.file_size - 1)))
    assert kinds(read(path)) == [ProblemKind.DAMAGED]
