"""A model with its values in the fresh process: built by its library or by the reviewer's own loader, and given a recorded input.

The reviewer's code is trusted, what it loads is not: `prover` imports it before anything of a checkpoint is touched. What
it raises, and what a model raises, is a problem and never the end of the process.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import importlib.util
import os
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from ..formats import formats, probe_file, replaying
from ..formats.base import Depth, Problem, ProblemKind, Reading, Source, Unit
from ..formats.rebuilding import NotRebuilt, Refused
from ..formats.streaming import CHUNK
from ..formats.tensor_names import some
from .limits import ran_out_of_memory
from .protocol import Proof

_LONGEST = 500
_EXPECTED = "a torch.nn.Module with its values"
_FILE_SUFFIX = ".py"


_Loader = Callable[[Path], Any]


class _LoaderFailed(Exception):
    """What is wrong with the reviewer's loader, in words."""


def prover(proof: Proof, root: str) -> Callable[[Unit, Source], Reading]:
    """What reads the unit of a job. Imports the reviewer's loader, if there is one; none from below the directory ``root``."""
    return functools.partial(_read, proof, None if proof.loader is None else _imported(proof.loader, root))


def _imported(loader: str, root: str) -> _Loader | _LoaderFailed:
    """The reviewer's function, or why there is none to call."""
    code, _, name = loader.rpartition(":")
    try:
        module = _module(code)
        found: Any = module
        for part in name.split("."):
            found = getattr(found, part)
    except BaseException as error:  # whatever the reviewer's module raises, SystemExit too
        return _LoaderFailed(f"it cannot be imported: {_text(error)}")
    file = os.path.realpath(getattr(module, "__file__", None) or "/")
    if os.path.commonpath([file, os.path.realpath(root)]) == os.path.realpath(root):
        return _LoaderFailed(f"{code} lies in the campaign directory, from which nothing is imported")
    return found if callable(found) else _LoaderFailed(f"{name} is no function")


def _module(code: str) -> ModuleType:
    """The module of that name, or the file of that path, beside which its imports are found too, as of a script."""
    if not code.endswith(_FILE_SUFFIX):
        return importlib.import_module(code)
    name = os.path.basename(code).removesuffix(_FILE_SUFFIX)
    spec = importlib.util.spec_from_file_location(name, code)
    if spec is None or spec.loader is None:
        raise ImportError(f"{code} is no Python file")
    sys.path.insert(0, os.path.dirname(code))
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _read(proof: Proof, loader: _Loader | _LoaderFailed | None, unit: Unit, source: Source) -> Reading:
    """What is proved of one unit: depth `model` by a loader, `probe` by an input that gave the recorded output, else None."""
    problems: list[Problem] = []
    depth: Depth | None = None
    probe = None
    if proof.probe is not None:
        try:
            probe = probe_file.decoded(proof.probe, source)
        except probe_file.Unusable as fault:
            problems.append(Problem(fault.kind, proof.probe, fault.observed, fault.expected))
    if loader is not None:
        module, found = _load(unit, source, proof, loader)
        problems += found
        if module is not None and not found:
            depth = Depth.MODEL
    else:
        module = _build(unit, source, proof, probe, problems) if probe is not None else None
    if module is not None and probe is not None and proof.probe is not None and not problems:
        problems += _replay(proof.probe, probe, module)
        depth = depth if problems else Depth.PROBE
    return Reading(unit.format, depth, problems=problems)


def _build(unit: Unit, source: Source, proof: Proof, probe: probe_file.Probe, problems: list[Problem]) -> Any:
    build = formats()[unit.format].build
    try:
        if build is None:
            raise NotRebuilt(f"no library rebuilds {unit.format}")
        return build(unit, source, probe.attention)
    except (NotRebuilt, Refused) as reason:
        problems.append(_not_replayed(proof.probe or "", f"the model was not built with its values: {reason}"))
        return None


def _replay(path: str, probe: probe_file.Probe, module: Any) -> list[Problem]:
    try:
        with _not_compiled():
            return list(replaying.compare(path, probe, module))
    except replaying.CallFailed as failure:
        if ran_out_of_memory(failure.cause):
            raise failure.cause from None
        unable = isinstance(failure.cause, (ImportError, NotImplementedError)) or "not implemented for" in str(failure)
        if unable:
            return [_not_replayed(path, f"the model does not run here: {failure}")]
        return [Problem(ProblemKind.PROBE_OTHER_MODEL, path,
                        f"the model does not take the recorded input ({some(list(probe.inputs))}): {failure}",
                        "the model that the probe was recorded from")]


def _not_compiled() -> contextlib.AbstractContextManager[Any]:
    """What torch.compile wraps runs as it is written: compiling would start other programs, which no reload may."""
    if "torch._dynamo" not in sys.modules:
        return contextlib.nullcontext()
    import torch

    stance: contextlib.AbstractContextManager[Any] = torch.compiler.set_stance("force_eager")
    return stance


def _not_replayed(path: str, why: str) -> Problem:
    return Problem(ProblemKind.PROBE_NOT_REPLAYED, path, why, "a model that is built with its values")


def _load(unit: Unit, source: Source, proof: Proof, loader: _Loader | _LoaderFailed) -> tuple[Any, list[Problem]]:
    """What the reviewer's loader returned (None when it failed), and what is wrong with it."""
    if isinstance(loader, _LoaderFailed):
        return None, [_failed(unit, proof, str(loader))]
    try:
        module = loader(Path(proof.path))
    except BaseException as error:  # also SystemExit, of a script that was not made to be imported
        if ran_out_of_memory(error):
            raise
        return None, [_failed(unit, proof, f"it raised {_text(error)}")]
    for path in unit.files:  # what lies there now is what was loaded
        source.open(path).close()
    fault = _fault(module)
    if fault:
        return None, [_failed(unit, proof, fault)]
    return module, list(_non_finite(unit.path, module))


def _failed(unit: Unit, proof: Proof, why: str) -> Problem:
    return Problem(ProblemKind.LOADER, unit.path, f"the loader {_shown(proof.loader or '')}: {why}", _EXPECTED)


def _shown(loader: str) -> str:
    """The loader without the folder in which it lies."""
    return os.path.basename(loader)


def _fault(module: Any) -> str:
    """Why what a loader returned is no model with its values; empty when it is one."""
    import torch

    if not isinstance(module, torch.nn.Module):
        return f"it returned {type(module).__name__}"
    values = dict(_values(module))
    if not values:
        return "it returned a module without a parameter"
    hollow = [name for name, value in values.items() if torch.nn.parameter.is_lazy(value) or value.is_meta]
    if hollow:
        return f"{len(hollow):,} of {len(values):,} parameters have no values: {some(hollow)}"
    return ""


def _values(module: Any) -> Iterator[tuple[str, Any]]:
    """The parameters of a module, and what else of it is saved."""
    yield from module.named_parameters()
    known = {name for name, _ in module.named_parameters(remove_duplicate=False)}
    buffers = dict(module.named_buffers())
    for part, owner in module.named_modules():
        for name, _ in owner._buffers.items():
            if name in owner._non_persistent_buffers_set:  # a list in a ScriptModule
                continue
            full = f"{part}.{name}" if part else name
            if full in buffers and full not in known:
                yield full, buffers[full]


def _non_finite(path: str, module: Any) -> Iterator[Problem]:
    """NaN in what is saved of a module, and infinity in its parameters (a buffer may be a mask)."""
    import torch

    parameters = {name for name, _ in module.named_parameters()}
    found: dict[ProblemKind, list[str]] = {}
    for name, value in _values(module):
        if value.layout is not torch.strided or not value.dtype.is_floating_point:
            continue
        nan = infinite = False
        for piece in value.detach().reshape(-1).split(CHUNK):
            numbers = piece if piece.element_size() > 1 else piece.to(torch.float32)
            nan = nan or bool(numbers.isnan().any())
            infinite = infinite or bool(numbers.isinf().any())
        if nan:
            found.setdefault(ProblemKind.NAN, []).append(name)
        elif infinite and name in parameters:
            found.setdefault(ProblemKind.INFINITE, []).append(name)
    for kind, names in found.items():
        yield Problem(kind, path, f"{kind.value} in {len(names):,} tensors of the model: {some(names)}", "finite values",
                      names[0], len(names))


def _text(error: BaseException) -> str:
    """An error with the place in the code where it was raised, without the folder."""
    try:
        text = str(error).strip()[:_LONGEST]
    except Exception:
        text = "(its text cannot be shown)"
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename != __file__
              and "importlib" not in frame.filename]
    where = f" (at {os.path.basename(frames[-1].filename)}:{frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}{': ' if text else ''}{text}{where}"
