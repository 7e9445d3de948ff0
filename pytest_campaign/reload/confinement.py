"""The levels of isolation of a reload: which this machine gives, and how a process enters one.

What can be had is found out once, by a process that tries it (`available`); a child then puts exactly that into force, or does
not read. What each layer stops stands in ``docs/options.md``.
"""

from __future__ import annotations

import contextlib
import enum
import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NoReturn

from . import interpreter, kernel, landlock, namespaces, seccomp
from .protocol import Isolation
from .reach import Reach

PRIVILEGES, NAMESPACES, LANDLOCK, SECCOMP = "no new privileges", "namespaces", "landlock", "seccomp"
LAYERS = (PRIVILEGES, SECCOMP, LANDLOCK, NAMESPACES)
_PATIENCE = 60.0  # seconds; it takes a fraction of one


class IsolationLevel(enum.IntEnum):
    """How much separates a reload from the machine; each level has all layers of those before."""

    BASIC = 0
    FILTERED = 1
    CONFINED = 2
    ISOLATED = 3

    @property
    def label(self) -> str:
        return self.name.lower()

    @classmethod
    def parse(cls, label: str) -> IsolationLevel:
        """The level of that name; ValueError names the known ones."""
        try:
            return cls[label.upper()]
        except KeyError:
            raise ValueError(f"{label!r} is no isolation level; known are {', '.join(level.label for level in cls)}") from None


_NEEDS = {
    IsolationLevel.BASIC: (),
    IsolationLevel.FILTERED: (PRIVILEGES, SECCOMP),
    IsolationLevel.CONFINED: (PRIVILEGES, SECCOMP, LANDLOCK),
    IsolationLevel.ISOLATED: (PRIVILEGES, SECCOMP, LANDLOCK, NAMESPACES),
}


def level_of(layers: Collection[str]) -> IsolationLevel:
    """The highest level of which all layers are there."""
    return max(level for level, needed in _NEEDS.items() if set(needed) <= set(layers))


def layers_of(level: IsolationLevel) -> Sequence[str]:
    """The layers that a level adds to `IsolationLevel.BASIC`."""
    return _NEEDS[level]


def shortfall(asked: IsolationLevel, isolation: Isolation) -> str | None:
    """Why an isolation is less than what is asked, None when it is not."""
    if IsolationLevel.parse(isolation.level) >= asked:
        return None
    lacking = "; ".join(f"no {layer}: {isolation.missing[layer]}" for layer in _NEEDS[asked] if layer in isolation.missing)
    return f"{asked.label} is asked, and this machine gives {isolation.level} ({lacking})"


def before_imports(layers: Collection[str], reach: Reach) -> None:
    """Enter the layers that bind this thread and those that it starts later. To be called while there is one thread.

    Reading the Python installation is still possible. OSError says what could not be had.
    """
    if NAMESPACES in layers:
        namespaces.enter()
    if PRIVILEGES in layers:
        kernel.no_new_privileges()
        kernel.drop_capabilities()
    if LANDLOCK in layers:
        landlock.restrict(reach.rules())


def after_imports(layers: Collection[str]) -> None:
    """Enter the layer that binds all threads; OSError when it cannot be had."""
    if SECCOMP in layers:
        seccomp.restrict()


def available(search_path: Sequence[str], exclude: Sequence[str]) -> tuple[Sequence[str], Mapping[str, str]]:
    """The layers that can be had, and for each of the others why not. Starts a process that tries them on itself.

    The arguments are those of `interpreter.command` and `interpreter.environment`.
    """
    try:
        done = subprocess.run(interpreter.command(search_path, __name__), stdin=subprocess.DEVNULL, capture_output=True,
                              cwd="/", env=interpreter.environment("/", exclude), timeout=_PATIENCE, check=True)
        missing = json.loads(done.stdout)
        return [layer for layer in LAYERS if layer not in missing], missing
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        return [], dict.fromkeys(LAYERS, f"the process that tries it failed: {error}")


def main() -> NoReturn:
    """Try every layer in this process and print as JSON why those that are missing are."""
    missing: dict[str, str] = {}
    nowhere = Reach(frozenset(), (), (), "/nonexistent")
    tries: Mapping[str, Callable[[], None]] = {
        NAMESPACES: namespaces.enter,
        PRIVILEGES: _privileges,
        LANDLOCK: lambda: _proved(lambda: landlock.restrict(nowhere.rules()), lambda: os.listdir("/")),
        SECCOMP: lambda: _proved(seccomp.restrict, socket.socket),
    }
    for layer, attempt in tries.items():
        try:
            attempt()
        except OSError as error:
            missing[layer] = error.strerror or str(error)
    sys.stdout.write(json.dumps(missing))
    sys.stdout.flush()
    os._exit(0)


def _privileges() -> None:
    kernel.no_new_privileges()
    kernel.drop_capabilities()


def _proved(enter: Callable[[], None], forbidden: Callable[[], object]) -> None:
    """Enter a layer and see that it does what it says."""
    enter()
    with contextlib.suppress(PermissionError):
        forbidden()
        raise OSError("the kernel takes it, and nothing is refused")
