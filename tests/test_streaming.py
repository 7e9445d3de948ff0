"""The streaming pass: digests and CRCs as the standard library takes them, values as torch sees them."""

import dataclasses
import errno
import hashlib
import math
import os
import threading
import time
import zlib

import pytest
import torch
from disk_source import DiskSource

from pytest_campaign.formats import streaming
from pytest_campaign.formats.base import ProblemKind
from pytest_campaign.formats.streaming import CHUNK, EndedEarly, Found, Segment, holes, never_written, non_finite, scan

FLOATS = {
    "F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16,
    "F8_E4M3": torch.float8_e4m3fn, "F8_E5M2": torch.float8_e5m2, "F8_E4M3FNUZ": torch.float8_e4m3fnuz,
    "F8_E5M2FNUZ": torch.float8_e5m2fnuz, "F8_E8M0": torch.float8_e8m0fnu,
}


def run(path, segments=(), size=None, **options):
    source = DiskSource(path.parent, **options)
    with source.open(path.name) as file:
        result = scan(file, path.stat().st_size if size is None else size, segments, source)
    return result, source


def look(path, data, dtype, **options):
    path.write_bytes(data)
    return run(path, [Segment(0, len(data), dtype)], **options)[0].segments[0]


def raw(tensor):
    return tensor.contiguous().view(torch.uint8).numpy().tobytes()


@pytest.fixture
def big(tmp_path):
    """Three chunks and a bit of sound bfloat16 numbers."""
    path = tmp_path / "big"
    path.write_bytes(raw(torch.full((3 * CHUNK // 2 + 5,), 0.5, dtype=torch.bfloat16)))
    return path


def put(path, offset, value):
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(value)


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("digest", [False, True])
def test_digest_and_crc_are_those_of_the_standard_library(tmp_path, threads, digest, monkeypatch):
    monkeypatch.setattr(streaming, "_RANGE", CHUNK)
    path = tmp_path / "f"
    data = os.urandom(5 * CHUNK + 123)
    path.write_bytes(data)
    places = [(0, 7), (7, 0), (7, 3 * CHUNK + 1), (3 * CHUNK + 5000, 11), (len(data) - 9, 9)]
    result, source = run(path, [Segment(*place, crc=True) for place in places], digest=digest, threads=threads)
    assert [found.crc32 for found in result.segments] == [zlib.crc32(data[o:o + n]) for o, n in places]
    assert result.sha256 == (hashlib.sha256(data).hexdigest() if digest else None)
    assert source.done == len(data)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("digest", [False, True])
def test_the_digest_of_a_segment_takes_its_header_first(tmp_path, threads, digest, monkeypatch):
    preadv = os.preadv
    monkeypatch.setattr(streaming, "_RANGE", CHUNK)
    monkeypatch.setattr(os, "preadv", lambda file, views, at: time.sleep(0.1 * (at == 7)) or preadv(file, views, at))
    path = tmp_path / "f"
    data = os.urandom(6 * CHUNK + 123)
    path.write_bytes(data)
    places = [(0, 7), (7, 0), (7, 3 * CHUNK + 2), (3 * CHUNK + 5000, 2 * CHUNK), (len(data) - 8, 8)]
    segments = [Segment(*place, "F16", header=b"F16|%d|" % number) for number, place in enumerate(places)]
    result, _ = run(path, [*segments[:-1], dataclasses.replace(segments[-1], header=None)], digest=digest, threads=threads)
    expected = [hashlib.sha256(b"F16|%d|" % number + data[o:o + n]).hexdigest() for number, (o, n) in enumerate(places)]
    assert [found.sha256 for found in result.segments] == [*expected[:-1], None]


def test_a_buffer_is_not_used_again_before_its_digest_is_taken(tmp_path, monkeypatch):
    class Slow:
        def __init__(self):
            self.digest = sha256()
            self.hexdigest = self.digest.hexdigest

        def update(self, data):
            time.sleep(0.02)
            self.digest.update(data)

    path = tmp_path / "f"
    path.write_bytes(os.urandom(12 * CHUNK))
    sha256 = hashlib.sha256
    expected = sha256(path.read_bytes()).hexdigest()
    monkeypatch.setattr(hashlib, "sha256", Slow)
    assert run(path, digest=True, threads=2)[0].sha256 == expected


def test_without_a_digest_gaps_are_not_read(tmp_path, monkeypatch):
    path = tmp_path / "f"
    path.write_bytes(bytes(4 * CHUNK))
    reads = []
    preadv = os.preadv
    monkeypatch.setattr(os, "preadv", lambda fd, views, at: reads.append((at, len(views[0]))) or preadv(fd, views, at))
    run(path, [Segment(10, 20, "F32"), Segment(3 * CHUNK, 8, "F32")])
    assert reads == [(10, 20), (3 * CHUNK, 8)]


@pytest.mark.parametrize("name", FLOATS)
def test_every_code_of_a_type_is_judged_as_torch_reads_it(tmp_path, name):
    """All codes of the narrow types, the neighbours of every boundary for the wide ones."""
    dtype = FLOATS[name]
    bits = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[dtype.itemsize]
    if dtype.itemsize == 1:
        codes = torch.arange(256, dtype=torch.int16).to(torch.uint8)
    elif dtype.itemsize == 2:
        codes = torch.arange(-(1 << 15), 1 << 15, dtype=torch.int32).to(torch.int16)
    else:
        values = [0.0, 1.0, torch.finfo(dtype).max, torch.inf, torch.nan, torch.finfo(dtype).tiny]
        codes = torch.tensor(values, dtype=dtype).view(bits)
        codes = torch.cat([codes - 1, codes, codes + 1])
        codes = torch.cat([codes, codes ^ torch.iinfo(bits).min])
    values = codes.view(dtype).to(torch.float64)
    for kind, chosen in {"nan": values.isnan(), "infinite": values.isinf(), "finite": values.isfinite()}.items():
        if chosen.any():
            found = look(tmp_path / "f", raw(codes[chosen]), name)
            assert (found.nan, found.infinite) == (kind == "nan", kind == "infinite"), kind
    if dtype.itemsize <= 2:
        step = 1 if dtype.itemsize == 1 else 97
        for index in range(0, len(codes), step):
            found = look(tmp_path / "f", raw(codes[index:index + 1]), name)
            value = float(values[index])
            assert (found.nan, found.infinite) == (math.isnan(value), math.isinf(value)), hex(int(codes[index]))


@pytest.mark.parametrize(("name", "dtype"), [("C64", torch.complex64), ("C128", torch.complex128)])
def test_either_part_of_a_complex_number_counts(tmp_path, name, dtype):
    for number, nan, infinite in [(complex(1, 2), False, False), (complex(1, float("nan")), True, False),
                                  (complex(float("-inf"), 2), False, True)]:
        found = look(tmp_path / "f", raw(torch.tensor([1, number, 3], dtype=dtype)), name)
        assert (found.nan, found.infinite) == (nan, infinite)


@pytest.mark.parametrize("name", [None, "I64", "U8", "BOOL", "F4", "F6_E2M3"])
def test_types_without_such_values_are_not_looked_at(tmp_path, name):
    assert look(tmp_path / "f", b"\xff" * 64, name) == Found()


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("digest", [False, True])
@pytest.mark.parametrize("element", [0, CHUNK // 2 - 1, CHUNK // 2, 3 * CHUNK // 2 + 4])
def test_a_bad_number_is_found_at_every_end_of_a_chunk(big, digest, threads, element):
    segments = [Segment(0, big.stat().st_size, "BF16")]
    assert run(big, segments, digest=digest, threads=threads)[0].segments == [Found()]
    put(big, 2 * element, raw(torch.tensor([torch.nan], dtype=torch.bfloat16)))
    assert run(big, segments, digest=digest, threads=threads)[0].segments == [Found(nan=True)]


@pytest.mark.parametrize("digest", [False, True])
def test_unaligned_segments_and_chunks_that_would_divide_an_element(tmp_path, digest):
    """Odd offsets: every element lies across a boundary of its size, one across the end of the first chunk."""
    path = tmp_path / "f"
    count = CHUNK // 4 + 10
    numbers = torch.full((count,), 1.0)
    path.write_bytes(b"\xff" * 3 + raw(numbers) + b"\xff" * 5)
    segments = [Segment(3, 4 * count, "F32"), Segment(3 + 4 * count, 4, None)]
    assert run(path, segments, digest=digest)[0].segments[0] == Found()
    for element in (0, CHUNK // 4 - 1, count - 1):
        numbers[element] = torch.inf
        path.write_bytes(b"\xff" * 3 + raw(numbers) + b"\xff" * 5)
        assert run(path, segments, digest=digest)[0].segments[0] == Found(infinite=True)
        numbers[element] = 1.0


def test_each_segment_has_its_own_answer(tmp_path):
    path = tmp_path / "f"
    parts = [[1.0, 2.0], [torch.nan], [], [3.0], [torch.inf, 4.0], [0.0, -torch.inf]]
    data = [raw(torch.tensor(part)) for part in parts]
    path.write_bytes(b"".join(data))
    offsets = [sum(map(len, data[:index])) for index in range(len(data))]
    segments = [Segment(offset, len(part), "F32") for offset, part in zip(offsets, data, strict=True)]
    expected = [Found(), Found(nan=True), Found(), Found(), Found(infinite=True), Found(infinite=True, mask=True)]
    for digest in (False, True):
        assert run(path, segments, digest=digest, threads=2)[0].segments == expected


@pytest.mark.parametrize(("values", "mask"), [
    ([0.0, -torch.inf], True), ([-0.0, -torch.inf], True), ([0.0, torch.inf], False), ([1.0, -torch.inf], False),
    ([-torch.inf, -torch.inf], False), ([0.0, 0.0], False), ([0.0, -torch.inf, torch.nan], False)])
def test_a_mask_is_zeros_and_minus_infinity_and_nothing_else(tmp_path, values, mask):
    assert look(tmp_path / "f", raw(torch.tensor(values)), "F32").mask is mask


def test_a_mask_is_judged_over_all_its_chunks(tmp_path):
    values = torch.zeros(CHUNK // 2)
    values[-1] = -torch.inf
    assert look(tmp_path / "f", raw(values), "F32").mask
    values[0] = 1.0
    assert look(tmp_path / "f", raw(values), "F32") == Found(infinite=True)
    values[1] = -1.0  # now the first chunk sums up to zero
    assert look(tmp_path / "f", raw(values), "F32") == Found(infinite=True)


def test_a_sum_that_overflows_is_no_infinity(tmp_path):
    for name in ("BF16", "F32", "F64"):
        assert look(tmp_path / "f", raw(torch.full((64,), torch.finfo(FLOATS[name]).max, dtype=FLOATS[name])), name) == Found()


def test_non_finite_problems_name_the_first_tensor_and_leave_masks_out():
    named = [("w", Found()), ("a.bias", Found(infinite=True)), ("b.bias", Found(infinite=True, nan=True)),
             ("attn.mask", Found(infinite=True)), ("mask.weight", Found(infinite=True)), ("x", Found(infinite=True, mask=True))]
    nan, infinite = non_finite("f", named)
    assert (nan.kind, nan.where, nan.count) == (ProblemKind.NAN, "b.bias", 1)
    assert (infinite.kind, infinite.where, infinite.count) == (ProblemKind.INFINITE, "a.bias", 3)
    assert list(non_finite("f", [("causal_mask", Found(nan=True))]))
    assert not list(non_finite("f", [("causal_mask", Found(infinite=True))]))


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("digest", [False, True])
def test_a_file_that_ends_early_is_an_error_and_no_thread_stays(big, digest, threads):
    size = big.stat().st_size
    before = threading.active_count()
    os.truncate(big, size - 100)
    with pytest.raises(EndedEarly, match=rf"ends at byte {size - 100:,}"):
        run(big, [Segment(0, size, "BF16")], size=size, digest=digest, threads=threads)
    assert threading.active_count() == before


@pytest.mark.parametrize("digest", [False, True])
def test_an_error_of_the_system_is_passed_on(big, digest, monkeypatch):
    size = big.stat().st_size
    preadv = os.preadv

    def fail(fd, views, at):
        if at >= CHUNK:
            raise OSError(errno.EIO, "the disk")
        return preadv(fd, views, at)

    monkeypatch.setattr(os, "preadv", fail)
    with pytest.raises(OSError, match="the disk"):
        run(big, [Segment(0, size // 4, "BF16"), Segment(size // 4 + 1, size // 4, "BF16", crc=True),
                  Segment(size // 2 + 2, size // 4, "BF16")], digest=digest, threads=3)


def test_a_machine_that_starts_no_threads_is_no_fault_of_the_file(big, monkeypatch):
    def refuse(self):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    segments = [Segment(0, CHUNK, "BF16", crc=True), Segment(CHUNK, CHUNK, "BF16", crc=True)]
    for digest in (False, True):
        result, source = run(big, segments, digest=digest, threads=2)
        assert result.segments[1].crc32 == zlib.crc32(big.read_bytes()[CHUNK:2 * CHUNK])
        assert len(source.workers) == 1


def test_threads_share_one_file(tmp_path):
    path = tmp_path / "f"
    path.touch()
    os.truncate(path, 64 << 20)
    _, source = run(path, [Segment(0, 64 << 20, "F32")], threads=2)
    assert len(source.workers) == 2


@pytest.mark.parametrize("segments", [
    [Segment(0, 9)], [Segment(4, 2), Segment(5, 1)], [Segment(4, 1), Segment(0, 1)], [Segment(2, -1)]])
def test_segments_outside_the_file_or_out_of_order_are_refused(tmp_path, segments):
    path = tmp_path / "f"
    path.write_bytes(bytes(8))
    with pytest.raises(ValueError):
        run(path, segments)


def test_memory_does_not_grow_with_the_file(tmp_path):
    """256 MiB that lie in a hole; the pass may add a few MiB."""
    path = tmp_path / "f"
    path.touch()
    os.truncate(path, 256 << 20)
    run(path, [Segment(0, 4 * CHUNK, "F32")], digest=True, threads=2)

    def peak():
        with open("/proc/self/status") as status:
            return next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) >> 10

    try:
        with open("/proc/self/clear_refs", "w") as file:
            file.write("5")
    except OSError:
        pytest.skip("the peak cannot be reset here")
    before = peak()
    run(path, [Segment(0, 128 << 20, "F32"), Segment(128 << 20, 128 << 20, "BF16", crc=True)], digest=True, threads=2)
    assert peak() - before < 24


def holey(path, *written):
    """A file of 1 MiB of which only the given ranges were written."""
    with path.open("wb") as file:
        os.truncate(file.fileno(), 1 << 20)
        for start, end in written:
            os.pwrite(file.fileno(), b"\1" * (end - start), start)
        os.fsync(file.fileno())
    with path.open("rb", buffering=0) as file:
        if not holes(file, 1 << 20):
            pytest.skip("this file system makes no holes")


def problems(path, segments):
    with path.open("rb", buffering=0) as file:
        return list(never_written("f", file, path.stat().st_size, segments))


def test_holes_in_tensor_data_are_reported(tmp_path):
    path = tmp_path / "f"
    holey(path, (0, 65536), (131072, 262144))
    with path.open("rb", buffering=0) as file:
        assert holes(file, 1 << 20) == [(65536, 131072), (262144, 1 << 20)]
    first, second, third = Segment(0, 65536, label="a"), Segment(65536, 100, label="b"), Segment(200000, 100000, label="c")
    (problem,) = problems(path, [first, second, third])
    assert (problem.kind, problem.where, problem.count) == (ProblemKind.HOLE, "b", 2)
    assert problem.observed.startswith("851,968 bytes were never written: from 65,536 to 131,072")
    assert not problems(path, [first, Segment(70000, 0, label="nothing"), Segment(131072, 131072, label="written")])


def test_a_file_that_was_written_has_no_holes(big):
    assert not problems(big, [Segment(0, big.stat().st_size)])


def test_a_system_that_cannot_tell_holes_reports_none(tmp_path, monkeypatch):
    path = tmp_path / "f"
    holey(path)
    monkeypatch.delattr(streaming.os, "SEEK_HOLE")
    assert not problems(path, [Segment(0, 1 << 20)])
