"""What the check of many adapters on one base costs, and how it grows, beside the plain alternative.

The alternative loads each adapter onto the base with transformers and peft, all in one process. Ours checks the names and
shapes of each adapter on the base, on the meta device, reads every byte of the adapter and looks for NaN; the adapters
are also checked for empty files, portable paths and the exact base. Run it with

    python benchmarks/bench_adapters.py --adapters 40
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

PLAIN = """
import sys
from peft import PeftModel
from transformers import AutoModelForCausalLM
for adapter in sys.argv[2:]:
    PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(sys.argv[1]), adapter)
"""


def write(directory: Path, count: int) -> None:
    """A base of twelve layers and ``count`` adapters on it, with the manifest that lists them."""
    from peft import LoraConfig, get_peft_model
    from transformers import LlamaConfig, LlamaForCausalLM

    model = LlamaForCausalLM(LlamaConfig(
        vocab_size=2048, hidden_size=256, intermediate_size=512, num_hidden_layers=12, num_attention_heads=8,
        num_key_value_heads=8))
    model.save_pretrained(directory / "base")
    targets = ["q_proj", "k_proj", "v_proj", "o_proj"]
    adapter = get_peft_model(model, LoraConfig(r=8, target_modules=targets, task_type="CAUSAL_LM"))
    for name, value in adapter.named_parameters():
        if "lora_B" in name:
            value.data.normal_(0, 0.1)
    adapter.save_pretrained(directory / "adapter-0")
    settings = directory / "adapter-0/adapter_config.json"
    settings.write_text(json.dumps(json.loads(settings.read_text()) | {"base_model_name_or_path": "base"}))
    (directory / "adapter-0/README.md").unlink()
    for number in range(1, count):
        shutil.copytree(directory / "adapter-0", directory / f"adapter-{number}")


def ours(directory: Path, count: int) -> float:
    """Seconds of one session over the base and the first ``count`` adapters."""
    names = [f"adapter-{number}" for number in range(count)]
    manifest = {"manifest_version": 1, "campaign": "adapters", "bases": {"base": {"model": "acme/base", "path": "base"}},
                "runs": [], "deliverables": [
                    {"id": "base", "kind": "checkpoint", "path": "base"},
                    *({"id": name, "kind": "adapter", "path": name, "base": "base"} for name in names)]}
    (directory / "manifest.json").write_text(json.dumps(manifest))
    start = time.perf_counter()
    done = subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--rootdir={directory.parent}",
                           f"--campaign-dir={directory}"], stdout=subprocess.PIPE, text=True, cwd=directory.parent)
    seconds = time.perf_counter() - start
    if done.returncode:
        raise SystemExit(done.stdout)
    return seconds


def plain(directory: Path, count: int) -> float:
    adapters = [str(directory / f"adapter-{number}") for number in range(count)]
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", PLAIN, str(directory / "base"), *adapters], check=True, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL)
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--adapters", type=int, default=40)
    count = parser.parse_args().adapters
    with tempfile.TemporaryDirectory() as scratch:
        directory = Path(scratch, "out")
        directory.mkdir()
        with warnings.catch_warnings(action="ignore"):
            write(directory, count)
        few = max(1, count // 10)
        ours(directory, 1)  # fills the page cache
        start, tenth, all_of_them = ours(directory, 1), ours(directory, few), ours(directory, count)
        alternative = plain(directory, count)
    print(f"one adapter, with the imports {start:6.2f} s")
    print(f"{few:3} adapters                  {tenth:6.2f} s")
    print(f"{count:3} adapters                  {all_of_them:6.2f} s   {(all_of_them - start) / max(1, count - 1):.3f} s each")
    print(f"plain loading of {count:3}          {alternative:6.2f} s")
    print(f"{count} against {few}                 {all_of_them / tenth:6.2f} times")
    print(f"against plain loading         {all_of_them / alternative:6.2f} times")


if __name__ == "__main__":
    main()
