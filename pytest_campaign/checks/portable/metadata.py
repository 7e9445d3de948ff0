"""The texts that checkpoints hold beside their tensors. They say where a run took place, and nobody follows them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator

from ...formats import gguf
from ...formats.zip_archive import first_member
from ...readers import pickle_strings
from ...readers.fields import Field

LARGEST_METADATA = 16 << 20  # bytes of a GGUF file that are looked at; its vocabulary stands among its metadata
LARGEST_HEADER = 1 << 20  # bytes of a safetensors header that are looked at
_ROOM = 1024  # bytes in front of the first member of a torch file

_SAFETENSORS = re.compile(rb'.{8}[ ]*\{[ ]*"__metadata__"[ ]*:[ ]*(?=\{)', re.S)  # where the library writes it: in front
_PICKLE = re.compile(rb"\x80[\x02-\x05]")


def texts(head: bytes, size: int, read: Callable[[int], bytes]) -> Iterator[Field]:
    """The texts in a file of ``size`` bytes that begins with ``head``; ``read(limit)`` gives more of its beginning."""
    if head.startswith(gguf.MAGIC):
        yield from (Field((key,), text) for key, text in gguf.texts(read(LARGEST_METADATA), size))
    elif found := _SAFETENSORS.match(head):
        yield from _metadata(read(LARGEST_HEADER)[found.end():])
    elif _PICKLE.match(head):
        yield from pickle_strings.fields(read(pickle_strings.MOST_BYTES))
    elif head.startswith(b"PK\x03\x04"):
        name, data = first_member(read(_ROOM + pickle_strings.MOST_BYTES))
        if name.endswith("/data.pkl"):
            yield from pickle_strings.fields(data)


def _metadata(data: bytes) -> Iterator[Field]:
    try:
        metadata, _ = json.JSONDecoder().raw_decode(data.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return
    yield from (Field(("__metadata__", key), value) for key, value in metadata.items() if isinstance(value, str))
