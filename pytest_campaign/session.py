"""What happens between the first and the last hook of a session with campaign directories."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import functools
import os
import platform
import signal
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from . import __version__, checks, library_text, loaders, reporting, settings, snapshot
from .arguments import SELECTION, STAND_IN, as_in_ids, take_over
from .base_lookup import Shelf, hub_cache
from .campaign import Campaign
from .checks import Pair
from .collection import Campaigns, CheckItem, Hooks, Place, Tree, in_order, node_id, places
from .evidence import RELOAD, Files, version
from .findings import Level, Outcome, outcome
from .loaders import Loader
from .progress import ProgressLine
from .record import CampaignRecord, Record, Result, campaign_record
from .reload.client import Reloader
from .reload.confinement import shortfall
from .reload.protocol import Isolation
from .reporting import json_report, terminal
from .reporting.report_file import ReportFile
from .search_path import is_inside
from .snapshot import Snapshot
from .text import number, shown

_INPUT = "campaign_snapshots"
_TABLES = "data"  # the check whose tables of records are read in the fresh process too
_PATIENCE = 15.0  # seconds; the reload process and the workers of pytest-xdist end in a few
_NO_RUN = ("campaign_draft", "collectonly", "help", "version", "markers", "show_fixtures", "show_fixtures_per_test", "cacheshow")


@dataclasses.dataclass(frozen=True)
class Subject:
    """One campaign of the session with what is known of it in this process."""

    directory: Path
    campaign: Campaign
    evidence: Files
    where: Mapping[Pair, Place]


def register(config: pytest.Config) -> None:
    """Look at every campaign directory once and register the session's plugin; UsageError for a wrong option."""
    selection = config.stash[SELECTION]
    worker = getattr(config, "workerinput", None)
    chosen = settings.read(config, _workers(config, worker))
    for file in chosen.reports:
        reporting.writer(file)
        _may_write(file, selection.directories)
    started = time.time()
    # Before the look at the directories, which takes a while: whatever ends the session, no older report is taken for its own.
    reports = _begin(chosen.reports, selection.directories, started) if worker is None and _will_run(config) else []
    try:
        if worker is not None:
            snapshots = [Snapshot.from_text(text) for text in worker[_INPUT]]
        else:
            snapshots = [snapshot.take(directory, chosen.plan) for directory in selection.directories]
        session = Session(config, chosen, dict(zip(selection.directories, snapshots, strict=True)), reports, started)
    except BaseException:
        for report in reports:
            report.abandon()
        raise
    take_over(config)
    config.pluginmanager.register(session, "campaign-session")


def _will_run(config: pytest.Config) -> bool:
    """Whether anything is going to be checked, and not only listed or explained."""
    return not any(getattr(config.option, name, False) for name in _NO_RUN)


def _begin(files: Sequence[Path], directories: Sequence[Path], started: float) -> list[ReportFile]:
    """Put each report, marked incomplete; UsageError for one that cannot be written."""
    found = []
    record = _record(started)
    line = json_report.first_line(record, [str(directory) for directory in directories])
    for file in dict.fromkeys(files):
        try:
            found.append(ReportFile(file))
            found[-1].begin(reporting.writer(file).render(record), line)
        except OSError as error:
            for report in found:
                report.abandon()
            raise pytest.UsageError(f"--campaign-report: {shown(str(file))} cannot be written: {error.strerror}") from None
    return found


def _record(started: float, *, isolation: Isolation | None = None, campaigns: Sequence[CampaignRecord] = (),
            complete: bool = False) -> Record:
    versions = {name: version(name) or "not installed" for name in ("pytest", "torch", "safetensors")}
    return Record(
        complete=complete,
        tool={"version": __version__,
              "rules": [{"code": r.code, "level": r.level.value, "title": r.title} for r in checks.all_rules().values()]},
        environment={"python": platform.python_version(), "platform": f"{platform.system()} {platform.machine()}"} | versions,
        isolation=isolation,
        started=datetime.datetime.fromtimestamp(started, datetime.UTC).isoformat(timespec="seconds").replace("+00:00", "Z"),
        seconds=round(time.time() - started, 3),
        campaigns=campaigns,
    )


def _workers(config: pytest.Config, worker: Mapping[str, Any] | None) -> int:
    return int(worker["workercount"]) if worker is not None else 1


def _may_write(file: Path, directories: Sequence[Path]) -> None:
    """Reports may lie in a campaign directory under one name only, so that none can overwrite an output."""
    for directory in directories:
        if is_inside(file, [directory]) and not (file.parent == directory and file.name.startswith(snapshot.REPORT_STEM)):
            raise pytest.UsageError(
                f"--campaign-report: {file} lies in the campaign directory, where only {snapshot.REPORT_STEM}* may be written; "
                f"use {directory / (snapshot.REPORT_STEM + file.suffix.lstrip('.'))} or a path outside")
    if not file.parent.is_dir():
        raise pytest.UsageError(f"--campaign-report: there is no directory {file.parent}")
    if file.is_dir():
        raise pytest.UsageError(f"--campaign-report: {file} is a directory")
    if not os.access(file.parent, os.W_OK):
        raise pytest.UsageError(f"--campaign-report: nothing can be written to {file.parent}")


class Session:
    """The plugin object of a session: collection, the run of each check, and what is made of the results."""

    def __init__(self, config: pytest.Config, chosen: settings.Settings, snapshots: Mapping[Path, Snapshot],
                 reports: Sequence[ReportFile], started: float) -> None:
        self._config = config
        self._settings = chosen
        self._snapshots = snapshots
        self._selection = config.stash[SELECTION]
        self._is_worker = hasattr(config, "workerinput")
        self._reloader = Reloader(chosen.limits, [str(path) for path in snapshots])
        if chosen.isolation and not self._is_worker and (why := shortfall(chosen.isolation, self._reloader.isolation)):
            raise pytest.UsageError(f"--campaign-isolation: {why}")
        self._progress = ProgressLine(config)
        self._hooks: dict[Path, Hooks] = {}
        self._results: dict[tuple[Path, Pair], Result] = {}
        self._judged: Sequence[CampaignRecord] | None = None
        self._selected: set[tuple[Path, Pair]] = set()
        self._collected = False  # whether it is known what was selected
        self._ended = False  # whether what was selected ran to its end
        self._reports = reports
        self._unwritten: list[str] = []
        self._started = started
        self._shelf = Shelf(chosen.base_models, hub_cache(os.environ))
        self._subjects = {directory: self._subject(directory, taken) for directory, taken in snapshots.items()}
        self._say_unused_loaders()
        self._trees = self._choose()

    def _subject(self, directory: Path, taken: Snapshot) -> Subject:
        campaign = snapshot.campaign(taken, self._settings.asked, self._settings.baseline)
        where = places(campaign)
        evidence = Files(campaign.inventory, self._reloader.run, digest=bool(self._settings.reports), shelf=self._shelf,
                         threads=self._settings.limits.threads, loaders=self._loaders(directory, campaign, where))
        return Subject(directory, campaign, evidence, where)

    def _loaders(self, directory: Path, campaign: Campaign, where: Mapping[Pair, Place]) -> Mapping[str, Loader]:
        """The reviewer's loader of each deliverable that is reloaded and has one; UsageError for code that may not be used."""
        found = {}
        for deliverable in (campaign.by_id[pair.deliverable] for pair in where if pair.check == RELOAD and pair.deliverable):
            source, loader = self._settings.loaders.source, loaders.chosen(self._settings.loaders.given, deliverable)
            if loader is None and deliverable.usable:
                source = "pytest_campaign_loader"
                text = self._config.hook.pytest_campaign_loader(
                    config=self._config, deliverable_id=deliverable.id, kind=deliverable.kind, path=directory / deliverable.path,
                    format=", ".join(sorted({unit.format for unit in campaign.units_of(deliverable)})) or None)
                try:
                    loader = loaders.target_of(text, str(self._config.rootpath)) if text is not None else None
                except (ValueError, AttributeError) as error:  # the last: what a plugin returned is no text
                    raise pytest.UsageError(f"{source}: {error}") from None
            if loader is not None:
                if (why := loaders.misplaced(loader, list(self._snapshots))) is not None:
                    raise pytest.UsageError(f"{source}: {why}")
                found[deliverable.id] = loader
        return found

    def _say_unused_loaders(self) -> None:
        """A loader that fits nothing is most likely mistyped: UsageError on the command line, in an ini file a warning."""
        reloaded = [subject.campaign.by_id[pair.deliverable] for subject in self._subjects.values() for pair in subject.where
                    if pair.check == RELOAD and pair.deliverable is not None]
        given = self._settings.loaders
        for loader in given.given:
            if not any(loader.fits(deliverable) for deliverable in reloaded):
                text = (f"{given.source}: {shown(loader.pattern)} fits no deliverable that is reloaded; there "
                        f"{'is' if len(reloaded) == 1 else 'are'} {shown(', '.join(d.id for d in reloaded[:10])) or 'none'}")
                if given.typed:
                    raise pytest.UsageError(text)
                if not self._is_worker:
                    self._config.issue_config_time_warning(pytest.PytestConfigWarning(text), stacklevel=2)

    def campaign(self, directory: Path) -> Campaign:
        """The campaign of one of the session's directories."""
        return self._subjects[directory].campaign

    def hooks(self, directory: Path) -> Hooks:
        """The hooks as the items of one of the session's directories see them."""
        hooks = self._hooks.get(directory)
        if hooks is None or not hooks.current:
            hooks = self._hooks[directory] = Hooks(self._config.pluginmanager, directory)
        return hooks

    @functools.cached_property
    def _by_node_id(self) -> Mapping[str, tuple[Path, Pair]]:
        rootpath = self._config.rootpath
        return {f"{node_id(directory, place.path, rootpath)}::{place.name}": (directory, pair)
                for directory, subject in self._subjects.items() for pair, place in subject.where.items()}

    def _choose(self) -> Sequence[Tree]:
        """The checks that the arguments choose, as one tree for each campaign; UsageError for an argument that names none."""
        where = {directory: {pair: (as_in_ids(directory / place.path), place.name) for pair, place in subject.where.items()}
                 for directory, subject in self._subjects.items()}
        chosen = self._selection.chosen(frozenset(place for places in where.values() for place in places.values()))
        return [Tree.of(directory, {pair: place for pair, place in subject.where.items() if where[directory][pair] in chosen})
                for directory, subject in self._subjects.items()]

    # Collection

    @pytest.hookimpl(tryfirst=True)
    def pytest_ignore_collect(self, collection_path: Path) -> bool | None:
        """A walk of pytest's never enters a campaign; the way to our own collectors is open, whatever `norecursedirs` says."""
        if collection_path == STAND_IN:
            return False
        return True if is_inside(collection_path, list(self._subjects)) else None

    @pytest.hookimpl(tryfirst=True)
    def pytest_collect_directory(self, path: Path, parent: pytest.Collector) -> pytest.Collector | None:
        """Our own collectors in the place of the stand-in."""
        return Campaigns.from_parent(parent, path=path, trees=self._trees, owner=self) if path == STAND_IN else None

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """The cheap checks of all deliverables come before the reloads."""
        pairs = [(directory, pair) for directory, subject in self._subjects.items() for pair in subject.where]
        pairs.sort(key=lambda key: _cost(key[1]))
        items[:] = in_order(items, {key: index for index, key in enumerate(pairs)})

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Remember what is going to run, after every deselection."""
        self._collected = True
        self._selected |= {(item.directory, item.pair) for item in session.items if isinstance(item, CheckItem)}

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Give each worker of pytest-xdist the one look at the directories that was taken here."""
        node.workerinput[_INPUT] = [taken.to_text() for taken in self._snapshots.values()]

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: Sequence[str]) -> None:
        """Remember what the workers are going to run."""
        self._collected = True
        self._selected |= {self._by_node_id[id] for id in ids if id in self._by_node_id}

    # Running

    def run(self, item: CheckItem) -> Result:
        """Ask the question of one item."""
        subject = self._subjects[item.directory]
        with self._progress.of(item) as on_progress:
            subject.evidence.on_progress = on_progress
            return run_check(subject.campaign, item.pair, subject.evidence)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Let the report carry the result to whichever process writes the record."""
        report = yield
        if isinstance(item, CheckItem) and (report.when == "call" or report.outcome != "passed"):
            report.campaign_result = item.payload(report)  # type: ignore[attr-defined]
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Collect the results, in the process that writes the record."""
        if self._is_worker:
            return
        key = self._by_node_id.get(report.nodeid)
        text = getattr(report, "campaign_result", None)
        if key is None:
            return
        self._judged = None
        if text is not None:
            result = Result.from_text(text)
        elif report.when not in ("setup", "call", "teardown"):  # pytest-xdist's report of a worker that died
            result = Result(key[1], Outcome.UNVERIFIED, reason="the worker that ran it died")
        else:
            return
        self._results[key[0], result.pair] = result
        for file in self._reports:
            with self._remembering(file):
                file.add(json_report.line(str(key[0]), result))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtestloop(self, session: pytest.Session) -> Generator[None, object, object]:
        """Run with the reload process at hand; a session that accepts nothing must not end with status 0."""
        if self._config.option.collectonly:
            return (yield)
        with contextlib.ExitStack() as stack:
            stack.callback(self._reloader.close)
            stack.enter_context(_terminated_like_interrupted())
            if any(pair.check == RELOAD and self._weights(directory, pair) for directory, pair in self._selected):
                self._reloader.start()  # it imports torch while the cheap checks run
            try:
                result = yield
            except KeyboardInterrupt:
                if not self._is_worker:
                    self._config.add_cleanup(_patient().close)
                raise
        self._ended = True
        if not self._is_worker and not session.testsfailed and self._contradicts_success():
            session.testsfailed += 1  # here rather than in sessionfinish: the summary then knows the exit status
        return result

    def _reloads(self) -> bool:
        """Whether something that is read in the fresh process was selected: weights, or records that may be tables."""
        return any(pair.check == _TABLES or (pair.check == RELOAD and self._weights(directory, pair))
                   for directory, pair in self._selected)

    def _weights(self, directory: Path, pair: Pair) -> bool:
        campaign = self._subjects[directory].campaign
        return pair.deliverable is not None and bool(campaign.units_of(campaign.by_id[pair.deliverable]))

    def _contradicts_success(self) -> bool:
        """Whether what was selected was not accepted, or lost on the way, although no item failed."""
        if any(key not in self._results for key in self._selected):
            return True
        deciding = [self._results[key].outcome for key in self._selected if self._decides(key)]
        if Outcome.FAILED in deciding or Outcome.UNVERIFIED in deciding:
            return True
        return not any(campaign.partial for campaign in self._campaigns()) and not self._record(complete=True).accepted

    def _decides(self, key: tuple[Path, Pair]) -> bool:
        return self._subjects[key[0]].campaign.decides(key[1].deliverable)

    # The record

    def _complete(self, exitstatus: int) -> bool:
        """Whether the session ended in good order and ran all that was selected (it does not with ``-x``).

        The exit status alone does not say it: it is 1 before anything else is known.
        """
        ended = exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.NO_TESTS_COLLECTED)
        return ended and self._ended and self._collected and all(key in self._results for key in self._selected)

    def _campaigns(self) -> Sequence[CampaignRecord]:
        """The records of the campaigns, worked out once for the results that are there."""
        if self._judged is None:
            self._judged = [
                campaign_record(
                    subject.campaign, {pair: result for (d, pair), result in self._results.items() if d == directory},
                    partial=self._collected and any((directory, pair) not in self._selected for pair in subject.where))
                for directory, subject in self._subjects.items()]
        return self._judged

    def _record(self, *, complete: bool) -> Record:
        isolation = self._reloader.isolation if self._reloads() else None
        return _record(self._started, isolation=isolation, campaigns=self._campaigns(), complete=complete)

    def _write_reports(self, record: Record) -> None:
        for file in self._reports:
            with self._remembering(file):
                if not file.finish(reporting.writer(file.file).render(record), complete=record.complete):
                    self._unwritten.append(f"{file.file} is by now the report of another session and was left as it is; what was "
                                           f"found here stands in {file.partial}")

    @contextlib.contextmanager
    def _remembering(self, file: ReportFile) -> Iterator[None]:
        """A disk that refuses ends no check and no summary; what came of it is said at the end."""
        try:
            yield
        except OSError as error:
            text = (f"{file.file} could not be written: {error.strerror or error}; it is marked incomplete, and what was kept "
                    f"stands in {file.partial}")
            if text not in self._unwritten:
                self._unwritten.append(text)

    def pytest_report_header(self) -> Sequence[str]:
        """What is checked."""
        lines = []
        for directory, subject in self._subjects.items():
            files = sum(entry.kind == "file" for entry in subject.campaign.inventory.entries)
            lines.append(f"campaign: {shown(subject.campaign.name)} in {shown(str(directory))}, {number(files, 'file')}, "
                         f"{number(len(subject.campaign.deliverables), 'deliverable')}")
        return lines

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """Write the reports, whatever ended the session."""
        if exitstatus == pytest.ExitCode.USAGE_ERROR:
            for file in self._reports:
                file.abandon()
        elif not self._is_worker and not self._config.option.collectonly:
            record = self._record(complete=self._complete(exitstatus))
            with _undisturbed():
                self._write_reports(record)
            if self._unwritten and exitstatus == pytest.ExitCode.OK:
                session.exitstatus = pytest.ExitCode.USAGE_ERROR
            self._config.hook.pytest_campaign_record(config=self._config, record=reporting.as_json(record))

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter, exitstatus: int) -> None:
        """The verdicts, worst first, and one line for each campaign."""
        option = self._config.option
        if not option.collectonly and not getattr(option, "no_summary", False):
            terminal.show(self._record(complete=self._complete(exitstatus)), terminalreporter, Path(os.getcwd()))
        for text in self._unwritten:
            terminalreporter.write_line(f"--campaign-report: {shown(text)}", red=True)


def _cost(pair: Pair) -> int:
    """Campaign checks come first, then the cheap checks of the deliverables, then the others."""
    return -1 if pair.deliverable is None else checks.deliverable_checks()[pair.check].cost


def run_check(campaign: Campaign, pair: Pair, evidence: Files) -> Result:
    """The result of one check. A rule that raises leaves the question open; it never accepts and never rejects."""
    start = time.perf_counter()
    try:
        if pair.deliverable is None:
            findings = list(checks.campaign_checks()[pair.check].run(campaign, evidence))
        else:
            findings = list(checks.deliverable_checks()[pair.check].run(campaign, campaign.by_id[pair.deliverable], evidence))
    except Exception as error:
        places = {**library_text.python_places(), **library_text.private_places(), campaign.inventory.root: ""}
        findings = [checks.RAISED.finding(library_text.without(f"{type(error).__name__}: {error}", places),
                                          remedy="report this; the other checks are not affected")]
    deliverable = campaign.by_id.get(pair.deliverable or "")
    if deliverable is not None and campaign.aborted(deliverable.run):
        findings = [dataclasses.replace(finding, level=Level.NOTE, unanswered=False) for finding in findings]
    result = Result(pair, outcome(findings), findings, seconds=round(time.perf_counter() - start, 4))
    learned = evidence.learned(campaign, deliverable, pair.check) if deliverable else evidence.compared(campaign, pair.check)
    return dataclasses.replace(result, **learned)


@contextlib.contextmanager
def _terminated_like_interrupted() -> Iterator[None]:
    """SIGTERM (a cancelled job) and SIGHUP (a lost terminal) end the session as Ctrl-C does: children ended, findings kept."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    with _handled((signal.SIGTERM, signal.SIGHUP), interrupt):
        yield


def _patient() -> contextlib.ExitStack:
    """From now until it is closed: who interrupts a second time waits for the report, but not for ever."""
    end = time.monotonic() + _PATIENCE

    def interrupt(number: int, frame: FrameType | None) -> None:
        if time.monotonic() > end:
            raise KeyboardInterrupt

    stack = contextlib.ExitStack()
    stack.enter_context(_handled((signal.SIGINT, signal.SIGTERM, signal.SIGHUP), interrupt))
    return stack


@contextlib.contextmanager
def _undisturbed() -> Iterator[None]:
    """Whoever loses patience now gets the whole report a moment later."""
    with _handled((signal.SIGINT, signal.SIGTERM, signal.SIGHUP), signal.SIG_IGN):
        yield


@contextlib.contextmanager
def _handled(numbers: Sequence[signal.Signals],
             handler: Callable[[int, FrameType | None], None] | signal.Handlers) -> Iterator[None]:
    """Have signals handled so for a while; those that are ignored (as under ``nohup``) stay ignored."""
    before = {}
    try:
        for number in numbers:
            if signal.getsignal(number) not in (signal.SIG_IGN, None):
                with contextlib.suppress(ValueError):  # not the main thread
                    before[number] = signal.signal(number, handler)
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)
