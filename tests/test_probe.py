"""Probes: what is recorded, how it is compared, and files that are none."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from disk_source import DiskSource
from reviewers_loaders import Net
from safetensors.torch import load_file

from pytest_campaign import proof
from pytest_campaign.formats import probe_file, replaying, safetensors_file
from pytest_campaign.formats.base import Depth, ProblemKind

PROBE = "probe.safetensors"


def read(file: Path) -> probe_file.Probe:
    return probe_file.decoded(file.name, DiskSource(file.parent, Depth.HEADER))


def replayed(module: torch.nn.Module, file: Path) -> list[ProblemKind]:
    return [problem.kind for problem in replaying.compare(file.name, read(file), module)]


# ---- what is recorded ---------------------------------------------------------------------------------------


class Many(torch.nn.Module):
    """A model with outputs of every kind."""

    def __init__(self, result: Callable[[torch.Tensor], Any]) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(3, 3)
        self._result = result

    def forward(self, x: torch.Tensor, scale: torch.Tensor | None = None) -> Any:
        return self._result(self.layer(x) * (1 if scale is None else scale))


@pytest.mark.parametrize(("result", "names", "left"), [
    (lambda y: y, ["output"], []),
    (lambda y: (y, (y, y), y.argmax(), y + 1), ["0", "3"], ["1", "2"]),
    (lambda y: {"logits": y, "cache": [y], "loss": y.mean(), "none": None}, ["logits", "loss"], ["cache", "none"]),
])
def test_the_outputs(tmp_path: Path, result: Callable[[torch.Tensor], Any], names: list[str], left: list[str]) -> None:
    model = Many(result)
    file = proof.record(model, torch.randn(2, 3), tmp_path / "a/b" / PROBE)
    assert list(read(file).outputs) == names
    with open(file, "rb", buffering=0) as opened:
        assert json.loads(safetensors_file.parse(opened, file.stat().st_size).metadata["left_out"]) == left
    assert replayed(model, file) == []
    assert [path.name for path in file.parent.iterdir()] == [PROBE]


def test_inputs_by_name_and_by_position(tmp_path: Path) -> None:
    model, x, scale = Many(lambda y: y), torch.randn(2, 3), torch.tensor(3.0)
    for inputs in ({"scale": scale, "x": x}, (x, scale), [x, scale]):
        file = proof.record(model, inputs, tmp_path / PROBE)
        assert torch.equal(read(file).outputs["output"], model(x, scale))
        assert replayed(model, file) == []


def test_the_training_goes_on_as_if_nothing_had_happened(tmp_path: Path) -> None:
    model = Net(dropout=0.9).train()
    model.second.eval()
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        file = proof.record(model, torch.randn(1, 6, generator=torch.Generator()), tmp_path / PROBE)
    assert torch.equal(torch.rand(3), expected)
    assert [part.training for part in (model, model.first, model.second, model.dropout)] == [True, True, False, True]
    assert all(value.grad is None for value in model.parameters())
    assert read(file).dtype == "float32"
    assert replayed(model, file) == []


def test_the_same_bytes_every_time_and_readable_by_the_library(tmp_path: Path) -> None:
    torch.manual_seed(1)
    model, x = Net(), torch.randn(2, 6)
    one = proof.record(model, {"points": x}, tmp_path / "one").read_bytes()
    assert proof.record(model, {"points": x}, tmp_path / "other").read_bytes() == one
    assert sorted(load_file(tmp_path / "one")) == ["input.points", "output.output"]


def test_autocast_inside_the_model_is_seen(tmp_path: Path) -> None:
    model = Net()
    plain = model.forward
    model.forward = lambda points: torch.autocast("cpu", dtype=torch.bfloat16)(plain)(points).float()
    assert read(proof.record(model, torch.randn(4, 6), tmp_path / PROBE)).dtype == "bfloat16"
    assert replayed(Net(), tmp_path / PROBE) == [ProblemKind.PROBE_DIFFERS]
    del model.forward
    assert replayed(model, tmp_path / PROBE) == []


@pytest.mark.parametrize(("inputs", "words"), [
    ({}, "at least one input"), ({"x": 3}, "'x' is int"), ("text", "not str"), ((torch.ones(2, 3), None), "'1' is NoneType"),
    ({3: torch.ones(2, 3)}, "names that are texts"), ({f"x{n}": torch.ones(1) for n in range(33)}, "at most 32"),
])
def test_inputs_that_cannot_be_recorded(tmp_path: Path, inputs: Any, words: str) -> None:
    with pytest.raises((TypeError, ValueError), match=words):
        proof.record(Many(lambda y: y), inputs, tmp_path / PROBE)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("result", "words"), [
    (lambda y: y.argmax(), "no tensor of floating point numbers"), (lambda y: "text", "no tensor of floating point numbers"),
    (lambda y: y * float("nan"), "no finite number"), (lambda y: y.new_zeros(1 << 23, 3), "shorter input"),
    (lambda y: {}, "no tensor of floating point numbers"),
])
def test_outputs_that_cannot_be_recorded(tmp_path: Path, result: Callable[[torch.Tensor], Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        proof.record(Many(result), torch.ones(2, 3), tmp_path / PROBE)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("tolerance", [0, -1, 1.5, float("nan"), "0.1"])
def test_tolerances_that_prove_nothing(tmp_path: Path, tolerance: Any) -> None:
    with pytest.raises(ValueError, match="standard deviation"):
        proof.record(Net(), torch.ones(2, 6), tmp_path / PROBE, tolerance=tolerance)


def test_what_the_model_raises_comes_through(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        proof.record(Net(), torch.ones(2, 5), tmp_path / PROBE)
    with pytest.raises(TypeError, match=r"torch\.nn\.Module, not from function"):
        proof.record(lambda x: x, torch.ones(1), tmp_path / PROBE)


def test_importing_it_imports_neither_torch_nor_pytest() -> None:
    code = "import sys; from pytest_campaign.proof import record; print({'torch', 'pytest', 'numpy'} & sys.modules.keys())"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "set()\n"


# ---- the comparison -----------------------------------------------------------------------------------------


class Says(torch.nn.Module):
    """A model whose output is its parameter, of a type."""

    def __init__(self, values: torch.Tensor, dtype: torch.dtype = torch.float32) -> None:
        super().__init__()
        self.values = torch.nn.Parameter(values.to(dtype))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.values


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-4), (torch.float16, 1e-2), (torch.bfloat16, 1e-1)])
def test_the_tolerance_follows_from_the_type(tmp_path: Path, dtype: torch.dtype, tolerance: float) -> None:
    torch.manual_seed(0)
    values = torch.randn(500)
    file = proof.record(Says(values, torch.float32), torch.ones(1), tmp_path / PROBE)
    for factor, expected in ((0.5, []), (3.0, [ProblemKind.PROBE_DIFFERS])):
        changed = values.to(dtype).float()
        changed[7] = values[7] + factor * tolerance * values.std()
        assert replayed(Says(changed, dtype), file) == expected, factor


def test_a_recorded_tolerance_counts(tmp_path: Path) -> None:
    values = torch.randn(50)
    file = proof.record(Says(values), torch.ones(1), tmp_path / PROBE, tolerance=0.5)
    values[0] += 0.3 * values.std()
    assert replayed(Says(values), file) == []
    values[0] += values.std()
    assert replayed(Says(values), file) == [ProblemKind.PROBE_DIFFERS]


def test_the_message_has_the_numbers(tmp_path: Path) -> None:
    values = torch.arange(6.0).reshape(2, 3)
    file = proof.record(Says(values), torch.ones(1), tmp_path / PROBE)
    (problem,) = replaying.compare(PROBE, read(file), Says(values + torch.tensor([[0, 0, 0], [0, 2, 0.5]])))
    assert problem.observed == ("output[1, 1] is 6, recorded was 4: a difference of 2, 1.17 of the standard deviation 1.708; "
                                "2 of 6 values differ by more than is allowed")
    assert problem.expected == "at most 0.0001708 (0.0001 of the standard deviation, for float32)"


@pytest.mark.parametrize(("recorded", "given", "same"), [
    ([1.0, float("nan"), 2.0], [1.0, float("nan"), 2.0], True),
    ([1.0, float("-inf"), 2.0], [1.0, float("-inf"), 2.0], True),
    ([1.0, float("-inf"), 2.0], [1.0, float("inf"), 2.0], False),
    ([1.0, float("nan"), 2.0], [1.0, 3.0, 2.0], False),
    ([1.0, 3.0, 2.0], [1.0, float("nan"), 2.0], False),
    ([3.5], [3.5001], True), ([3.5], [3.6], False),  # a loss: one number has no deviation
    ([0.0, 0.0], [0.0, 0.0], True), ([0.0, 0.0], [0.0, 1e-3], False),  # a head that begins at zero
    ([100.001, 100.002], [100.00101, 100.002], True), ([100.001, 100.002], [100.003, 100.002], False),
])
def test_numbers_that_no_deviation_judges(tmp_path: Path, recorded: list[float], given: list[float], same: bool) -> None:
    file = proof.record(Says(torch.tensor(recorded)), torch.ones(1), tmp_path / PROBE)
    assert replayed(Says(torch.tensor(given)), file) == ([] if same else [ProblemKind.PROBE_DIFFERS])


# ---- files that are none ------------------------------------------------------------------------------------


def metadata(**changes: str | None) -> Callable[[bytes], bytes]:
    """Change the metadata of a probe; None deletes a key."""
    def change(data: bytes) -> bytes:
        (length,) = struct.unpack("<Q", data[:8])
        header = json.loads(data[8:8 + length])
        own = header["__metadata__"] | changes
        header["__metadata__"] = {key: value for key, value in own.items() if value is not None}
        text = json.dumps(header).encode()
        return struct.pack("<Q", len(text)) + text + data[8 + length:]

    return change


NO_PROBES: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "empty": (lambda data: b"", "ends inside its header"),
    "text": (lambda data: b'{"input_ids": [[1, 2]]}', "a header of"),
    "cut": (lambda data: data[:-4], "4 missing"),
    "bytes behind": (lambda data: data + b"\0", "after the last tensor"),
    "no mark": (metadata(pytest_campaign_probe=None), "no probe"),
    "later version": (metadata(pytest_campaign_probe="2"), "version '2'"),
    "no inputs": (metadata(inputs="[]"), "0 inputs"),
    "inputs that are not there": (metadata(inputs='["y"]'), "1 inputs"),
    "an input twice": (metadata(inputs='["points", "points"]'), "2 inputs"),
    "no list": (metadata(outputs="{}"), "no list of outputs"),
    "a deep list": (metadata(outputs="[" * 100_000), "no list of outputs"),
    "any tolerance": (metadata(tolerance="1e9"), "a tolerance of '1e9'"),
    "no tolerance": (metadata(tolerance="nan"), "a tolerance of 'nan'"),
}


@pytest.mark.parametrize("name", NO_PROBES)
def test_files_that_are_no_probes(tmp_path: Path, name: str) -> None:
    spoil, words = NO_PROBES[name]
    file = proof.record(Net(), {"points": torch.ones(2, 6)}, tmp_path / PROBE)
    file.write_bytes(spoil(file.read_bytes()))
    with pytest.raises(probe_file.Unusable, match=words):
        read(file)


def test_a_huge_probe_is_not_read(tmp_path: Path) -> None:
    with open(tmp_path / PROBE, "wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(probe_file.Unusable, match="1,099,511,627,776 bytes"):
        read(tmp_path / PROBE)
