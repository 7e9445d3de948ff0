"""What every check module shares: the check itself and what it may learn about files.

A check module defines its rules at the top, one function that yields findings, and one constant ``CHECK``.
The function is pure: it sees the campaign, for most checks one deliverable, and the evidence; it knows nothing
of pytest, opens no file and starts no process.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import BinaryIO, Protocol

from ..base_lookup import Absent, Found, Known
from ..bases import Statement
from ..campaign import Campaign, Deliverable
from ..declarations import Declarations
from ..findings import Finding, Rule
from ..formats.base import Unit
from ..inventory import Entry
from ..loaders import Loader
from ..merging import Difference
from ..parameters import Parameters
from ..proved import Proved
from ..record_files import RecordFiles
from ..reload.protocol import Answer, FileSpec


class Evidence(Protocol):
    """What is known about the files of a campaign, looked up once however many checks ask."""

    @property
    def torch_version(self) -> str:
        """The version of the torch that reads, such as ``2.10.0+cpu``; empty when none is installed."""
        ...

    def head(self, entry: Entry) -> bytes:
        """The first kilobyte of a regular file; OSError when it cannot be read or has changed."""
        ...

    def content(self, entry: Entry, limit: int) -> bytes:
        """The first ``limit`` bytes of a regular file; OSError as for `head`."""
        ...

    def stream(self, entry: Entry) -> BinaryIO:
        """A regular file, open for reading from its start, unbuffered; the caller closes it. OSError as for `head`."""
        ...

    def sha256(self, entry: Entry) -> str:
        """The SHA-256 of a regular file, in hexadecimal; OSError as for `head`."""
        ...

    def copies(self, campaign: Campaign) -> Mapping[str, str]:
        """The id of each deliverable that holds the same bytes as an earlier one, with the id of that one."""
        ...

    def unit_copies(self, campaign: Campaign) -> Mapping[str, str]:
        """The same of the deliverables of the kind that the budget is divided by; none where it names no kind."""
        ...

    def parameters(self, campaign: Campaign) -> Mapping[str, Parameters]:
        """The parameters of the runs, by the id of the run; runs that name no file have none."""
        ...

    @property
    def record_files(self) -> RecordFiles:
        """What is known about files of predictions, data sets and metrics."""
        ...

    def digests(self, wanted: Mapping[Entry, Collection[str]]) -> Mapping[Entry, Mapping[str, str] | OSError]:
        """The digests of regular files in the wanted algorithms, or the error that reading a file ended with, as for `head`."""
        ...

    def declarations(self, campaign: Campaign) -> Declarations:
        """What the documents and the lists of digests in the directory say of the bytes of its files."""
        ...

    def stated_base(self, campaign: Campaign, deliverable: Deliverable) -> Statement:
        """What the manifest and the adapter configurations say of a deliverable's base."""
        ...

    def base(self, campaign: Campaign, deliverable: Deliverable) -> Found | Absent | None:
        """Where a deliverable's base lies, or why it is not at hand; None where none is named."""
        ...

    def base_sha256(self, found: Found, file: FileSpec) -> str:
        """The SHA-256 of a file of a base; OSError as for `head`."""
        ...

    def known_base(self, text: str, revision: str | None = None) -> Known | None:
        """The commit of a base model, by its name or the path of a directory that was given, as far as this machine knows it.

        ``revision`` is the branch, the tag or the shortened commit by which it is named, None for what is taken by default.
        """
        ...

    def merged(self, campaign: Campaign, deliverable: Deliverable, adapter: Deliverable, found: Found) -> Difference | str:
        """How a merged model differs from its base, or why that cannot be said; OSError as for `head`."""
        ...

    def reload(self, campaign: Campaign, deliverable: Deliverable) -> Answer:
        """The reload of all the checkpoints of a deliverable in a fresh process."""
        ...

    def look_through(self, campaign: Campaign, deliverable: Deliverable) -> Answer:
        """The structure, by a fresh process, of what was recognised in a deliverable and is no checkpoint of it."""
        ...

    def loader(self, campaign: Campaign, deliverable: Deliverable) -> Loader | None:
        """The reviewer's own loader for a deliverable, None where there is none."""
        ...

    def prove(self, campaign: Campaign, deliverable: Deliverable, model: Unit | None, probe: str | None) -> Proved:
        """Have a model built with its values, and given the input of a probe where there is one.

        ``model`` is the unit that its library builds; None lets the reviewer's loader read the whole deliverable.
        """
        ...


def _always(campaign: Campaign, deliverable: Deliverable) -> bool:
    return True


def _sensible(campaign: Campaign, deliverable: Deliverable) -> str | None:
    return None


@dataclasses.dataclass(frozen=True)
class CampaignCheck:
    """One question about a campaign as a whole. ``asks`` is the question in one line."""

    name: str
    asks: str
    run: Callable[[Campaign, Evidence], Iterable[Finding]]


@dataclasses.dataclass(frozen=True)
class DeliverableCheck:
    """One question about one deliverable.

    ``expected`` decides, from the documents and the recognised content, whether a deliverable needs the check to
    be accepted. ``skip`` gives the reason when the question makes no sense (the reload of an absent file).
    Checks with a higher ``cost`` come later.
    """

    name: str
    asks: str
    run: Callable[[Campaign, Deliverable, Evidence], Iterable[Finding]]
    expected: Callable[[Campaign, Deliverable], bool] = _always
    skip: Callable[[Campaign, Deliverable], str | None] = _sensible
    cost: int = 0


Check = CampaignCheck | DeliverableCheck


def rules_of(namespace: Mapping[str, object]) -> Iterator[Rule]:
    """The rules that a check module defines, in the order in which they stand there."""
    return (value for value in namespace.values() if isinstance(value, Rule))
