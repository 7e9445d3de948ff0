"""The files of a folder that a library of Hugging Face wrote: which belong together, and how they are read.

Source of the names: ``transformers.utils`` (``SAFE_WEIGHTS_NAME`` and its like), ``peft.utils.constants``, and the
``vocab_files_names`` of the tokenizers in transformers 5.24.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .. import paths
from . import formats, sharded
from .base import HEAD, Candidate, Depth, FileFacts, Folder, Placed, Problem, ProblemKind, Reading, Source, Unit
from .file_sets import pass_over
from .streaming import exactly

LARGEST = 1 << 26  # bytes of a JSON file; the largest tokenizers have about 40 million
MOST_VALUES = 8_000_000  # JSON values in one, which bounds the memory that it takes
LARGEST_CONFIG = 1 << 20  # bytes of a configuration that recognition reads
CONFIG = "config.json"
ADAPTER_CONFIG = "adapter_config.json"
TOKENIZER_CONFIG = "tokenizer_config.json"
TOKENIZER = "tokenizer.json"
_WEIGHTS = r"(\.[A-Za-z0-9_-]+)?\.(safetensors|bin)"
MODEL_WEIGHTS = re.compile(rf"(model|pytorch_model){_WEIGHTS}")
ADAPTER_WEIGHTS = re.compile(rf"adapter_model{_WEIGHTS}")
_MODEL_SET = re.compile(r"(ft-)?(model|pytorch_model)[.-].*")
_ADAPTER_SET = re.compile(r"adapter_model[.-].*")
_SETTINGS = frozenset({"generation_config.json", TOKENIZER_CONFIG, "special_tokens_map.json", "added_tokens.json"})
# Settings and templates that are taken as they are (transformers.utils: CHAT_TEMPLATE_FILE, PROCESSOR_NAME and their like).
_AS_IT_IS = frozenset({
    "chat_template.jinja", "chat_template.json", "preprocessor_config.json", "processor_config.json",
    "video_preprocessor_config.json"})
_VOCABULARY = re.compile(
    r"tokenizer\.json|tekken\.json|.*vocab.*\.(json|txt|model|bpe)|.*\.(tiktoken|spm|bpe|vocab|codes)|(spiece|tokenizer|sentencepiece)"
    r".*\.model|.*sentencepiece.*|emoji\.json|.*\.word_shape\.json|bpe\.codes|merges\.txt|dict\.txt|.*tokenizer.*\.(model|txt|py)")


def is_vocabulary(name: str) -> bool:
    """Whether a file may be what a tokenizer knows its tokens from."""
    return _VOCABULARY.fullmatch(name) is not None


def taken_as_it_is(name: str) -> bool:
    """Whether a file belongs to a tokenizer or a processor and nothing in it can be compared with the model."""
    return name in _AS_IT_IS


def tokenizer_files(folder: Folder) -> Iterator[str]:
    """The paths of a folder's tokenizer or processor: its settings, its templates and its vocabulary."""
    return (candidate.path for name, candidate in folder.candidates.items()
            if name in _SETTINGS or is_vocabulary(name) or taken_as_it_is(name))


def weight_parts(folder: Folder, names: re.Pattern[str]) -> list[Unit]:
    """The weights in a folder under the names of the library: single files, and sets of shards.

    ``names`` is `MODEL_WEIGHTS` or `ADAPTER_WEIGHTS`. What the files hold is decided by their content; the format of one
    that no format recognises is "".
    """
    of_set = _MODEL_SET if names is MODEL_WEIGHTS else _ADAPTER_SET
    sets = [unit for unit in sharded.gather(folder) if of_set.fullmatch(unit.path.rpartition("/")[2])]
    taken = {path for unit in sets for path in unit.files}
    single = [Unit(form_of(candidate), candidate.path, (candidate.path,)) for name, candidate in sorted(folder.candidates.items())
              if names.fullmatch(name) and candidate.path not in taken]
    return [*sorted(single, key=lambda unit: not unit.path.endswith(".safetensors")), *sets]


def form_of(candidate: Candidate) -> str:
    """The name of the format that recognises a file as weights and nothing else, "" if none does."""
    return next((name for name, form in formats().items() if not form.ambiguous and form.recognise(candidate)), "")


def content(candidate: Candidate) -> Any | None:
    """The value in a small JSON file, None when it cannot be read."""
    if candidate.size > LARGEST_CONFIG:
        return None
    try:
        return loads(candidate.read(0, candidate.size))
    except (OSError, ValueError):
        return None


def settings(candidate: Candidate | None) -> Mapping[str, Any] | None:
    """The JSON object in a configuration file, None when there is none that can be read."""
    value = content(candidate) if candidate is not None else None
    return value if isinstance(value, dict) else None


def loads(data: bytes) -> Any:
    """JSON as the libraries read it (NaN and equal keys are taken); ValueError for what they would refuse or is too large."""
    if sum(data.count(byte) for byte in b"{[,") > MOST_VALUES:
        raise ValueError(f"more than {MOST_VALUES:,} values")
    try:
        return json.loads(data.decode("utf-8"))
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def opened(path: str, source: Source) -> Candidate:
    """A file of the job as recognition sees it."""
    size = source.size(path)

    def look(offset: int, length: int) -> bytes:
        with source.open(path) as file:
            return exactly(file, offset, max(0, min(length, size - offset)))

    return Candidate(path, size, look(0, HEAD), look)


def as_folder(unit: Unit, source: Source) -> Folder:
    """The folder of a unit with the files that belong to it."""
    inside = {path: path.rpartition("/")[2] for path in unit.files if path.rpartition("/")[0] == unit.path}
    return Folder(unit.path, {name: opened(path, source) for path, name in inside.items() if source.exists(path)})


class Documents:
    """The small files of a unit: each is read once and remembered in ``facts``; what is wrong with them is in ``problems``."""

    def __init__(self, unit: Unit, source: Source) -> None:
        self.facts: list[FileFacts] = []
        self.problems: list[Problem] = []
        self._unit = unit
        self._source = source

    def content(self, name: str) -> Any | None:
        """The value in a JSON file of the folder; None when it is absent or broken, which is then a problem."""
        path = paths.join(self._unit.path, name)
        if path not in self._unit.files or not self._source.exists(path):
            return None
        size = self._source.size(path)
        with self._source.open(path) as file:
            data = exactly(file, 0, min(size, LARGEST + 1))
        self.pass_over(path)
        if size > LARGEST:
            self.problems.append(Problem(ProblemKind.TOO_LARGE, path, f"{size:,} bytes of JSON", f"at most {LARGEST:,} bytes"))
            return None
        try:
            return loads(data)
        except ValueError as error:
            self.problems.append(
                Problem(ProblemKind.CONFIGURATION, path, f"it is no JSON: {error}", "JSON that the library reads"))
            return None

    def object(self, name: str) -> Mapping[str, Any] | None:
        """As `content`, of a file that must hold an object."""
        value = self.content(name)
        if value is not None and not isinstance(value, dict):
            path = paths.join(self._unit.path, name)
            self.problems.append(Problem(ProblemKind.CONFIGURATION, path, "its JSON is no object", "an object"))
            return None
        return value

    def lines(self, name: str, limit: int) -> Sequence[str]:
        """The lines of a text file of the folder without the blank ones at its end; none where it is absent or too large."""
        path = paths.join(self._unit.path, name)
        if path not in self._unit.files or not self._source.exists(path) or (size := self._source.size(path)) > limit:
            return ()
        with self._source.open(path) as file:
            data = exactly(file, 0, size)
        self.pass_over(path)
        return data.decode("utf-8", "replace").rstrip("\r\n").split("\n") if data.strip() else ()

    def pass_over(self, path: str) -> None:
        """Count a file as done, with its digest if that is asked for."""
        self.facts.append(pass_over(path, self._source))


def read_parts(parts: Sequence[Unit], source: Source) -> list[Reading]:
    """The readings of weights, each by the format that recognises it."""
    return [_read(part, source) for part in parts]


def _read(part: Unit, source: Source) -> Reading:
    form = formats().get(part.format)
    if form is not None:
        return form.read(part, source)
    size = source.size(part.path)
    source.advance(size)
    problem = Problem(ProblemKind.DAMAGED, part.path, "the file of the weights is in no format that is known here",
                      "safetensors or a torch file")
    return Reading("", None, [FileFacts(part.path, size)], [problem])


def depth_of(readings: Sequence[Reading]) -> Depth | None:
    """How deep all of them went."""
    depths = [reading.depth for reading in readings]
    return min((depth for depth in depths if depth is not None), default=None) if None not in depths else None


def whole_layout(readings: Sequence[Reading]) -> Mapping[str, Placed] | None:
    """The tensors of the weights that the library takes, which are the first; None when not all of them are known by name."""
    if not readings or readings[0].depth is None or len(readings[0].layout) != readings[0].tensors:
        return None
    return readings[0].layout
