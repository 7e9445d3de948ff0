"""Strings that do something to whoever shows them, put at every place of a campaign that a string can come from."""

import base64
import io
import json
import os
import re
import struct
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy
import torch

MARK = "n4ughty"  # stands in each string, so that it is known to have been shown
_CONTROLS = {
    "escape": "\x1b[31m{}\x1b[0m", "title": "\x1b]0;{}\x07", "link": "\x1b]8;;http://{}\x1b\\", "string": "\x1bP{}\x1b\\",
    "8-bit": "\x9b31m{}\x9d0;x\x9c", "bell": "{}\x07\x08\x7f", "return": "{}\rACCEPTED", "lines": "a\n{}\n\x0b\x0c\x85b",
    "separators": "{}\u2028a\u2029b\x1c\x1d\x1e\x1f", "bidi": "\u202e{}\u202c\u2066\u2069\u200f\u061c",
    "width": "{}\u200b\u200c\u200d\u2060\ufeff\u00ad",
    "blanks": "\u00a0{}\u3000\u2003\u1680", "fillers": "{}\u115f\u3164\uffa0\u2800\u034f\ufe0f", "tags": "{}\U000e0041\U000e0100",
    "private": "{}\ue000\ufdd0\uffff\U0010fffe", "interlinear": "{}\ufff9\ufffa\ufffb",
}
_COMMANDS = {
    "github": "::error file=x::{}", "github after blanks": "  ::add-mask::{}", "github line": "x\n::stop-commands::{}",
    "github old": "##[error]{}", "github old inside": "x ##[add-path]{}", "gitlab": "section_start:1700000000:{}\r\x1b[0K",
    "azure": "##vso[task.setvariable variable=x]{}",
    "teamcity": "##teamcity[testFailed name='{}']", "travis": "travis_fold:start:{}\r",
}
_MARKUP = {
    "xml": "]]></failure><x a='{}'>&amp;&#0;", "html": "<script>{}</script>\"onload='x'",
    "markdown": "![{}](javascript:x) `|` <b>",
    "csv": "=cmd|'/c {}'!A0", "format": "%s%n{{{}}}$HOME ${{HOME}} `id`",
    "quotes": "'\"\\{}\\u001b\\x1b", "zalgo": "{}" + "\u0301\u0489" * 20, "long": "{}" + "y" * 90,
}
STRINGS = {name: text.format(MARK) for group in (_CONTROLS, _COMMANDS, _MARKUP) for name, text in group.items()}

# What no output may hold: control characters (the line feed ends lines), what orders text or shows nothing, and commands.
RAW = re.compile(
    "[\x00-\x09\x0b-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\u2800\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e0fff]"
    r"|(?m:^[ ]*::)|##[a-z]*\[|section_(?:start|end):[0-9]", re.IGNORECASE)


def raw(text: str) -> list[str]:
    """What stands in an output and must not."""
    return [text[max(0, found.start() - 60): found.end() + 60] for found in RAW.finditer(text)]


def file_name(text: str) -> str:
    """The text as the name of a file, as near as the system allows."""
    return text.replace("/", "_").replace("\0", "_").encode("utf-8", "ignore")[:120].decode("utf-8", "ignore")


def _pickled_global(module: str, name: str) -> bytes:
    text = f"{module}\n{name}\n".encode("utf-8", "ignore")
    return b"\x80\x02c" + text + b"q\x00."


def _torch_zip(name: str) -> bytes:
    buffer = io.BytesIO()
    torch.save({name: torch.ones(2)}, buffer)
    return buffer.getvalue()


def _safetensors(name: str) -> bytes:
    header = json.dumps({name: {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}, "__metadata__": {name: name}}).encode()
    return struct.pack("<Q", len(header)) + header + struct.pack("<f", float("nan"))


def _torch_with_class(name: str) -> bytes:
    """A torch file whose pickle asks for a class of that name."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("x/data.pkl", _pickled_global(name.replace("\n", " "), name.replace("\n", " ")))
        archive.writestr("x/version", "3\n")
        archive.writestr("x/" + file_name(name), "x")
    return buffer.getvalue()


def files(name: str) -> Iterator[tuple[str, bytes]]:
    """Files with the string in their content, by the name that tells their kind."""
    yield "nan.safetensors", _safetensors(name)
    yield "state.pt", _torch_zip(name)
    yield "class.pt", _torch_with_class(name)
    yield "object.pkl", _pickled_global(name.replace("\n", " "), "x")
    yield "metrics.json", json.dumps({name: float("nan")}).encode()
    yield "twice.json", f"{{{json.dumps(name)}: 1, {json.dumps(name)}: 2}}".encode()
    yield "raw.json", b'{"' + name.encode("utf-8", "surrogatepass") + b'": tru}'
    yield "predictions.jsonl", (json.dumps({"id": name, "value": name}) + "\n").encode() * 2
    yield "predictions.csv", f"id,{name}\n{name},\"{name}\n".encode("utf-8", "surrogatepass")
    yield "config.yaml", f"? {json.dumps(name)}\n: !{name}\n".encode("utf-8", "surrogatepass")
    yield "config.toml", f"{json.dumps(name)} = \n{name}".encode("utf-8", "surrogatepass")
    yield "SHA256SUMS", f"{'0' * 64}  {name}\n".encode("utf-8", "surrogatepass")
    yield "array.npz", _npz(name)
    header = (repr({"descr": name, "x": 1})[:79] + "\n").encode().ljust(80)[:80]
    yield "array.npy", numpy.lib.format.magic(1, 0) + struct.pack("<H", 80) + header
    yield "adapter/adapter_config.json", json.dumps({
        "peft_type": "LORA", "base_model_name_or_path": name, "revision": name, "task_type": name, "r": 4,
        "target_modules": [name], "auto_mapping": {name: name}}).encode()
    yield "adapter/adapter_model.safetensors", _safetensors(f"base_model.model.{name}.lora_A.weight")
    yield "model/config.json", json.dumps({
        "model_type": name, "architectures": [name], "_name_or_path": name, "torch_dtype": name}).encode()
    yield "model/model.safetensors", _safetensors(name)
    yield "sharded/model.safetensors.index.json", json.dumps({
        "metadata": {name: name}, "weight_map": {name: name, "x": "../" + name}}).encode()
    yield "trainer_state.json", json.dumps({
        "best_model_checkpoint": "/tmp/" + name, "log_history": [{name: name}], "global_step": name}).encode()
    yield "model.gguf", b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + _gguf_text(name) + struct.pack("<I", 8) + _gguf_text(name)


def _gguf_text(text: str) -> bytes:
    data = text.encode("utf-8", "surrogatepass")
    return struct.pack("<Q", len(data)) + data


def _npz(name: str) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr((name[:200] or "x") + ".npy", b"\x93NUMPY\x01\x00\x10\x00" + b"{}".ljust(16))
    return buffer.getvalue()


KINDS = {"nan.safetensors": "checkpoint", "state.pt": "checkpoint", "class.pt": "checkpoint", "object.pkl": "checkpoint",
         "metrics.json": "metrics", "twice.json": "parameters", "raw.json": "metrics", "predictions.jsonl": "predictions",
         "predictions.csv": "predictions", "config.yaml": "parameters", "config.toml": "parameters", "array.npz": "checkpoint",
         "array.npy": "checkpoint", "adapter": "adapter", "model": "checkpoint", "sharded": "checkpoint",
         "model.gguf": "checkpoint"}


def fill(folder: Path, strings: Mapping[str, str], *, named: bool = True, share: int = 1) -> None:
    """A directory without documents: each string in files and, when ``named``, as the name of folders, files and links.

    With ``share`` each string stands in one part of so many of the kinds of files, the next one in the next part.
    """
    for number, text in enumerate(strings.values()):
        top = folder / f"{number}" / (file_name(text) if named else "")
        for name, data in list(files(text))[number % share::share]:
            (top / name).parent.mkdir(parents=True, exist_ok=True)
            (top / name).write_bytes(data)
        if not named:
            continue
        (top / (file_name(text) + ".safetensors")).write_bytes(_safetensors(text))
        os.symlink("/nowhere/" + file_name(text), top / ("link" + file_name(text)[:40]))
    if not named:
        return
    odd = os.fsencode(folder) + b"/odd\xff\x9b31m"
    os.makedirs(odd)
    for name in (b"\xff\xfe.safetensors", b"a\x80\xed\xa0\x80.pt"):
        with open(odd + b"/" + name, "wb") as file:
            file.write(_safetensors("x") if name.endswith(b"s") else _torch_zip("x"))


def document(strings: Mapping[str, str]) -> dict[str, Any]:
    """A valid manifest with each string where it takes any text, over what `fill` wrote without the names."""
    texts = list(strings.values())
    deliverables = [
        {"id": f"d{number}-{index}", "kind": kind, "path": f"{number}/{name}", "task": text, "format": text,
         "extra": {text: text}, **({"dataset": "set", "key": [text], "value": text} if kind == "predictions" else {})}
        for number, text in enumerate(texts) for index, (name, kind) in enumerate(KINDS.items())]
    at = "2026-03-02T08:00:00Z"
    return {
        "manifest_version": 1, "campaign": "naughty", "extra": {text: text for text in texts}, "deliverables": deliverables,
        "datasets": {"set": {"ids": texts, "key": texts[:1]}},
        "provenance": {"command": texts[1], "environment": {text: text for text in texts}},
        "decision": {"outcome": "negative", "summary": texts[2], "based_on": []},
        "actuals": {"steps": [{"id": f"s{number}", "explanation": text} for number, text in enumerate(texts)],
                    "costs": [{"name": text, "amount": "1"} for text in texts],
                    "decisions": [{"at": at, "choice": text, "reason": text} for text in texts]},
        "runs": [{"id": f"run{number}", "status": "aborted", "abort": {"reason": text}, "reason": text, "deliverables": []}
                 for number, text in enumerate(texts)],
    }


def plan(strings: Mapping[str, str]) -> dict[str, Any]:
    """A plan with each string where it is text."""
    texts = list(strings.values())
    return {
        "plan_version": 1, "campaign": "naughty", "question": texts[0], "extra": {text: text for text in texts}, "runs": [],
        "abort_rules": [{"id": f"rule{number}", "when": text, "metric": text, "op": ">", "value": 1}
                        for number, text in enumerate(texts)],
        "decision_point": {"after": "s", "options": texts},
        "schedule": {"window_hours": 1, "steps": [{"id": f"s{number}", "hours": 1, "resource": text}
                                                  for number, text in enumerate(texts)]},
        "budget": {"currency": "EUR", "packages": [{"name": text, "price": "1", "order": text} for text in texts]},
    }


def broken(strings: Mapping[str, str]) -> Iterator[bytes]:
    """Manifests whose faults quote a string: an unknown property, a wrong id and path, a wrong word, a broken line."""
    for text in strings.values():
        wrong = {"id": text, "kind": text, "path": text, "sha256": text}
        yield json.dumps({"manifest_version": 1, "campaign": text, text: text,
                          "runs": [{"id": text, "status": text, "deliverables": [wrong]}],
                          "deliverables": [{"id": "x", "kind": "other", "path": "../" + text}]}).encode()
        yield b'{"manifest_version": 1, "campaign": ' + text.encode("utf-8", "surrogatepass") + b"}"


def decoded(value: Any) -> Iterator[str]:
    """Every path of a report that is no UTF-8, decoded."""
    if isinstance(value, dict):
        if "path_b64" in value:
            yield base64.b64decode(value["path_b64"]).decode("utf-8", "surrogateescape")
        for item in value.values():
            yield from decoded(item)
    elif isinstance(value, list):
        for item in value:
            yield from decoded(item)
