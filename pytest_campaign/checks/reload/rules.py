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
RANKS = Rule("reload.ranks", Level.ERROR, """
    The state of a training has files of fewer processes than the run had.

    Each process writes its own part: its share of the optimizer, its random state. The files themselves do not always say
    how many there were; `world_size` of the run in the manifest does. A warning where the deliverable is a model and no point
    to resume from, and where there are more files than processes.

    Usual causes: only one node's disk was copied; a save into a folder with an older one of more processes.

    Fix: copy the files of every node while the machines are still there.
    """, at_source=True)
NO_MODEL = Rule("reload.no-model", Level.ERROR, """
    A checkpoint for inference holds only the state of a training.

    An optimizer, schedules and random states are no model. The weights inside the state of accelerate or DeepSpeed are read by
    the training that wrote them; without a `config.json` beside them `from_pretrained` cannot load them.

    Usual causes: the output of `save_state` or `save_checkpoint` delivered in place of that of `save_pretrained`; the weights
    were left out of the copy.

    Fix: save the model with `save_pretrained`; deliver the file of weights by itself when the class is your own; say
    `purpose: resume` when that is what the folder is for.
    """, at_source=True)
NEVER_WRITTEN = Rule("reload.never-written", Level.WARNING, """
    A range inside the tensor data was never written: the file system stores a hole there, which reads as zeros.

    Some file systems make holes of real zeros, so this is no proof.

    Usual causes: a save that was killed; a copy tool that stopped.

    Fix: compare the digest with the original; save or copy again when it differs.
    """)
NUL_TAIL = Rule("reload.nul-tail", Level.ERROR, """
    The file has its full length, and its last tensors are NUL bytes.

    The zeros begin in the middle of a row of numbers and go on to the end. Rows of zeros that pad an embedding and layers that
    begin at zero are something else and are not reported. No library sees it: the model loads and computes nonsense.

    Usual causes: a machine that went down before the last blocks reached the disk; a download or a save that was given its size
    first and was interrupted.

    Fix: copy or download the file again; if the original ends in zeros too, take the checkpoint before.
    """, at_source=True)
FOREIGN_CLASS = Rule("reload.foreign-class", Level.ERROR, """
    The file needs a class of a project to be loaded.

    Tensors were read through inert stand-ins where that is possible, but whoever receives the file cannot load it without that
    project at the same version, and loading it runs the project's code. A warning in `training_args.bin`, which nobody needs
    to load or to resume.

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
CONFIGURATION = Rule("reload.configuration", Level.ERROR, """
    A configuration file of a model, a tokenizer or an adapter cannot be used.

    It is no JSON, or the library refuses what it says, or it is that of something else. A broken
    `generation_config.json` is ignored without a word, and the model then generates with other settings.

    Usual causes: a save that was interrupted; a file that was edited by hand; a model saved over an adapter.

    Fix: copy or save the file again.
    """, at_source=True)
FILE_MISSING = Rule("reload.file-missing", Level.ERROR, """
    A file that the configuration of a model names is absent, or the file that names the parts.

    `auto_map` names the module of a class that the library does not have; `modules.json` names the folders of the parts
    of a sentence-transformers model, `model_index.json` those of a diffusers pipeline; the tensors of an adapter need
    `adapter_config.json`; TensorFlow's file `checkpoint` names the index that is loaded.

    Usual causes: code or folders that were not copied because only weights were collected.

    Fix: copy the file into the folder, or save the whole model again.
    """, at_source=True)
WRAPPER_PREFIX = Rule("reload.wrapper-prefix", Level.ERROR, """
    The names of the tensors contain what torch.compile, DDP or FSDP puts around a model.

    The library then finds none of the model's own tensors, fills them with random values and raises nothing. A warning in
    files beside which no configuration says what the model is: the code that loads them may expect these names.

    Usual causes: `model.state_dict()` of the compiled or distributed model, instead of the one inside.

    Fix: save the unwrapped model (`accelerator.unwrap_model`, `model._orig_mod`, `model.module`).
    """)
MISSING_TENSORS = Rule("reload.missing-tensors", Level.ERROR, """
    Tensors that the model or the adapter needs are absent.

    The library fills them with random values and raises nothing; a hint in its log is all.

    Usual causes: a state dict that was filtered or gathered in part; an output layer that was left out although it is
    not tied; renamed tensors; the configuration of another model.

    Fix: save again from the whole model; compare the configuration with the one of the training.
    """, at_source=True)
SHAPE = Rule("reload.shape", Level.ERROR, """
    A tensor has another shape than the configuration says.

    Usual causes: parameters that lie on several devices and were not gathered (shape [0], or a part); a configuration
    of another model; another rank than the adapter was trained with; a resized vocabulary.

    Fix: gather before saving, or deliver the configuration of the training.
    """, at_source=True)
UNEXPECTED_TENSORS = Rule("reload.unexpected-tensors", Level.ERROR, """
    The checkpoint holds tensors of the model's own modules that the model does not take.

    A layer behind the last, or a parameter that a module does not have: the configuration has lost something.

    Usual causes: the configuration of a smaller model; a setting (a bias, an adapter's method) that was not saved.

    Fix: deliver the configuration of the training.
    """)
EXTRA_TENSORS = Rule("reload.extra-tensors", Level.WARNING, """
    The checkpoint holds tensors that the model does not need: a head of another class, a buffer.

    Fix: leave them out, or name the class that uses them in `architectures`.
    """)
TIED_COPY = Rule("reload.tied-copy", Level.WARNING, """
    Two tensors that the configuration ties were stored with different values.

    The library takes one of them and drops the other.

    Usual causes: the tie was broken in the training (a wrapper, a new output layer) and the configuration still says
    that they are one.

    Fix: set `tie_word_embeddings` to what was trained, and save again.
    """)
TIED_NAME = Rule("reload.tied-name", Level.NOTE, """
    Of two tied tensors the one was stored whose name is derived from the other.

    The library loads it; other tools may look for the usual name.
    """)
WEIGHTS_DISAGREE = Rule("reload.weights-disagree", Level.ERROR, """
    A folder holds the weights of a model twice, with different values.

    The library takes the safetensors file; other tools take the other one.

    Usual causes: an older save in another format was left in the folder.

    Fix: delete the file that is not the result.
    """)
QUANTISATION = Rule("reload.quantisation", Level.ERROR, """
    Quantised weights lie there without the state that makes numbers of them.

    Usual causes: a state dict that was filtered by the names of parameters; a merge that kept the packed weights.

    Fix: save the quantised model with save_pretrained, or dequantise before saving.
    """, at_source=True)
VOCABULARY = Rule("reload.vocabulary", Level.ERROR, """
    The tokenizer gives ids that the embedding has no row for.

    The first text with such a token raises an index error, or reads beyond the table on a GPU. More rows than ids are
    usual and no fault.

    Usual causes: tokens that were added without resizing the embedding; the tokenizer of another model.

    Fix: deliver the tokenizer of the training, or resize the embedding and save again.
    """)
NO_VOCABULARY = Rule("reload.no-vocabulary", Level.ERROR, """
    The settings of a tokenizer are there, and its vocabulary is not.

    Usual causes: a copy that left `tokenizer.json` or `tokenizer.model` out.

    Fix: copy it, or save the tokenizer into the folder again.
    """)
UNTRAINED = Rule("reload.untrained", Level.ERROR, """
    The adapter changes nothing: every tensor that starts at zero is still zero (every vector of IA3 still one), every `lora_A` is
    zero, or `lora_alpha` is.

    It is right for a run of zero steps (`steps` of the run in the manifest), and a warning where nobody says how many
    steps there were.

    Usual causes: the adapter was saved from another model than the one that was trained; its parameters were frozen;
    they were not gathered.

    Fix: save the adapter after the training, from the model that was trained.
    """, at_source=True)
PERHAPS_INCOMPLETE = Rule("reload.perhaps-incomplete", Level.WARNING, """
    An adapter whose base is not at hand looks incomplete by the names of its tensors.

    PEFT loads an adapter with a part of its tensors and says so in a warning at most. With the base at hand every name is
    compared and what is missing is an error. Without it two things are still seen: a name in `target_modules` of which there is
    no tensor (a list may name the modules of several models, of which the base has some), and a layer that lacks what all other
    layers have.

    Usual causes: the parameters were not gathered from all processes; tensors were filtered by name before saving.

    Fix: give the base with `--campaign-base-model`, which decides it; if tensors are missing, save the adapter again.
    """)
UNKNOWN_SETTING = Rule("reload.unknown-setting", Level.ERROR, """
    The configuration of an adapter has a setting that the library does not know, and drops.

    The adapter then loads and computes something else than what was trained.

    Usual causes: a fork or an unreleased version of the library; a mistyped name.

    Fix: deliver the adapter in a form that a release reads; delete the setting if it has no effect.
    """)
NEWER_LIBRARY = Rule("reload.newer-library", Level.WARNING, """
    A file was written by a newer version of the library than the one that reads it here, and uses what is new in it.

    Fix: install the version that the message names, or a later one, and run the check again.
    """, unanswered=True)
NOT_REBUILT = Rule("reload.not-rebuilt", Level.NOTE, """
    The model, or the adapter on its base, was not rebuilt, so the report of the library is not known.

    A library is missing, the class is not one of the library, the weights are quantised, or the base model is not at
    hand. The tensors were read all the same. When the depth `model` is asked for, the deliverable stays unverified.
    """)
ARCHIVED_BASE = Rule("reload.archived-base", Level.NOTE, """
    The base of an adapter is not at hand, and its archived headers stood for it.

    `base_headers.json` beside the adapter has the configuration of the base, and the names, types and shapes of its tensors. With
    them the adapter is rebuilt on the meta device and every name and shape of it is compared: the depth is `model`. That the
    archive shows the right base is the campaign's own claim.

    Fix: nothing; with the base at hand (`--campaign-base-model`) the archive is compared with it.
    """)
BASE_HEADERS = Rule("reload.base-headers", Level.ERROR, """
    The archived headers of an adapter's base cannot be used, or they are those of another model.

    `base_headers.json` is no such file, its tensors are not those of its own configuration, or the base that is at hand has other
    tensors.

    Usual causes: a file that was copied from another adapter or edited; a base that was replaced since, or another one that was
    given to the check.

    Fix: find out on which base the adapter was trained; archive the headers of that one again, or delete the file.
    """)
BASE_SETTINGS = Rule("reload.base-settings", Level.WARNING, """
    The archived headers of an adapter's base differ from the base that is at hand in settings, or in the type of its tensors.

    The adapter fits both. But a base with other settings (the base of the rotary embedding, say) computes something else; one in
    another type rounds otherwise.

    Usual causes: another revision of the base; a copy that was converted, or saved again by another version of the library.

    Fix: find out which one it was trained on, and check with that one.
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
PYTHON_CODE = Rule("reload.python-code", Level.WARNING, """
    The file holds a function as compiled Python code.

    Such code runs under one minor version of Python only, the one that wrote it, and loading the file runs it: Keras refuses
    unless `safe_mode=False` is given.

    Usual causes: a `Lambda` layer with a lambda.

    Fix: replace it by a layer of the library, or by a class that is registered by name, and save again.
    """)
UNFINISHED = Rule("reload.unfinished", Level.ERROR, """
    The writer marks the save as not finished.

    Orbax writes into a folder `….orbax-checkpoint-tmp-…` and renames it when everything is there; an HDF5 file has a mark
    while it is open for writing. Beside a save that is finished, what is left of another one is a warning.

    Usual causes: a process that was killed while it saved; a copy that was taken while it saved.

    Fix: wait until the save is finished and copy again, or take the save before.
    """, at_source=True)
NOT_RESUMABLE = Rule("reload.not-resumable", Level.ERROR, """
    A point to resume from lacks a part of the training's state.

    Resuming needs more than weights: the optimizer, the schedule, the random states and how far the training was. The Trainer
    of transformers starts optimizer *and* schedule anew when one of them is missing, and says nothing. A warning where the
    deliverable does not say what it is for and lies in a folder such as `checkpoint-500`, and for a file of a home-made
    training in which nothing looks like an optimizer. With `purpose: inference` nothing is asked.

    Usual causes: `save_only_model=True`, `save_weights_only=True`; only the weights were copied because of their size.

    Fix: copy the files that the message names from where it was trained, or save the whole state; say `purpose: inference`
    when the weights are what counts.
    """, at_source=True)
OPTIMIZER = Rule("reload.optimizer", Level.ERROR, """
    The state of an optimizer is not that of the model beside it, or it is empty.

    The shapes of its moments are counted and compared with those of the weights; parameters that were frozen need none. No
    library compares them: the resumed training crashes, or writes over its own memory. A warning where the deliverable does
    not say that it is for resuming, and a note with `purpose: inference`.

    Usual causes: files of two runs in one folder; a model that was changed or exchanged after the save.

    Fix: copy the folder of one save again.
    """, at_source=True)
PROGRESS = Rule("reload.progress", Level.ERROR, """
    The counters of a training contradict each other.

    The optimizer or the schedule has made more steps than the training itself: the files come from different saves. Or the
    file that says how far the training was cannot be read. A warning where the deliverable does not say that it is for
    resuming, and a note with `purpose: inference`.

    Usual causes: files of two checkpoints in one folder; a copy that was interrupted between two saves.

    Fix: copy the folder of one save again.
    """, at_source=True)
BEHIND = Rule("reload.progress-behind", Level.WARNING, """
    A counter of a training is behind the others, or beyond what was planned.

    The optimizer or the schedule has made fewer steps than the training. That is right when steps were left out or when they
    were started anew on the way; else the file is that of an earlier save. In half precision the scaler leaves steps out, so
    nothing is said there.

    Fix: compare the folder with the original.
    """)
NO_SCALER = Rule("reload.no-scaler", Level.WARNING, """
    A training in half precision left no state of its gradient scaler.

    The scale of the loss then starts at its first value, and the first steps after resuming overflow and are left out.

    Usual causes: an older version of the library, which does not save it; a file that was not copied.

    Fix: copy `scaler.pt`, if it was written.
    """)
TENSOR_DIGEST = Rule("reload.tensor-digest", Level.ERROR, """
    A tensor has other values than those whose digest was recorded.

    `tensor_digests` of the manifest holds a digest of each tensor, taken from the memory of the training. It sees what no format
    can: a flipped bit in a safetensors file, weights of another step or another run under the right names.

    Usual causes: a damaged file; the training went on between the record and the save; tensors that were converted to another
    type or merged when they were saved.

    Fix: copy the file again, or save it again; where the tensors were changed on purpose, record the digests of what was saved.
    """, at_source=True)
TENSOR_ABSENT = Rule("reload.tensor-absent", Level.ERROR, """
    A tensor whose digest was recorded is not in the checkpoint.

    One that is tied to another tensor, and stored under that one's name, is there. A prefix of all names (`module.` of DDP,
    a key of the object such as `model.`) makes no difference.

    Usual causes: a state dict that was filtered or gathered in part; a renamed tensor; the digests of another model.

    Fix: save it again from the whole model, or record the digests of the state dict that is saved.
    """, at_source=True)
NOT_COMPARED = Rule("reload.tensors-not-compared", Level.WARNING, """
    Digests of tensors were recorded, and could not be compared.

    It is not known where the values of single tensors lie in files of this format; or no tensor was read, because less than the
    depth `tensors` was asked for; or what was recorded is no digest.

    Fix: record the digests with `pytest_campaign.proof.digests`; deliver the weights as safetensors or with torch.save as well;
    or leave `tensor_digests` out and record the digests of the files.
    """, unanswered=True)
TENSORS_COMPARED = Rule("reload.tensors-compared", Level.NOTE, """
    Tensors were compared with recorded digests.

    The note says how many have the recorded values, and names tensors for which nothing was recorded: of the optimizer in the
    same file, say.
    """)
OTHER_STEP = Rule("reload.other-step", Level.ERROR, """
    The name of a checkpoint says another step than its content.

    Usual causes: a renamed file; a checkpoint of another run under the name of this one.

    Fix: give it the name that Lightning gave it, or deliver the checkpoint that the name means.
    """)
PROBE_DIFFERS = Rule("reload.probe-differs", Level.ERROR, """
    The recorded input does not give the recorded output.

    The checkpoint loads and computes something else than the model that was trained. What a value may be off follows from the
    type of the weights (float32 1e-4, float16 1e-2, bfloat16 1e-1 of the standard deviation of the recorded output) unless the
    probe says it; that is several times what another machine, another order of sums and another attention come to.

    Usual causes: weights of another run or another step; layers that were exchanged or renamed; a configuration that was
    changed; an adapter on another base.

    Fix: save the checkpoint and record the probe from one and the same model; if the difference is only a little more than what
    is allowed, record the probe with the precision of the saved weights, or with `tolerance`.
    """, at_source=True)
PROBE_OTHER_MODEL = Rule("reload.probe-other-model", Level.ERROR, """
    The model that was reloaded does not take the recorded input, or has not the recorded outputs.

    Usual causes: the probe of another model; a probe that was recorded from a wrapper with arguments of its own.

    Fix: record the probe from the model that is delivered, or give a loader that returns the wrapper.
    """, at_source=True)
PROBE_FILE = Rule("reload.probe-file", Level.ERROR, """
    The manifest names a probe, and the file is absent or is none.

    A probe is what `pytest_campaign.proof.record` writes, of at most 64 MiB and with a tolerance of at most one standard
    deviation.

    Usual causes: the file was not copied; another file is named.

    Fix: copy the file, record it again, or delete `reload.probe`.
    """)
PROBE_NOT_REPLAYED = Rule("reload.probe-not-replayed", Level.WARNING, """
    A recorded input could not be given to the model here.

    A library or the base model is not at hand, or the model does not run on this machine.

    Fix: install or give what the message names (`--campaign-base-model`), or load the model with a loader of your own
    (`--campaign-loader`).
    """, unanswered=True)
PROBE_SKIPPED = Rule("reload.probe-skipped", Level.WARNING, """
    A recorded input was not given to the model, because whoever checks asked for less.

    The class of a home-made model is known to nobody but its author, so its probe needs a loader of the reviewer's own. And
    with `--campaign-max-depth` nothing deeper is tried. Where the depth `probe` is asked the deliverable stays unverified.

    Fix: give a loader (`--campaign-loader`), or leave `--campaign-max-depth` out.
    """)
LOADER = Rule("reload.loader-failed", Level.ERROR, """
    The reviewer's own loader raised, or returned no model with its values.

    It was given with `--campaign-loader` or by a plugin. Every parameter of what it returns must have values.

    Usual causes: tensors that the class does not expect, or that are missing; a loader for another format; a mistake in the
    loader.

    Fix: deliver what the class needs, or mend the loader.
    """)
OUTSIDE_FILE = Rule("reload.outside-file", Level.ERROR, """
    Loading needs a file outside of the deliverable, of its base and of the Python installation.

    What loads here because of a file of this machine loads nowhere else. The fresh process sees which files are opened and is
    refused those outside. A warning where loading only looked for the file and went on without it.

    Usual causes: a path of the machine where it was trained in a configuration, such as a backbone or a tokenizer that lies in
    another folder.

    Fix: copy what the message names into the deliverable, and name it by a path relative to it or by its name on the Hub.
    """, at_source=True)
