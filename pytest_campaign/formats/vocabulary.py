"""A delivered tokenizer against the model that it belongs to.

Every id that it can give needs a row of the embedding; more rows than ids are usual (they are padded). The ids are those of
``model.vocab`` (an object, or for Unigram a list whose places are the ids) and ``added_tokens`` of ``tokenizer.json``
(tokenizers 0.22), of the ``vocab.json`` or ``vocab.txt`` (one token a line) of the tokenizers before it, and of the tokens that
were added to those.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from .. import paths
from .base import Placed, Problem, ProblemKind, Unit
from .model_files import TOKENIZER, TOKENIZER_CONFIG, Documents, is_vocabulary, taken_as_it_is

_EMBEDDING = re.compile(r"(^|\.)(embed_tokens|wte|word_embeddings|tok_embeddings|embed_in|shared|embeddings)\.weight")
# Tokenizers that work on characters or bytes and have no file of a vocabulary (transformers 5.24).
_LONGEST_LIST = 1 << 26  # bytes of a vocab.txt whose lines are counted
# Tokenizers whose vocab.json needs the merges beside it; without them some versions split every word into letters.
_WITH_MERGES = re.compile(
    r"(Bart|Blenderbot|CLIP|CodeGen|CTRL|Deberta|GPT2|LED|Longformer|OpenAIGPT|Qwen2|Roberta|Whisper)Tokenizer(Fast)?")
_WITHOUT_FILE = re.compile(r"(ByT5|Canine|Perceiver)Tokenizer(Fast)?")


def check(unit: Unit, documents: Documents, rows: int | None) -> Iterator[Problem]:
    """What is wrong with the tokenizer in a unit's folder; ``rows`` is how many rows the embedding has, if that is known."""
    settings = documents.object(TOKENIZER_CONFIG)
    documents.object("special_tokens_map.json")
    added = documents.content("added_tokens.json")
    tokenizer = documents.object(TOKENIZER)
    plain, lines = documents.content("vocab.json"), documents.lines("vocab.txt", _LONGEST_LIST)
    vocabulary = [path for path in unit.files if is_vocabulary(path.rpartition("/")[2])]
    as_it_is = [path for path in unit.files if taken_as_it_is(path.rpartition("/")[2])]
    for path in as_it_is:
        if path.endswith(".json"):
            documents.object(path.rpartition("/")[2])
    for path in (*vocabulary, *as_it_is):
        if path not in {fact.path for fact in documents.facts}:
            documents.pass_over(path)
    if settings is not None and not vocabulary and not _needs_none(settings):
        yield Problem(ProblemKind.NO_VOCABULARY, paths.join(unit.path, TOKENIZER),
                      f"{TOKENIZER_CONFIG} and no vocabulary: the tokenizer cannot be loaded",
                      f"{TOKENIZER}, or the files of a vocabulary")
    kind = str((settings or {}).get("tokenizer_class"))
    if plain is not None and tokenizer is None and _WITH_MERGES.fullmatch(kind) and not any(
            path.endswith("/merges.txt") or path == "merges.txt" for path in unit.files):
        yield Problem(ProblemKind.NO_VOCABULARY, paths.join(unit.path, "merges.txt"),
                      f"a vocab.json without the merges.txt that a {kind} needs", "merges.txt, or tokenizer.json")
    if "CTC" in kind:
        return  # it only reads what the output layer says
    for name, ids in (
        (TOKENIZER, _ids(tokenizer)), ("added_tokens.json", _numbers(added)), (TOKENIZER_CONFIG, _decoded(settings)),
        ("vocab.json", _numbers(plain)), ("vocab.txt", [(len(lines) - 1, lines[-1])] if lines else []),
    ):
        highest = max(ids, key=lambda pair: pair[0], default=None)
        if rows is not None and highest is not None and highest[0] >= rows:
            beyond = max(sum(number >= rows for number, _ in ids), len(lines) - rows if name == "vocab.txt" else 0)
            yield Problem(ProblemKind.VOCABULARY, paths.join(unit.path, name),
                          f"the token {highest[1][:60]!r} has the id {highest[0]:,}, the embedding has {rows:,} rows",
                          f"ids below {rows:,}", count=beyond)
            return


def _needs_none(settings: Mapping[str, Any]) -> bool:
    return "auto_map" in settings or _WITHOUT_FILE.fullmatch(str(settings.get("tokenizer_class"))) is not None


def _ids(tokenizer: Mapping[str, Any] | None) -> list[tuple[int, str]]:
    if tokenizer is None:
        return []
    model = tokenizer.get("model")
    vocabulary = model.get("vocab") if isinstance(model, dict) else None
    found = _numbers(vocabulary)
    if isinstance(vocabulary, list) and vocabulary:
        found.append((len(vocabulary) - 1, str(vocabulary[-1])))
    added = tokenizer.get("added_tokens")
    for token in added if isinstance(added, list) else ():
        if isinstance(token, dict) and type(token.get("id")) is int:
            found.append((token["id"], str(token.get("content"))))
    return found


def _decoded(settings: Mapping[str, Any] | None) -> list[tuple[int, str]]:
    """The tokens that were added, as the settings of a tokenizer list them: by their ids."""
    listed = (settings or {}).get("added_tokens_decoder")
    return [(int(number), str(token.get("content")) if isinstance(token, dict) else str(token))
            for number, token in (listed.items() if isinstance(listed, dict) else ()) if re.fullmatch(r"[0-9]{1,12}", number)]


def _numbers(vocabulary: object) -> list[tuple[int, str]]:
    if not isinstance(vocabulary, dict):
        return []
    return [(number, token) for token, number in vocabulary.items() if type(number) is int]


def rows(config: Mapping[str, Any], layout: Mapping[str, Placed] | None) -> int | None:
    """How many rows the input embedding has: by its tensor where the name tells it, else as the configuration says."""
    found = [placed.shape[0] for name, placed in (layout or {}).items() if _EMBEDDING.search(name) and len(placed.shape) == 2]
    if found:
        return max(found)
    inner = config.get("text_config")
    sizes = [part.get("vocab_size") for part in (config, inner) if isinstance(part, dict)]
    return next((size for size in sizes if type(size) is int and size > 0), None)
