"""GGUF: real files of the gguf package, and each fault beside its nearest sound neighbour."""

import hashlib
import struct

import numpy as np
import pytest
from disk_source import DiskSource, candidate, folder

from pytest_campaign.formats import gguf
from pytest_campaign.formats.base import Depth, ProblemKind, Unit, from_json, to_json

writer = pytest.importorskip("gguf")


def read(path, **options):
    return gguf.read(Unit("GGUF", path.name, (path.name,)), DiskSource(path.parent, **options))


def kinds(reading):
    return [problem.kind for problem in reading.problems]


def write(path, tensors=None, endian=None, alignment=None, **options):
    """A model with metadata of every sort: scalars, text, arrays of numbers, of text and of arrays."""
    w = writer.GGUFWriter(str(path), "llama", **({"endianess": endian} if endian else {}), **options)
    w.add_block_count(1)
    w.add_rope_freq_base(10000.0)
    w.add_bool("test.flag", True)
    w.add_token_list(["<s>", "ein", "zwei"])
    w.add_token_scores([0.0, -1.0, -2.0])
    w.add_array("test.nested", [[1, 2], [3, 4]])
    if alignment:
        w.add_custom_alignment(alignment)
    for name, (values, kind) in (tensors or sample()).items():
        w.add_tensor(name, values, raw_dtype=kind)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()
    return path


def sample():
    random = np.random.default_rng(0)
    q8, q4k = writer.GGMLQuantizationType.Q8_0, writer.GGMLQuantizationType.Q4_0
    return {
        "token_embd.weight": (random.standard_normal((3, 5), np.float32), None),
        "blk.0.attn_q.weight": (random.standard_normal((4, 8)).astype(np.float16), None),
        "blk.0.ffn_up.weight": (writer.quants.quantize(random.standard_normal((4, 64)).astype(np.float32), q8), q8),
        "blk.0.ffn_down.weight": (writer.quants.quantize(random.standard_normal((2, 32)).astype(np.float32), q4k), q4k),
        "output_norm.weight": (random.standard_normal(5).astype(np.float32), None),
    }


@pytest.fixture
def model(tmp_path):
    return write(tmp_path / "m.gguf")


def change(path, edit):
    data = bytearray(path.read_bytes())
    path.write_bytes(edit(data) or data)
    return path


def tensor_info(data, name):
    """Where the fields of a tensor's info stand: its dimensions' count, the type and the offset."""
    at = data.index(struct.pack("<Q", len(name)) + name.encode()) + 8 + len(name)
    dimensions = struct.unpack_from("<I", data, at)[0]
    return at, at + 4 + 8 * dimensions, at + 8 + 8 * dimensions


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize(("value", "kind"), [(np.nan, ProblemKind.NAN), (np.inf, ProblemKind.INFINITE), (1.5, None)])
def test_values(tmp_path, dtype, value, kind):
    values = np.ones((3, 700), dtype)
    values[2, 5] = value
    reading = read(write(tmp_path / "m.gguf", {"good": (np.ones(3, dtype), None), "bad": (values, None)}))
    assert [(problem.kind, problem.where) for problem in reading.problems] == ([(kind, "bad")] if kind else [])
    assert reading.depth is Depth.TENSORS


QUANTISED = sorted(ours for ours in gguf._SCALES if hasattr(writer.GGMLQuantizationType, ours))


@pytest.mark.parametrize("name", QUANTISED)
def test_scales(tmp_path, name):
    """A NaN among the scales is seen by the package's own dequantisation too, where it has one."""
    kind = writer.GGMLQuantizationType[name]
    block, size = writer.GGML_QUANT_SIZES[kind]
    values = np.zeros((2, 3 * size), np.uint8)
    for place in gguf._SCALES[name]:
        assert kinds(read(write(tmp_path / "m.gguf", {"w": (values, kind)}))) == []
        broken = values.copy()
        broken[1, 2 * size + place:2 * size + place + 2] = np.frombuffer(np.float16(np.nan).tobytes(), np.uint8)
        reading = read(write(tmp_path / "m.gguf", {"w": (broken, kind)}))
        assert (kinds(reading), reading.depth) == ([ProblemKind.NAN], Depth.TENSORS)
        try:
            numbers = writer.quants.dequantize(broken, kind)
        except NotImplementedError:
            continue
        assert np.isnan(numbers[1, 2 * block:]).any()
        assert not np.isnan(numbers[0]).any()


def test_types_are_those_of_the_package():
    assert {int(kind): (kind.name, *sizes) for kind, sizes in writer.GGML_QUANT_SIZES.items()} == gguf.TYPES


def test_a_sound_file(model):
    reading = read(model)
    assert reading.problems == []
    assert reading.depth is Depth.TENSORS
    assert read(model, depth=Depth.HEADER).depth is Depth.HEADER
    assert (reading.tensors, reading.elements) == (5, 15 + 32 + 256 + 64 + 5)
    assert reading.dtypes == {"F32": 2, "F16": 1, "Q8_0": 1, "Q4_0": 1}
    assert from_json(to_json(reading)) == reading


def test_places_are_those_that_the_package_reads(model):
    with open(model, "rb", buffering=0) as file:
        header = gguf.parse(file, model.stat().st_size)
    assert [(t.name, header.data + t.offset, t.length, t.elements, t.type) for t in header.tensors] == [
        (t.name, t.data_offset, t.n_bytes, t.n_elements, t.tensor_type.name) for t in writer.GGUFReader(model).tensors]


@pytest.mark.parametrize("alignment", [8, 32, 4096])
def test_alignments(tmp_path, alignment):
    assert kinds(read(write(tmp_path / "m.gguf", alignment=alignment))) == []


def test_digest_and_progress(model):
    for digest in (False, True):
        source = DiskSource(model.parent, digest=digest)
        facts = gguf.read(Unit("GGUF", model.name, (model.name,)), source).files[0]
        assert facts.sha256 == (hashlib.sha256(model.read_bytes()).hexdigest() if digest else None)
        assert source.done == facts.bytes == model.stat().st_size


@pytest.mark.parametrize("beginning", [b"GGUF", b"GGUF\x03\x00\x00\x00"])
def test_recognised_by_content(tmp_path, beginning):
    (tmp_path / "weights.bin").write_bytes(beginning)
    assert gguf.recognise(candidate(tmp_path / "weights.bin"))


@pytest.mark.parametrize("beginning", [b"", b"GGU", b"GGML", b"gguf", b"\x00GGUF", b"PK\x03\x04GGUF"])
def test_other_contents_are_not(tmp_path, beginning):
    (tmp_path / "m.gguf").write_bytes(beginning)
    assert not gguf.recognise(candidate(tmp_path / "m.gguf"))


def test_padding_at_the_end_may_be_missing_but_no_byte_of_a_tensor(model):
    whole = model.read_bytes()
    end = len(whole) - 12  # five float32 values end 12 bytes before the next multiple of 32
    assert writer.GGUFReader(model).tensors[-1].data_offset + 20 == end
    model.write_bytes(whole[:end])
    assert kinds(read(model)) == []
    model.write_bytes(whole[:end - 1])
    [problem] = read(model).problems
    assert problem.kind is ProblemKind.TRUNCATED
    assert problem.where == "output_norm.weight"
    assert problem.observed == f"{end - 1:,} bytes: 1 are missing, 1 of 5 tensors are cut"
    assert problem.expected == f"{end:,} bytes"


def test_padding_after_the_last_tensor_is_shorter_than_the_alignment(model):
    whole = model.read_bytes()
    end = len(whole) - 12
    model.write_bytes(whole[:end] + bytes(31))
    assert kinds(read(model)) == []
    model.write_bytes(whole[:end] + bytes(32))
    [problem] = read(model).problems
    assert (problem.kind, problem.observed) == (ProblemKind.TRAILING, "32 bytes after the last tensor")


def test_the_first_cut_tensor_is_named(model):
    third = writer.GGUFReader(model).tensors[2]
    change(model, lambda data: data[:third.data_offset + 10])
    [problem] = read(model).problems
    assert (problem.kind, problem.where, problem.count) == (ProblemKind.TRUNCATED, "blk.0.ffn_up.weight", 3)


def test_every_cut_of_the_header_is_truncation(model):
    whole = model.read_bytes()
    for length in range(4, int(writer.GGUFReader(model).data_offset)):
        model.write_bytes(whole[:length])
        problems = read(model).problems
        assert problems[0].kind is ProblemKind.TRUNCATED, length
        assert f"{length:,} bytes" in problems[0].observed


def test_any_flipped_byte_of_the_header_is_survived(model):
    whole = model.read_bytes()
    for at in range(int(writer.GGUFReader(model).data_offset)):
        model.write_bytes(whole[:at] + bytes([whole[at] ^ 0x81]) + whole[at + 1:])
        to_json(read(model))


@pytest.mark.parametrize(("edit", "kind", "where"), [
    (lambda data, dims, kind, offset: struct.pack_into("<Q", data, offset, 32), ProblemKind.DAMAGED, "blk.0.attn_q.weight"),
    (lambda data, dims, kind, offset: struct.pack_into("<Q", data, offset, 65), ProblemKind.DAMAGED, "blk.0.attn_q.weight"),
    (lambda data, dims, kind, offset: struct.pack_into("<Q", data, offset, 1 << 63), ProblemKind.DAMAGED, "blk.0.attn_q.weight"),
    (lambda data, dims, kind, offset: struct.pack_into("<I", data, dims, 5), ProblemKind.DAMAGED, "blk.0.attn_q.weight"),
    (lambda data, dims, kind, offset: struct.pack_into("<I", data, kind, 2), ProblemKind.DAMAGED, "blk.0.attn_q.weight"),
    (lambda data, dims, kind, offset: struct.pack_into("<I", data, kind, 4), ProblemKind.UNREADABLE_KIND, "blk.0.attn_q.weight"),
    (lambda data, dims, kind, offset: struct.pack_into("<Q", data, dims + 4, 1 << 62), ProblemKind.DAMAGED, None),
])
def test_a_lying_tensor_info(model, edit, kind, where):
    change(model, lambda data: edit(data, *tensor_info(data, "blk.0.attn_q.weight")))
    problems = read(model).problems
    assert kind in [problem.kind for problem in problems]
    assert where is None or where in [problem.where for problem in problems]


def test_two_tensors_at_one_place(model):
    data = bytearray(model.read_bytes())
    *_, first = tensor_info(data, "token_embd.weight")
    *_, second = tensor_info(data, "blk.0.attn_q.weight")
    data[second:second + 8] = data[first:first + 8]
    model.write_bytes(data)
    assert any("inside" in problem.observed for problem in read(model).problems if problem.kind is ProblemKind.DAMAGED)


def test_a_name_twice(tmp_path):
    path = write(tmp_path / "m.gguf", {name: (np.ones(4, np.float32), None) for name in ("a.weight", "b.weight")})
    assert kinds(read(path)) == []
    change(path, lambda data: data.replace(b"b.weight", b"a.weight"))
    [problem] = read(path).problems
    assert (problem.kind, problem.where, problem.observed) == (ProblemKind.DAMAGED, "a.weight", "two tensors of this name")


def test_a_key_twice(model):
    change(model, lambda data: data.replace(b"tokenizer.ggml.scores", b"tokenizer.ggml.tokens"))
    [problem] = read(model).problems
    assert (problem.kind, problem.where) == (ProblemKind.DAMAGED, "tokenizer.ggml.tokens")


@pytest.mark.parametrize(("value", "sound"), [(32, True), (0, False), (24, False), (1 << 30, False)])
def test_alignment_is_a_power_of_two(tmp_path, value, sound):
    path = write(tmp_path / "m.gguf", alignment=32)
    at = path.read_bytes().index(b"general.alignment") + len("general.alignment") + 4
    change(path, lambda data: struct.pack_into("<I", data, at, value))
    assert kinds(read(path)) == ([] if sound else [ProblemKind.DAMAGED])


def test_no_tensors(tmp_path):
    w = writer.GGUFWriter(str(tmp_path / "vocabulary.gguf"), "llama")
    w.add_token_list(["a", "b"])
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()
    assert kinds(read(tmp_path / "vocabulary.gguf")) == [ProblemKind.NO_TENSORS]


@pytest.mark.parametrize("version", [1, 4])
def test_other_versions_are_unsupported_rather_than_damaged(model, version):
    change(model, lambda data: struct.pack_into("<I", data, 4, version))
    reading = read(model)
    assert (kinds(reading), reading.depth) == ([ProblemKind.UNREADABLE_KIND], None)


def test_version_2_is_read(model):
    change(model, lambda data: struct.pack_into("<I", data, 4, 2))
    assert kinds(read(model)) == []


def test_big_endian_is_unsupported(tmp_path):
    tensors = {"w": (np.ones((2, 2), np.float32), None)}
    [problem] = read(write(tmp_path / "m.gguf", tensors, endian=writer.GGUFEndian.BIG)).problems
    assert (problem.kind, problem.observed) == (ProblemKind.UNREADABLE_KIND, "a big-endian file")


def header(tensors=0, keys=0, rest=b""):
    return b"GGUF" + struct.pack("<IQQ", 3, tensors, keys) + rest


def key(name, kind, rest=b""):
    return struct.pack("<Q", len(name)) + name + struct.pack("<I", kind) + rest


def nested(levels):
    return key(b"k", 9, struct.pack("<IQ", 9, 1) * levels + struct.pack("<IQ", 0, 1) + b"\x00")


@pytest.mark.parametrize(("data", "kind"), [
    (header(tensors=1 << 40), ProblemKind.DAMAGED),
    (header(keys=1 << 63), ProblemKind.DAMAGED),
    (header(keys=1, rest=key(b"k", 9, struct.pack("<IQ", 8, 1 << 40))), ProblemKind.DAMAGED),
    (header(keys=1, rest=key(b"k", 9, struct.pack("<IQ", 0, 1 << 62))), ProblemKind.DAMAGED),
    (header(keys=1, rest=key(b"k", 8, struct.pack("<Q", 1 << 62))), ProblemKind.DAMAGED),
    (header(keys=1, rest=struct.pack("<Q", 1 << 62)), ProblemKind.DAMAGED),
    (header(keys=1, rest=key(b"k", 13)), ProblemKind.DAMAGED),
    (header(keys=1, rest=key(b"\xff", 0, b"\x00")), ProblemKind.DAMAGED),
    (header(keys=1, rest=key(b"k" * 5000, 0, b"\x00")), ProblemKind.TOO_LARGE),
    (header(keys=1, rest=nested(2)), ProblemKind.NO_TENSORS),
    (header(keys=1, rest=nested(2000)), ProblemKind.TOO_LARGE),
])
def test_numbers_of_the_header_are_never_believed(tmp_path, data, kind):
    (tmp_path / "m.gguf").write_bytes(data)
    assert kinds(read(tmp_path / "m.gguf")) == [kind]


def test_a_long_vocabulary_is_accepted_and_an_endless_one_is_not(tmp_path, monkeypatch):
    monkeypatch.setattr(gguf, "MOST_STRINGS", 1000)
    for count, kind in ((1000, ProblemKind.NO_TENSORS), (1001, ProblemKind.TOO_LARGE)):
        text = struct.pack("<IQ", 8, count) + struct.pack("<Q", 0) * count
        (tmp_path / "m.gguf").write_bytes(header(keys=1, rest=key(b"k", 9, text)))
        assert kinds(read(tmp_path / "m.gguf")) == [kind]


@pytest.fixture
def split(tmp_path):
    """Five tensors in three parts."""
    write(tmp_path / "m.gguf", split_max_tensors=2)
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"m-0000{i}-of-00003.gguf" for i in (1, 2, 3)]
    return tmp_path


def read_set(root):
    [unit] = gguf.gather(folder(root))
    return gguf.read(unit, DiskSource(root))


def test_a_split_set_is_one_unit(split):
    [unit] = gguf.gather(folder(split))
    assert unit.path == "m-00001-of-00003.gguf"
    assert len(unit.files) == 3
    reading = gguf.read(unit, DiskSource(split))
    assert (reading.problems, reading.tensors, len(reading.files)) == ([], 5, 3)


def test_a_first_part_without_tensors_is_fine(tmp_path):
    write(tmp_path / "m.gguf", split_max_tensors=2, small_first_shard=True)
    reading = read_set(tmp_path)
    assert (reading.problems, reading.tensors) == ([], 5)


@pytest.mark.parametrize("number", [1, 2, 3])
def test_an_absent_part(split, number):
    (split / f"m-0000{number}-of-00003.gguf").unlink()
    [problem] = read_set(split).problems
    assert problem.kind is ProblemKind.SHARD_MISSING
    assert problem.observed == f"1 of 3 parts are absent or empty: m-0000{number}-of-00003.gguf"


def test_a_part_that_is_something_else(split):
    (split / "m-00002-of-00003.gguf").write_bytes(b"<html>not found</html>")
    assert [(p.kind, p.path) for p in read_set(split).problems] == [(ProblemKind.DAMAGED, "m-00002-of-00003.gguf")]


def test_swapped_parts(split):
    one, two = split / "m-00001-of-00003.gguf", split / "m-00002-of-00003.gguf"
    one.rename(split / "x")
    two.rename(one)
    (split / "x").rename(two)
    assert kinds(read_set(split)) == [ProblemKind.SHARD_INDEX] * 2


def test_a_part_of_another_model(split, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    write(other / "m.gguf", {f"t{i}": (np.ones(3, np.float32), None) for i in range(6)}, split_max_tensors=2)
    (other / "m-00003-of-00003.gguf").rename(split / "m-00003-of-00003.gguf")
    for path in other.iterdir():
        path.unlink()
    other.rmdir()
    [problem] = read_set(split).problems
    assert (problem.kind, problem.observed) == (ProblemKind.SHARD_INDEX, "6 tensors in all parts")


def test_a_part_twice_under_two_numbers(split):
    data = (split / "m-00001-of-00003.gguf").read_bytes()
    at = data.index(b"split.no") + len("split.no") + 4
    (split / "m-00002-of-00003.gguf").write_bytes(data[:at] + b"\x01\x00" + data[at + 2:])
    [problem] = read_set(split).problems
    assert (problem.kind, problem.where, problem.count) == (ProblemKind.SHARD_INDEX, "token_embd.weight", 2)


def test_a_cut_part_names_its_file(split):
    path = split / "m-00002-of-00003.gguf"
    path.write_bytes(path.read_bytes()[:-64])
    [problem] = read_set(split).problems
    assert (problem.kind, problem.path) == (ProblemKind.TRUNCATED, path.name)


def test_a_renamed_part_is_not_a_whole_model(split):
    (split / "m-00001-of-00003.gguf").rename(split / "model.gguf")
    [problem] = read(split / "model.gguf").problems
    assert (problem.kind, problem.observed) == (ProblemKind.SHARD_MISSING, "part 1 of 3, alone and not named as a part")


def test_an_absurd_number_of_parts_is_quick(split):
    (split / "m-00001-of-00003.gguf").rename(split / "m-00001-of-99999.gguf")
    units = list(gguf.gather(folder(split)))
    assert sorted(len(unit.files) for unit in units) == [1, 2]
    problems = [p for unit in units for p in gguf.read(unit, DiskSource(split)).problems]
    assert "99998 of 99999 parts are absent or empty" in " ".join(p.observed for p in problems)


def test_the_first_half_of_a_cut_upload_is_truncated(model):
    half = model.with_name("m.gguf.part1of2")
    half.write_bytes(model.read_bytes()[:400])
    assert gguf.recognise(candidate(half))
    [problem] = read(half).problems
    assert problem.kind is ProblemKind.TRUNCATED
    assert problem.observed.startswith("400 bytes: ")
    second = model.with_name("m.gguf.part2of2")
    second.write_bytes(model.read_bytes()[400:])
    assert not gguf.recognise(candidate(second))
