"""Files of torch.save, and each fault beside its nearest sound neighbour."""

import argparse
import collections
import datetime
import hashlib
import json
import math
import os
import pathlib
import pickle
import struct
import zipfile

import numpy
import pytest
import torch
from disk_source import DiskSource, candidate

from pytest_campaign.formats import formats, pickle_globals, torch_object, torch_zip
from pytest_campaign.formats.base import Depth, ProblemKind, Unit, from_json, to_json
from pytest_campaign.formats.pickle_survey import BadPickle, Name, survey

torch.manual_seed(0)
TENSORS = {"enc.weight": torch.randn(16, 16), "enc.bias": torch.zeros(16, dtype=torch.bfloat16), "steps": torch.tensor(7)}


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(3, 2)
        self.register_buffer("scale", torch.ones(1))


class Subclass(torch.Tensor):
    pass


class Settings(dict):
    pass


class Attack:
    def __init__(self, function, *arguments):
        self.call = function, arguments

    def __reduce__(self):
        return self.call


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.pt"


def save(path, obj=TENSORS, **options):
    torch.save(obj, path, **options)
    return path


def read(path, **options):
    source = DiskSource(path.parent, **options)
    reading = torch_zip.read(Unit(torch_zip.NAME, path.name, (path.name,)), source)
    assert from_json(json.loads(json.dumps(to_json(reading)))).problems == list(reading.problems)
    return reading


def kinds(reading):
    return [problem.kind for problem in reading.problems]


def fault(path, **options):
    """The one problem of a file."""
    (problem,) = read(path, **options).problems
    return problem


def sound(path, depth=Depth.TENSORS):
    reading = read(path)
    assert (list(reading.problems), reading.depth) == ([], depth)
    return reading


def recognised(path):
    return [name for name, form in formats().items() if form.recognise(candidate(path))]


def change(path, data):
    path.write_bytes(data)
    return path


def flip(path, at, bits=1):
    data = bytearray(path.read_bytes())
    data[at] ^= bits
    return change(path, data)


def where(path, wanted):
    """Offset of a member's data."""
    member = next(member for member in zipfile.ZipFile(path).infolist() if member.filename.endswith("/" + wanted))
    head = path.read_bytes()[member.header_offset : member.header_offset + 30]
    return member.header_offset + 30 + sum(struct.unpack("<HH", head[26:]))


def repack(path, change=lambda name, data: [(name, data)], method=zipfile.ZIP_STORED):
    """The archive written anew by another program."""
    with zipfile.ZipFile(path) as old:
        members = [(member.filename, old.read(member)) for member in old.infolist()]
    with zipfile.ZipFile(path, "w", method) as new:
        for name, data in members:
            for renamed, changed in change(name, data):
                new.writestr(renamed, changed)
    return path


SOUND = {
    "state dict": (TENSORS, ["enc.weight", "enc.bias", "steps"]),
    "bare tensor": (torch.ones(3), [""]),
    "nested": (
        {"model": TENSORS, "epoch": 3, "groups": [{"lr": 0.1, "state": (torch.ones(2), None)}]},
        ["model.enc.weight", "model.enc.bias", "model.steps", "groups.0.state.0"],
    ),
    "parameter": ({"p": torch.nn.Parameter(torch.ones(2)), "b": torch.nn.Buffer(torch.ones(2))}, ["p", "b"]),
    "no elements": ({"empty": torch.zeros(0, 3), "scalar": torch.tensor(1.5)}, ["empty", "scalar"]),
    "ordered": (collections.OrderedDict(a=torch.ones(1)), ["a"]),
    "transposed": ({"t": torch.ones(4, 5).t()}, ["t"]),
    "types": (
        {
            str(dtype): torch.ones(4).to(dtype)
            for dtype in (
                torch.float64,
                torch.float16,
                torch.complex64,
                torch.complex128,
                torch.int8,
                torch.uint16,
                torch.bool,
                torch.float8_e4m3fn,
                torch.float8_e5m2,
            )
        },
        None,
    ),
}


@pytest.mark.parametrize("name", SOUND)
def test_sound(path, name):
    obj, names = SOUND[name]
    reading = sound(save(path, obj))
    assert recognised(path) == ["torch zip"]
    assert reading.tensors == len(reading.layout)
    assert names is None or list(reading.layout) == names


def test_facts(path):
    save(path)
    source = DiskSource(path.parent, digest=True)
    reading = torch_zip.read(Unit(torch_zip.NAME, path.name, (path.name,)), source)
    assert source.done == path.stat().st_size
    assert (reading.elements, reading.dtypes, reading.bytes_read) == (
        16 * 16 + 16 + 1,
        {"F32": 1, "BF16": 1, "I64": 1},
        1024 + 32 + 8,
    )
    assert reading.files[0].sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    header = read(path, depth=Depth.HEADER)
    assert (header.depth, header.tensors, header.bytes_read, list(header.problems)) == (Depth.HEADER, 3, 0, [])


def test_optimizer_and_random_states(path):
    net = torch.nn.Linear(2, 2)
    optimizer = torch.optim.AdamW(net.parameters())
    net(torch.ones(2)).sum().backward()
    optimizer.step()
    reading = sound(save(path, {"model": net.state_dict(), "optimizer": optimizer.state_dict(), "rng": torch.get_rng_state()}))
    assert "optimizer.state.0.exp_avg" in reading.layout


def test_tied_weights_are_two_tensors_on_one_storage(path):
    weight = torch.ones(100)
    reading = sound(save(path, {"embed": weight, "head": weight.detach()}))
    assert (reading.tensors, reading.bytes_read) == (2, 400)


def test_tagged_for_a_gpu(path):
    save(path, {"w": torch.ones(4)})
    repack(path, lambda name, data: [(name, data.replace(b"\x03\x00\x00\x00cpu", b"\x06\x00\x00\x00cuda:0"))])
    assert b"cuda:0" in path.read_bytes()
    sound(path)


def test_written_anew_by_another_program(path):
    """torch computes offsets on the meta device as its own writer would have placed them; ours are the real ones."""
    save(path, {"a": torch.ones(1000), "b": torch.full((10,), math.nan)})
    repack(path, lambda name, data: [(name, data)] if not name.endswith("data/0") else [(name, data), ("model/notes", b"x" * 77)])
    assert fault(path).where == "b"


def test_alignment(path):
    from torch.utils.serialization import config

    with config.patch({"save.storage_alignment": 4096}):
        save(path)
    assert path.stat().st_size > 20_000
    sound(path)


@pytest.mark.parametrize("cut", [1, 30, 200, 900, 1500])
def test_truncated(path, cut):
    save(path)
    whole = path.read_bytes()
    change(path, whole[:-cut])
    assert recognised(path) == ["torch zip"]
    reading = read(path)
    assert (reading.depth, kinds(reading)) == (None, [ProblemKind.TRUNCATED])
    assert f"{len(whole) - cut:,} bytes" in reading.problems[0].observed
    assert "3 storages of 1,064 bytes alone" in reading.problems[0].expected


def test_truncated_within_its_pickle(path):
    change(path, save(path).read_bytes()[:150])
    assert (recognised(path), fault(path).kind) == (["torch zip"], ProblemKind.TRUNCATED)


@pytest.mark.parametrize("count", [1, 70_000])
def test_appended_bytes(path, count):
    """torch tolerates less than 64 KiB."""
    change(path, save(path).read_bytes() + b"\0" * count)
    assert recognised(path) == ["torch zip"]
    reading = read(path)
    assert (kinds(reading), reading.depth) == ([ProblemKind.TRAILING], Depth.TENSORS)
    assert f"{count:,} bytes" in reading.problems[0].observed


def test_bytes_in_front(path):
    change(path, b"junk" + save(path).read_bytes())
    assert recognised(path) == ["torch zip"]
    reading = read(path)
    assert (kinds(reading), reading.depth, reading.problems[0].observed) == (
        [ProblemKind.TRAILING],
        None,
        "4 bytes before the first member",
    )


def test_two_files_spliced(path, tmp_path):
    other = save(tmp_path / "other.pt", {"w": torch.zeros(5)})
    change(path, save(path).read_bytes() + other.read_bytes())
    assert "a second zip archive" in fault(path).observed


def test_a_second_archive_in_the_comment(path, tmp_path):
    inner = save(tmp_path / "other.pt", {"w": torch.zeros(5)}).read_bytes()
    data = save(path).read_bytes()
    change(path, data[:-2] + struct.pack("<H", len(inner)) + inner)
    assert "a second zip archive" in fault(path).observed


def test_flipped_bit_in_a_tensor(path):
    flip(save(path), where(path, "data/0") + 100)
    assert torch.load(path, weights_only=True)  # torch does not see it
    problem = fault(path)
    assert (problem.kind, problem.where) == (ProblemKind.CHECKSUM, "enc.weight")
    assert "member data/0" in problem.observed


def test_flipped_letter_in_a_key(path):
    flip(save(path), path.read_bytes().index(b"enc.bias"))
    reading = read(path)
    assert (kinds(reading), reading.problems[0].where, reading.depth) == ([ProblemKind.CHECKSUM], "data.pkl", Depth.HEADER)


def test_checksum_and_nan_in_one_storage_is_one_fault(path):
    save(path, {"a": torch.full((4,), math.nan), "b": torch.ones(4)})
    flip(path, where(path, "data/0"))
    assert fault(path).kind is ProblemKind.CHECKSUM


def test_no_flipped_byte_is_silent(path):
    """Whatever byte is changed: either it is found, or it has no meaning and torch still loads the same."""
    save(path, {"w": torch.arange(3.0)})
    whole = path.read_bytes()
    for at in range(0, len(whole), 5):
        flip(change(path, whole), at, 0xFF)
        if not read(path).problems:
            assert torch.equal(torch.load(path, weights_only=True)["w"], torch.arange(3.0)), at


def test_written_without_checksums(path):
    torch.serialization.set_crc32_options(False)
    try:
        save(path)
    finally:
        torch.serialization.set_crc32_options(True)
    reading = read(path)
    assert (kinds(reading), reading.depth) == ([ProblemKind.NO_CHECKSUM], Depth.TENSORS)


def test_non_finite(path):
    good = {"w": torch.ones(50), "h": torch.ones(3, dtype=torch.float16), "f8": torch.ones(3).to(torch.float8_e4m3fn)}
    sound(save(path, good))
    for name, value in good.items():
        bad = value.float().clone()
        bad[1] = math.nan
        problem = fault(save(path, {**good, name: bad.to(value.dtype)}))
        assert (problem.kind, problem.where, problem.count) == (ProblemKind.NAN, name, 1)
    problem = fault(save(path, {**good, "w": torch.full((50,), -math.inf)}))
    assert (problem.kind, problem.where) == (ProblemKind.INFINITE, "w")
    assert fault(save(path, {"c": torch.tensor([complex(1, math.nan)]), "d": torch.full((2,), math.nan)})).count == 2


def test_infinite_masks(path):
    sound(save(path, {"attn.bias_mask": torch.tensor([1.0, math.inf]), "causal": torch.full((3, 3), -math.inf).triu(1)}))
    assert fault(save(path, {"attn.bias_mask": torch.tensor([1.0, math.nan])})).kind is ProblemKind.NAN


def test_bookkeeping_may_be_infinite(path):
    sound(
        save(
            path,
            {
                "state_dict": {"w": torch.ones(2)},
                "epoch": 1,
                "callbacks": {"Checkpoint": {"best": {"last.ckpt": torch.tensor(math.inf)}}},
                "loops": [torch.tensor([math.nan])],
                "early_stop": {"monitor": "loss", "best_score": torch.tensor(math.inf)},
            },
        )
    )
    assert (
        fault(save(path, {"state_dict": {"logit_scale": torch.tensor(math.inf), "bias": None}})).where == "state_dict.logit_scale"
    )


def test_values_beside_a_view_are_not_the_views(path):
    base = torch.zeros(1000)
    base[990:] = math.nan
    sound(save(path, {"w": base[:990]}))
    problem = fault(save(path, {"head": base[:990], "tail": base[990:]}))
    assert (problem.where, problem.count) == ("tail", 1)
    table = torch.zeros(20, 10)
    table[:, 9] = math.inf
    sound(save(path, {"columns": table[:, :9]}))
    assert fault(save(path, {"columns": table[:, 1:]})).kind is ProblemKind.INFINITE


def test_wasted_storage(path):
    sound(save(path, {"part": torch.zeros(2000)[:1100]}))
    problem = fault(save(path, {"part": torch.zeros(2000)[:900]}))
    assert (problem.kind, problem.where) == (ProblemKind.WASTED_STORAGE, "part")
    sound(save(path, {"part": torch.zeros(1000)[:10]}))  # 4,000 bytes


def test_no_tensors(path):
    reading = read(save(path, {"epoch": 1}))
    assert (kinds(reading), reading.depth) == ([ProblemKind.NO_TENSORS], Depth.TENSORS)


def test_a_member_is_missing(path):
    problem = fault(repack(save(path), lambda name, data: [] if name.endswith("data/1") else [(name, data)]))
    assert (problem.kind, problem.where) == (ProblemKind.DAMAGED, "enc.bias")
    problem = fault(repack(save(path), lambda name, data: [] if name.endswith("/version") else [(name, data)]))
    assert "version" in problem.observed
    sound(repack(save(path), lambda name, data: [] if name.endswith("serialization_id") else [(name, data)]))


def test_a_member_is_short(path):
    problem = fault(repack(save(path), lambda name, data: [(name, data[:100] if name.endswith("data/0") else data)]))
    assert (problem.kind, problem.where, problem.observed) == (ProblemKind.DAMAGED, "enc.weight", "storage 0 has 100 bytes")


def test_a_tensor_larger_than_its_storage(path):
    sound(save(path, {"w": torch.ones(3, 5)}))
    shape = b"K\x03K\x05\x86"
    assert shape in path.read_bytes()
    repack(path, lambda name, data: [(name, data.replace(shape, b"K\x03K\x06\x86"))])
    torch.load(path, weights_only=True, map_location="meta")  # torch does not see it there
    problem = fault(path)
    assert (problem.kind, problem.where) == (ProblemKind.OUT_OF_STORAGE, "w")


def test_expanded_view(path):
    sound(save(path, {"ids": torch.zeros(1).expand(1000)}))
    assert fault(save(path, {"ids": torch.zeros(1).expand(2**40)})).kind is ProblemKind.OUT_OF_STORAGE


def test_compressed(path):
    problem = fault(repack(save(path), method=zipfile.ZIP_DEFLATED))
    assert (problem.kind, "compressed" in problem.observed) == (ProblemKind.DAMAGED, True)


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize(
    "other", ["model/data/0", "MODEL/data/0", "model/../x", "/model/x", "model\\x", "C:/x", "model/\x01", "other/x", "x"]
)
def test_names_that_open_a_second_meaning(path, other):
    def add(name, data):
        return [(name, data), (other, b"x" * len(data))] if name.endswith("data/0") else [(name, data)]

    assert fault(repack(save(path), add)).kind is ProblemKind.DAMAGED
    sound(
        repack(
            save(path),
            lambda name, data: [(name, data), ("model/data/extra", data)] if name.endswith("data/0") else [(name, data)],
        )
    )


def test_a_link_as_member(path):
    save(path)
    with zipfile.ZipFile(path, "a") as archive:
        link = zipfile.ZipInfo("model/data/9")
        link.create_system, link.external_attr = 3, 0o120777 << 16
        archive.writestr(link, "/etc/passwd")
    assert "a link" in fault(path).observed


def test_holes(path):
    with torch.serialization.skip_data():
        save(path, {"w": torch.ones(1 << 20)})
    assert fault(path, depth=Depth.HEADER).kind is ProblemKind.HOLE


def test_more_than_four_gib(path):
    """The zip64 records that torch writes then; the file is one hole."""
    with torch.serialization.skip_data():
        save(path, {"a": torch.empty(5 << 28), "b": torch.ones(10)})
    reading = read(path, depth=Depth.HEADER)
    assert (kinds(reading), reading.elements) == ([ProblemKind.HOLE], (5 << 28) + 10)


def test_an_attack_is_not_run(path, tmp_path):
    mark = tmp_path / "executed"
    reading = read(save(path, {"w": torch.ones(2), "x": Attack(os.system, f"touch {mark}")}))
    assert not mark.exists()
    assert (kinds(reading), reading.problems[0].where, reading.depth) == (
        [ProblemKind.UNSAFE_GLOBAL],
        "posix.system",
        Depth.HEADER,
    )
    flip(path, where(path, "data/0"))
    assert set(kinds(read(path))) == {ProblemKind.UNSAFE_GLOBAL, ProblemKind.CHECKSUM}


def test_whole_module(path):
    """Its class is not needed to check its parameters."""
    reading = read(save(path, Net()))
    assert list(reading.layout) == ["scale", "layer.weight", "layer.bias"]
    assert {problem.kind: problem.where for problem in reading.problems} == {
        ProblemKind.FOREIGN_CLASS: f"{__name__}.Net",
        ProblemKind.FRAMEWORK_CLASS: "torch.nn.modules.linear.Linear",
    }
    broken = Net()
    broken.layer.bias.data[0] = math.nan
    assert "layer.bias" in [problem.where for problem in read(save(path, broken)).problems]


@pytest.mark.parametrize(
    "obj",
    [
        argparse.Namespace(w=torch.full((2,), math.nan)),
        collections.defaultdict(list, w=[torch.full((2,), math.nan)]),
        collections.deque([torch.full((2,), math.nan)]),
        {"a": numpy.float64(1), "b": numpy.arange(3), "w": torch.full((2,), math.nan)},
        {
            "p": pathlib.Path("x"),
            "t": datetime.datetime(2026, 1, 1),
            "r": numpy.random.get_state(),
            "w": torch.full((2,), math.nan),
        },
    ],
)
def test_data_classes_are_a_note_and_their_tensors_are_seen(path, obj):
    assert set(kinds(read(save(path, obj)))) == {ProblemKind.FRAMEWORK_CLASS, ProblemKind.NAN}


@pytest.mark.parametrize("obj", [Settings(w=torch.full((2,), math.nan)), {"w": torch.full((2,), math.nan).as_subclass(Subclass)}])
def test_foreign_containers_and_tensors(path, obj):
    reading = read(save(path, obj))
    assert (set(kinds(reading)), list(reading.layout)) == ({ProblemKind.FOREIGN_CLASS, ProblemKind.NAN}, ["w"])


@pytest.mark.filterwarnings("ignore:Sparse")
def test_kinds_of_tensors_that_are_not_read(path):
    for tensor in (torch.eye(3).to_sparse(), torch.eye(3).to_sparse_csr(), torch.empty(0, device="meta")):
        reading = read(save(path, {"odd": tensor, "w": torch.ones(2)}))
        assert (kinds(reading), reading.problems[0].where, reading.depth) == ([ProblemKind.UNREADABLE_KIND], "odd", Depth.HEADER)


def test_a_tensor_that_was_saved_without_values(path):
    problem = fault(save(path, {"lost": torch.empty(3, device="meta"), "w": torch.ones(2)}))
    assert (problem.kind, problem.where) == (ProblemKind.OUT_OF_STORAGE, "lost")


@pytest.mark.filterwarnings("ignore")
def test_kinds_of_tensors_that_cannot_be_rebuilt(path):
    for tensor in (torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.qint8), torch.nested.nested_tensor([torch.ones(2)])):
        reading = read(save(path, {"odd": tensor}))
        assert (kinds(reading), reading.depth) == ([ProblemKind.UNREADABLE_KIND], Depth.HEADER)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("protocol", [3, 4, 5])
def test_pickle_protocols(path, protocol):
    """Ours says what torch does."""
    save(path, pickle_protocol=protocol)
    try:
        torch.load(path, weights_only=True)
        loads = True
    except pickle.UnpicklingError:
        loads = False
    reading = read(path)
    assert (kinds(reading), reading.depth) == (([], Depth.TENSORS) if loads else ([ProblemKind.PICKLE_PROTOCOL], Depth.HEADER))
    assert loads == (protocol == 3)


def with_pickle(path, data):
    return repack(save(path), lambda name, old: [(name, data if name.endswith("data.pkl") else old)])


def test_pickles_that_are_none(path):
    good = zipfile.ZipFile(save(path)).read("model/data.pkl")
    sound(with_pickle(path, good))
    for bad in (b"", good[:-1], good + b"x", good + good, b"\x80\x02}q\x00h\x07.", b"\x80\x02\xff."):
        assert kinds(read(with_pickle(path, bad)))[0] is ProblemKind.DAMAGED


def test_pickles_made_to_hurt(path):
    shared = b"\x80\x02]q\x00" + b"".join(b"(h%ch%cl" % (n, n) + b"q%c" % (n + 1) for n in range(60)) + b"."
    assert kinds(read(with_pickle(path, shared))) != []  # 2**60 paths
    deep = b"\x80\x02" + b"]" * 5000 + b"a" * 4999 + b"."
    assert fault(with_pickle(path, deep)).kind is ProblemKind.TOO_LARGE
    circle = b"\x80\x02]q\x00h\x00a."
    assert fault(with_pickle(path, circle)).kind is ProblemKind.NO_TENSORS
    attribute = pickle.dumps(collections.OrderedDict(), 2)[:-1] + b"}X\x05\x00\x00\x00itemsK\x01sb."
    assert fault(with_pickle(path, attribute)).kind is ProblemKind.NO_TENSORS


def test_an_object_with_too_many_parts(path, monkeypatch):
    monkeypatch.setattr(torch_object, "_MOST_NODES", 20)
    sound(save(path, {"w": torch.ones(1), "lists": [[] for _ in range(16)], "numbers": list(range(100))}))
    assert kinds(read(save(path, {"w": torch.ones(1), "lists": [[] for _ in range(30)]}))) == [ProblemKind.TOO_LARGE]


def test_random_damage_is_always_an_answer(path):
    import random

    whole = save(path, {"w": torch.ones(5), "n": argparse.Namespace(a=1)}).read_bytes()
    generator = random.Random(5)
    for _ in range(300):
        data = bytearray(whole[: generator.randrange(1, len(whole) + 1)])
        for _ in range(generator.randrange(4)):
            data[generator.randrange(len(data))] = generator.randrange(256)
        torch_zip.recognise(candidate(change(path, data)))
        read(path)


def test_not_ours(path):
    numpy.savez(path.with_suffix(".npz"), a=numpy.ones(3))
    assert recognised(path.with_suffix(".npz")) == ["NumPy"]
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("train/data.pkl", pickle.dumps({"a": 1}))
        archive.writestr("train/readme", "x")
    assert recognised(path) == ["zip"]
    exported = torch.export.export(torch.nn.Linear(2, 2), (torch.ones(1, 2),))
    torch.export.save(exported, path.with_suffix(".pt2"))
    assert recognised(path.with_suffix(".pt2")) == ["zip"]


def test_torchs_own_list_is_known():
    """The names that torch loads by default, as torch itself lists them."""
    from torch._weights_only_unpickler import _get_allowed_globals

    assert {pickle_globals.kind(Name(name, name)) for name in _get_allowed_globals()} == {pickle_globals.Kind.KNOWN}


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("os.system", "unsafe"),
        ("builtins.eval", "unsafe"),
        ("builtins.getattr", "unsafe"),
        ("torch.hub.load", "unsafe"),
        ("torch.fx.graph_module.reduce_graph_module", "unsafe"),
        ("numpy.testing._private.utils.runstring", "unsafe"),
        ("torch.load", "unsafe"),
        ("pip.main", "unsafe"),
        ("logging.FileHandler", "unsafe"),
        ("logging.config.listen", "unsafe"),
        ("types.CodeType", "unsafe"),
        ("collections.namedtuple", "unsafe"),
        ("cloudpickle.cloudpickle._make_function", "unsafe"),
        ("my.project.Model", "foreign"),
        ("__main__.Net", "foreign"),
        ("torch.nn.modules.linear.Linear", "data"),
        ("functools.partial", "data"),
        ("numpy._core.multiarray._reconstruct", "data"),
        ("numpy.core.multiarray.scalar", "data"),
        ("transformers.training_args.TrainingArguments", "data"),
        ("deepspeed.utils.tensor_fragment.fragment_address", "data"),
        ("accelerate.state.PartialState", "data"),
        ("builtins.ValueError", "data"),
        ("torch.float32", "known"),
        ("torch.cuda.FloatStorage", "known"),
        ("torch.distributed.elastic.multiprocessing.subprocess_handler.SubprocessHandler", "unsafe"),
    ],
)
def test_names(name, kind):
    assert pickle_globals.kind(Name(name, name)).value == kind


def names_in(data):
    return {name.name for name in survey(data).names}


def test_survey_finds_names_however_they_are_spelled():
    assert names_in(pickle.dumps(os.system, 2)) == {"posix.system"}
    assert names_in(pickle.dumps(eval, 2)) == {"builtins.eval"}  # written as __builtin__
    assert names_in(pickle.dumps(os.system, 4)) == {"posix.system"}
    memo = b"\x80\x04\x8c\x05posix\x94\x8c\x06system\x94h\x00h\x01\x93."
    assert names_in(memo) == {"posix.system"}
    assert names_in(b"(iposix\nsystem\n.") == {"posix.system"}
    assert names_in(b"\x80\x02\x82\x01.") == {"(computed)"}  # copyreg's extension registry
    assert names_in(b"\x80\x04\x8c\x05posix]\x93.") == {"(computed)"}
    assert pickle_globals.kind(Name("(computed)", "(computed)")) is pickle_globals.Kind.UNSAFE


def test_survey_refuses_what_is_no_pickle():
    assert survey(pickle.dumps([1, {"a": (2, None)}], 4)).end == len(pickle.dumps([1, {"a": (2, None)}], 4))
    for data in (b"", b"\x80\x02]", b"\x80\x02a.", b"\x80\x02h\x05.", b"\x80\x02X\xff\xff\xff\x7fa.", b"hello"):
        with pytest.raises(BadPickle):
            survey(data)
