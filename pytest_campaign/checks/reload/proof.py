"""What a model with its values proves: the reviewer's loader, and the recorded input that must give the recorded output."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ...campaign import Campaign, Deliverable
from ...findings import Finding
from ...formats import formats
from ...formats.base import Depth, ProblemKind, Reading, Unit
from ...inventory import FILE
from ...proved import Proved
from ...reload.protocol import Death, DeathKind
from ..base import Evidence
from . import rules

_NO_LOADER = "give a loader of your own: --campaign-loader={id}=/path/file.py:function"
_NOT_REPLAYED = "install or give what the message names, or give a loader of your own (--campaign-loader)"


def wanted(campaign: Campaign, deliverable: Deliverable, units: Mapping[Unit, Reading | None],
           evidence: Evidence) -> Iterator[Finding | tuple[Unit | None, str | None]]:
    """What is to be asked of the fresh process, and findings about a probe that cannot be asked for.

    Asked is (the model, None for the reviewer's loader; the path of the probe, None for none), once or not at all.
    """
    deepest = campaign.asked.max_depth or Depth.PROBE
    loader = evidence.loader(campaign, deliverable) is not None and deepest >= Depth.MODEL
    probe: str | None = None
    if deliverable.probe is not None:
        if (fault := _absent(campaign, deliverable.probe)) is not None:
            yield fault
        elif deepest < Depth.PROBE:
            yield rules.PROBE_SKIPPED.finding(
                f"the probe was not replayed: a reload no deeper than {deepest.label} is asked", path=deliverable.probe,
                observed=deepest.label, expected=Depth.PROBE.label, remedy="leave --campaign-max-depth out")
        else:
            probe = deliverable.probe
    if loader:
        yield None, probe
    elif probe is not None:
        model = _model(campaign, deliverable, units)
        if model is None:
            yield rules.PROBE_SKIPPED.finding(
                "the probe was not replayed: no library known here builds the model from what lies there", path=probe,
                observed=", ".join(sorted({unit.format for unit in units})), expected="one model folder, an adapter, or a loader",
                remedy=_NO_LOADER.format(id=deliverable.id))
        elif (why := _unbuilt(units[model])) is not None:
            yield rules.PROBE_NOT_REPLAYED.finding(
                f"the probe was not replayed: {why}", path=probe, observed=why, expected="a model that the library rebuilds",
                remedy=_NOT_REPLAYED)
        else:
            yield model, probe


def _absent(campaign: Campaign, path: str) -> Finding | None:
    """What is wrong when the probe that the manifest names is no file that can be read; None when it is one."""
    entry = campaign.inventory.resolve(path)
    if entry is not None and entry.kind == FILE:
        return None
    if entry is None and (hidden := campaign.hidden(path)) is not None:
        return rules.PROBE_NOT_REPLAYED.finding(
            f"the probe cannot be looked at: {hidden}", path=path, observed=hidden, expected="a file that can be read",
            remedy="change its permission, or run the check as its owner")
    what = "it is not there" if entry is None else f"it is no file but a {entry.kind}"
    return rules.PROBE_FILE.finding(
        f"the manifest names a probe and {what}", path=path.rstrip("\0"), observed=what, expected="the file of the probe",
        remedy="copy it, record it again, or delete reload.probe")


def _model(campaign: Campaign, deliverable: Deliverable, units: Mapping[Unit, Reading | None]) -> Unit | None:
    """The one unit that is a model which a library rebuilds: that of the deliverable's own folder, else the only one."""
    models = [unit for unit in units if formats()[unit.format].build is not None and not unit.hollow]
    own = [unit for unit in models if unit.path == campaign.target(deliverable)]
    return next((found[0] for found in (own, models) if len(found) == 1), None)


def _unbuilt(reading: Reading | None) -> str | None:
    """Why a model was not rebuilt when it was read; None when it was."""
    if reading is None or reading.depth is None:
        return "the model was not read"
    if reading.depth >= Depth.MODEL:
        return None
    told = [problem.observed for problem in reading.problems if problem.kind is ProblemKind.NOT_REBUILT]
    return told[0] if told else "the model was not rebuilt"


def loader_died(proved: Proved, death: Death) -> Finding | None:
    """A crash in the reviewer's loader, or in a model that it made; None for another end."""
    if proved.loader is None or death.kind not in (DeathKind.CRASHED, DeathKind.EXCEPTION):
        return None
    return rules.LOADER.finding(
        f"the loader {proved.loader}: {death.detail}", path=proved.unit.path, observed=death.detail,
        expected="a torch.nn.Module with its values", remedy="mend the loader, or copy the files again")
