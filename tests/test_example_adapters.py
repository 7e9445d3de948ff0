"""The example with adapters: it runs, what it leaves is accepted at the depths that it promises, and its instructions hold."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from safetensors.torch import load_file, save_file

EXAMPLE = Path(__file__).parent.parent / "examples/train_adapters.py"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("example") / "out"
    subprocess.run([sys.executable, str(EXAMPLE), str(out)], check=True, capture_output=True, cwd=out.parent)
    return out


def test_it_is_accepted_at_the_promised_depth(made: Path) -> None:
    report = made.parent / "report.json"
    ended = subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--campaign-dir={made}",
                            f"--campaign-report={report}"], cwd=made.parent, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stdout
    [campaign] = json.loads(report.read_text())["campaigns"]
    assert campaign["verdict"] == "accepted"
    depths = {entry["id"]: entry["depth"] for entry in campaign["deliverables"] if entry["depth"]}
    assert depths == {"base": "model"} | dict.fromkeys(("control/model", "rank2/adapter", "rank8/adapter"), "probe")
    assert not [finding for entry in campaign["deliverables"] for finding in entry["findings"] if finding["level"] != "note"]


def test_the_instructions_hold(made: Path) -> None:
    [code] = re.findall(r"```python\n(.*?)```", (made / "INSTRUCTIONS.md").read_text(), re.S)
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, cwd=made)


def test_an_adapter_with_half_of_its_tensors_is_rejected(made: Path, tmp_path: Path) -> None:
    spoiled = tmp_path / "out"
    shutil.copytree(made, spoiled)
    weights = spoiled / "runs/rank8/adapter/adapter_model.safetensors"
    tensors = load_file(weights)
    save_file({name: tensor for name, tensor in tensors.items() if "lora_A" in name}, weights, metadata={"format": "pt"})
    ended = subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--campaign-dir={spoiled}",
                            "-k", "rank8/adapter"], cwd=tmp_path, capture_output=True, text=True)
    assert ended.returncode == 1
    assert re.search(r"REJECTED +rank8/adapter", ended.stdout), ended.stdout
