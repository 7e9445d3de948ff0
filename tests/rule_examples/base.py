"""Examples of the check ``base``."""

from __future__ import annotations

from typing import Any

import adapters
import hugging_face
from adapters import BASE, COMMIT, CONFIG, OTHER_COMMIT
from adapters import WEIGHTS as MODEL

from . import Level, Verdict, Written, faulty, sound

ID = "variant/adapter"
ADAPTER = "runs/variant/adapter"
SETTINGS = f"{ADAPTER}/{CONFIG}"
MERGED = "runs/variant/merged"


def adapter(made: Written, declared: dict[str, Any] | str | None = None, **config: Any) -> None:
    """One more deliverable: an adapter, with what the manifest and its own configuration say of its base."""
    adapters.adapter(made / ADAPTER, **config)
    made.add(ID, "adapter", ADAPTER, **({} if declared is None else {"base": declared}))


def exact(**more: Any) -> dict[str, Any]:
    return {"model": BASE, "revision": COMMIT, **more}


def delivered(made: Written, seed: int = 0, **more: Any) -> dict[str, Any]:
    """The base in the campaign, with the digest of its weights."""
    folder = adapters.base(made / "base", seed)
    return {"model": BASE, "path": "base", "sha256": {MODEL: adapters.sha256(folder / MODEL)}, **more}


def merged(made: Written, seed: int = 0, base: dict[str, Any] | None = None) -> None:
    """Two more deliverables: the adapter, and what it was merged into."""
    adapter(made, base or delivered(made))
    adapters.merged(made / MERGED, seed)
    made.add("variant/merged", "checkpoint", MERGED, merged_from=ID, base=base or delivered(made))


# ---- what is said --------------------------------------------------------------------------------------------


@faulty("base.not-stated", ID, SETTINGS)
def nobody_says_which_revision(made: Written) -> None:
    adapter(made)


@faulty("base.not-stated", ID, SETTINGS)
def the_manifest_has_the_name_alone(made: Written) -> None:
    adapter(made, {"model": BASE})


@faulty("base.not-stated", ID, SETTINGS)
def a_digest_that_all_revisions_share(made: Written) -> None:
    adapter(made, {"model": BASE, "sha256": {"config.json": "4f53cda1" * 8}})


@faulty("base.not-stated", ID, SETTINGS)
def one_shard_of_two(made: Written) -> None:
    adapter(made, {"model": BASE, "sha256": {"model-00001-of-00002.safetensors": "4f53cda1" * 8}})


@sound("base.not-stated", ID)
def the_manifest_alone_says_it(made: Written) -> None:
    adapter(made, exact())


@sound("base.not-stated", ID)
def the_adapter_alone_says_it(made: Written) -> None:
    adapter(made, revision=COMMIT)


@sound("base.not-stated", ID)
def digests_of_all_shards(made: Written) -> None:
    adapter(made, {"model": BASE, "sha256": {f"model-0000{n}-of-00002.safetensors": "4f53cda1" * 8 for n in (1, 2)}})


@sound("base.not-stated", ID)
def several_share_one_base(made: Written) -> None:
    adapter(made, "tiny")
    adapters.adapter(made / "runs/control/adapter")
    made.add("control/adapter", "adapter", "runs/control/adapter", base="tiny")
    made.manifest["bases"] = {"tiny": exact()}


@faulty("base.not-exact", ID, SETTINGS)
def a_branch(made: Written) -> None:
    adapter(made, exact(), revision="main")


@faulty("base.not-exact", ID, "manifest.json")
def a_shortened_commit_beside_digests(made: Written) -> None:
    adapter(made, {"model": BASE, "revision": COMMIT[:10], "sha256": {MODEL: "4f53cda1" * 8}})


@faulty("base.not-exact", ID, SETTINGS, level=Level.WARNING, verdict=Verdict.ACCEPTED, campaign=Verdict.ACCEPTED)
def a_branch_of_a_base_that_is_delivered(made: Written) -> None:
    adapter(made, delivered(made), revision="main")


@sound("base.not-exact", ID)
def a_commit_in_capitals(made: Written) -> None:
    adapter(made, exact(revision=COMMIT.upper()), revision=COMMIT)


@faulty("base.disagrees", ID, SETTINGS)
def another_revision(made: Written) -> None:
    adapter(made, exact(), revision=OTHER_COMMIT)


@faulty("base.disagrees", ID, SETTINGS)
def another_model(made: Written) -> None:
    adapter(made, exact(), base_model_name_or_path="acme/small", revision=COMMIT)


@faulty("base.disagrees", "variant/merged", "manifest.json")
def merged_into_another_revision_says_the_manifest(made: Written) -> None:
    adapter(made, exact())
    adapters.merged(made / MERGED)
    made.add("variant/merged", "checkpoint", MERGED, merged_from=ID, base=exact(revision=OTHER_COMMIT))


@faulty("base.disagrees", ID, f"{ADAPTER}/base_headers.json")
def archived_headers_of_another_revision(made: Written) -> None:
    adapter(made, exact(revision=OTHER_COMMIT))
    hugging_face.headers(made / ADAPTER)


@sound("base.disagrees", ID)
def archived_headers_of_that_revision(made: Written) -> None:
    adapter(made, exact(revision=COMMIT.upper()))
    hugging_face.headers(made / ADAPTER)


@sound("base.disagrees", ID)
def an_old_name_without_its_owner(made: Written) -> None:
    adapter(made, exact(), base_model_name_or_path="Tiny", revision=COMMIT)


@faulty("base.own-commit", ID, SETTINGS)
def the_commit_of_the_training_code(made: Written) -> None:
    adapter(made, revision=COMMIT)
    made.manifest["provenance"] = {"git_commit": COMMIT}


@faulty("base.own-commit", ID, "manifest.json")
def the_commit_at_which_the_adapter_was_downloaded(made: Written) -> None:
    adapter(made, exact())
    (made / f"{ADAPTER}/.cache/huggingface/download/{CONFIG}.metadata").write_text(f"{COMMIT}\n{OTHER_COMMIT}\n1730000000.0\n")


@sound("base.own-commit", ID)
def all_three_commits_are_known(made: Written) -> None:
    adapter(made, exact(), revision=COMMIT)
    made.manifest["provenance"] = {"git_commit": OTHER_COMMIT}
    (made / f"{ADAPTER}/.cache/huggingface/download/{CONFIG}.metadata").write_text(f"{OTHER_COMMIT}\n{OTHER_COMMIT}\n1.0\n")


# ---- what is at hand -----------------------------------------------------------------------------------------


@faulty("base.missing", ID, "base")
def the_base_was_left_out_of_the_copy(made: Written) -> None:
    adapter(made, {"model": BASE, "path": "base"})


@faulty("base.missing", ID, "base")
def the_base_came_without_its_weights(made: Written) -> None:
    adapter(made, delivered(made))
    (made / f"base/{MODEL}").unlink()


@faulty("base.missing", ID, "manifest.json")
def a_file_with_a_digest_is_gone(made: Written) -> None:
    base = delivered(made)
    adapter(made, base | {"sha256": base["sha256"] | {"vocab.json": "4f53cda1" * 8}})


@sound("base.missing", ID)
def the_base_is_delivered(made: Written) -> None:
    adapter(made, delivered(made))


@faulty("base.other-content", ID, "manifest.json")
def the_base_was_trained_further_in_place(made: Written) -> None:
    base = delivered(made)
    adapters.base(made / "base", seed=1)
    adapter(made, base)


@sound("base.other-content", ID)
def the_digest_fits(made: Written) -> None:
    adapter(made, delivered(made, seed=1))


@faulty("base.not-at-hand", ID, SETTINGS)
def the_base_is_on_the_hub_only(made: Written) -> None:
    adapter(made, exact())


@sound("base.not-at-hand", ID)
def the_adapter_leads_to_a_folder_of_the_campaign(made: Written) -> None:
    adapters.base(made / "base")
    adapter(made, base_model_name_or_path="base")


# ---- merged models -------------------------------------------------------------------------------------------


@faulty("base.merged-into-another", "variant/merged", f"{MERGED}/{MODEL}")
def the_base_of_the_merge_was_another(made: Written) -> None:
    merged(made, seed=1)


@faulty("base.not-merged", "variant/merged", f"{MERGED}/{MODEL}")
def the_base_was_saved_instead(made: Written) -> None:
    merged(made)
    adapters.base(made / MERGED)


@sound("base.merged-into-another", "variant/merged")
def merged_into_its_base(made: Written) -> None:
    merged(made)


@sound("base.not-merged", "variant/merged")
def an_untrained_adapter_changes_nothing(made: Written) -> None:
    merged(made)
    adapters.adapter(made / ADAPTER, trained=False)
    adapters.base(made / MERGED)
    made.run("variant")["steps"] = 0


@faulty("base.not-compared", "variant/merged", MERGED)
def the_adapter_is_not_delivered(made: Written) -> None:
    adapters.merged(made / MERGED)
    made.add("variant/merged", "checkpoint", MERGED, merged_from=ID, base=delivered(made))


@sound("base.not-compared", "variant/merged")
def all_three_are_delivered(made: Written) -> None:
    merged(made)
