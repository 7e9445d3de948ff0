"""A Parquet file in the fresh process: its rows as JSON Lines, with as much of each cell as the rules need.

The file is read by pyarrow, one row group after the other and some rows at a time. The first line is a list of the columns,
every other one a record. Of a value nothing is told but whether it is null, empty, or a number that is not finite, and how its
text begins; keys, names of files and flags are told in full. Of the columns that nobody asked for one that holds something
is told in each record.

What a file begins and ends with: https://github.com/apache/parquet-format (README, "File format"; Encryption.md).
"""

from __future__ import annotations

import itertools
import json
import math
import re
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

from ..formats.base import Depth, FileFacts, Problem, ProblemKind, Reading, Source, Unit
from .protocol import Table

FORMAT = "Parquet"
MODULES = ("pyarrow.parquet", "pyarrow.compute")

_MAGIC, _ENCRYPTED = b"PAR1", b"PARE"
_SMALLEST = 12  # bytes: twice the magic, and the length of the footer
_BUFFER = 1 << 20
_BATCH_BYTES = 16 << 20  # of a batch of rows when it is decoded, as far as the footer tells
_BATCH_ROWS = 8192
_MESSAGE = 1 << 18  # characters of rows in one message
_SHORT = 64  # characters of a text of which only the beginning matters
_LONGEST_TEXT = 300
_INDEX = re.compile(r"__index_level_[0-9]+__")  # what pandas adds: the index, which is no column of the table

Cells = list[Any]


def read(unit: Unit, source: Source, wanted: Table, tell: Callable[[str], None]) -> Reading:
    """Hand the rows to ``tell``, some whole lines at a time.

    What is wrong with the file is a problem of the reading, and the rows that were told count for nothing then. Raises
    MemoryError, and OSError with a number as by ``source``.
    """
    path = unit.path
    if (problem := _framing(path, source)) is not None:
        return Reading(FORMAT, None, problems=[problem])
    import pyarrow as pa

    pa.set_memory_pool(pa.system_memory_pool())  # the others reserve more address space than the limit may allow
    told = 0
    try:
        table = _Table(source, path, wanted)
        tell(json.dumps(table.header) + "\n")
        for count, lines in table.batches():
            told += count
            for text in _messages(lines):
                tell(text)
        if told != table.rows:
            raise ValueError(f"it has {told:,} rows, and its footer says {table.rows:,}")
    except MemoryError:
        raise
    except NotImplementedError as error:
        return _failed(path, ProblemKind.UNREADABLE_KIND, error, told)
    except (pa.ArrowException, OSError, ValueError, KeyError, TypeError, OverflowError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        return _failed(path, ProblemKind.DAMAGED, error, told)
    return Reading(FORMAT, Depth.TENSORS, files=[FileFacts(path, source.size(path))])


def _failed(path: str, kind: ProblemKind, error: Exception, told: int) -> Reading:
    text = " ".join(str(error).split())[:_LONGEST_TEXT] or type(error).__name__
    return Reading(FORMAT, None, problems=[Problem(kind, path, text, "a Parquet file", f"after {told:,} rows")])


def _framing(path: str, source: Source) -> Problem | None:
    """What the first and the last bytes show."""
    size = source.size(path)
    with source.open(path) as file:
        head = file.read(4)
        file.seek(max(0, size - 8))
        tail = file.read(8)
    expected = "PAR1, the length of the footer and PAR1 at its end"
    if head == _ENCRYPTED or (head == _MAGIC and tail[4:] == _ENCRYPTED):
        return Problem(ProblemKind.UNREADABLE_KIND, path, "the file is encrypted", "a Parquet file without encryption")
    if head != _MAGIC[:len(head)]:
        return Problem(ProblemKind.DAMAGED, path, f"it begins with {head.hex(' ')}", "PAR1, with which a Parquet file begins")
    if size < _SMALLEST or tail[4:] != _MAGIC:
        return Problem(ProblemKind.TRUNCATED, path, f"its {size:,} bytes end in {tail[-4:].hex(' ')}", expected)
    if (length := int.from_bytes(tail[:4], "little")) > size - _SMALLEST:
        return Problem(ProblemKind.DAMAGED, path, f"its footer claims {length:,} bytes of {size:,}", expected)
    return None


def _messages(lines: Sequence[str]) -> Iterator[str]:
    parts: list[str] = []
    length = 0
    for line in lines:
        parts.append(line)
        length += len(line)
        if length >= _MESSAGE:
            yield "".join(parts)
            parts, length = [], 0
    if parts:
        yield "".join(parts)


class _Table:
    """An open Parquet file with what is to be told of its columns."""

    def __init__(self, source: Source, path: str, wanted: Table) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        self._source = source
        self._file: Any = pq.ParquetFile(pa.PythonFile(source.open(path), mode="r"), buffer_size=_BUFFER, pre_buffer=False,
                                    page_checksum_verification=True)
        self._metadata = self._file.metadata
        schema = self._file.schema_arrow
        types = {name: schema.field(schema.names.index(name)).type for name in schema.names}
        self._tellers = _tellers(types, wanted)
        self._others: list[str] = []
        self._unread: list[str] = []
        if wanted.value is None and not wanted.as_text:
            others = [name for name in types if name not in self._tellers and not _INDEX.fullmatch(name)]
            light = [name for name in others if not _holds_bytes(types[name])]
            self._others, self._unread = light, [name for name in others if name not in light]
        self._columns = [_column(self._file.schema.column(at).path, types) for at in range(self._metadata.num_columns)]
        self.header = list(self._tellers) if wanted.as_text else list(schema.names)
        self.rows = self._metadata.num_rows

    def batches(self) -> Iterator[tuple[int, list[str]]]:
        """Some rows at a time: how many, and a line for each."""
        columns = [*self._tellers, *self._others]
        read = [at for at, name in enumerate(self._columns) if name in columns]
        for index in range(self._metadata.num_row_groups):
            group = self._metadata.row_group(index)
            leaves = [group.column(at) for at in range(group.num_columns)]
            size = sum(leaves[at].total_uncompressed_size for at in read)
            rows = max(1, min(_BATCH_ROWS, _BATCH_BYTES * group.num_rows // max(1, size)))
            unread = self._filled(leaves)
            for batch in self._file.iter_batches(rows, row_groups=[index], columns=columns, use_threads=False):
                yield batch.num_rows, self._lines(batch, unread)
            self._source.advance(sum(leaf.total_compressed_size for leaf in leaves))

    def _lines(self, batch: Any, unread: str | None) -> list[str]:
        """The records of a batch; ``unread`` is a column that was not read and holds something."""
        cells = {name: _cells(batch.column(batch.schema.names.index(name)), tell) for name, tell in self._tellers.items()}
        rows: list[dict[str, Any]] = [dict(zip(cells, row, strict=True)) for row in zip(*cells.values(), strict=True)] \
            if cells else [{} for _ in range(batch.num_rows)]
        if unread is not None:
            for row in rows:
                row[unread] = 1
        else:
            self._add_others(batch, rows)
        return [json.dumps(row, allow_nan=False) + "\n" for row in rows]

    def _add_others(self, batch: Any, rows: Sequence[dict[str, Any]]) -> None:
        empty: Sequence[dict[str, Any]] = rows
        for name in self._others:
            if not empty:
                break
            told = zip(rows, _cells(batch.column(batch.schema.names.index(name)), _value), strict=True)
            filled = {id(row) for row, cell in told if cell not in (None, "", [])}
            still = []
            for row in empty:
                if id(row) in filled:
                    row[name] = 1
                else:
                    still.append(row)
            empty = still

    def _filled(self, leaves: Sequence[Any]) -> str | None:
        """A column that is not read and, as far as the statistics tell, holds something in this row group."""
        for name, leaf in zip(self._columns, leaves, strict=True):
            if name in self._unread:
                known = leaf.statistics
                if known is None or not known.has_null_count or known.null_count < leaf.num_values:
                    return name
        return None


def _column(leaf: str, names: Collection[str]) -> str:
    """The column that a leaf of the schema belongs to, by its path; there are dots in names too."""
    ends = [*(found.start() for found in re.finditer(r"\.", leaf)), len(leaf)]
    return next((leaf[:end] for end in ends if leaf[:end] in names), "")


# ---- cells ---------------------------------------------------------------------------------------------------


def _tellers(types: Mapping[str, Any], wanted: Table) -> dict[str, Callable[[Any], Cells]]:
    """What to tell of each column that is asked for and there."""
    if wanted.as_text:
        return {name: _text for name, kind in types.items() if not (_nested(kind) or _is_bytes(kind) or _INDEX.fullmatch(name))}
    asked: dict[str, Callable[[Any], Cells]] = {}
    if wanted.value is not None:
        asked[wanted.value] = _value
    if wanted.truncated is not None:
        asked[wanted.truncated] = _flag
    asked |= dict.fromkeys(wanted.files, _files) | dict.fromkeys(wanted.key, _identity)
    return {name: tell for name, tell in asked.items() if name in types}


def _cells(array: Any, tell: Callable[[Any], Cells]) -> Cells:
    """What is told of a column. A value that a dictionary holds once is not copied for every row that has it."""
    import pyarrow as pa

    if not pa.types.is_dictionary(array.type):
        return tell(array)
    used = array.indices.unique()
    known = dict(zip(used.to_pylist(), tell(array.dictionary.take(used)), strict=True))
    return [known[index] for index in array.indices.to_pylist()]


def _plain(array: Any) -> Any:
    """The same without what only concerns the storage; times as text, the same for the same time in any unit."""
    import pyarrow as pa

    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    if pa.types.is_dictionary(array.type):  # inside of lists and structures; its cells are not asked for one by one
        array = array.dictionary
    if pa.types.is_float16(array.type):
        return array.cast(pa.float32())
    if pa.types.is_duration(array.type):
        return array.cast(pa.int64())
    if pa.types.is_timestamp(array.type):
        zone = "Z" if array.type.tz is not None else ""
        texts = array.cast(pa.timestamp(array.type.unit)).cast(pa.string()).to_pylist()
        return pa.array([None if text is None else _short_time(text) + zone for text in texts], pa.string())
    if pa.types.is_date(array.type) or pa.types.is_time(array.type):
        texts = array.cast(pa.string()).to_pylist()
        return pa.array([None if text is None else _short_time(text) for text in texts], pa.string())
    return array


def _short_time(text: str) -> str:
    return text.rstrip("0").rstrip(".") if "." in text else text


def _identity(array: Any) -> Cells:
    """Cells of a key: texts and integers as they are; the others so that the rule can say what they are."""
    import pyarrow as pa

    array = _plain(array)
    kind = array.type
    if _nested(kind):
        return _each(array, [] if pa.types.is_list(kind) or pa.types.is_large_list(kind) else {})
    cells: Cells = array.to_pylist()
    if pa.types.is_decimal(kind):
        return [None if cell is None else int(cell) if kind.scale <= 0 else float(cell) for cell in cells]
    if pa.types.is_floating(kind):
        return [cell if cell is not None and math.isfinite(cell) else None for cell in cells]
    if pa.types.is_fixed_size_binary(kind) and kind.byte_width == 16:
        return [None if cell is None else str(uuid.UUID(bytes=cell)) for cell in cells]
    if _is_bytes(kind):
        return [None if cell is None else _decoded(cell) for cell in cells]
    return cells


def _decoded(cell: bytes) -> Any:
    """Text that was written without saying that it is text; a list where it is none."""
    try:
        return cell.decode()
    except UnicodeDecodeError:
        return []


def _flag(array: Any) -> Cells:
    """Cells that are true or not."""
    array = _plain(array)
    return _each(array, []) if _nested(array.type) or _is_bytes(array.type) else _identity(array)


def _files(array: Any) -> Cells:
    """Names of files, one or a list of them in each cell."""
    import pyarrow as pa

    array = _plain(array)
    inner = array.type.value_type if pa.types.is_list(array.type) or pa.types.is_large_list(array.type) else array.type
    is_text = pa.types.is_string(inner) or pa.types.is_large_string(inner) or pa.types.is_string_view(inner)
    return list(array.to_pylist()) if is_text else _each(array, {})


def _value(array: Any) -> Cells:
    """Of values: null, the beginning of a text, ``[]`` for an empty list, ``nan`` or ``inf`` where one is in it, else 1."""
    import pyarrow as pa
    import pyarrow.compute as pc

    array = _plain(array)
    kind = array.type
    if pa.types.is_floating(kind):
        return [None if cell is None else 1 if math.isfinite(cell) else str(cell) for cell in array.to_pylist()]
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return [None if cell is None else _beginning(cell) for cell in array.to_pylist()]
    if _is_bytes(kind):
        return [None if length is None else 1 if length else "" for length in pc.binary_length(array).to_pylist()]
    cells = _each(array, 1)
    if _has_length(kind):
        lengths = _lengths(array)
        cells = [[] if length == 0 and cell else cell for cell, length in zip(cells, lengths, strict=True)]
    if _nested(kind) and _not_finite(array) is not None:
        found = [_not_finite(array.slice(at, 1)) for at in range(len(array))]
        cells = [cell if text is None else text for cell, text in zip(cells, found, strict=True)]
    return cells


def _lengths(array: Any) -> Sequence[int | None]:
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_map(array.type):  # which pyarrow does not measure
        ends = array.offsets.to_pylist()
        return [end - start for start, end in itertools.pairwise(ends)]
    return list(pc.list_value_length(array).to_pylist())


def _text(array: Any) -> Cells:
    """Cells as a CSV file has them: an empty text for null."""
    import pyarrow as pa

    array = _plain(array)
    if pa.types.is_floating(array.type) or pa.types.is_decimal(array.type):
        return ["" if cell is None else str(cell) for cell in array.to_pylist()]
    return ["" if cell is None else _beginning(str(cell)) for cell in array.to_pylist()]


def _beginning(text: str) -> str:
    """The beginning of a text; what consists of blanks in the text does so in its beginning, and nothing else."""
    cut = text[:_SHORT]
    return text.strip()[:_SHORT] or cut if len(text) > _SHORT and not cut.strip() else cut


def _each(array: Any, cell: Any) -> Cells:
    return [cell if valid else None for valid in array.is_valid().to_pylist()]


def _not_finite(array: Any) -> str | None:
    """``nan`` or ``inf`` when such a number is somewhere in the cells of an array."""
    import pyarrow as pa
    import pyarrow.compute as pc

    array = _plain(array)
    if pa.types.is_floating(array.type):
        if pc.any(pc.is_nan(array)).as_py():
            return "nan"
        return "inf" if pc.any(pc.is_inf(array)).as_py() else None
    if pa.types.is_struct(array.type):
        inner = array.flatten()
    elif pa.types.is_map(array.type):
        start, end = array.offsets[0].as_py(), array.offsets[-1].as_py()
        inner = [array.items.slice(start, end - start)]  # it gives the entries of all rows, also those of a slice
    elif _has_length(array.type):
        inner = [array.flatten()]
    else:
        return None
    return next((text for part in inner if (text := _not_finite(part)) is not None), None)


def _nested(kind: Any) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_nested(kind))


def _has_length(kind: Any) -> bool:
    import pyarrow as pa

    return any(test(kind) for test in (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list, pa.types.is_map))


def _is_bytes(kind: Any) -> bool:
    import pyarrow as pa

    return any(test(kind) for test in (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_fixed_size_binary,
                                       pa.types.is_binary_view))


def _holds_bytes(kind: Any) -> bool:
    """Whether a column holds bytes, also inside of lists and structures, as the images of the library datasets do."""
    return _is_bytes(kind) or any(_holds_bytes(kind.field(at).type) for at in range(kind.num_fields))
