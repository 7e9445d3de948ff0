"""Tables of text: CSV (RFC 4180) and TSV, row by row, with the line on which each row begins.

The dialect follows from the name and the header: a tab for ``.tsv``; else a comma, or the semicolon or tab that the header has
instead. Fields may be in quotes and then contain line breaks; a quote inside a field without quotes is a character. Fine are
a byte order mark, CR LF, blank lines and a last line without its end.

Writers of measured values put comments behind ``#`` above the header (``monitor.csv`` of Stable-Baselines3 a JSON object,
`numpy.savetxt` the header itself); of such tables they are read as that. Elsewhere ``#`` is a character.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

from ..text import number as counted
from ..text import shown
from .rows import LONGEST, Header, Item, Row, lines
from .strict_json import Fault

_MOST_COLUMNS = 100_000


class _Torn(Exception):
    """A quote that is opened on a line and not closed."""

    def __init__(self, line: int) -> None:
        super().__init__(line)
        self.line = line


class _Quote(Exception):
    """Text after a closing quote."""


def records(stream: BinaryIO, name: str, *, quotes: bool = True, comments: bool = False) -> Iterator[Item]:
    """The header, then every row as an object of its cells, and a fault for each row that is none.

    ``quotes`` tells whether the quotation mark is more than a character, ``comments`` whether ``#`` may begin comments at the
    head of the file. Kinds of faults: ``torn`` (a quote that is never closed), ``fields`` (more or fewer cells than the
    header), ``columns`` (a name twice), ``header`` (the header once more), ``syntax``, ``encoding``, ``nul``, ``limit``. Raises
    nothing but what ``stream`` raises.
    """
    faults: list[Fault] = []
    texts = _headed(_texts(stream, faults), name) if comments else _texts(stream, faults)
    header: tuple[str, ...] | None = None
    delimiter = "\t"
    for number, text in texts:
        yield from faults
        faults.clear()
        if not text.strip("\r\n"):
            continue
        if header is None:
            delimiter = _delimiter(name, text)
            if "\r" in text.rstrip("\r\n") and '"' not in text:
                yield Fault("syntax", "the lines end in CR alone", number, None, None, "CR", "LF, or CR LF")
                return
        try:
            cells = _cells(number, text, texts, delimiter) if quotes and '"' in text else text.rstrip("\r\n").split(delimiter)
        except _Torn as torn:
            yield from faults
            yield Fault("torn", "a quote is opened here and never closed", torn.line, None, None, "the end of the file",
                        'a closing "')
            return
        except _Quote:
            yield Fault("syntax", "text after a closing quote", number, None, None, shown(text.rstrip("\r\n"), 80),
                        'a quote in a field in quotes is written ""')
            continue
        yield from faults
        faults.clear()
        if header is None:
            header = tuple(cell.strip() for cell in cells)
            yield Header(number, header)
            yield from twice(number, header)
        elif len(cells) != len(header):
            yield Fault("fields", f"{counted(len(cells), 'field')} where the header has {len(header)}", number, None, None,
                        counted(len(cells), "field"), counted(len(header), "field"))
        elif cells[0].strip() == header[0] and tuple(cell.strip() for cell in cells) == header and not numeric(header):
            yield Fault("header", "the header once more", number, None, None, shown(text.rstrip("\r\n"), 80),
                        "one header, at the top")
        else:
            yield Row(number, dict(zip(header, cells, strict=True)))
    yield from faults


def _headed(texts: Iterator[tuple[int, str]], name: str) -> Iterator[tuple[int, str]]:
    """The lines without comments at their head. The last comment is the header when values of as many columns follow it."""
    comment: tuple[int, str] | None = None
    for number, text in texts:
        if text.startswith("#"):
            comment = number, text.lstrip("#").lstrip(" ")
        elif text.strip():
            if comment is not None and _heads(comment[1], text, name):
                yield comment
            yield number, text
            break
    else:
        if comment is not None:
            yield comment
    yield from texts


def _heads(comment: str, text: str, name: str) -> bool:
    """Whether a comment holds the names of the columns of a row: of as many, and the row has a number."""
    delimiter = _delimiter(name, comment)
    cells = text.strip("\r\n").split(delimiter)
    return len(cells) == len(comment.split(delimiter)) and any(is_number(cell) for cell in cells) and not comment.startswith("{")


def numeric(header: tuple[str, ...]) -> bool:
    """Whether what stands in the place of a header consists of numbers: the table then has none."""
    return any(header) and all(is_number(cell) for cell in header if cell)


def is_number(cell: str) -> bool:
    """Whether a cell holds a number, also one that is not finite."""
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _delimiter(name: str, header: str) -> str:
    if name.lower().endswith((".tsv", ".tab")):
        return "\t"
    return next((mark for mark in (",", ";", "\t") if mark in header), ",")


def _texts(stream: BinaryIO, faults: list[Fault]) -> Iterator[tuple[int, str]]:
    """The lines as text. What is wrong with one is put among the faults, and it is left out or repaired."""
    for item in lines(stream):
        if isinstance(item, Fault):
            faults.append(item)
            continue
        number, line = item
        try:
            text = line.decode()
        except UnicodeDecodeError as error:
            observed = line[error.start:error.start + 4].hex(" ")
            faults.append(Fault("encoding", "bytes that are no UTF-8", number, None, None, observed, "UTF-8"))
            text = line.decode("utf-8", "replace")
        yield number, text


def _cells(number: int, text: str, texts: Iterator[tuple[int, str]], delimiter: str) -> list[str]:
    """The cells of the row that begins with ``text``, which takes further lines while a quote is open."""
    cells: list[str] = []
    at, taken = 0, len(text)
    while True:
        if text[at:at + 1] != '"':
            end = text.find(delimiter, at)
            if end < 0:
                cells.append(text[at:].rstrip("\r\n"))
                return cells
            cells.append(text[at:end])
            at = end + 1
        else:
            parts: list[str] = []
            at += 1
            while (end := text.find('"', at)) < 0 or text[end + 1:end + 2] == '"':
                if end >= 0:  # a doubled quote
                    parts.append(text[at:end + 1])
                    at = end + 2
                    continue
                parts.append(text[at:])
                _, text = next(texts, (0, ""))
                at = 0
                taken += len(text)
                if not text or taken > LONGEST:
                    raise _Torn(number)
            parts.append(text[at:end])
            cells.append("".join(parts))
            at = end + 1
            if not text[at:].strip("\r\n"):
                return cells
            if not text.startswith(delimiter, at):
                raise _Quote
            at += 1
        if len(cells) > _MOST_COLUMNS:
            return cells


def twice(number: int | None, header: tuple[str, ...]) -> Iterator[Fault]:
    """A fault when a name occurs twice in a header, which stands on the line ``number``."""
    if numeric(header):
        return
    for name in dict.fromkeys(header):
        if name and (count := header.count(name)) > 1:
            yield Fault("columns", f"{count} columns are called {shown(name, 60)}", number, None, None, f"{count} times",
                        "each name once")
            return
