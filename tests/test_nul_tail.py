"""Zeros at the end of a file that were never written, and those that belong there."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from disk_source import DiskSource
from safetensors.torch import save_file

from pytest_campaign.formats import safetensors_file, torch_zip
from pytest_campaign.formats.base import ProblemKind, Unit
from pytest_campaign.formats.nul_tail import row_of


def found(path: Path) -> list[tuple[ProblemKind, str]]:
    reading = safetensors_file.read(Unit("safetensors", path.name, (path.name,)), DiskSource(path.parent))
    return [(problem.kind, problem.where) for problem in reading.problems]


def saved(path: Path, **tensors: torch.Tensor) -> Path:
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, path)
    return path


def emptied(path: Path, count: int) -> Path:
    """The last bytes are NUL."""
    data = path.read_bytes()
    path.write_bytes(data[:-count] + bytes(count))
    return path


@pytest.fixture
def path(tmp_path: Path) -> Path:
    torch.manual_seed(0)
    return tmp_path / "m.safetensors"


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.float64, torch.float8_e4m3fn])
@pytest.mark.parametrize("rows", [2.5, 20.3, 37.6])
def test_the_end_of_one_matrix(path: Path, dtype: torch.dtype, rows: float) -> None:
    saved(path, a=torch.ones(40).to(dtype), w=(torch.rand(40, 64) + 1).to(dtype))
    assert found(path) == []
    assert found(emptied(path, int(rows * 64 * dtype.itemsize))) == [(ProblemKind.NUL_TAIL, "w")]


def test_a_first_row_that_is_torn(path: Path) -> None:
    saved(path, a=torch.rand(4, 64) + 1, b=torch.rand(8, 64) + 1)
    assert found(emptied(path, 4 * (3 * 64 + 20 + 8 * 64))) == [(ProblemKind.NUL_TAIL, "a")]


def test_the_numbers_are_told(path: Path) -> None:
    saved(path, a=torch.rand(40, 64) + 1, b=torch.rand(8, 64) + 1, c=torch.ones(9))
    emptied(path, 4 * (9 * 64 + 54 + 8 * 64 + 9))
    reading = safetensors_file.read(Unit("safetensors", path.name, (path.name,)), DiskSource(path.parent))
    (problem,) = reading.problems
    assert "the last 4,604 bytes of the tensor data are NUL" in problem.observed
    assert "2,520 of 10,240 bytes of a and the whole of 2 tensors behind it" in problem.observed


def test_a_large_tail_is_searched_in_pieces(path: Path) -> None:
    saved(path, a=torch.rand(3000, 512) + 1)
    assert found(emptied(path, 5_000_000)) == [(ProblemKind.NUL_TAIL, "a")]


def rows_of_padding() -> dict[str, torch.Tensor]:
    table = torch.randn(50, 64)
    table[40:] = 0
    return {"a": torch.randn(8, 8), "w": table}


def padded_in_both_directions() -> dict[str, torch.Tensor]:
    table = torch.randn(50, 64)
    table[40:] = 0
    table[:, 50:] = 0
    return {"w": table}


def a_triangle() -> dict[str, torch.Tensor]:
    return {"w": torch.ones(40, 64).triu(-20).flip(1)}


def a_flat_parameter_with_padding() -> dict[str, torch.Tensor]:
    flat = torch.randn(5000)
    flat[4321:] = 0
    return {"w": flat}


def layers_that_begin_at_zero() -> dict[str, torch.Tensor]:
    return {"a": torch.randn(8, 64), "b": torch.zeros(64, 64), "c": torch.zeros(64, 64), "d": torch.zeros(64)}


def pruned() -> dict[str, torch.Tensor]:
    return {"w": torch.randn(64, 64) * (torch.rand(64, 64) > 0.99)}


def a_last_number_that_is_zero() -> dict[str, torch.Tensor]:
    table = torch.randn(50, 64)
    table[39, -3:] = 0
    table[40:] = 0
    return {"w": table}


def whole_numbers() -> dict[str, torch.Tensor]:
    table = torch.ones(50, 64, dtype=torch.int32)
    table[30:, :] = 0
    table[30, :20] = 5
    return {"w": table}


def all_zero() -> dict[str, torch.Tensor]:
    return {"w": torch.zeros(50, 64)}


def padding_and_a_layer_that_begins_at_zero() -> dict[str, torch.Tensor]:
    return {"embed": rows_of_padding()["w"].bfloat16(), "out": torch.zeros(64, 64).bfloat16()}


def pruned_and_a_layer_that_begins_at_zero() -> dict[str, torch.Tensor]:
    weight = torch.randn(64, 64) * (torch.rand(64, 64) > 0.5)
    weight[-1, -3:] = 0
    return {"a": weight, "b": torch.zeros(64, 64)}


def an_identity_and_a_layer_that_begins_at_zero() -> dict[str, torch.Tensor]:
    kernel = torch.zeros(8, 8, 3, 3)
    torch.nn.init.dirac_(kernel)
    return {"a": kernel, "b": torch.zeros(4, 8, 1, 1)}


def a_sequence_that_was_padded() -> dict[str, torch.Tensor]:
    points = torch.randn(100, 5, 3)
    points[50, 2:] = 0
    points[51:] = 0
    return {"a": points}


@pytest.mark.parametrize("make", [padding_and_a_layer_that_begins_at_zero, pruned_and_a_layer_that_begins_at_zero,
                                  an_identity_and_a_layer_that_begins_at_zero, a_sequence_that_was_padded,
                                  rows_of_padding, padded_in_both_directions, a_triangle, a_flat_parameter_with_padding, pruned,
                                  layers_that_begin_at_zero, a_last_number_that_is_zero, whole_numbers, all_zero])
def test_zeros_that_belong_there(path: Path, make: object) -> None:
    assert callable(make)
    assert found(saved(path, **make())) == []


@pytest.mark.parametrize(("shape", "row"), [
    ((7,), (0, 0)), ((7, 32), (128, 128)), ((8, 4, 3, 3), (144, 36)), ((9, 4), (16, 16)), ((), (0, 0)), ((2, 3, 64), (256, 256)),
    ((9, 5, 3), (60, 12)), ((9, 20, 1, 1), (80, 80))])
def test_rows(shape: tuple[int, ...], row: tuple[int, int]) -> None:
    assert row_of(shape, 4) == row


def test_what_a_checksum_proves_is_as_it_was_written(tmp_path: Path) -> None:
    """Moments of rows and layers that got no gradient."""
    used = torch.rand(40, 64) + 1
    used[20:] = 0
    torch.save({"a": used, "b": torch.zeros(8, 64)}, tmp_path / "m.pt")
    assert torch_zip.read(Unit("torch zip", "m.pt", ("m.pt",)), DiskSource(tmp_path)).problems == []


def test_a_zip_file_says_it_too(tmp_path: Path) -> None:
    torch.save({"w": torch.rand(40, 64) + 1}, tmp_path / "m.pt")
    emptied(tmp_path / "m.pt", 3000)
    (problem,) = torch_zip.read(Unit("torch zip", "m.pt", ("m.pt",)), DiskSource(tmp_path)).problems
    assert problem.kind is ProblemKind.TRUNCATED
    assert "without a zip directory; its last 3,000 bytes are NUL" in problem.observed
    assert problem.expected == "a zip directory behind the members: 1 storage of 10,240 bytes alone"
