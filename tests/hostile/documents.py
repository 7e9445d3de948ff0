"""JSON texts that readers disagree about, and paths that lead elsewhere."""

from __future__ import annotations

import json
from collections.abc import Iterator

# Texts that are no strict JSON, and texts that are. Each stands where the value of ``extra.x`` stands in a manifest.
REFUSED = {
    "nan": b"NaN",
    "infinity": b"-Infinity",
    "too-large": b"1e400",
    "negative-too-large": b"-1e999",
    "digits": b"9" * 5000,
    "plus": b"+1",
    "leading-zero": b"012",
    "point": b"1.",
    "no-zero": b".5",
    "hexadecimal": b"0x1F",
    "exponent": b"1e",
    "single-quotes": b"'a'",
    "comment": b"1 /* a */",
    "line-comment": b"1 // a\n",
    "trailing-comma": b"[1,]",
    "leading-comma": b"[,1]",
    "double-comma": b"[1,,2]",
    "unclosed": b"[1",
    "unopened": b"1]",
    "key-without-quotes": b"{a: 1}",
    "key-number": b"{1: 1}",
    "duplicate-key": b'{"a": 1, "a": 2}',
    "duplicate-key-escaped": b'{"a": 1, "\\u0061": 2}',
    "true": b"True",
    "none": b"None",
    "undefined": b"undefined",
    "control": b'"a\nb"',
    "tab": b'"a\tb"',
    "nul": b'"a\0b"',
    "escape": b'"\\x41"',
    "octal": b'"\\012"',
    "short-escape": b'"\\u12"',
    "lone-surrogate": b'"\\ud800"',
    "reversed-surrogates": b'"\\udc00\\ud800"',
    "surrogate-key": b'{"\\ud800": 1}',
    "invalid-utf8": b'"\xff"',
    "overlong": b'"\xc0\xaf"',
    "surrogate-in-utf8": b'"\xed\xa0\x80"',
    "cut-utf8": b'"\xe2\x82"',
    "deep-list": b"[" * 100_000 + b"]" * 100_000,
    "deep-objects": b'{"a":' * 5000 + b"1" + b"}" * 5000,
    "deep-unclosed": b"[" * 100_000,
    "empty": b"",
    "form-feed": b"\x0c1",
    "no-break-space": b"\xc2\xa01",
    "bom-inside": b"\xef\xbb\xbf1",
}
ACCEPTED = {
    "number": b"1",
    "negative-zero": b"-0",
    "exponent": b"1E+2",
    "small": b"1e-400",
    "digits": b"9" * 300,
    "escape": b'"\\u0041\\n\\/"',
    "pair": b'"\\ud83d\\ude00"',
    "text": '"Ω☃😀"'.encode(),
    "nested": b"[" * 50 + b"]" * 50,
    "empty-key": b'{"": {"": ""}}',
    "control-escaped": b'"\\u0000\\u001b[2J"',
    "bidi": '"\u202e"'.encode(),
    "spaces": b" \t\r\n 1 \n",
}


def whole(text: bytes) -> Iterator[tuple[str, bytes]]:
    """A sound document in forms that are none."""
    yield "bom", b"\xef\xbb\xbf" + text
    for encoding in ("utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be"):
        yield encoding, text.decode().encode(encoding)
    yield "twice", text + text
    yield "garbage-behind", text + b"}"
    yield "nul-behind", text + b"\0"
    yield "cut", text[:-3]
    yield "list", b"[" + text + b"]"
    yield "text", json.dumps(text.decode()).encode()
    yield "blank", b" \n"
    yield "empty", b""
    yield "nul-bytes", b"\0" * 100
    yield "null", b"null"
    yield "large", text[:-1] + b" " * (17 << 20) + b"}"
    yield "many-strings", b'{"a":[' + b'"",' * 2_000_000 + b'""]}'
    yield "pickle", b"\x80\x02cposix\nsystem\nX\x04\0\0\0true\x85R."


PATHS = (
    "/etc/passwd",
    "../outside",
    "a/../../outside",
    "a/..",
    "..",
    "~/x",
    "~root",
    "C:/x",
    "c:x",
    "C:\\x",
    "a\\b",
    "\\\\host\\share",
    "//host/share",
    "file:///etc/passwd",
    "http://example.org/x",
    "a\0b",
    "a\nb",
    "a\x1b[2Jb",
    "\x7f",
    "\x80",
    "a" * 2000,
    "",
    "a/\ud800",
    "//",
    "/",
    "/proc/self/environ",
)
