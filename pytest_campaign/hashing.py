"""Digests of open files: read once for all algorithms, in bounded memory, several large files at a time."""

from __future__ import annotations

import concurrent.futures
import hashlib
import os
from collections.abc import Callable, Collection, Hashable, Mapping
from typing import TypeVar

from .inventory import SIZE, Changed, Identity, identity

SHA256 = "sha256"
_CHUNK = 1 << 20
_BIG = 4 << 20  # a file of that size is worth a thread
_LOOK = 0.5  # seconds between two signs of life
K = TypeVar("K", bound=Hashable)


class Meter:
    """What the threads of one batch share: the bytes read so far, and whether to stop."""

    def __init__(self) -> None:
        self.done = 0
        self.stopped = False


def digests(descriptor: int, algorithms: Collection[str], expected: Identity | None = None,
            meter: Meter | None = None) -> Mapping[str, str]:
    """The digests of an open file by algorithm, in hexadecimal; closes it.

    Raises `Changed` when it is not, or no longer, the ``expected`` file (None: the one that it is now).
    """
    meter = meter or Meter()
    with os.fdopen(descriptor, "rb", buffering=0) as file:
        expected = expected or identity(os.fstat(file.fileno()))
        size = expected[SIZE]
        hashes = {name: _new(name) for name in algorithms}
        buffer = memoryview(bytearray(min(_CHUNK, size + 1)))
        left = size
        while (count := file.readinto(buffer)) and left >= 0 and not meter.stopped:
            for one in hashes.values():
                one.update(buffer[:count])
            left -= count
            meter.done += count
        if left or identity(os.fstat(file.fileno())) != expected:
            raise Changed("it changed while its digest was computed")
    return {name: one.hexdigest() for name, one in hashes.items()}


def _new(name: str) -> hashlib._Hash | hashlib.blake2b:
    """The hash of an algorithm: as `hashlib` calls it, or BLAKE2b with a number of bits behind its name (``blake2b256``)."""
    bits = name.removeprefix("blake2b")
    if bits == name:
        return hashlib.new(name, usedforsecurity=False)
    return hashlib.blake2b(digest_size=int(bits or 512) // 8, usedforsecurity=False)


def sha256(descriptor: int) -> str:
    """The SHA-256 of an open file, in hexadecimal; closes it. Raises `Changed` when it was written to meanwhile."""
    return digests(descriptor, (SHA256,))[SHA256]


def together(files: Mapping[K, tuple[Callable[[], int], Identity, Collection[str]]], threads: int,
             progress: Callable[[int], None] = lambda done: None) -> Mapping[K, Mapping[str, str] | OSError]:
    """The digests of several files, each given as (how to open it, which it is, algorithms), or the error that one ended with.

    Large files are read by up to ``threads`` threads. ``progress`` is told the bytes read now and then; an exception that it
    raises, like KeyboardInterrupt, ends the work.
    """
    meter = Meter()

    def one(key: K) -> Mapping[str, str] | OSError:
        opened, expected, algorithms = files[key]
        try:
            return digests(opened(), algorithms, expected, meter)
        except OSError as error:
            return error

    big = [key for key, (_, expected, _) in files.items() if expected[SIZE] >= _BIG]
    found: dict[K, Mapping[str, str] | OSError] = {}
    with concurrent.futures.ThreadPoolExecutor(max(1, threads)) as pool:
        try:
            pending = {pool.submit(one, key): key for key in big}
            found |= {key: one(key) for key, (_, expected, _) in files.items() if expected[SIZE] < _BIG}
            while pending:
                for future in concurrent.futures.wait(pending, _LOOK, concurrent.futures.FIRST_COMPLETED).done:
                    found[pending.pop(future)] = future.result()
                progress(meter.done)
        finally:
            meter.stopped = True
            pool.shutdown(cancel_futures=True)
    return found
