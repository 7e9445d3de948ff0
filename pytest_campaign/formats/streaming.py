"""One pass over a file: SHA-256 of the whole, CRC-32 and non-finite test of its segments, in a few reused buffers.

A format that knows where its tensors lie describes them as `Segment` and calls `scan`. The bytes are read, never
mapped, so a file that is cut meanwhile is an error and not a SIGBUS; memory stays at a few MiB per thread whatever
the size. Values are judged by their bit patterns, which is exact for every floating point type.
"""

from __future__ import annotations

import bisect
import collections
import concurrent.futures
import contextlib
import dataclasses
import errno
import hashlib
import io
import math
import os
import threading
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, BinaryIO, NamedTuple, cast

from ..inventory import Changed
from .base import Problem, ProblemKind, Source

CHUNK = 1 << 20  # bytes per read: small enough that the test finds them in the processor's cache
_BUFFERS = 4  # chunks under way while another thread takes the digest
_RANGE = 8 << 20  # bytes that a thread takes at a time
_GAP = 4096  # reading over a gap of this size is cheaper than another read
_MOST_HOLES = 1000


class EndedEarly(Changed):
    """A file has fewer bytes than the file table says, hence was cut since; ``at`` is where it ends."""

    def __init__(self, at: int, size: int) -> None:
        super().__init__(errno.EIO, f"the file ends at byte {at:,}, its size was {size:,}")
        self.at = at


class Row(NamedTuple):
    """The bytes of a row of a tensor, 0 where it has none or that is not known, and of the cells that a row is made of."""

    length: int = 0
    cell: int = 0


NO_ROWS = Row()


@dataclasses.dataclass(frozen=True)
class Segment:
    """A range of bytes of one kind: a tensor, a storage, a member of an archive.

    ``dtype`` is a name as safetensors writes it (F32, BF16, F8_E4M3 ..., also C128); None and types that have no
    NaN or infinity (integers, F4 ...) mean that no value is looked at. ``crc`` asks for the CRC-32 of the bytes,
    which goes on from ``seed``, the CRC-32 of what lies before them. ``label`` is the caller's own, for messages. With
    ``header`` the SHA-256 of the header and the bytes is taken. ``row`` is what is known of its rows.
    """

    offset: int
    length: int
    dtype: str | None = None
    crc: bool = False
    label: str = ""
    seed: int = 0
    header: bytes | None = None
    row: Row = NO_ROWS

    @property
    def end(self) -> int:
        return self.offset + self.length

    @property
    def width(self) -> int:
        """The bytes of a number, 1 where no value is looked at."""
        codes = _CODES.get(self.dtype or "")
        return codes.width if codes else 1


@dataclasses.dataclass(frozen=True)
class Found:
    """What was seen in one segment; ``crc32`` and ``sha256`` are None unless they were asked for.

    ``mask``: zeros and minus infinity and nothing else, both at least once, as an additive attention mask holds. ``zero``:
    zeros and nothing else, in a floating point type.
    """

    crc32: int | None = None
    nan: bool = False
    infinite: bool = False
    mask: bool = False
    zero: bool = False
    sha256: str | None = None


@dataclasses.dataclass(frozen=True)
class Scan:
    """The answer of a pass: one `Found` per segment, in the order given, and the digest in hex if it was asked for."""

    segments: Sequence[Found]
    sha256: str | None


def scan(file: BinaryIO, size: int, segments: Sequence[Segment], source: Source) -> Scan:
    """Read a file once and say what was found in its segments.

    ``file`` is unbuffered and has ``size`` bytes; its position is not used and not kept. ``segments`` are sorted by
    offset, do not overlap and lie inside the file (ValueError otherwise); a length of zero is fine, and a last
    element that is not complete is not looked at. With ``source.digest`` every byte is read, otherwise gaps between
    segments are left out. At most ``source.threads`` threads work, and none is left when this returns or raises.
    ``source.advance`` is called from several threads, one at a time, and adds up to ``size``.

    Raises `EndedEarly` when the file is shorter than ``size``, OSError as the system reports it.
    """
    _check(segments, size)
    work = _Pass(file, size, segments, source)
    if source.digest:
        sha256 = work.with_digest()
    else:
        sha256 = None
        work.in_parallel()
    return Scan([seen.found() for seen in work.seen], sha256)


def digest(file: BinaryIO, size: int, source: Source) -> str | None:
    """The SHA-256 of a file whose values nobody looks at, None unless it is asked for."""
    return scan(file, size, (), source).sha256 if source.digest else None


def holds(file: BinaryIO, size: int, texts: Sequence[bytes], seen: Callable[[int], None] = lambda count: None) -> bool:
    """Whether one of some short texts lies anywhere in a file; ``seen`` is told the bytes of each piece that was looked at."""
    rest = b""
    for at in range(0, size, CHUNK):
        data = rest + exactly(file, at, min(CHUNK, size - at))
        if any(text in data for text in texts):
            return True
        rest = data[-max(map(len, texts)):]
        seen(min(CHUNK, size - at))
    return False


def exactly(file: BinaryIO, offset: int, length: int) -> bytes:
    """``length`` bytes of an unbuffered file from ``offset``; raises `EndedEarly` when it has fewer. Moves its position."""
    file.seek(offset)
    parts = []
    while length:
        part = file.read(length)
        if not part:
            raise EndedEarly(file.tell(), file.tell() + length)
        parts.append(part)
        length -= len(part)
    return b"".join(parts)


def non_finite(path: str, named: Iterable[tuple[str, Found]]) -> Iterator[Problem]:
    """At most one NAN and one INFINITE problem for the parameters of a file, given as (tensor name, what was seen).

    Infinity is no fault in a mask: a tensor whose last name component contains "mask", or whose values show it
    (`Found.mask`). NaN is a fault everywhere.
    """
    named = list(named)
    nan = [name for name, found in named if found.nan]
    infinite = [name for name, found in named if found.infinite and not found.mask and not _named_mask(name)]
    for kind, word, names in ((ProblemKind.NAN, "NaN", nan), (ProblemKind.INFINITE, "an infinite value", infinite)):
        if names:
            yield Problem(kind, path, f"{word} in {len(names):,} of {len(named):,} tensors", "finite values",
                          where=names[0], count=len(names))


def _named_mask(name: str) -> bool:
    """Whether infinity is at home in a tensor of that name: in masks, and in the range that an observer has seen so far.

    The observers of torch.ao.quantization begin with ``min_val`` at inf and ``max_val`` at -inf.
    """
    last = name.rpartition(".")[2].lower()
    return "mask" in last or last in ("min_val", "max_val")


def holes(file: BinaryIO, size: int) -> Sequence[tuple[int, int]]:
    """The ranges (start, end) of a file that were never written, at most the first 1,000 of them.

    None where the system cannot tell. Source: lseek(2), SEEK_HOLE and SEEK_DATA. Moves the file's position.
    """
    found: list[tuple[int, int]] = []
    if not hasattr(os, "SEEK_HOLE"):
        return found
    at = 0
    try:
        while at < size and len(found) < _MOST_HOLES:
            start = os.lseek(file.fileno(), at, os.SEEK_HOLE)
            if start >= size:
                break
            try:
                at = min(os.lseek(file.fileno(), start, os.SEEK_DATA), size)
            except OSError as error:
                if error.errno != errno.ENXIO:  # ENXIO: no data until the end of the file
                    raise
                at = size
            found.append((start, at))
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP, errno.ENXIO):
            raise
    return found


def never_written(path: str, file: BinaryIO, size: int, segments: Sequence[Segment]) -> Iterator[Problem]:
    """At most one HOLE problem: never-written ranges that overlap a segment, which `where` names by its label."""
    starts = [segment.offset for segment in segments]
    hit: list[Segment] = []
    ranges: list[tuple[int, int]] = []
    for start, end in holes(file, size):
        first = max(bisect.bisect_right(starts, start) - 1, 0)
        touched = [segment for segment in segments[first:bisect.bisect_left(starts, end)]
                   if segment.length and segment.offset < end and segment.end > start]
        if touched:
            ranges.append((start, end))
            hit += [segment for segment in touched if not hit or segment is not hit[-1]]
    if ranges:
        total = sum(end - start for start, end in ranges)
        shown = ", ".join(f"{start:,} to {end:,}" for start, end in ranges[:3])
        more = f" and {len(ranges) - 3:,} more" if len(ranges) > 3 else ""
        yield Problem(ProblemKind.HOLE, path, f"{total:,} bytes were never written: from {shown}{more}",
                      "every byte written", where=hit[0].label, count=len(hit))


@dataclasses.dataclass(frozen=True)
class _Codes:
    """How to see the values of a type in its bits, read as the integer type ``bits`` of ``width`` bytes.

    ``operation`` with ``operand`` maps them so that the codes from ``nan`` up are NaN and ``infinity`` is infinite.
    ``number`` is the floating point type in which a sum of sound values hardly ever overflows, None if there is none.
    """

    bits: str
    width: int
    operation: str
    operand: int
    nan: int
    infinity: int | None = None
    number: str | None = None

    @property
    def least(self) -> int:
        """The least code that is not finite."""
        return self.nan if self.infinity is None else self.infinity


def _ieee(bits: str, width: int, exponent: int, number: str | None = None) -> _Codes:
    """Sign, exponent, fraction; all ones in the exponent mean infinity, with a fraction NaN."""
    magnitude = (1 << (8 * width - 1)) - 1
    infinity = magnitude - (magnitude >> exponent)
    return _Codes(bits, width, "bitwise_and", magnitude, infinity + 1, infinity, number)


_CODES = {
    "F64": _ieee("int64", 8, 11, "float64"),
    "C128": _ieee("int64", 8, 11, "float64"),
    "F32": _ieee("int32", 4, 8, "float32"),
    "C64": _ieee("int32", 4, 8, "float32"),
    "BF16": _ieee("int16", 2, 8, "bfloat16"),
    "F16": _ieee("int16", 2, 5),
    "F8_E5M2": _ieee("uint8", 1, 5),
    # OCP 8-bit floating point specification 1.0: E4M3 has no infinity and NaN only where all other bits are ones.
    "F8_E4M3": _Codes("uint8", 1, "bitwise_and", 0x7F, 0x7F),
    # The FNUZ types have one NaN, where minus zero would be: 0x80, which the operation makes the largest code.
    "F8_E4M3FNUZ": _Codes("uint8", 1, "bitwise_xor", 0x7F, 0xFF),
    "F8_E5M2FNUZ": _Codes("uint8", 1, "bitwise_xor", 0x7F, 0xFF),
    # OCP microscaling specification 1.0: an exponent alone, without sign; all ones are NaN.
    "F8_E8M0": _Codes("uint8", 1, "bitwise_and", 0xFF, 0xFF),
}


def is_floating(dtype: str | None) -> bool:
    """Whether numbers of a type are looked at: it has NaN or infinity."""
    return dtype in _CODES


class _Seen:
    """What was seen of one segment so far. Threads only ever set the flags, never clear them: no lock is needed."""

    def __init__(self, segment: Segment) -> None:
        self.codes = _CODES.get(segment.dtype or "")
        self.crc32 = segment.seed if segment.crc else None
        self.sha256 = None if segment.header is None else hashlib.sha256(segment.header)
        self.nan = False
        self.infinite = False
        self.plus_infinity = False
        self.zero = False  # known only while nothing ordinary was seen
        self.ordinary = False  # a finite value other than zero

    def found(self) -> Found:
        mask = self.infinite and self.zero and not (self.nan or self.plus_infinity or self.ordinary)
        zero = self.zero and not (self.nan or self.infinite or self.ordinary)
        sha256 = None if self.sha256 is None else self.sha256.hexdigest()
        return Found(self.crc32, self.nan, self.infinite, mask, zero, sha256)


class _Eye:
    """Looks at the values in a buffer; one per thread, with the scratch memory for it."""

    def __init__(self) -> None:
        import torch

        self._torch = torch
        self._scratch = torch.empty(CHUNK, dtype=torch.uint8)

    def look(self, buffer: bytearray, start: int, length: int, codes: _Codes, seen: _Seen) -> None:
        """Look at ``length`` bytes of ``buffer`` from ``start``, which begin with a whole element."""
        bits = getattr(self._torch, codes.bits)
        count = length // codes.width
        if not count:
            return
        if start % codes.width:  # an unaligned tensor: not every processor reads it in place
            buffer, start = buffer[start:start + length], 0
        values = self._torch.frombuffer(buffer, dtype=bits, count=count, offset=start)
        if codes.number is not None:
            # NaN and infinity survive any sum, so one that is finite clears all values in a single fast pass. Zero may
            # be a mask, and a sum may overflow: both go on to the exact look.
            total = float(values.view(getattr(self._torch, codes.number)).sum())
            if math.isfinite(total) and total:
                seen.ordinary = True
                return
        scratch = self._scratch.view(bits)[:count]
        getattr(self._torch, codes.operation)(values, codes.operand, out=scratch)
        top = int(scratch.amax())
        if top < codes.least:
            if top:
                seen.ordinary = True
            else:
                seen.zero = True
            return
        if top >= codes.nan:
            seen.nan = True
        if codes.infinity is not None:
            self._look_for_infinity(values, scratch, codes.infinity, seen)

    @staticmethod
    def _look_for_infinity(values: Any, magnitudes: Any, infinity: int, seen: _Seen) -> None:
        if not seen.infinite and bool((magnitudes == infinity).any()):
            seen.infinite = True
        if not seen.plus_infinity and bool((values == infinity).any()):
            seen.plus_infinity = True
        if not seen.zero and bool((magnitudes == 0).any()):
            seen.zero = True
        if not seen.ordinary and bool(((magnitudes > 0) & (magnitudes < infinity)).any()):
            seen.ordinary = True


class Values:
    """The look of `scan` at values that do not lie in a file as they are: compressed, or with their bytes turned round.

    ``width`` is the size of a number in bytes, ``turned`` whether it begins with its highest byte.
    """

    def __init__(self, dtype: str | None, width: int, *, turned: bool = False) -> None:
        self._seen = _Seen(Segment(0, 0, dtype))
        self._eye = _Eye() if self._seen.codes else None
        self._width, self._turned = width, turned
        self._rest = b""

    def take(self, data: bytes) -> None:
        """The next bytes, wherever they are cut."""
        codes = self._seen.codes
        if self._eye is None or codes is None:
            return
        data = self._rest + data
        whole = len(data) - len(data) % self._width
        self._rest = data[whole:]
        for start in range(0, whole, CHUNK):
            piece = bytearray(data[start:min(start + CHUNK, whole)])
            if self._turned:
                turned = bytearray(len(piece))
                for byte in range(self._width):
                    turned[byte::self._width] = piece[self._width - 1 - byte::self._width]
                piece = turned
            self._eye.look(piece, 0, len(piece), codes, self._seen)

    def found(self) -> Found:
        """What was seen so far."""
        return self._seen.found()


class _Pass:
    """The state of one `scan`."""

    def __init__(self, file: BinaryIO, size: int, segments: Sequence[Segment], source: Source) -> None:
        self.file, self.size, self.segments, self.source = file, size, segments, source
        self.seen = [_Seen(segment) for segment in segments]
        self._ends = [segment.end for segment in segments]
        self._lock = threading.Lock()
        self._done = 0
        self._stop = False

    def with_digest(self) -> str:
        """Read all bytes in order; the digest is taken in a second thread when there may be one."""
        digest = hashlib.sha256()
        eye = _Eye()
        with _helpers(1 if self.source.threads > 1 and self.size > CHUNK else 0) as pool:
            ring = [self._buffer() for _ in range(_BUFFERS if pool else 1)]
            pending: collections.deque[concurrent.futures.Future[None]] = collections.deque()
            for number, (start, end) in enumerate(self._chunks(0, self.size)):
                if len(pending) == len(ring):
                    pending.popleft().result()
                buffer = ring[number % len(ring)]
                view = memoryview(buffer)[:end - start]
                self._read(view, start)
                if pool:
                    pending.append(pool.submit(digest.update, view))
                else:
                    digest.update(view)
                self._take(buffer, start, end, eye)
            for future in pending:
                future.result()
        return digest.hexdigest()

    def in_parallel(self) -> None:
        """Read the segments and nothing else; the threads take ranges of the file from a common queue."""
        ranges = collections.deque(self._ranges())
        try:
            together(lambda: self._work(ranges), min(self.source.threads, len(ranges)))
        finally:
            self._stop = True
        self._advance(self.size - self._done)

    def _work(self, ranges: collections.deque[tuple[int, int]]) -> None:
        eye = _Eye()
        buffer = self._buffer()
        try:
            while not self._stop:
                try:
                    start, end = ranges.popleft()
                except IndexError:
                    return
                for at, to in self._chunks(start, end):
                    if self._stop:
                        return
                    self._read(memoryview(buffer)[:to - at], at)
                    self._take(buffer, at, to, eye)
        except BaseException:
            self._stop = True
            raise

    def _ranges(self) -> Iterator[tuple[int, int]]:
        """Ranges that together hold every segment, each for one thread: some small segments or a part of a large one.

        A segment with a CRC or a digest stays whole, because these have to see the bytes in their order.
        """
        start = end = 0
        for segment in self.segments:
            if not segment.length:
                continue
            if segment.offset - end <= _GAP and segment.end - start <= CHUNK and start < end:
                end = segment.end
                continue
            if start < end:
                yield start, end
            start, end = segment.offset, segment.end
            while not segment.crc and segment.header is None and end - start > _RANGE:
                yield start, start + _RANGE
                start += _RANGE
        if start < end:
            yield start, end

    def _chunks(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        """A range in pieces of at most `CHUNK` bytes that divide no element."""
        while start < end:
            cut = min(start + CHUNK, end)
            if cut < end:
                index = bisect.bisect_right(self._ends, cut)
                if index < len(self.segments) and self.segments[index].offset < cut:
                    codes = self.seen[index].codes
                    cut -= (cut - self.segments[index].offset) % (codes.width if codes else 1)
            yield start, cut
            start = cut

    def _buffer(self) -> bytearray:
        return bytearray(min(CHUNK, self.size))

    def _read(self, view: memoryview, at: int) -> None:
        done = 0
        while done < len(view):
            count = self._read_some(view[done:], at + done)
            if not count:
                raise EndedEarly(at + done, self.size)
            done += count

    def _read_some(self, view: memoryview, at: int) -> int:
        if hasattr(os, "preadv"):
            return os.preadv(self.file.fileno(), [view], at)
        with self._lock:
            self.file.seek(at)
            return cast(io.RawIOBase, self.file).readinto(view) or 0

    def _take(self, buffer: bytearray, start: int, end: int, eye: _Eye) -> None:
        """Give the bytes ``start`` to ``end`` of the file, which lie in ``buffer``, to the segments that they belong to."""
        for index in range(bisect.bisect_right(self._ends, start), len(self.segments)):
            segment, seen = self.segments[index], self.seen[index]
            if segment.offset >= end:
                break
            first, last = max(segment.offset, start), min(segment.end, end)
            if seen.crc32 is not None:
                seen.crc32 = zlib.crc32(memoryview(buffer)[first - start:last - start], seen.crc32)
            if seen.sha256 is not None:
                seen.sha256.update(memoryview(buffer)[first - start:last - start])
            if seen.codes:
                eye.look(buffer, first - start, last - first, seen.codes, seen)
        self._advance(end - start)

    def _advance(self, count: int) -> None:
        if count:
            with self._lock:
                self._done += count
                self.source.advance(count)


def together(work: Callable[[], None], threads: int) -> None:
    """Do ``work`` in up to ``threads`` threads at once, the calling one among them; each takes its part from a queue.

    Returns when all have ended and raises what one of them raised.
    """
    with _helpers(threads - 1) as pool:
        futures = []
        if pool:
            with contextlib.suppress(RuntimeError):  # fewer threads than hoped for will do
                for _ in range(threads - 1):
                    futures.append(pool.submit(work))
        work()
        for future in futures:
            future.result()


@contextlib.contextmanager
def _helpers(count: int) -> Iterator[concurrent.futures.ThreadPoolExecutor | None]:
    """Up to ``count`` helper threads, which are gone afterwards; None when it is 0 or no thread can be started."""
    if count < 1:
        yield None
        return
    with concurrent.futures.ThreadPoolExecutor(count) as pool:
        try:
            pool.submit(int)
        except RuntimeError:  # a limit of this machine, not a fault of the file
            yield None
        else:
            yield pool


def _check(segments: Sequence[Segment], size: int) -> None:
    end = 0
    for segment in segments:
        if segment.offset < end or segment.length < 0:
            raise ValueError(f"segment at {segment.offset} of {segment.length} bytes: the one before ends at {end}")
        end = segment.end
    if end > size:
        raise ValueError(f"the last segment ends at {end}, the file at {size}")
