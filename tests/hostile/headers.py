"""Formats with a header of our own reader: safetensors, NumPy, GGUF, ONNX, HDF5, msgpack, TensorFlow."""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Iterator, Mapping
from typing import Any

import numpy
import torch
from safetensors.torch import save

from . import Case


def safetensors(header: bytes | Mapping[str, Any], data: bytes = b"", length: int | None = None) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + data


def _entry(dtype: Any = "F32", shape: Any = (2,), offsets: Any = (0, 8)) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": offsets}


def _safetensors() -> Iterator[Case]:
    ones = struct.pack("<2f", 1, 1)
    one = json.dumps(_entry()).encode()
    for name, data in {
        "length-2-64": safetensors({}, length=(1 << 64) - 1),
        "length-2-63": safetensors({"w": _entry()}, ones, 1 << 63),
        "length-256-megabytes": safetensors({"w": _entry()}, ones, 1 << 28),
        "length-beyond": safetensors({"w": _entry()}, ones, 1000),
        "length-0": safetensors(b"", ones),
        "cut-length": b"\x10\0\0",
        "header-cut": safetensors({"w": _entry()}, b"")[:20],
        "duplicate-name": safetensors(b'{"w":' + one + b',"w":' + one + b"}", ones),
        "duplicate-name-escaped": safetensors(b'{"w":' + one + b',"\\u0077":' + one + b"}", ones),
        "duplicate-metadata": safetensors(b'{"__metadata__":{"a":"1","a":"2"},"w":' + one + b"}", ones),
        "duplicate-field": safetensors(b'{"w":{"dtype":"F32","dtype":"I32","shape":[2],"data_offsets":[0,8]}}', ones),
        "metadata-number": safetensors({"__metadata__": {"a": 1}, "w": _entry()}, ones),
        "metadata-list": safetensors({"__metadata__": [], "w": _entry()}, ones),
        "metadata-deep": safetensors(b'{"__metadata__":' + b'{"a":' * 5000 + b"1" + b"}" * 5000 + b',"w":' + one + b"}", ones),
        "overlap": safetensors({"a": _entry(), "b": _entry(offsets=(4, 12))}, ones * 2),
        "same-bytes": safetensors({"a": _entry(), "b": _entry()}, ones),
        "gap": safetensors({"a": _entry(), "b": _entry(offsets=(12, 20))}, ones * 3),
        "start-after-0": safetensors({"w": _entry(offsets=(4, 12))}, ones * 2),
        "end-before-start": safetensors({"w": _entry(offsets=(8, 0))}, ones),
        "offset-negative": safetensors({"w": _entry(offsets=(-8, 0))}, ones),
        "offset-float": safetensors({"w": _entry(offsets=(0.0, 8.0))}, ones),
        "offset-2-64": safetensors({"w": _entry(offsets=(1 << 64, (1 << 64) + 8))}, ones),
        "offset-text": safetensors({"w": _entry(offsets=("0", "8"))}, ones),
        "offset-one": safetensors({"w": _entry(offsets=(0,))}, ones),
        "shape-2-64": safetensors({"w": _entry(shape=(1 << 32, 1 << 32))}, ones),
        "shape-overflow": safetensors({"w": _entry(shape=(1 << 63, 2, 1))}, ones),
        "shape-negative": safetensors({"w": _entry(shape=(-2,))}, ones),
        "shape-bool": safetensors({"w": _entry(shape=(True, 2))}, ones),
        "shape-short": safetensors({"w": _entry(shape=(3,))}, ones),
        "dtype-unknown": safetensors({"w": _entry(dtype="PICKLE")}, ones),
        "dtype-escape": safetensors({"w": _entry(dtype="F\x1b[2J")}, ones),
        "dtype-number": safetensors({"w": _entry(dtype=1)}, ones),
        "entry-null": safetensors({"w": None}, ones),
        "entry-list": safetensors({"w": []}, ones),
        "header-list": safetensors(b"[]" + b" " * 6, ones),
        "header-number": safetensors(b"12345678", ones),
        "header-nan": safetensors(b'{"w":{"dtype":"F32","shape":[NaN],"data_offsets":[0,8]}}', ones),
        "header-comment": safetensors(b'{"w":' + one + b"}/* */", ones),
        "header-trailing": safetensors(b'{"w":' + one + b"}garbage", ones),
        "header-zeros": safetensors(b'{"w":' + one + b"}\0\0\0", ones),
        "header-utf16": safetensors('{"w":1}'.encode("utf-16"), ones),
        "header-invalid-utf8": safetensors(b'{"\xff":' + one + b"}", ones),
        "header-surrogate": safetensors(b'{"\\ud800":' + one + b"}", ones),
        "trailing": safetensors({"w": _entry()}, ones + b"\x80\x02cposix\nsystem\n."),
        "cut": safetensors({"w": _entry()}, ones[:-1]),
        "empty": safetensors({}),
        "empty-with-data": safetensors({}, ones),
        "name-long": safetensors({"w" * 100_000: _entry()}, ones),
        "deep": safetensors(b"[" * 100_000, ones),
        "deep-objects": safetensors(b'{"a":' * 100_000, ones),
        "nan": safetensors({"w": _entry()}, struct.pack("<2f", float("nan"), 1)),
        "digits": safetensors(b'{"w":{"dtype":"F32","shape":[' + b"9" * 5000 + b'],"data_offsets":[0,8]}}', ones),
    }.items():
        yield Case(f"safetensors-{name}.safetensors", data, "a header that lies or is none")
    yield Case("safetensors-sound.safetensors", save({"w": torch.ones(2)}), "one tensor", refused=False)
    yield Case(
        "safetensors-padded.safetensors",
        safetensors(json.dumps({"w": _entry()}).encode() + b" " * 500, ones),
        "padded with blanks",
        refused=False,
    )
    yield Case(
        "safetensors-scalar.safetensors",
        safetensors({"w": _entry(shape=(), offsets=(0, 4))}, ones[:4]),
        "a scalar",
        refused=False,
    )
    many = {f"t{n}": _entry(shape=(0,), offsets=(0, 0)) for n in range(60_000)}
    yield Case("safetensors-60000-empty.safetensors", safetensors(many), "60,000 tensors without elements", refused=False)


def npy(header: str | bytes, data: bytes = b"", version: bytes = b"\x01\0", length: int | None = None) -> bytes:
    text = header.encode("latin-1") if isinstance(header, str) else header
    width = "<H" if version == b"\x01\0" else "<I"
    return b"\x93NUMPY" + version + struct.pack(width, len(text) if length is None else length) + text + data


def _numpy(canary: str) -> Iterator[Case]:
    head = "{'descr': %s, 'fortran_order': False, 'shape': %s, }\n"
    ones = struct.pack("<2d", 1, 1)
    objects = io.BytesIO()
    numpy.save(objects, numpy.array([{}, print], dtype=object), allow_pickle=True)
    for name, data in {
        "objects": objects.getvalue(),
        "shape-1e12": npy(head % ("'<f8'", "(1000000000000,)"), ones),
        "shape-2-64": npy(head % ("'<f8'", f"({1 << 40}, {1 << 40})"), ones),
        "shape-negative": npy(head % ("'<f8'", "(-2,)"), ones),
        "shape-short": npy(head % ("'<f8'", "(3,)"), ones),
        "shape-float": npy(head % ("'<f8'", "(2.0,)"), ones),
        "shape-call": npy(head % ("'<f8'", f"(__import__('os').system('touch {canary}'),)"), ones),
        "trailing": npy(head % ("'<f8'", "(1,)"), ones),
        "void-2-62": npy(head % ("'|V0'", f"({1 << 62},)"), b""),
        "void-large": npy(head % (f"'|V{1 << 40}'", "(1,)"), ones),
        "minus": npy("-" * 9000, ones),
        "brackets": npy("(" * 60_000, ones),
        "deep-dict": npy("{'a':" * 10_000, ones),
        "length-2-32": npy(head % ("'<f8'", "(2,)"), ones, b"\x02\0", (1 << 32) - 1),
        "version-9": npy(head % ("'<f8'", "(2,)"), ones, b"\x09\0"),
        "no-shape": npy("{'descr': '<f8', 'fortran_order': False}\n", ones),
        "extra-key": npy("{'descr': '<f8', 'fortran_order': False, 'shape': (2,), 'x': 1}\n", ones),
        "duplicate-key": npy("{'descr': '<f8', 'descr': '<f4', 'fortran_order': False, 'shape': (2,)}\n", ones),
        "unknown-type": npy(head % ("'<z8'", "(2,)"), ones),
        "type-list-deep": npy(head % ("[('a', " * 50 + "'<f8'" + ")]" * 50, "(2,)"), ones),
        "cut": npy(head % ("'<f8'", "(2,)"), ones[:-1]),
        "header-cut": npy(head % ("'<f8'", "(2,)"))[:30],
        "magic-only": b"\x93NUMPY",
        "latin": npy(b"{'descr': '<f8\xff', 'fortran_order': False, 'shape': (2,)}", ones, b"\x03\0"),
        "digits": npy(head % ("'<f8'", "(" + "9" * 5000 + ",)"), ones),
    }.items():
        yield Case(f"npy-{name}.npy", data, "a header that lies or is none")
    sound = io.BytesIO()
    numpy.save(sound, numpy.ones(3))
    yield Case("npy-sound.npy", sound.getvalue(), "an array", refused=False)
    several = io.BytesIO()
    numpy.savez(several, a=numpy.ones(3), b=numpy.zeros((2, 2)))
    yield Case("npz-sound.npz", several.getvalue(), "two arrays", refused=False)
    with_objects = io.BytesIO()
    numpy.savez(with_objects, a=numpy.array([{}], dtype=object))
    yield Case("npz-objects.npz", with_objects.getvalue(), "a pickle in an archive")


def _gguf() -> Iterator[Case]:
    def string(value: bytes) -> bytes:
        return struct.pack("<Q", len(value)) + value

    def file(tensors: int, pairs: int, body: bytes, version: int = 3) -> bytes:
        return b"GGUF" + struct.pack("<IQQ", version, tensors, pairs) + body

    key = string(b"general.architecture")
    for name, data in {
        "count-2-63": file(1 << 63, 0, b""),
        "pairs-2-63": file(0, 1 << 63, b""),
        "both-max": file((1 << 64) - 1, (1 << 64) - 1, b"abc"),
        "key-2-40": file(0, 1, struct.pack("<Q", 1 << 40) + b"abc"),
        "string-2-62": file(0, 1, key + struct.pack("<IQ", 8, 1 << 62)),
        "array-2-40": file(0, 1, key + struct.pack("<IIQ", 9, 4, 1 << 40) + b"abcd"),
        "array-of-empty-strings": file(0, 1, key + struct.pack("<IIQ", 9, 8, 1 << 40)),
        "arrays-nested": file(0, 1, key + struct.pack("<I", 9) + struct.pack("<IQ", 9, 1) * 100_000),
        "array-of-0-arrays": file(0, 1, key + struct.pack("<IIQ", 9, 9, 1 << 40) + struct.pack("<IQ", 4, 0) * 100),
        "type-99": file(0, 1, key + struct.pack("<I", 99)),
        "version-99": file(0, 0, b"", 99),
        "version-0": file(0, 0, b"", 0),
        "big-endian": b"GGUF" + struct.pack(">IQQ", 3, 0, 0),
        "magic-only": b"GGUF",
        "dimensions-2-31": file(1, 0, string(b"w") + struct.pack("<I", 1 << 31)),
        "dimension-2-62": file(1, 0, string(b"w") + struct.pack("<IQQIQ", 2, 1 << 62, 1 << 62, 0, 0)),
        "offset-beyond": file(1, 0, string(b"w") + struct.pack("<IQIQ", 1, 4, 0, 1 << 50)),
        "alignment-0": file(
            1,
            1,
            string(b"general.alignment")
            + struct.pack("<II", 4, 0)
            + string(b"w")
            + struct.pack("<IQIQ", 1, 4, 0, 0)
            + b"\0" * 64,
        ),
        "alignment-2-31": file(
            1,
            1,
            string(b"general.alignment")
            + struct.pack("<II", 4, 1 << 31)
            + string(b"w")
            + struct.pack("<IQIQ", 1, 4, 0, 0)
            + b"\0" * 64,
        ),
        "duplicate-tensor": file(2, 0, (string(b"w") + struct.pack("<IQIQ", 1, 4, 0, 0)) * 2 + b"\0" * 64),
        "duplicate-key": file(0, 2, (key + struct.pack("<I", 4) + b"\0" * 4) * 2),
    }.items():
        yield Case(f"gguf-{name}.gguf", data, "a count that lies")


def _others(canary: str) -> Iterator[Case]:
    deep = b"\x81\xa1w" * 3000
    for name, data in {
        "deep.msgpack": deep,
        "map-2-32.msgpack": b"\xdf\xff\xff\xff\xff\xa1w\xc7\x10\x01",
        "extension-cut.msgpack": b"\x81\xa1w\xc9\xff\xff\xff\xff\x01\x93\x91\x04\xa7float32\xc4\x10abc",
        "superblock.h5": b"\x89HDF\r\n\x1a\n" + b"\xff" * 100,
        "superblock-cut.h5": b"\x89HDF\r\n\x1a\n",
        "version-9.h5": b"\x89HDF\r\n\x1a\n\x09" + b"\0" * 100,
        "varints.onnx": b"\x08" + b"\xff" * 50,
        "length-2-60.onnx": b"\x08\x07\x3a\xff\xff\xff\xff\xff\xff\xff\xff\x0f",
        "nested.onnx": b"\x08\x07" + b"\x3a\x7f" * 5000,
        "group.onnx": b"\x08\x07\x0b\x0c",
        "page.pt": b"<!DOCTYPE html><html><script>alert(1)</script>",
        "pointer.bin": b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n",
        "script.bin": b"#!/bin/sh\ntouch " + canary.encode(),
        "code.py.pt": f"import os; os.system('touch {canary}')".encode(),
        "elf.so.bin": b"\x7fELF\x02\x01\x01" + b"\0" * 100,
        "random.pt": bytes(range(256)) * 8,
        "empty.pt": b"",
        "one-byte.pt": b"\x80",
        "zeros.bin": b"\0" * 4096,
        "tflite.tflite": b"\x1c\0\0\0TFL3" + b"\xff" * 100,
    }.items():
        yield Case(f"other-{name}", data, "no checkpoint")


def cases(canary: str) -> Iterator[Case]:
    yield from _safetensors()
    yield from _numpy(canary)
    yield from _gguf()
    yield from _others(canary)
