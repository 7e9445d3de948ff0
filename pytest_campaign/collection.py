"""The pytest nodes: one collector for each path of a campaign that carries checks, one item for each check.

The collectors derive from `pytest.Collector` and never from `pytest.Directory`, for which pytest would import
`conftest.py`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import pluggy
import pytest

from . import library_text
from .campaign import Campaign
from .checks import Pair, expected, skip_reason
from .findings import Finding, Level, Outcome
from .record import Result
from .text import shown, shown_id

if TYPE_CHECKING:
    from .session import Session


@dataclasses.dataclass(frozen=True)
class Place:
    """Where a check stands in the tree: the path of its node, relative to the campaign, and its name there."""

    path: str
    name: str


def places(campaign: Campaign) -> Mapping[Pair, Place]:
    """The place of every expected check, in the order in which the checks run.

    Campaign checks and the checks of what is absent stand at the campaign's own node. A second deliverable at the
    same path adds its id to the check's name.
    """
    found: dict[Pair, Place] = {}
    taken: set[Place] = set()
    for pair in expected(campaign):
        place = Place("", pair.check)
        if pair.deliverable is not None:
            deliverable = campaign.by_id[pair.deliverable]
            absent = campaign.target(deliverable) is None
            place = Place("" if absent else deliverable.path, pair.check)
            if absent or place in taken:
                place = dataclasses.replace(place, name=f"{pair.check}:{pair.deliverable}")
        taken.add(place)
        found[pair] = place
    return found


def node_id(directory: Path, path: str, rootpath: Path) -> str:
    """The id of the node at ``path``: relative to pytest's root directory, absolute when it lies outside."""
    full = directory / path if path else directory
    try:
        relative = full.relative_to(rootpath).as_posix()
    except ValueError:
        relative = full.as_posix()
    return shown_id(relative)


@dataclasses.dataclass(frozen=True)
class Tree:
    """The checks of one campaign, arranged by path."""

    directory: Path
    checks: Mapping[str, Sequence[tuple[Place, Pair]]]
    children: Mapping[str, Sequence[str]]

    @classmethod
    def of(cls, directory: Path, where: Mapping[Pair, Place]) -> Self:
        """The tree of some checks."""
        checks: dict[str, list[tuple[Place, Pair]]] = {}
        children: dict[str, dict[str, None]] = {}
        for pair, place in where.items():
            checks.setdefault(place.path, []).append((place, pair))
            path = place.path
            while path:
                parent = path.rpartition("/")[0]
                children.setdefault(parent, {})[path] = None
                path = parent
        return cls(directory, checks, {parent: sorted(below) for parent, below in children.items()})


class Campaigns(pytest.Collector):
    """The node above all campaigns of a session."""

    def __init__(self, *, trees: Sequence[Tree], owner: Session, **kwargs: Any) -> None:
        super().__init__(name="campaigns", nodeid="campaigns", **kwargs)
        self._trees, self._owner = trees, owner

    def collect(self) -> Iterator[pytest.Item | pytest.Collector]:
        """One collector for each campaign of which something was chosen."""
        for tree in self._trees:
            if tree.checks:
                yield Folder.from_parent(self, tree=tree, at="", owner=self._owner)


class Folder(pytest.Collector):
    """One path of a campaign: the checks of what lies there, and the paths below it that have checks."""

    def __init__(self, *, tree: Tree, at: str, owner: Session, **kwargs: Any) -> None:
        path = tree.directory / at if at else tree.directory
        nodeid = node_id(tree.directory, at, kwargs["parent"].config.rootpath)
        super().__init__(name=shown_id(path.name), path=path, nodeid=nodeid, **kwargs)
        self._tree, self._at, self._owner = tree, at, owner

    def collect(self) -> Iterator[pytest.Item | pytest.Collector]:
        """The items and collectors directly below."""
        for place, pair in self._tree.checks.get(self._at, ()):
            yield CheckItem.from_parent(self, name=place.name, pair=pair, directory=self._tree.directory, owner=self._owner)
        for path in self._tree.children.get(self._at, ()):
            yield Folder.from_parent(self, tree=self._tree, at=path, owner=self._owner)


class CheckFailed(Exception):
    """A check that ended with a finding that rejects, or without an answer."""

    def __init__(self, result: Result) -> None:
        super().__init__("\n".join(_lines(result)))
        self.finding = _first(result)


def _first(result: Result) -> Finding:
    """The finding that speaks for the whole result."""
    grave = [f for f in result.findings if f.level is Level.ERROR] or [f for f in result.findings if f.unanswered]
    return grave[0]


def _lines(result: Result) -> Iterator[str]:
    """All findings, the graver ones first."""
    order = list(Level)
    for finding in sorted(result.findings, key=lambda f: order.index(f.level)):
        level = "unverified" if finding.unanswered else finding.level.value
        yield f"{shown(finding.place)}: {level}: {finding.rule}: {shown(finding.message)}"
        if finding.observed and finding.observed not in finding.message:
            yield f"    observed: {shown(finding.observed, 300)}"
        if finding.expected and finding.expected not in finding.message:
            yield f"    expected: {shown(finding.expected, 300)}"
        if finding.remedy != "none":
            yield f"    remedy: {shown(finding.remedy)}"


class Hooks:
    """The hooks as an item of a campaign sees them: without each ``conftest.py`` that does not lie above the campaign.

    pytest's own choice for a path knows only the folders that pytest walked through, and it never walks to a campaign.
    """

    def __init__(self, manager: pytest.PytestPluginManager, directory: Path) -> None:
        self._manager = manager
        self._plugins = manager.get_plugins()
        files = {plugin: Path(getattr(plugin, "__file__", None) or "") for plugin in self._plugins}
        self._foreign = {plugin for plugin, file in files.items()
                         if file.name == "conftest.py" and file.parent not in directory.parents}

    @property
    def current(self) -> bool:
        """Whether no plugin came or went since."""
        return self._plugins == self._manager.get_plugins()

    def __getattr__(self, name: str) -> pluggy.HookCaller:
        return self._manager.subset_hook_caller(name, self._foreign)


class CheckItem(pytest.Item):
    """One check of one subject."""

    def __init__(self, *, name: str, pair: Pair, directory: Path, owner: Session, **kwargs: Any) -> None:
        super().__init__(name=name, nodeid=f"{kwargs['parent'].nodeid}::{name}", **kwargs)
        self.pair = pair
        self.directory = directory
        self.result: Result | None = None
        self._owner = owner
        self.add_marker(pytest.mark.campaign)
        campaign = owner.campaign(directory)
        if pair.deliverable is not None:
            self.extra_keyword_matches.add(pair.deliverable)
            self.user_properties.append(("campaign_deliverable", shown(pair.deliverable)))
            reason = skip_reason(campaign, campaign.by_id[pair.deliverable], pair.check)
            if reason is not None:
                self.add_marker(pytest.mark.skip(reason=f"{shown(pair.deliverable)}: {reason}"))
        self.user_properties.append(("campaign", shown(campaign.name)))

    @property
    def ihook(self) -> Any:
        """The hooks that are called for this item."""
        return self._owner.hooks(self.directory)

    def runtest(self) -> None:
        """Ask the question; raises `CheckFailed` unless the answer is good."""
        self.result = self._owner.run(self)
        if self.result.outcome in (Outcome.FAILED, Outcome.UNVERIFIED):
            first = _first(self.result)
            self.user_properties.append(("campaign_rule", first.rule))
            if not self._owner.campaign(self.directory).decides(self.pair.deliverable):
                pytest.xfail(f"{first.rule}: {shown(first.place)}: {shown(first.message)} (not gated)")
            raise CheckFailed(self.result)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """The findings, with the place in the data instead of a traceback into the checker."""
        if not isinstance(excinfo.value, CheckFailed) or self.config.getoption("fulltrace", False):
            return super().repr_failure(excinfo)
        # The value style shows str(exception) alone. Unlike a plain string it keeps a message of one line for the
        # summary and for JUnit, and its location survives the way from a worker of pytest-xdist.
        representation = excinfo.getrepr(style="value")
        finding = excinfo.value.finding
        if representation.reprcrash is not None:
            representation.reprcrash.path = shown(str(self.directory / (finding.path or "")))
            representation.reprcrash.lineno = finding.line or 1
            representation.reprcrash.message = f"{finding.rule}: {shown(finding.place)}: {shown(finding.message)}"
        return representation

    def reportinfo(self) -> tuple[Path, int, str]:
        """The path of what is checked, escaped: pytest-xdist loses a worker over a name that is no UTF-8.

        Line 0 rather than None: pytest fails on None when a skip mark is added.
        """
        return Path(shown(str(self.path))), 0, f"{shown(self.pair.deliverable or 'campaign')}: {self.pair.check}"

    def payload(self, report: pytest.TestReport) -> str:
        """The result as the report carries it; what did not come to an end has a reason instead of findings."""
        if self.result is not None:
            return self.result.to_text()
        skipped = report.outcome == "skipped"
        if skipped and isinstance(report.longrepr, tuple):
            reason = report.longrepr[2]
        else:
            crash = getattr(report.longrepr, "reprcrash", None)
            reason = library_text.without(
                str(getattr(crash, "message", report.longrepr))[:500],
                {**library_text.python_places(), **library_text.private_places(), str(self.directory): ""})
        outcome = Outcome.SKIPPED if skipped else Outcome.UNVERIFIED
        return Result(self.pair, outcome, reason=reason.removeprefix("Skipped: ")).to_text()


def in_order(items: list[pytest.Item], order: Mapping[tuple[Path, Pair], int]) -> Iterable[pytest.Item]:
    """The items with those of campaigns in the order of their checks, in the slots that campaigns had."""
    own = sorted((item for item in items if isinstance(item, CheckItem)), key=lambda item: order[item.directory, item.pair])
    following = iter(own)
    return [next(following) if isinstance(item, CheckItem) else item for item in items]


