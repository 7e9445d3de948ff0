"""Lists of digests: what ``sha256sum``, ``b2sum``, ``shasum``, ``openssl dgst`` and BagIt write, line by line.

GNU coreutils ("md5sum: Print or check MD5 digests"): ``hex  name`` or ``hex *name``; a backslash in front of the line says that
``\\n``, ``\\r`` and ``\\\\`` in the name are escapes; ``#`` begins a comment. With ``--zero`` lines end in NUL and have no
escapes. Tools of Windows begin comments with ``;`` (RapidCRC) or ``//`` (FCIV). BSD and ``--tag``: ``SHA256 (name) = hex``;
openssl ``SHA2-256(name)= hex``. BagIt (RFC 8493, 2.1.3): ``hex name``, with ``%0A``, ``%0D`` and ``%25`` for line ends and ``%``.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

_BY_DIGITS = {32: "md5", 40: "sha1", 56: "sha224", 64: "sha256", 96: "sha384", 128: "sha512"}  # where nothing says the algorithm
_BLAKE2B = {"blake2b": 128, **{f"blake2b{bits}": bits // 4 for bits in (128, 160, 224, 256, 384)}}  # b2sum --length
DIGITS = {algorithm: count for count, algorithm in _BY_DIGITS.items()} | _BLAKE2B  # hexadecimal, by algorithm
_SUM = re.compile(r"([0-9A-Fa-f]{32,})(?:( [ *])|[ \t]+)(.+)", re.S)
_TAGGED = re.compile(r"([A-Za-z][A-Za-z0-9/-]*) ?\((.+)\) ?= ?([0-9A-Fa-f]+)", re.S)
_BARE = re.compile(r"[0-9A-Fa-f]{32,}")
_COMMENTS = ("#", ";", "//")
_ESCAPE = re.compile(r"\\(.)", re.S)
_ESCAPED = {"n": "\n", "r": "\r", "\\": "\\"}
_PERCENT = re.compile(r"%(0A|0D|25)", re.I)
_BOMS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
_SIGNED, _SIGNATURE = "-----BEGIN PGP SIGNED MESSAGE-----", "-----BEGIN PGP SIGNATURE-----"


class Line(NamedTuple):
    """One digest. ``names`` are the readings of the file's name, the likeliest first; ``algorithm`` in lower case."""

    number: int
    algorithm: str
    digest: str
    names: tuple[str, ...]


class BadLine(NamedTuple):
    """A line that is no digest, and why."""

    number: int
    text: str
    why: str


def decode(data: bytes) -> str:
    """The text of a list: UTF-8, or UTF-16 with a byte order mark as PowerShell writes; other bytes become surrogate escapes."""
    for bom, encoding in _BOMS:
        if data.startswith(bom):
            return data[len(bom):].decode(encoding, "surrogateescape" if encoding == "utf-8" else "replace")
    return data.decode("utf-8", "surrogateescape")


def parse(text: str, algorithm: str | None = None, alone: str | None = None) -> Iterator[Line | BadLine]:
    """The lines of a list. ``algorithm`` is what its own name says; ``alone`` the file of a digest without a name."""
    zero = _is_zero(text)
    for number, line in enumerate(text.split("\0"), 1) if zero else _lines(text):
        if line.strip() and not line.startswith(_COMMENTS):
            yield _line(number, line, algorithm, alone, zero)


def is_list(lines: Sequence[Line | BadLine], text: str) -> bool:
    """Whether the lines of a text show that it is a list of digests: all of them, save a last one that breaks off."""
    cut = lines[:-1] if not text.endswith(("\n", "\0")) else lines
    return bool(cut or lines) and all(isinstance(line, Line) for line in cut or lines)


def parse_bag(text: str, algorithm: str) -> Iterator[Line | BadLine]:
    """The lines of a payload or tag manifest; an algorithm that is not known here is taken with digests of any length."""
    for number, line in enumerate(re.split(r"\r\n|\n|\r", text), 1):
        found = re.fullmatch(r"([0-9A-Fa-f]+)[ \t]+(.+)", line, re.S)
        if found is None or len(found[1]) != DIGITS.get(algorithm, len(found[1])):
            if line.strip():
                yield BadLine(number, line, _expected(algorithm))
            continue
        plain = tuple(dict.fromkeys((found[2].removeprefix("*"), found[2])))
        yield Line(number, algorithm, found[1].lower(), tuple(dict.fromkeys((*map(percent_decoded, plain), *plain))))


def percent_decoded(name: str) -> str:
    """A name as a bag encodes it, with its line ends and percent signs."""
    return _PERCENT.sub(lambda found: chr(int(found[1], 16)), name)


def _is_zero(text: str) -> bool:
    """Whether lines end in NUL. What a file system leaves of a lost block is many of them, or one behind a line end."""
    return text.endswith("\0") and not text.endswith("\n\0") and not text.startswith("\0") and "\0\0" not in text


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """Numbered lines without their ends; of a clearsigned list (RFC 9580, 7) those that are signed."""
    signed = text.startswith(_SIGNED)
    head = signed
    for number, line in enumerate(text.split("\n"), 1):
        line = line.removesuffix("\r")
        if signed and line == _SIGNATURE:
            return
        if not head:
            yield number, line.removeprefix("- ") if signed else line
        elif not line.strip():
            head = False


def _line(number: int, line: str, algorithm: str | None, alone: str | None, zero: bool) -> Line | BadLine:
    escaped = line.startswith("\\") and not zero
    body = line.removeprefix("\\") if escaped else line
    if "\0" in body:
        return BadLine(number, line, f"{_expected(algorithm)}, without NUL bytes")
    if (tagged := _TAGGED.fullmatch(body)) is not None and (named := _tag(tagged[1])) is not None:
        if len(tagged[3]) != DIGITS.get(named, len(tagged[3])):
            return BadLine(number, line, _expected(named))
        return Line(number, named, tagged[3].lower(), _names(tagged[2], escaped))
    names: tuple[str, ...]
    if alone is not None and _BARE.fullmatch(body.strip()):
        digest, names = body.strip(), (alone,)
    elif (found := _SUM.fullmatch(body)) is not None:
        digest, names = found[1], _names(found[3], escaped)
        if found[2] is None and found[3].startswith("*"):
            names = (*_names(found[3][1:], escaped), *names)
        elif found[2] == " *":
            names = (*names, *_names("*" + found[3], escaped))
    else:
        return BadLine(number, line, _expected(algorithm))
    kind = algorithm if algorithm is not None else _BY_DIGITS.get(len(digest))
    if kind == "blake2b":
        kind = next((name for name, digits in _BLAKE2B.items() if digits == len(digest)), kind)
    if kind is None or len(digest) != DIGITS.get(kind, len(digest)):
        return BadLine(number, line, _expected(algorithm))
    return Line(number, kind, digest.lower(), names)


def _tag(tag: str) -> str | None:
    """The algorithm that a tag names: SHA256, SHA2-256, SHA512/256 …; None when it names none."""
    name = tag.lower().replace("sha2-", "sha").replace("-", "").replace("blake2b512", "blake2b")
    return name if re.fullmatch(r"(md|sha|blake|rmd|ripemd|sm|whirlpool|tiger|crc|streebog)[a-z0-9/]*", name) else None


def _names(name: str, escaped: bool) -> tuple[str, ...]:
    if escaped:
        return (_ESCAPE.sub(lambda found: _ESCAPED.get(found[1], found[0]), name),)
    return tuple(dict.fromkeys((name, name.strip(" \t") or name)))


def _expected(algorithm: str | None) -> str:
    digits = DIGITS.get(algorithm or "")
    return f"{digits} hexadecimal digits and the name of a file" if digits else "a digest and the name of a file"
