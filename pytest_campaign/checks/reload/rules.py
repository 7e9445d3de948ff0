"""The rules of the check ``reload``."""

from __future__ import annotations

from ...findings import Level, Rule

NO_WEIGHTS = Rule("reload.no-weights", Level.ERROR, """
    A checkpoint or adapter holds no weights.

    Usual causes: the save crashed after the configuration was written; the weights were excluded from the copy
    because of their size.

    Fix: copy or save the weights; if the folder is meant to hold none, give it another kind.
    """, at_source=True)
UNRECOGNISED = Rule("reload.unrecognised", Level.WARNING, """
    There are files that may be weights, and none is in a format that is known here.

    Nothing can then be said about whether they reload.

    Fix: save the weights as safetensors or with torch.save, beside or instead of these files.
    """, unanswered=True)
FORMAT = Rule("reload.other-format", Level.ERROR, """
    The manifest names another format than the one that lies there.

    Fix: correct or delete `format`; it is recognised when it is absent.
    """)
UNKNOWN_FORMAT = Rule("reload.unknown-format-name", Level.WARNING, """
    The manifest names a format that is not known here, so it is not compared with what lies there.

    Fix: use one of the names that the report shows, or delete `format`.
    """)
TRUNCATED = Rule("reload.truncated", Level.ERROR, """
    A file ends before its own structure says that it should.

    Usual causes: a full disk; a process that was killed while it saved; an interrupted copy or upload.

    Fix: copy the file again and compare the sizes; if the original is as short, take the checkpoint before.
    """, at_source=True)
TRAILING = Rule("reload.trailing-bytes", Level.ERROR, """
    A file goes on after the end of what it holds.

    The libraries refuse such a file, or ignore what they do not understand.

    Usual causes: a shorter file was written over a longer one; two downloads were joined.

    Fix: copy or save the file again.
    """, at_source=True)
DAMAGED = Rule("reload.damaged", Level.ERROR, """
    The structure of a file (its header, its directory, its pickle) is broken or contradicts itself.

    Usual causes: two processes wrote the same file; a failing disk; a save that was interrupted in the middle.

    Fix: copy the file again; if the original is broken too, take the checkpoint before.
    """, at_source=True)
CHECKSUM = Rule("reload.checksum", Level.ERROR, """
    The bytes of a tensor are not those that were written: the container's own checksum disagrees.

    torch.load does not look at the checksums of the zip archive, so it loads such a file without a word.

    Usual causes: a flipped bit on a disk or on the way; two processes that wrote the same file.

    Fix: copy the file again; if the original disagrees too, take the checkpoint before.
    """, at_source=True)
NAN = Rule("reload.nan", Level.ERROR, """
    A tensor of a checkpoint holds NaN.

    The library loads it and every output is NaN.

    Usual causes: a run that diverged and was saved all the same; an overflow in half precision.

    Fix: deliver an earlier checkpoint, or record the run as aborted with its reason.
    """, at_source=True)
INFINITE = Rule("reload.infinite", Level.ERROR, """
    A parameter holds an infinite value. (In an attention mask, infinity is right and is not reported.)

    Usual causes: an overflow in half precision; a cast from float32 to float16.

    Fix: deliver an earlier checkpoint, or save in a type with a larger range.
    """, at_source=True)
NO_TENSORS = Rule("reload.no-tensors", Level.ERROR, """
    The file is sound and holds no tensor.

    An adapter of 40 bytes is such a file: the library loads it, and the model stays the base model.

    Usual causes: the state was gathered on another process than the one that saved; a filter by key that matched
    nothing.

    Fix: save again and look at the number of tensors before the machine is given back.
    """, at_source=True)
OUT_OF_STORAGE = Rule("reload.out-of-storage", Level.ERROR, """
    A tensor claims more elements than the file holds for it, or none of its data is there.

    Usual causes: a damaged or edited file.

    Fix: copy or save the file again.
    """, at_source=True)
SHARD_MISSING = Rule("reload.shard-missing", Level.ERROR, """
    A file of a set is not there.

    Usual causes: the copy was interrupted; the shards of another node were never gathered.

    Fix: copy the missing files while the machine is still there.
    """, at_source=True)
SHARD_INDEX = Rule("reload.shard-index", Level.ERROR, """
    The index of a sharded checkpoint and its shards contradict each other, or the index is missing.

    Usual causes: shards of two saves in one folder; an index that was not copied; a renamed shard.

    Fix: copy the whole folder again, or save it again into an empty one.
    """, at_source=True)
NEVER_WRITTEN = Rule("reload.never-written", Level.WARNING, """
    A range inside the tensor data was never written: the file system stores a hole there, which reads as zeros.

    Some file systems make holes of real zeros, so this is no proof.

    Usual causes: a save that was killed; a copy tool that stopped.

    Fix: compare the digest with the original; save or copy again when it differs.
    """)
FOREIGN_CLASS = Rule("reload.foreign-class", Level.ERROR, """
    The file needs a class of a project to be loaded.

    The tensors were read through inert stand-ins, but whoever receives the file cannot load it without that
    project at the same version, and loading it runs the project's code.

    Usual causes: `torch.save(model)` instead of `torch.save(model.state_dict())`; a configuration object in the
    checkpoint.

    Fix: save plain data: a state dict, and the configuration as a dict.
    """, at_source=True)
FRAMEWORK_CLASS = Rule("reload.framework-class", Level.NOTE, """
    The file holds data classes of a known framework, of NumPy or of the standard library.

    That is usual (`training_args.bin`, `rng_state.pth`). torch.load reads it only with weights_only=False or with
    those classes allowed. Here it was read through inert stand-ins.
    """)
UNSAFE_GLOBAL = Rule("reload.unsafe-global", Level.ERROR, """
    Loading the file would call a function that runs code.

    Nothing of it was run here. No checkpoint needs this.

    Usual causes: an attack; an object with a reduce method of its own.

    Fix: do not load the file; ask for the weights as safetensors.
    """)
UNREADABLE_KIND = Rule("reload.tensor-not-read", Level.WARNING, """
    Some tensors are of a kind whose values are not read here: sparse, quantised, nested, or without data.

    The reload then ends at the depth `header`, and the deliverable stays unverified if more is asked.

    Fix: save dense tensors to have their values checked, or ask for `header` in `reload.depth` of the manifest.
    """)
TOO_LARGE = Rule("reload.over-limit", Level.WARNING, """
    The structure of the file is larger than the bounded reader accepts.

    Real checkpoints stay far below these limits; a hostile file does not.

    Fix: save the checkpoint in several files, or as safetensors.
    """, unanswered=True)
EXECUTABLE = Rule("reload.executable-format", Level.WARNING, """
    Loading this format means running code that lies in the file, which is never done here.

    Whether it reloads is not known.

    Fix: save the weights as safetensors or with torch.save(state_dict).
    """, unanswered=True)
PICKLE_PROTOCOL = Rule("reload.pickle-protocol", Level.WARNING, """
    The file was saved with a pickle protocol that weights-only loading does not read.

    Fix: save it again without the argument pickle_protocol.
    """, unanswered=True)
NO_CHECKSUM = Rule("reload.no-checksum", Level.NOTE, """
    The file was written without checksums, so a flipped bit cannot be seen without a recorded digest.

    Fix: list the file with its sha256 in the manifest; `torch.serialization.set_crc32_options(True)` for the next one.
    """)
WASTED_STORAGE = Rule("reload.wasted-storage", Level.NOTE, """
    A small view of a large tensor was saved, and the large one with it.

    Fix: clone the view before saving; the file becomes smaller.
    """)

FAILED = Rule("reload.failed", Level.ERROR, """
    The reader or the library raised while it read the file.

    Usual causes: a damaged file, in a way that no other rule names.

    Fix: copy or save the file again.
    """)
CRASHED = Rule("reload.crashed", Level.ERROR, """
    The fresh process crashed while it read the file.

    A crash (SIGSEGV, SIGBUS) in a reader means a file that the reader was not made for, or one that shrank while
    it was read.

    Fix: copy or save the file again; do not load it in a process that matters.
    """)
CHANGED = Rule("reload.changed", Level.ERROR, """
    A file changed between the first look and the end of the reload.

    Usual causes: the training or the copy is still running.

    Fix: wait until everything is written, and run the check again.
    """)
TIME_LIMIT = Rule("reload.time-limit", Level.WARNING, """
    The reload made no progress within the time limit.

    That says something about the machine that checks (a slow network disk) rather than about the file.

    Fix: copy the file to a local disk, or raise --campaign-timeout.
    """, unanswered=True)
MEMORY_LIMIT = Rule("reload.memory-limit", Level.WARNING, """
    The reload needed more memory than it was given.

    Readers work in chunks; the legacy torch format is the exception and needs the whole file in memory.

    Fix: raise --campaign-memory, or save the checkpoint again in the zip format or as safetensors.
    """, unanswered=True)
KILLED = Rule("reload.killed", Level.WARNING, """
    The fresh process was killed from outside, most often because the machine ran out of memory.

    Fix: free memory, or run with fewer workers, and run the check again.
    """, unanswered=True)
UNREADABLE = Rule("reload.unreadable", Level.WARNING, """
    The operating system refused to open or to read a file.

    Fix: change the permission or run as the owner; for an error of the disk, copy the file elsewhere.
    """, unanswered=True)
NO_ANSWER = Rule("reload.no-answer", Level.WARNING, """
    The fresh process ended without an answer, or with one that is none.

    Fix: run the check again; if it happens again, report it with the log that the message shows.
    """, unanswered=True)
NO_PROCESS = Rule("reload.no-process", Level.WARNING, """
    The fresh process could not be started, or a library is missing in it.

    Fix: install what the message names in the environment that runs pytest.
    """, unanswered=True)
DEPTH = Rule("reload.depth-not-reached", Level.WARNING, """
    The reload did not go as deep as the plan, the manifest or the command line asks.

    Fix: install what the depth needs, lower --campaign-require-depth, or drop --campaign-max-depth.
    """, unanswered=True)
TORCH_VERSION = Rule("reload.torch-version", Level.WARNING, """
    The installed torch is older than 2.10, whose weights-only loader has a known memory corruption.

    CVE-2026-24747: a prepared file can corrupt the memory of the process that loads it. The reload runs in a
    process of its own, which limits the damage.

    Fix: install torch 2.10 or later.
    """)
