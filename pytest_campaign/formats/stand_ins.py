"""Inert classes that take the place of every class a pickle names and torch does not know.

They only keep what they are given, so that the tensors inside a foreign object are found without importing its class.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from typing import Any

from .pickle_survey import Name, Survey

_ARGUMENTS = "(arguments)"
_MODULE = "stand_in"


class StandIn:
    """An object that keeps its arguments and its state and does nothing with them."""

    __slots__ = ("arguments", "state")
    arguments: tuple[Any, ...]
    state: Any

    def __new__(cls, *arguments: Any, **named: Any) -> StandIn:
        made = object.__new__(cls)
        made.arguments = (*arguments, *named.values())
        made.state = None
        return made

    def __init__(self, *arguments: Any, **named: Any) -> None:
        pass

    def __setstate__(self, state: Any) -> None:
        self.state = state


def stand_ins(survey: Survey, names: Iterable[Name]) -> list[tuple[Any, str]]:
    """A stand-in for each of the names of a pickle, in the form that ``torch.serialization.safe_globals`` takes.

    An object that the pickle fills like a dict or a list has to be one, because torch fills nothing else.
    """
    result: list[tuple[Any, str]] = []
    for name in names:
        if name in survey.tensors:
            made = _tensor_class(name.name)
        elif name in survey.mappings:
            made = _class(name.name, _new_mapping)
        elif name in survey.sequences:
            made = _class(name.name, _new_sequence)
        else:
            made = _class(name.name)
        result += [(made, spelling) for spelling in {name.spelling, name.name}]
    return result


def held(value: Any) -> Iterator[tuple[str, Any]]:
    """What a stand-in keeps, or what was set on a dict or a tensor beside its items, with a name for each part."""
    if isinstance(value, StandIn):
        yield "", value.state
        yield _ARGUMENTS, value.arguments
    elif kept := getattr(value, "__dict__", None):
        yield "", kept


def _class(name: str, new: Any = None) -> type:
    body: dict[str, Any] = {"__slots__": (), "__module__": _MODULE}
    if new is not None:
        body["__new__"] = new
    return type(name.replace(".", "_"), (StandIn,), body)


def _new_mapping(cls: type, *arguments: Any) -> OrderedDict[Any, Any]:
    made: OrderedDict[Any, Any] = OrderedDict()
    if arguments:
        made.__dict__[_ARGUMENTS] = arguments
    return made


def _new_sequence(cls: type, *arguments: Any) -> list[Any]:
    return [*arguments]


def _tensor_class(name: str) -> type:
    import torch

    def refuse(cls: type, function: Any, types: Any, arguments: Any = (), named: Any = None) -> Any:
        raise NotImplementedError(f"{name} is only stood in for")

    return type(name.replace(".", "_"), (torch.Tensor,), {"__module__": _MODULE, "__torch_dispatch__": classmethod(refuse)})
