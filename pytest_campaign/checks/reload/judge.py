"""What the answer of a reload means, as findings."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from ... import paths
from ...campaign import WEIGHTS, Campaign, Deliverable
from ...file_names import may_lack_tensors
from ...findings import Finding, Level, Rule
from ...formats import formats
from ...formats.base import Depth, Pickled, Problem, ProblemKind, Reading, Unit
from ...inventory import FILE, SPECIAL, Entry
from ...proved import Proved, deepened
from ...reload.protocol import Answer, Death, DeathKind
from ..base import Evidence
from . import proof, resume, rules, tensors, training_state

_INTO_THE_FOLDER = "copy what it names into the deliverable, and name it there by a relative path or by its name on the Hub"

_PROBLEMS: dict[ProblemKind, tuple[Rule, str]] = {
    ProblemKind.TRUNCATED: (rules.TRUNCATED, "copy it again and compare the sizes, or take the checkpoint before"),
    ProblemKind.TRAILING: (rules.TRAILING, "copy or save it again"),
    ProblemKind.DAMAGED: (rules.DAMAGED, "copy it again, or take the checkpoint before"),
    ProblemKind.CHECKSUM: (rules.CHECKSUM, "copy it again; if the original disagrees too, take the checkpoint before"),
    ProblemKind.NAN: (rules.NAN, "deliver an earlier checkpoint, or record the run as aborted"),
    ProblemKind.INFINITE: (rules.INFINITE, "deliver an earlier checkpoint, or save in a type with a larger range"),
    ProblemKind.NO_TENSORS: (rules.NO_TENSORS, "save it again and look at the number of tensors"),
    ProblemKind.OUT_OF_STORAGE: (rules.OUT_OF_STORAGE, "copy or save it again"),
    ProblemKind.SHARD_MISSING: (rules.SHARD_MISSING, "copy the missing files while the machine is still there"),
    ProblemKind.SHARD_INDEX: (rules.SHARD_INDEX, "copy the whole folder again, or save it into an empty one"),
    ProblemKind.HOLE: (rules.NEVER_WRITTEN, "compare the digest with the original"),
    ProblemKind.NUL_TAIL: (rules.NUL_TAIL, "copy or download it again, or take the checkpoint before"),
    ProblemKind.FOREIGN_CLASS: (rules.FOREIGN_CLASS, "save a state dict, and the configuration as plain data"),
    ProblemKind.FRAMEWORK_CLASS: (
        rules.FRAMEWORK_CLASS, "none here; torch.load needs these classes in torch.serialization.add_safe_globals"),
    ProblemKind.UNSAFE_GLOBAL: (rules.UNSAFE_GLOBAL, "do not load it; ask for the weights as safetensors"),
    ProblemKind.UNREADABLE_KIND: (rules.UNREADABLE_KIND, "save dense tensors to have their values checked"),
    ProblemKind.TOO_LARGE: (rules.TOO_LARGE, "save it in several files, or as safetensors"),
    ProblemKind.EXECUTABLE: (
        rules.EXECUTABLE, "save weights as safetensors or a state dict, arrays as npz, an estimator of scikit-learn with skops"),
    ProblemKind.PICKLE_PROTOCOL: (rules.PICKLE_PROTOCOL, "save it again without pickle_protocol"),
    ProblemKind.NO_CHECKSUM: (rules.NO_CHECKSUM, "record a digest in the manifest"),
    ProblemKind.WASTED_STORAGE: (rules.WASTED_STORAGE, "clone the view before saving"),
    ProblemKind.NO_WEIGHTS: (rules.NO_WEIGHTS, "copy or save the weights, or give it another kind"),
    ProblemKind.CONFIGURATION: (rules.CONFIGURATION, "copy or save the file again"),
    ProblemKind.FILE_MISSING: (rules.FILE_MISSING, "copy the file into the folder"),
    ProblemKind.WRAPPER_PREFIX: (rules.WRAPPER_PREFIX, "save the state dict of the unwrapped model"),
    ProblemKind.WRAPPED_NAMES: (
        rules.WRAPPER_PREFIX, "save the state dict of the unwrapped model, or see that what loads it expects such names"),
    ProblemKind.MISSING_TENSORS: (rules.MISSING_TENSORS, "save it again from the whole model"),
    ProblemKind.SHAPE: (rules.SHAPE, "save it again, with the configuration that it was trained with"),
    ProblemKind.UNEXPECTED_TENSORS: (rules.UNEXPECTED_TENSORS, "deliver the configuration that it was trained with"),
    ProblemKind.EXTRA_TENSORS: (rules.EXTRA_TENSORS, "leave them out, or name the class that uses them in architectures"),
    ProblemKind.TIED_COPY: (rules.TIED_COPY, "set tie_word_embeddings to what was trained, and save again"),
    ProblemKind.TIED_NAME: (rules.TIED_NAME, "none here; other tools may look for the usual name"),
    ProblemKind.WEIGHTS_DISAGREE: (rules.WEIGHTS_DISAGREE, "delete the file that is not the result"),
    ProblemKind.QUANTISATION: (rules.QUANTISATION, "save it again with save_pretrained of the quantised model"),
    ProblemKind.VOCABULARY: (rules.VOCABULARY, "deliver the tokenizer of the training, or resize the embedding and save again"),
    ProblemKind.NO_VOCABULARY: (rules.NO_VOCABULARY, "save the tokenizer into the folder again"),
    ProblemKind.UNTRAINED: (rules.UNTRAINED, "save the adapter after the training, from the model that was trained"),
    ProblemKind.PERHAPS_INCOMPLETE: (rules.PERHAPS_INCOMPLETE, "give the base with --campaign-base-model, which decides it"),
    ProblemKind.UNKNOWN_SETTING: (rules.UNKNOWN_SETTING, "delete the setting, or name the version of the library that knows it"),
    ProblemKind.NEWER_LIBRARY: (rules.NEWER_LIBRARY, "install the version that wrote it, or a later one"),
    ProblemKind.NOT_REBUILT: (rules.NOT_REBUILT, "install or give what the message names"),
    ProblemKind.PYTHON_CODE: (rules.PYTHON_CODE, "replace it by a layer of the library or by a registered class, and save again"),
    ProblemKind.UNFINISHED: (rules.UNFINISHED, "wait until it is finished, or take the save before"),
    ProblemKind.OPTIMIZER: (rules.OPTIMIZER, "copy the whole folder of one save, or say purpose: inference"),
    ProblemKind.PROGRESS: (rules.PROGRESS, "copy the whole folder of one save, or say purpose: inference"),
    ProblemKind.BEHIND: (rules.BEHIND, "compare the folder with the original"),
    ProblemKind.BASE_HEADERS: (
        rules.BASE_HEADERS, "find out on which base it was trained, and archive the headers of that one again"),
    ProblemKind.BASE_SETTINGS: (rules.BASE_SETTINGS, "find out whether it is the base that the adapter was trained on"),
    ProblemKind.ARCHIVED_BASE: (rules.ARCHIVED_BASE, "none; give the base with --campaign-base-model to have it compared too"),
    ProblemKind.OUTSIDE_NEEDED: (rules.OUTSIDE_FILE, _INTO_THE_FOLDER),
    ProblemKind.OUTSIDE_TRIED: (rules.OUTSIDE_FILE, _INTO_THE_FOLDER),
    ProblemKind.NO_SCALER: (rules.NO_SCALER, "copy it if it was written"),
    ProblemKind.PROBE_FILE: (rules.PROBE_FILE, "copy it again, record it again, or delete reload.probe"),
    ProblemKind.PROBE_DIFFERS: (rules.PROBE_DIFFERS, "save and record from one and the same model"),
    ProblemKind.PROBE_OTHER_MODEL: (rules.PROBE_OTHER_MODEL, "record the probe from the model that is delivered"),
    ProblemKind.PROBE_NOT_REPLAYED: (rules.PROBE_NOT_REPLAYED, "install or give what the message names, or a --campaign-loader"),
    ProblemKind.LOADER: (rules.LOADER, "deliver what the class needs, or mend the loader"),
}

# How a reading can end without an answer: the rule, what the text of the system or a library is put into, expectation, remedy.
_DEATHS: dict[DeathKind, tuple[Rule, str, str, str]] = {
    DeathKind.EXCEPTION: (rules.FAILED, "the reader of {format} could not go on ({detail})", "a file that is read to its end",
                          "copy or save it again"),
    DeathKind.CRASHED: (rules.CRASHED, "{detail}", "a file that is read to its end",
                        "copy or save it again; do not load it in a process that matters"),
    DeathKind.CHANGED: (rules.CHANGED, "{detail}", "a file that nobody writes to while it is checked",
                        "wait until everything is written, and run the check again"),
    DeathKind.OUTSIDE: (rules.OUTSIDE_FILE, "{detail}",
                        "only files of the deliverable, of its base and of the Python installation", _INTO_THE_FOLDER),
    DeathKind.TIMEOUT: (rules.TIME_LIMIT, "{detail}", "some progress within the time limit",
                        "copy it to a local disk, or raise --campaign-timeout"),
    DeathKind.MEMORY: (rules.MEMORY_LIMIT, "{detail}", "a reading within the limit", "raise --campaign-memory"),
    DeathKind.KILLED: (rules.KILLED, "{detail}", "a process that comes to its end", "free memory, and run the check again"),
    DeathKind.UNREADABLE: (rules.UNREADABLE, "the operating system did not let it be read ({detail})", "a file that can be read",
                           "change its permission, or run the check as its owner"),
    DeathKind.NO_ANSWER: (rules.NO_ANSWER, "{detail}", "an answer of the fresh process", "run the check again"),
    DeathKind.NO_SERVER: (rules.NO_PROCESS, "{detail}", "a fresh process with all that reading needs",
                          "mend what the message names, and run the check again"),
}

_WARNINGS = frozenset({ProblemKind.OUTSIDE_TRIED, ProblemKind.WRAPPED_NAMES})  # of a rule that is an error otherwise
_SAFE_TORCH = (2, 10)  # the first release without CVE-2026-24747


def has_weights(campaign: Campaign, deliverable: Deliverable) -> bool:
    """Whether the deliverable needs the reload: by its kind, because tensors are declared, or because weights lie there."""
    return deliverable.has_weights or any(not unit.hollow for unit in campaign.units_of(deliverable))


def absent(campaign: Campaign, deliverable: Deliverable) -> str | None:
    """Why there is nothing to reload; the check `content` rejects it for the same reason."""
    target = campaign.target(deliverable)
    entry = campaign.inventory.resolve(target) if target is not None else None
    if entry is None:
        return "it is not there"
    if entry.kind == SPECIAL:
        return "it is no file"
    return "it has no bytes" if entry.kind == FILE and entry.size == 0 else None


def default_depth(units: Sequence[Unit]) -> Depth:
    """The deepest that our own readers reach for all these units without foreign code, at most `tensors`."""
    return min((Depth.TENSORS, *(formats()[unit.format].depth for unit in units)))


def required_depth(campaign: Campaign, deliverable: Deliverable) -> Depth:
    """The depth below which the deliverable stays unverified.

    What the plan, the manifest or the command line asks counts in full; the default, the deepest that our own
    readers reach, is lowered by --campaign-max-depth.
    """
    planned = campaign.planned(deliverable)
    depths = (planned.depth if planned is not None else None, deliverable.depth, campaign.asked.require_depth)
    asked = [depth for depth in depths if depth is not None]
    default = default_depth(campaign.units_of(deliverable))
    if campaign.asked.max_depth is not None:
        default = min(default, campaign.asked.max_depth)
    return max(asked, default=default)


def _binary(entry: Entry, evidence: Evidence) -> bool:
    try:
        head = evidence.head(entry)
    except OSError:
        return True
    return b"\0" in head or head[:1] == b"\x80"


def _not_looked_at(campaign: Campaign, deliverable: Deliverable) -> tuple[str, str] | None:
    """The first file or folder of a deliverable that could not be looked at, and why."""
    target = campaign.target(deliverable)
    if target is None:
        return None
    top = campaign.inventory.resolve(target)
    seen = [(path, entry.problem) for path, entry in ((target, top), *campaign.inventory.walk(target)) if entry and entry.problem]
    unread = [(path, why) for path, why in campaign.unread.items() if campaign.owns(deliverable, path)]
    return next(iter((*seen, *unread)), None)


def _nothing_recognised(campaign: Campaign, deliverable: Deliverable, evidence: Evidence) -> Finding:
    files = campaign.files_of(deliverable)
    if (closed := _not_looked_at(campaign, deliverable)) is not None:
        path, why = closed
        return rules.UNREADABLE.finding(f"it cannot be looked at: {why}", path=path,
                                        remedy="change its permission, or run the check as its owner")
    maybe = [path for path, entry in files.items() if entry.size and _binary(entry, evidence)]
    if maybe:
        return rules.UNRECOGNISED.finding(
            f"{', '.join(maybe[:3])}: no format that is known here", path=maybe[0], expected=", ".join(formats()),
            remedy="save the weights as safetensors or with torch.save")
    return rules.NO_WEIGHTS.finding(
        f"no weights in the {deliverable.kind}: " + (f"only {', '.join(list(files)[:5])}" if files else "no file"),
        path=deliverable.path, observed=f"{len(files)} files, none of them weights", expected="weights",
        remedy="copy or save the weights, or give it another kind")


def _format(deliverable: Deliverable, units: Sequence[Unit]) -> Iterator[Finding]:
    if deliverable.format is None:
        return
    name = deliverable.format.lower()
    known: dict[str, set[str]] = {}
    for form in formats().values():
        for alias in (form.name.lower(), *form.aliases):
            known.setdefault(alias, set()).add(form.name)
    place = deliverable.place
    found = sorted({unit.format for unit in units})
    if name not in known:
        yield rules.UNKNOWN_FORMAT.finding(
            f"the format {deliverable.format!r} is not known here; what lies there is {', '.join(found)}",
            path=place.file if place else deliverable.path, pointer=f"{place.pointer}/format" if place else None,
            remedy="use a name that the report shows, or delete format")
    elif known[name].isdisjoint(found):
        yield rules.FORMAT.finding(
            f"the manifest says {deliverable.format}, the content is {', '.join(found)}", path=units[0].path,
            observed=", ".join(found), expected=deliverable.format, remedy="correct or delete format in the manifest")


def _problem(problem: Problem, level: Level | None = None) -> Finding:
    rule, remedy = _PROBLEMS[problem.kind]
    told = f"{problem.count:,}" in problem.observed  # most readers say the number in their own words
    more = f" (the first of {problem.count:,})" if problem.count > 1 and not told else ""
    return rule.finding(
        f"{problem.observed}{more}; expected: {problem.expected}", path=problem.path, pointer=problem.where or None,
        remedy=remedy, observed=problem.observed, expected=problem.expected, level=level)


def _is_pickled(unit: Unit) -> bool:
    """Whether torch's weights-only loader reads the unit."""
    pickled = formats()[unit.format].pickled
    if pickled is Pickled.BY_NAME:
        return any(file.endswith((".bin", ".pt", ".pth", ".pkl")) for file in unit.files)
    return pickled is Pickled.YES


def _old_torch(units: Sequence[Unit], version: str) -> Iterator[Finding]:
    """A warning when a loader with a known memory corruption reads torch pickles."""
    numbers = re.match(r"(\d+)\.(\d+)", version)
    pickled = [unit for unit in units if _is_pickled(unit)]
    if pickled and numbers and (int(numbers[1]), int(numbers[2])) < _SAFE_TORCH:
        yield rules.TORCH_VERSION.finding(
            f"torch {version} reads it, whose weights-only loader has a known memory corruption", path=pickled[0].path,
            observed=f"torch {version}", expected="torch 2.10 or later", remedy="install torch 2.10 or later")


def _death(unit: Unit, death: Death) -> Finding:
    rule, text, expected, remedy = _DEATHS[death.kind]
    observed = text.replace("{format}", unit.format).replace("{detail}", death.detail)
    return rule.finding(f"{observed}; expected: {expected}", path=death.path or unit.path, observed=observed, expected=expected,
                        remedy=remedy)


def _asked_of(unit: Unit, units: Sequence[Unit], required: Depth, proved: Depth | None) -> Depth:
    """How deep one unit must be read for the whole to be as deep as it is required. ``proved``: with a model and its values.

    What lies beside a model (an optimizer, the state of a random generator) has no model of its own to rebuild.
    """
    if max([formats()[other.format].depth for other in units] + ([proved] if proved is not None else [])) < required:
        return required
    return min(required, formats()[unit.format].depth)


def _is_meant_to_have_weights(unit: Unit, deliverable: Deliverable, units: Sequence[Unit]) -> bool:
    """Whether a folder with a configuration and no weights is a fault: not when the weights lie in folders below it."""
    below = any(not other.hollow and paths.inside(other.path, unit.path) for other in units)
    return not unit.hollow or (deliverable.kind in WEIGHTS and not below)


def _untrained(problem: Problem, campaign: Campaign, deliverable: Deliverable) -> Iterator[Finding]:
    """An adapter that changes nothing is right when its run made no step, and doubtful when nobody says how many."""
    run = campaign.runs.get(deliverable.run or "")
    steps = run.steps if run else None
    if steps != 0:
        said = f", after {steps:,} steps" if steps is not None else ""
        yield rules.UNTRAINED.finding(
            f"{problem.observed}{said}", path=problem.path, pointer=problem.where or None, observed=problem.observed,
            expected=problem.expected, remedy=_PROBLEMS[problem.kind][1], level=None if steps is not None else Level.WARNING)


def _unfinished(problem: Problem, units: Sequence[Unit]) -> Finding:
    """What is left of a save that did not finish matters less beside one that did."""
    finished = any(not unit.hollow and not paths.inside(unit.path, problem.path) for unit in units)
    return rules.UNFINISHED.finding(
        problem.observed, path=problem.path, pointer=problem.where or None, observed=problem.observed, expected=problem.expected,
        remedy=_PROBLEMS[problem.kind][1], level=Level.WARNING if finished else None)


def _says_why(reading: Reading) -> bool:
    """Whether one of the problems of a reading says why it did not go on."""
    return any(_PROBLEMS[p.kind][0].level is Level.ERROR or _PROBLEMS[p.kind][0].unanswered for p in reading.problems)


def _shallow(unit: Unit, reading: Reading, depth: Depth | None, required: Depth) -> Iterator[Finding]:
    """A unit that was not read deeply enough, unless a problem of its reading already says why."""
    if depth is not None and depth >= required:
        return
    if _says_why(reading):
        return
    reached = depth.label if depth is not None else "nothing"
    yield _not_deep_enough(unit, reading.format, reached, required)


def _not_deep_enough(unit: Unit, what: str, reached: str, required: Depth) -> Finding:
    return rules.DEPTH.finding(
        f"{what}: reloaded to {reached}, {required.label} is asked", path=unit.path, observed=reached,
        expected=required.label, remedy="lower the depth that is asked, or install what it needs")


def _rightly_without_tensors(problem: Problem, unit: Unit, deliverable: Deliverable, holds: bool) -> bool:
    """Whether a file of torch.save need hold no tensor. ``holds``: some file of the deliverable does, or no manifest lists it.

    The state of a scheduler or a scaler and the arguments of a training hold none. They are no checkpoint by
    themselves: when the manifest calls a deliverable one, some file of it must hold tensors.
    """
    if problem.kind is not ProblemKind.NO_TENSORS or formats()[unit.format].of_others or not _is_pickled(unit):
        return False
    return holds or (deliverable.kind not in WEIGHTS and may_lack_tensors(unit.path))


def check(campaign: Campaign, deliverable: Deliverable, evidence: Evidence) -> Iterator[Finding]:
    """Findings about one deliverable, from what a fresh process learned when it read its checkpoints."""
    units = campaign.units_of(deliverable)
    if not units:
        yield from _unknown_content(campaign, deliverable, evidence)
        return
    yield from _format(deliverable, units)
    yield from _old_torch(units, evidence.torch_version)
    answer = evidence.reload(campaign, deliverable)
    found = [*_of_readings(campaign, deliverable, units, answer),
             *tensors.check(deliverable, units, answer.readings, _says_why)]
    yield from found
    proved: Proved | None = None
    if not any(finding.level is Level.ERROR for finding in found) and not any(answer.deaths):
        findings, proved = _proof(campaign, deliverable, dict(zip(units, answer.readings, strict=True)), evidence)
        yield from findings
    yield from _too_shallow(campaign, deliverable, units, answer, proved)
    yield from training_state.no_model(campaign, deliverable, units, answer.readings)
    yield from resume.check(campaign, deliverable, units, answer.readings)


def _of_readings(campaign: Campaign, deliverable: Deliverable, units: Sequence[Unit], answer: Answer) -> Iterator[Finding]:
    """What the readings and the deaths mean."""
    holds = deliverable.place is None or any(reading.tensors for reading in answer.readings if reading is not None)
    for unit, reading, death in zip(units, answer.readings, answer.deaths, strict=True):
        if not _is_meant_to_have_weights(unit, deliverable, units):
            continue
        if reading is not None:
            aside = training_state.is_aside(unit, reading, campaign, deliverable, answer.readings)
            for problem in reading.problems:
                if problem.kind is ProblemKind.UNTRAINED:
                    yield from _untrained(problem, campaign, deliverable)
                elif problem.kind in _WARNINGS:
                    yield _problem(problem, Level.WARNING)
                elif problem.kind is ProblemKind.UNFINISHED:
                    yield _unfinished(problem, units)
                elif not _rightly_without_tensors(problem, unit, deliverable, holds):
                    eased = aside and training_state.eased(problem.kind)
                    yield _problem(problem, Level.WARNING if eased else resume.level(problem, reading, deliverable))
            yield from training_state.ranks(unit, reading, campaign, deliverable, aside)
        if death is not None:
            yield _death(unit, death)


def _too_shallow(campaign: Campaign, deliverable: Deliverable, units: Sequence[Unit], answer: Answer,
                 proved: Proved | None) -> Iterator[Finding]:
    """The units that were not read as deeply as it is asked, with what was proved taken in."""
    required = required_depth(campaign, deliverable)
    depths = deepened({unit: reading.depth if reading is not None else None
                       for unit, reading in zip(units, answer.readings, strict=True)}, proved)
    for unit, reading in zip(units, answer.readings, strict=True):
        if reading is not None and _is_meant_to_have_weights(unit, deliverable, units):
            asked = _asked_of(unit, units, required, proved.depth if proved is not None else None)
            yield from _shallow(unit, reading, depths[unit], asked)


def _unknown_content(campaign: Campaign, deliverable: Deliverable, evidence: Evidence) -> Iterator[Finding]:
    """Of content that no reader knows the reviewer's loader may know all: then it has the last word."""
    unknown = _nothing_recognised(campaign, deliverable, evidence)
    proved: Proved | None = None
    findings: list[Finding] = []
    if unknown.rule == rules.UNRECOGNISED.code:
        findings, proved = _proof(campaign, deliverable, {}, evidence)
    if proved is None or proved.depth is None:
        yield unknown
    elif (required := required_depth(campaign, deliverable)) > proved.depth:
        yield _not_deep_enough(proved.unit, "the reviewer's loader", proved.depth.label, required)
    yield from findings


def _proof(campaign: Campaign, deliverable: Deliverable, units: Mapping[Unit, Reading | None],
           evidence: Evidence) -> tuple[list[Finding], Proved | None]:
    """What a model with its values shows, where one is asked for: the findings, and how deep that went."""
    findings: list[Finding] = []
    proved: Proved | None = None
    for said in proof.wanted(campaign, deliverable, units, evidence):
        if isinstance(said, Finding):
            findings.append(said)
            continue
        proved = evidence.prove(campaign, deliverable, *said)
        findings += [_problem(problem) for problem in proved.reading.problems] if proved.reading is not None else []
        if proved.death is not None:
            findings.append(proof.loader_died(proved, proved.death) or _death(proved.unit, proved.death))
    return findings, proved
