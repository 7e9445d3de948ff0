"""What recognition sees of a file, and how often it opens it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pytest_campaign import discovery, inventory


@pytest.mark.parametrize("size", [1, 63, 64, 65, 1023, 1024, 1025, 1100, 5000])
def test_every_part_of_a_file(size: int, tmp_path: Path) -> None:
    data = os.urandom(size)
    (tmp_path / "a.bin").write_bytes(data)
    table = inventory.take(tmp_path)
    candidate = discovery._candidate(table, "a.bin", table.by_path["a.bin"])
    assert candidate.head == data[:1024]
    for offset in {0, 1, 1000, size - 64, size - 63, size - 22, size - 1, size, size + 1} - {-1, *range(-64, 0)}:
        for length in (0, 1, 22, 64, 65, 1024, 10_000):
            assert candidate.read(offset, length) == data[offset:offset + length]


def test_a_file_that_is_no_checkpoint_is_opened_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number, size in enumerate((10, 2000, 100_000)):
        (tmp_path / f"{number}.bin").write_bytes(bytes(range(1, 201)) * (size // 200 + 1))
    opened: list[str] = []
    monkeypatch.setattr(inventory, "open_file", lambda root, path, expected, open_file=inventory.open_file: (
        opened.append(path), open_file(root, path, expected))[1])
    units, unread = discovery.recognise(inventory.take(tmp_path))
    assert (list(units), unread) == ([], {})
    assert sorted(opened) == ["0.bin", "1.bin", "2.bin"]
