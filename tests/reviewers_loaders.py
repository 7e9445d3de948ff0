"""Loaders as a reviewer writes them, for models whose class is known to nobody else. Imported in the fresh process only."""

from __future__ import annotations

import time
from pathlib import Path

import torch

STARTED = torch.ones(64, 64) @ torch.ones(64, 64)  # importing it runs a tensor operation


class Net(torch.nn.Module):
    """Two layers of one shape, so that nothing but the output tells which is which."""

    def __init__(self, dropout: float = 0.5) -> None:
        super().__init__()
        self.first, self.second, self.last = torch.nn.Linear(6, 6), torch.nn.Linear(6, 6), torch.nn.Linear(6, 3)
        self.dropout = torch.nn.Dropout(dropout)

    def forward(self, points: torch.Tensor) -> torch.Tensor:
        return self.last(torch.tanh(self.second(self.dropout(torch.relu(self.first(points))))))


def filled(state: dict[str, torch.Tensor]) -> Net:
    net = Net()
    net.load_state_dict(state)
    return net


def net(path: Path) -> Net:
    state = torch.load(path, weights_only=True)
    return filled(state.get("model", state))


def compiled(path: Path) -> torch.nn.Module:
    return torch.compile(net(path))


def compiled_inside(path: Path) -> torch.nn.Module:
    made = net(path)
    made.second = torch.compile(made.second)
    return made


def scripted(path: Path) -> torch.nn.Module:
    made = net(path)
    made.register_buffer("mask", torch.ones(3))
    made.register_buffer("position", torch.ones(3), persistent=False)
    return torch.jit.trace(made.eval(), torch.ones(2, 6))


def folder(path: Path) -> Net:
    return net(path / "net.pt")


def lightning(path: Path) -> Net:
    checkpoint = torch.load(path, weights_only=True)
    return filled({name.removeprefix("net."): value for name, value in checkpoint["state_dict"].items()})


def distributed(path: Path) -> Net:
    from torch.distributed.checkpoint import FileSystemReader, load

    state = {"model": Net().state_dict()}
    load(state, storage_reader=FileSystemReader(path))
    return filled(state["model"])


def scrambled(path: Path) -> Net:
    """A format of one's own: eight bytes, then the numbers one after the other, every byte turned round."""
    data = torch.frombuffer(bytearray(255 - byte for byte in path.read_bytes()[8:]), dtype=torch.float32)
    made, at = Net(), 0
    with torch.no_grad():
        for value in made.parameters():
            value.copy_(data[at:at + value.numel()].reshape(value.shape))
            at += value.numel()
    return made


def any_linear(path: Path) -> torch.nn.Module:
    """The tensors of a torch file, whatever they are called."""
    made = torch.nn.Module()
    for number, value in enumerate(torch.load(path, weights_only=True)["model"].values()):
        made.register_parameter(f"p{number}", torch.nn.Parameter(value))
    return made


def raises(path: Path) -> Net:
    raise ValueError(f"{path.name} is not mine")


def exits(path: Path) -> Net:
    raise SystemExit("usage: loaders.py FILE")


def returns_the_tensors(path: Path) -> object:
    return torch.load(path, weights_only=True)


def has_no_values(path: Path) -> Net:
    with torch.device("meta"):
        return Net()


def is_lazy(path: Path) -> torch.nn.Module:
    return torch.nn.LazyLinear(3)


def is_empty(path: Path) -> torch.nn.Module:
    return torch.nn.ReLU()


def has_nan(path: Path) -> Net:
    made = net(path)
    made.second.weight.data[0, 0] = float("nan")
    return made


def has_a_mask(path: Path) -> Net:
    made = net(path)
    made.register_buffer("mask", torch.tensor([0.0, float("-inf")]))
    return made


def crashes(path: Path) -> Net:
    import ctypes

    ctypes.string_at(0)
    raise AssertionError


def never_ends(path: Path) -> Net:
    while True:
        time.sleep(1)


def needs_much_memory(path: Path) -> Net:
    torch.empty(1 << 38)
    raise AssertionError


NOT_A_FUNCTION = 3
