"""What every format module shares: the question of recognition and the answer of a reading.

A format module defines one constant, ``FORMAT``. Recognition runs in pytest's own process on a few bytes
and must import nothing heavy; reading runs in the reload child. Neither knows campaigns or rules: a reading
answers with facts and with problems of the kinds below, which the reload check turns into findings.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, BinaryIO, Protocol, Self


class Depth(enum.IntEnum):
    """How far a reload went; see the table in ``docs/options.md``."""

    HEADER = 1
    TENSORS = 2
    MODEL = 3
    PROBE = 4

    @property
    def label(self) -> str:
        return self.name.lower()

    @classmethod
    def parse(cls, label: str) -> Depth:
        """The depth of that name; ValueError names the known ones."""
        try:
            return cls[label.upper()]
        except KeyError:
            raise ValueError(f"{label!r} is no depth; known are {', '.join(d.label for d in cls)}") from None


class ProblemKind(enum.StrEnum):
    """The kinds of fault that a reading can report, the same for every format."""

    TRUNCATED = "truncated"  # the file ends before its own structure says
    TRAILING = "trailing-bytes"  # bytes that belong to nothing
    DAMAGED = "damaged-structure"  # header, directory or pickle cannot be parsed, or contradicts itself
    CHECKSUM = "checksum"  # the container's own checksum disagrees with the bytes
    NAN = "nan"  # NaN in a floating point tensor
    INFINITE = "infinite"  # +-inf in a floating point tensor (no mask)
    NO_TENSORS = "no-tensors"  # a sound container that holds no tensor
    OUT_OF_STORAGE = "out-of-storage"  # a tensor claims more elements than its storage holds
    SHARD_MISSING = "shard-missing"  # a file that the set or its index names is absent
    SHARD_INDEX = "shard-index"  # the index and the shards contradict each other, or there is no index
    HOLE = "never-written"  # a range of the file that was never written
    NUL_TAIL = "nul-tail"  # NUL bytes in place of the last tensors
    FOREIGN_CLASS = "foreign-class"  # a class of a project that would have to be imported
    FRAMEWORK_CLASS = "framework-class"  # a known framework's or the standard library's data class
    UNSAFE_GLOBAL = "unsafe-global"  # a function that runs code when the file is loaded
    UNREADABLE_KIND = "unreadable-kind"  # tensors of a kind that are not read (sparse, quantised, meta ...)
    TOO_LARGE = "over-limit"  # structure larger than the bounded reader accepts
    EXECUTABLE = "executable-format"  # loading this format means running code that lies in it
    PICKLE_PROTOCOL = "pickle-protocol"  # a pickle protocol that weights-only loading does not read
    NO_CHECKSUM = "no-checksum"  # the writer switched the container's checksums off
    WASTED_STORAGE = "wasted-storage"  # a small view of a large storage was saved
    NO_WEIGHTS = "no-weights"  # a configuration of a model or an adapter without its weights
    CONFIGURATION = "configuration"  # a configuration file that cannot be used, or contradicts what lies beside it
    FILE_MISSING = "file-missing"  # a file that a configuration names is absent
    WRAPPER_PREFIX = "wrapper-prefix"  # names of tensors with the prefix of a wrapper (compile, DDP, FSDP)
    WRAPPED_NAMES = "wrapped-names"  # such names where nothing says what the model is
    MISSING_TENSORS = "missing-tensors"  # tensors that the model or the adapter needs are absent
    SHAPE = "shape"  # a tensor has another shape than the configuration says, or none
    UNEXPECTED_TENSORS = "unexpected-tensors"  # tensors of the model's own name space that it does not take
    EXTRA_TENSORS = "extra-tensors"  # tensors that the model does not take and does not need: a head, a buffer
    TIED_COPY = "tied-copy"  # two tensors that are tied were stored with different values
    TIED_NAME = "tied-name"  # of two tied tensors the one was stored whose name is derived
    WEIGHTS_DISAGREE = "weights-disagree"  # two files of the same weights hold different values
    QUANTISATION = "quantisation"  # quantised weights without the state that makes numbers of them
    VOCABULARY = "vocabulary"  # the tokenizer has ids that the embedding has no row for
    NO_VOCABULARY = "no-vocabulary"  # the settings of a tokenizer without its vocabulary
    UNTRAINED = "untrained"  # an adapter that changes nothing
    PERHAPS_INCOMPLETE = "perhaps-incomplete"  # an adapter that looks so by its names; without its base nobody can be sure
    UNKNOWN_SETTING = "unknown-setting"  # a setting that the library drops
    NEWER_LIBRARY = "newer-library"  # written by a newer library than the one that reads
    NOT_REBUILT = "not-rebuilt"  # why the model was not rebuilt, although nothing is wrong with the files
    PYTHON_CODE = "python-code"  # compiled code of one version of Python, which loading has to run
    UNFINISHED = "unfinished"  # the writer marks a save as not finished
    OPTIMIZER = "optimizer"  # the state of an optimizer that is not that of the model beside it
    PROGRESS = "progress"  # counters of a training that contradict each other, or none that can be read
    BEHIND = "behind"  # counters of a training that differ in a way that can have its reasons
    BASE_HEADERS = "base-headers"  # archived headers of a base that cannot be used, or are those of another model
    BASE_SETTINGS = "base-settings"  # archived headers that differ from the base in settings or in the type of its tensors
    ARCHIVED_BASE = "archived-base"  # an adapter was compared with archived headers, its base is not at hand
    OUTSIDE_NEEDED = "outside-needed"  # what failed for want of a file outside; the child finds it, not a format
    OUTSIDE_TRIED = "outside-tried"  # such a file was looked for, and nothing failed
    NO_SCALER = "no-scaler"  # a training in half precision without the state of its scaler
    PROBE_FILE = "probe-file"  # a file with a recorded input and output that cannot be used
    PROBE_DIFFERS = "probe-differs"  # the recorded input gave another output than the recorded one
    PROBE_OTHER_MODEL = "probe-other-model"  # the model has not the inputs or the outputs that were recorded
    PROBE_NOT_REPLAYED = "probe-not-replayed"  # the recorded input could not be given to the model here
    LOADER = "loader"  # the reviewer's own loader raised, or returned no model with its values


@dataclasses.dataclass(frozen=True)
class Problem:
    """One fault that a reading found.

    ``path`` is relative to the campaign directory; ``where`` is the tensor or member inside it, "" for the
    whole file. ``observed`` and ``expected`` are short phrases with the numbers in them. ``count`` is how
    many places of the file show the same fault (``where`` names the first).
    """

    kind: ProblemKind
    path: str
    observed: str
    expected: str
    where: str = ""
    count: int = 1


@dataclasses.dataclass(frozen=True)
class FileFacts:
    """What is known of one file after a reading; ``sha256`` is None unless it was asked for."""

    path: str
    bytes: int
    sha256: str | None = None


# What a training needs to go on.
MODEL, OPTIMIZER, SCHEDULE, RANDOM, PROGRESS = PARTS = ("model", "optimizer", "schedule", "random state", "progress")


@dataclasses.dataclass(frozen=True)
class Strided:
    """Where values lie that do not lie one behind the other: the place of the first, the size of an element, and how many
    elements lie from one to the next in each dimension of ``shape``."""

    start: int
    item: int
    shape: tuple[int, ...]
    stride: tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class Placed:
    """One tensor: its type and shape (as safetensors writes them), and where its values lie.

    ``offset`` is None when they do not lie one behind the other in the order of the shape; ``strided`` then says where, as far as
    that is known, or ``parts`` are the blocks of rows in which it was saved. ``zero``: its values were looked at, and every one
    of them is zero. ``sha256`` is its digest (see `pytest_campaign.tensor_digests`) where it was taken in the same pass.
    """

    dtype: str
    shape: tuple[int, ...]
    path: str
    offset: int | None
    length: int
    zero: bool = False
    sha256: str | None = None
    strided: Strided | None = None
    parts: tuple[Placed, ...] = ()


EQUAL, OTHER, ABSENT, UNREAD = STATES = "=x-?"


@dataclasses.dataclass(frozen=True)
class Comparison:
    """The tensors of a reading against the digests that were declared.

    ``states`` has one letter for each declared tensor, in their order: its values are those that were declared (`EQUAL`) or
    `OTHER` ones, it is `ABSENT`, or its values could not be read (`UNREAD`). ``seen`` are the first of those with other values
    and of those that are absent: (number, path of the file or "", what was seen). ``others`` is how many tensors nothing was
    declared for, and ``names`` are the first of them.
    """

    states: str
    seen: Sequence[tuple[int, str, str]] = ()
    others: int = 0
    names: Sequence[str] = ()


@dataclasses.dataclass(frozen=True)
class Reading:
    """What was learned from one checkpoint.

    ``depth`` is how deep the reading really went, None when not even the structure could be read.
    ``tensors`` counts tensors, ``elements`` their elements and ``dtypes`` the tensors of each dtype.
    ``bytes_read`` counts the bytes of tensor data that were looked at. ``layout`` are the tensors by name where the
    format knows them all, and ``stated`` the plain values near the top of a pickled object by their keys; both are for
    comparison inside the child and are not sent to the parent. ``ranks`` is of how many processes the state is there, None
    where the format does not tell. ``only_state``: it holds no model but what a training needs to go on. ``parts`` are the
    `PARTS` of a training's state that were found, and ``step`` the number of steps after which it was saved, where it says so.
    ``comparison`` is there where digests of tensors were declared.
    """

    format: str
    depth: Depth | None
    files: Sequence[FileFacts] = ()
    problems: Sequence[Problem] = ()
    tensors: int = 0
    elements: int = 0
    dtypes: Mapping[str, int] = dataclasses.field(default_factory=dict)
    bytes_read: int = 0
    layout: Mapping[str, Placed] = dataclasses.field(default_factory=dict)
    stated: Mapping[tuple[str, ...], Any] = dataclasses.field(default_factory=dict)
    ranks: int | None = None
    only_state: bool = False
    parts: Sequence[str] = dataclasses.field(default_factory=list)
    step: int | None = None
    comparison: Comparison | None = None


@dataclasses.dataclass(frozen=True)
class Candidate:
    """What recognition may look at: one regular file.

    ``head`` holds its first bytes (at most `HEAD`); ``read(offset, length)`` gives more, bounded by the file.
    """

    path: str
    size: int
    head: bytes
    read: Callable[[int, int], bytes]

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]


HEAD = 1024


@dataclasses.dataclass(frozen=True)
class Unit:
    """One thing to reload: a checkpoint file, or a set of files that only make sense together.

    ``path`` names it (the file, the index of a set, or the folder); ``files`` are the regular files that belong to it, all
    relative to the campaign directory. ``hollow``: it has the configuration of a model and no weights. ``ambiguous``: such
    content may be data of any kind (see `Format`). ``beside`` are files of other units that its reading looks at: their headers,
    to compare.
    """

    format: str
    path: str
    files: tuple[str, ...]
    hollow: bool = False
    ambiguous: bool = False
    beside: tuple[str, ...] = ()

    @property
    def is_folder(self) -> bool:
        return self.path not in self.files

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """The unit that ``dataclasses.asdict`` made plain data of."""
        return cls(**{**data, "files": tuple(data["files"]), "beside": tuple(data["beside"])})


@dataclasses.dataclass(frozen=True)
class Folder:
    """The regular files of one folder (not of its subfolders), by name.

    ``folders`` are the names of its subfolders. ``below(name)`` gives the regular files anywhere below a subfolder by their paths
    in it, empty ones too and with empty heads; known to recognition only.
    """

    path: str
    candidates: Mapping[str, Candidate]
    folders: Sequence[str] = ()
    below: Callable[[str], Mapping[str, Candidate]] = lambda name: {}


class Source(Protocol):
    """How a reading reaches its files and says how far it is. Provided by the reload child.

    ``open`` gives an unbuffered binary file that was opened once and compared with the file table (it raises
    OSError otherwise); ``size`` is the size in the table. ``advance(n)`` reports n more bytes of work done.
    ``base`` reaches the files of the base model in the same way, by their paths in its folder (``config.json``); None
    when there is none or it is not at hand. ``base_name`` is what a message calls it. ``hashed(names)`` are those of the tensors
    of a file whose digests are to be taken in the same pass.
    """

    depth: Depth  # go no deeper
    digest: bool  # take the SHA-256 of every file in the same pass
    threads: int  # reader threads that may be used
    base: BaseSource | None
    base_name: str

    def open(self, path: str) -> BinaryIO: ...
    def size(self, path: str) -> int: ...
    def exists(self, path: str) -> bool: ...
    def advance(self, count: int) -> None: ...
    def hashed(self, names: Collection[str]) -> Collection[str]: ...


class BaseSource(Source, Protocol):
    """How a reading reaches the files of a base model. ``names`` are their paths."""

    def names(self) -> Sequence[str]: ...


def _nothing(folder: Folder) -> Iterator[Unit]:
    return iter(())


class Pickled(enum.StrEnum):
    """Whether torch's weights-only loader reads the files of a format."""

    NO = "no"
    YES = "yes"
    BY_NAME = "by-name"  # those of a set that have the name of a pickle


class Holds(enum.StrEnum):
    """What a training can find in a format to go on from."""

    WEIGHTS = "weights"  # weights and no more, unless the names of the tensors say otherwise
    STATE = "state"  # an optimizer may be in it, and is found by its names
    UNKNOWN = "unknown"  # nobody looks for an optimizer in it


@dataclasses.dataclass(frozen=True)
class Format:
    """One checkpoint format.

    ``depth`` is the deepest level that ``read`` reaches, `Depth.MODEL` with the libraries of the framework.
    ``recognise`` decides about a single file by its content; ``gather`` finds sets of files in a folder (they win over
    single files). ``read(unit, source)`` runs in the child; ``concurrent`` says that several threads may be in it at the
    same time. ``ambiguous`` says that what it recognises may be data of any kind (arrays, pickles): it is read where it is
    delivered as weights and nothing clearer lies there, and is no checkpoint by itself. ``preload`` are modules that
    `Depth.MODEL` needs and that are imported once for all children; one that cannot be imported is no fault. ``aliases`` are
    names that people write for it, in small letters and beside its own; ``of_others`` says that its files are those of other
    formats. ``build(unit, source, attention)`` gives the model with its values, as a module of torch (see `with_values`).
    """

    name: str
    depth: Depth
    read: Callable[[Unit, Source], Reading]
    recognise: Callable[[Candidate], bool] = lambda candidate: False
    gather: Callable[[Folder], Iterator[Unit]] = _nothing
    concurrent: bool = False
    ambiguous: bool = False
    preload: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    of_others: bool = False
    build: Callable[[Unit, Source, str | None], Any] | None = None
    pickled: Pickled = Pickled.NO
    holds: Holds = Holds.UNKNOWN


_MOST = (1 << 64) - 1  # the largest count that is said: the parent takes no longer numbers


def to_json(reading: Reading) -> dict[str, Any]:
    """The reading as plain JSON data. Shapes that lie can make counts of any size; beyond 64 bits they are cut."""
    data = dataclasses.asdict(dataclasses.replace(reading, layout={}, stated={}, dtypes=dict(reading.dtypes)))
    del data["layout"], data["stated"]
    data["depth"] = reading.depth.label if reading.depth is not None else None
    data |= {field: min(data[field], _MOST) for field in ("tensors", "elements", "bytes_read")}
    data |= {field: None for field in ("ranks", "step") if (data[field] or 0) > _MOST}
    return data


def from_json(data: Any) -> Reading:
    """The reading that `to_json` wrote; ValueError for anything else (the child is not trusted)."""
    try:
        return Reading(
            format=_text(data["format"]),
            depth=None if data["depth"] is None else Depth.parse(_text(data["depth"])),
            files=[FileFacts(_text(f["path"]), _count(f["bytes"]), None if f["sha256"] is None else _text(f["sha256"]))
                   for f in data["files"]],
            problems=[Problem(ProblemKind(p["kind"]), _text(p["path"]), _text(p["observed"]), _text(p["expected"]),
                              _text(p["where"]), _count(p["count"])) for p in data["problems"]],
            tensors=_count(data["tensors"]),
            elements=_count(data["elements"]),
            dtypes={_text(k): _count(v) for k, v in data["dtypes"].items()},
            bytes_read=_count(data["bytes_read"]),
            ranks=None if data["ranks"] is None else _count(data["ranks"]),
            only_state=_truth(data["only_state"]),
            parts=[_part(part) for part in data["parts"]],
            step=None if data["step"] is None else _count(data["step"]),
            comparison=None if data["comparison"] is None else _comparison(data["comparison"]),
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"not a reading: {error!r}") from None


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return value


def _part(value: Any) -> str:
    if value not in PARTS:
        raise TypeError(f"{value!r} is no part of a training's state")
    return str(value)


def _comparison(data: Any) -> Comparison:
    states = _text(data["states"])
    if not set(states) <= set(STATES):
        raise TypeError("unknown states of tensors")
    seen = [(_count(number), _text(path), _text(what)) for number, path, what in data["seen"]]
    return Comparison(states, seen, _count(data["others"]), [_text(name) for name in data["names"]])


def _truth(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"{value!r} is neither true nor false")
    return value


def _count(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise TypeError(f"{value!r} is no count")
    return value
