"""The state of an optimizer as its ``state_dict`` gives it, and whether it is that of a model.

``{"state": {<parameter>: {"step": …, "exp_avg": …}}, "param_groups": [{"lr": …, "params": [<parameter>, …]}]}``. The
parameters are numbers, counted through the groups, or under FSDP the names of the tensors. ``load_state_dict`` compares no
shape: with the state of another model the fused optimizers write beyond the end of their memory.

Without the code of the training nobody knows which number is which parameter. But each state that is as large as its parameter
needs one of that shape, so the shapes of the states, counted, are part of those of the model. Parameters that were frozen have
no state, and neither has SGD without momentum; states of factored and projecting optimizers have shapes of their own.

Source: torch/optim of torch 2.13, ``Adafactor`` in transformers 5.24, bitsandbytes/optim/optimizer.py.
"""

from __future__ import annotations

import collections
import dataclasses
import re
import struct
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from .base import OPTIMIZER, Depth, Placed, Reading, Source
from .streaming import exactly

Shape = tuple[int, ...]
# What an optimizer, or what belongs to it, is called in the object of a home-made training.
_OPTIMIZER_LIKE = re.compile(r"(^|[._])opt(im|_|s?$)|(^|_)(adamw?|sgd)($|_)", re.IGNORECASE)
# States as large as the parameter, and others that stand beside them. An entry with any other state is not compared: what
# projects the gradients keeps its moments in a smaller shape.
_FULL = frozenset({"exp_avg", "exp_avg_sq", "max_exp_avg_sq", "momentum_buffer", "square_avg", "grad_avg", "acc_delta", "sum",
                   "exp_inf", "state1", "state2"})
_KNOWN = _FULL | {"step", "exp_avg_sq_row", "exp_avg_sq_col", "row_var", "col_var", "variance", "RMS", "eta", "mu", "mu_product",
                  "qmap1", "qmap2", "absmax1", "absmax2", "max1", "max2", "new_max1", "new_max2", "unorm_vec", "gnorm_vec"}
_MOMENTS = frozenset({"exp_avg", "exp_avg_sq"})
_NUMBERS = {"F32": "<f", "F64": "<d", "I64": "<q", "I32": "<i"}
_EXPERTS = re.compile(r"\.experts?\.[0-9]+\.")
_SHOWN = 3


@dataclasses.dataclass(frozen=True)
class Optimizer:
    """What is known of an optimizer.

    ``shapes`` are those of the parameters for which it keeps states of their size, ``parameters`` is how many its groups have,
    at least, and ``step`` the highest number of steps that it made (None where it does not count). ``keeps_state``: every step
    leaves a state, by its settings. ``states`` is the number of its states of any kind. ``torn`` is the name of a moment that the
    state of a single parameter lacks, "" if none does.
    """

    shapes: Sequence[Shape]
    parameters: int
    step: int | None
    keeps_state: bool
    states: int
    torn: str = ""


def training_parts(names: Iterable[str], stated: Mapping[tuple[str, ...], Any]) -> Sequence[str]:
    """Which parts of a training's state an object seems to hold, by the names of its tensors and its `plain_values`.

    A setting (``optim: "adamw"``) is no optimizer.
    """
    found = (any("param_groups" in chain or (len(chain) == 1 and value is None and _OPTIMIZER_LIKE.search(chain[0]))
                 for chain, value in stated.items())
             or any(name.rpartition(".")[2] in ("exp_avg", "exp_avg_sq", "momentum_buffer", "square_avg")
                    or _OPTIMIZER_LIKE.search(name.partition(".")[0]) for name in names))
    return [OPTIMIZER] if found else []


def optimizer(reading: Reading, source: Source, *above: str) -> Optimizer | None:
    """The optimizer in a torch file, below the keys ``above``; None when there is none or not all of it could be read."""
    groups = {chain[len(above):] for chain in reading.stated if chain[:len(above) + 1] == (*above, "param_groups")}
    if not groups or reading.depth is None or len(reading.layout) != reading.tensors:
        return None
    prefix = "".join(f"{key}." for key in (*above, "state"))
    entries: dict[str, dict[str, Placed]] = collections.defaultdict(dict)
    for name, placed in reading.layout.items():
        if name.startswith(prefix):
            parameter, _, state = name.removeprefix(prefix).rpartition(".")
            entries[parameter][state] = placed
    shapes = []
    for states in entries.values():
        full = [placed.shape for name, placed in states.items() if name in _FULL]
        if full and states.keys() <= _KNOWN:
            shapes.append(full[0])
    said = {chain[len(above):]: value for chain, value in reading.stated.items() if chain[:len(above)] == above}
    listed = [value for chain, value in said.items() if chain[0] == "param_groups" and chain[2:] == ("params",)]
    steps = [value for chain, value in said.items() if chain[0] == "state" and chain[2:] == ("step",) and type(value) is int]
    steps += _read_steps([states["step"] for states in entries.values() if "step" in states], source)
    momentum = (value for chain, value in said.items() if chain[0] == "param_groups" and chain[2:] == ("momentum",))
    return Optimizer(
        shapes, sum(len(value) for value in listed if isinstance(value, tuple)), max(steps, default=None),
        any(chain[2:] == ("betas",) for chain in groups) or any(isinstance(value, float) and value > 0 for value in momentum),
        len(entries) + len(steps), _torn(prefix, entries))


def _torn(prefix: str, entries: Mapping[str, Mapping[str, Placed]]) -> str:
    """A moment of Adam that one parameter lacks and the others have. Groups with settings of their own are several parameters."""
    kinds = collections.Counter(frozenset(states) for states in entries.values())
    usual = max(kinds, key=lambda kind: kinds[kind], default=frozenset[str]())
    lacking = [(parameter, usual - states.keys()) for parameter, states in entries.items() if states.keys() < usual]
    if kinds[usual] < 2 or len(lacking) != 1 or not (lost := sorted(lacking[0][1] & _MOMENTS)):
        return ""
    return f"{prefix}{lacking[0][0]}.{lost[0]}"


def _read_steps(placed: Sequence[Placed], source: Source) -> list[int]:
    """The values of the scalars in which an optimizer counts its steps."""
    found = []
    files = {one.path for one in placed}
    for path in files:
        with source.open(path) as file:
            for one in placed:
                code = _NUMBERS.get(one.dtype)
                if one.path == path and one.offset is not None and code and one.length == struct.calcsize(code):
                    (value,) = struct.unpack(code, exactly(file, one.offset, one.length))
                    if 0 <= value < 1 << 53:  # NaN is neither, and reported as such
                        found.append(int(value))
    return found


def in_pieces(names: Iterable[str]) -> bool:
    """Whether tensors are stored in pieces of what the library holds: transformers 5 puts the experts of a layer into one."""
    return any(map(_EXPERTS.search, names))


def misfit(optimizers: Iterable[Optimizer], parameters: Iterable[Shape]) -> tuple[str, str] | None:
    """Why optimizers are not those of a model with parameters of these shapes, and what was expected; None when they may be."""
    optimizers = list(optimizers)
    if torn := next((one.torn for one in optimizers if one.torn), None):
        return f"it has no {torn}, which every other parameter has", "the same states for every parameter of a group"
    there = collections.Counter(parameters)
    kept: collections.Counter[Shape] = collections.Counter()
    groups = 0
    for one in optimizers:  # several may share parameters
        kept |= collections.Counter(one.shapes)
        groups = max(groups, one.parameters)
    strange = [shape for shape in kept if shape not in there]
    if strange:
        number = sum(kept[shape] for shape in strange)
        return (f"{number:,} of {kept.total():,} states belong to parameters that the model does not have: "
                f"{_some(strange)}", f"the shapes of the model's {there.total():,} tensors, such as {_some(list(there), 1)}")
    many = [shape for shape, count in kept.items() if count > there[shape]]
    if many:
        shape = many[0]
        return (f"states of {kept[shape]:,} parameters of the shape {list(shape)}, and the model has {there[shape]:,}",
                f"at most {there[shape]:,}, as in the weights beside it")
    if groups > there.total():
        return f"its groups have {groups:,} parameters", f"at most {there.total():,}, the tensors of the weights beside it"
    return None


def _some(shapes: Sequence[Shape], shown: int = _SHOWN) -> str:
    return ", ".join(str(list(shape)) for shape in shapes[:shown]) + (" …" if len(shapes) > shown else "")


class Peek:
    """A source for a look at the headers of files that another unit reads: no values, no digest, no progress."""

    def __init__(self, source: Source) -> None:
        self.open, self.size, self.exists = source.open, source.size, source.exists
        self.depth, self.threads, self.digest = Depth.HEADER, 1, False
        self.base, self.base_name = source.base, source.base_name

    def hashed(self, names: Collection[str]) -> Collection[str]:
        return ()

    def advance(self, count: int) -> None:
        pass
