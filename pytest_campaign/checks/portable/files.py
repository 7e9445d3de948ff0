"""Which fields of which files hold paths, and what becomes of them: the table that `judge` goes by.

Everything that is not listed here is content (text of data sets, predictions, logs, source code, vocabularies) and is
not read at all.
"""

from __future__ import annotations

import dataclasses
import enum
import re
from collections.abc import Callable, Iterator

from ...readers import ini_text, lenient_json, yaml_text
from ...readers.fields import Field

Reader = Callable[[bytes], Iterator[Field]]


class Role(enum.Enum):
    """What becomes of a field."""

    BASE = enum.auto()  # a loader follows it to the base model
    REFERENCE = enum.auto()  # a loader or a person follows it
    BESIDE = enum.auto()  # followed too, but a person also finds it by its name
    BEST = enum.auto()  # the name of a checkpoint of the same training
    LIKELY = enum.auto()  # by its name something is loaded from there; no known loader does
    RECORDED = enum.auto()  # where it ran


Roles = Callable[[Field], Role | None]


@dataclasses.dataclass(frozen=True)
class Kind:
    """One kind of file. ``name`` is matched with the end of its path; ``of_weights`` says that it means this only beside weights.

    ``referring`` says that it is there to be followed, so that one that cannot be read is worth a word.
    """

    name: re.Pattern[str]
    read: Reader
    role: Roles
    of_weights: bool = False
    referring: bool = False


def _pattern(names: str) -> re.Pattern[str]:
    return re.compile(rf"(?:.*/)?(?:{names})", re.I)


# Words of field names. Something that is needed to load a model again; what only a training reads or writes; what is text.
_LOADED = frozenset({
    "adapter", "backbone", "base", "checkpoint", "ckpt", "decoder", "encoder", "lora", "merges", "model", "pretrained",
    "scaler", "spm", "tokenizer", "vocab", "vocabulary", "weights"})
_OF_TRAINING = frozenset({
    "cache", "cfg", "config", "data", "dataset", "datasets", "eval", "image", "images", "input", "log", "logging", "logs",
    "output", "resume", "run", "runs", "save", "source", "test", "train", "training", "val", "validation", "work"})
_PATHS = frozenset({
    "artifact", "cache", "checkpoint", "ckpt", "cwd", "dir", "directory", "dirpath", "file", "filename", "folder", "home",
    "location", "path", "paths", "root", "uri"})
_CONTENT = frozenset({
    "added_tokens_decoder", "chat_template", "extra_special_tokens", "id2label", "label2id", "log_history", "prompt", "prompts",
    "special_tokens_map", "task_specific_params", "template"})
_WORD = re.compile(r"[A-Z]?[a-z0-9]+|[A-Z]+(?![a-z])")


def words(name: str) -> frozenset[str]:
    """The words of a field's name: ``bestModel_path`` has best, model and path."""
    return frozenset(word.lower() for word in _WORD.findall(name))


def names_path(name: str) -> bool:
    """Whether a field's name says that it holds a path."""
    return bool(words(name) & _PATHS)


def _is_content(field: Field) -> bool:
    return not _CONTENT.isdisjoint(field.keys)


def _recorded(field: Field) -> Role | None:
    return None if _is_content(field) else Role.RECORDED


def _model_config(field: Field) -> Role | None:
    """config.json and its like. transformers 4 writes ``_name_or_path``, and no version of it reads the field from the file."""
    if _is_content(field):
        return None
    if field.name in ("_name_or_path", "name_or_path"):
        return Role.RECORDED
    if field.keys[0] == "auto_map":  # <model or folder>--<module>.<class>
        return Role.REFERENCE
    found = words(field.name)
    return Role.LIKELY if found & _LOADED and not found & _OF_TRAINING else Role.RECORDED


def _adapter_config(field: Field) -> Role | None:
    """PEFT loads the base from here; the adapters of X-LoRA lie in the folder itself, whatever the configuration says."""
    if field.keys == ("base_model_name_or_path",):
        return Role.BASE
    return Role.RECORDED if field.keys[:1] == ("adapters",) else _model_config(field)


def _tokenizer_config(field: Field) -> Role | None:
    """transformers before 5 took the file arguments of a tokenizer from here; ``special_tokens_map_file`` it never read."""
    if len(field.keys) != 1 or not field.name.endswith(("_file", "_path")):
        return None
    return Role.RECORDED if field.name in ("name_or_path", "special_tokens_map_file") else Role.LIKELY


def _only(role: Role, *names: str) -> Roles:
    """The role for some fields of the top level, nothing for the others."""
    return lambda field: role if field.keys in {(name,) for name in names} else None


def _each(role: Role, *names: str) -> Roles:
    """The role for fields of these names wherever they stand."""
    return lambda field: role if field.name in names else None


def _instruction(field: Field) -> Role | None:
    """Somebody reads it to load the result again."""
    return Role.LIKELY if names_path(field.name) or words(field.name) & _LOADED else None


def _dvc_config(field: Field) -> Role | None:
    return Role.REFERENCE if field.name == "url" and field.keys[0].startswith("remote") else None


_JSON, _YAML, _INI = lenient_json.fields, yaml_text.fields, ini_text.fields
_SETTINGS = r"(?:hparams|params|args|arguments|settings|options|hyper_?parameters|run_?info|[a-z0-9_.-]*(?:_args|config|_params))"

# The first that fits decides.
KINDS: tuple[Kind, ...] = (
    Kind(_pattern(r"adapter_config\.json"), _JSON, _adapter_config, referring=True),  # peft/config.py
    Kind(_pattern(r"trainer_state\.json"), _JSON, _only(Role.BEST, "best_model_checkpoint"), referring=True),
    Kind(_pattern(r"tokenizer_config\.json"), _JSON, _tokenizer_config),
    # sentence_transformers, load_modules
    Kind(_pattern(r"modules\.json"), _JSON, _each(Role.REFERENCE, "path"), of_weights=True, referring=True),
    # mlflow/store/tracking/file_store.py and mlflow/store/model_registry/file_store.py
    Kind(_pattern(r"models/[^/]+/version-[0-9]+/meta\.yaml"), _YAML, _only(Role.BESIDE, "source", "storage_location"),
         referring=True),
    Kind(_pattern(r"meta\.yaml"), _YAML, _only(Role.BESIDE, "artifact_uri", "artifact_location"), referring=True),
    Kind(_pattern(r"MLmodel"), _YAML, _model_config),
    Kind(_pattern(r"checkpoint"), ini_text.quoted, _only(Role.BEST, "model_checkpoint_path")),  # tf.train.get_checkpoint_state
    Kind(_pattern(r"\.dvc/config(?:\.local)?"), _INI, _dvc_config, referring=True),
    Kind(_pattern(r"[^/]+\.dvc|dvc\.(?:lock|yaml)"), _YAML, _each(Role.REFERENCE, "path")),
    Kind(_pattern(r"state\.json"), _JSON, _each(Role.REFERENCE, "filename")),  # a data set of `datasets`, save_to_disk
    # tensorboard/plugins/projector
    Kind(_pattern(r"projector_config\.pbtxt"), ini_text.quoted,
         _each(Role.REFERENCE, "tensor_path", "metadata_path", "image_path")),
    Kind(_pattern(r"\.hydra/[^/]+\.ya?ml|multirun\.yaml"), _YAML, _recorded),
    Kind(_pattern(r"wandb/.*\.ya?ml"), _YAML, _recorded),
    Kind(_pattern(r"wandb/.*wandb-metadata\.json"), _JSON, _recorded),
    Kind(_pattern(rf"{_SETTINGS}\.ya?ml"), _YAML, _recorded),
    Kind(_pattern(r"(?:[a-z0-9_]+_)?config(?:_[a-z0-9_]+)?\.json|model_index\.json"), _JSON, _model_config, of_weights=True),
    Kind(_pattern(rf"{_SETTINGS}\.json"), _JSON, _recorded),
)
# Files of any name, by the kind of their deliverable.
_OF_DELIVERABLES = {kind: tuple(Kind(_pattern(name), read, role) for name, read in (
    (r"[^/]*\.json", _JSON), (r"[^/]*\.ya?ml", _YAML), (r"[^/]*\.(?:ini|cfg|conf|toml|env)", _INI)))
    for kind, role in (("parameters", _recorded), ("instructions", _instruction))}
# Text files of one line that name a checkpoint (mmengine and detectron2 write `last_checkpoint`).
POINTER = _pattern(r"(?:last|latest|best)_(?:checkpoint|ckpt|model)(?:_path)?(?:\.txt)?")


def kind_of(path: str, deliverable: str, *, beside_weights: bool) -> Kind | None:
    """What kind of file lies at a path, None for content. ``deliverable`` is the kind of what it belongs to."""
    kinds = (*KINDS, *_OF_DELIVERABLES.get(deliverable, ()))
    return next((kind for kind in kinds if kind.name.fullmatch(path) and (beside_weights or not kind.of_weights)), None)
