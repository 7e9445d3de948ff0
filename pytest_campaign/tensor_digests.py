"""The digest of a tensor: the same in memory, in a safetensors file, in a torch file, and in an array of NumPy.

It is the SHA-256 of a short header followed by the values. The header is ASCII: the type as safetensors calls it, ``|``, the
shape with ``,`` between its sizes, ``|``; of a matrix of float32 ``F32|2,3|``, of a scalar ``F32||``. The values are those of the
elements in row-major order, little-endian, one behind the other as they are stored. ``float4_e2m1fn_x2`` is F4 with two elements
in a byte, so that its last dimension counts twice, as in safetensors.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import Protocol

_DIGEST = re.compile(r"[0-9a-fA-F]{64}")
PACKED = "F4"


class Hash(Protocol):
    """A hash of `hashlib`."""

    def update(self, data: bytes | memoryview, /) -> None: ...
    def hexdigest(self) -> str: ...


def header(dtype: str, shape: Sequence[int]) -> bytes:
    """What the digest of a tensor takes before its values; ``dtype`` and ``shape`` as safetensors writes them."""
    return f"{dtype}|{','.join(map(str, shape))}|".encode()


def shape_of(dtype: str, shape: Sequence[int]) -> tuple[int, ...]:
    """The shape of a tensor of torch as safetensors writes it."""
    return (*shape[:-1], 2 * shape[-1]) if dtype == PACKED and shape else tuple(shape)


def begun(start: bytes) -> Hash:
    """A digest that has taken its header."""
    return hashlib.sha256(start)


def is_digest(text: object) -> bool:
    """Whether a text is a SHA-256 in hexadecimal."""
    return isinstance(text, str) and _DIGEST.fullmatch(text) is not None


def usable(declared: Mapping[str, str]) -> Mapping[str, str]:
    """The declared digests that are some, in small letters."""
    return {name: text.lower() for name, text in declared.items() if is_digest(text)}
