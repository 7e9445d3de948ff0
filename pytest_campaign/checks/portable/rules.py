"""The rules of the check ``portable``."""

from __future__ import annotations

from ...findings import Level, Rule

TEMP_PATH = Rule("portable.temp-path", Level.ERROR, """
    A field that a loader or a person follows leads into a temporary folder, a RAM disk, a cache or the scratch space of a job.

    What lies there is gone with the job, so that the deliverable cannot be used anywhere, or silently takes something
    else of the same name. That it still loads today says nothing: the folder is still there today.

    Usual causes: the base model was loaded from the folder into which it had been downloaded; the output was written to
    a local disk and moved afterwards.

    Fix: put the line there that the finding shows: the name of the model on the hub with its commit, or a path relative to
    the campaign directory.
    """)
MACHINE_PATH = Rule("portable.machine-path", Level.ERROR, """
    A field that a loader or a person follows holds an absolute path, a path in a home folder or one that a variable of the
    environment begins.

    It leads to nothing on another machine, and to nothing in the campaign directory once that has been moved. Where a run
    took place may stand in its settings and in its logs; addresses of remote stores are no paths of a machine. A relative path
    to a base model that is not in the campaign is a warning.

    Usual causes: PEFT writes into `adapter_config.json` what the base was loaded from; MLflow writes absolute addresses
    (`file:///...`) into `meta.yaml`.

    Fix: put the line there that the finding shows: the name of the model on the hub with its commit, or a path relative to
    the campaign directory.
    """)
NAMED_HERE = Rule("portable.found-by-name", Level.WARNING, """
    A reference is an absolute path of the training machine, and what it names lies here.

    A person finds it, the program that follows the path does not.

    Usual causes: the Trainer notes `best_model_checkpoint`, MLflow `artifact_uri` and TensorFlow `model_checkpoint_path`
    as they were where it ran.

    Fix: put the line there that the finding shows.
    """)
BEST = Rule("portable.best-checkpoint", Level.ERROR, """
    The checkpoint that a file names as the best or the latest one is not there, neither at its path nor by its name.

    Whoever resumes, or looks for the best weights, gets others: the Trainer says so in one line of its log and goes on. In a
    folder that is delivered for inference only it is a warning.

    Usual causes: `save_total_limit` removed it; only the last checkpoint was copied.

    Fix: copy the named checkpoint beside this one; if it is not to be delivered, set the field to null.
    """, at_source=True)
LIKELY = Rule("portable.likely-path", Level.WARNING, """
    A field of a configuration beside the weights, or of instructions, holds a path of one machine, and by its name something is
    loaded from there.

    No loader that is known here follows it, or only some versions of one do (transformers before 5 opened the `vocab_file`
    of `tokenizer_config.json`); the project's own code may.

    Fix: store a path relative to the folder, or delete the field.
    """)
PROVENANCE = Rule("portable.provenance", Level.NOTE, """
    A file says where on its machine the run took place.

    Nobody follows these paths: `output_dir` in the pickled training arguments, the working directory that Hydra noted,
    `_name_or_path` in `config.json`. Those who publish the files may want to know that names of users and of projects stand
    in them.
    """)
UNREADABLE = Rule("portable.not-understood", Level.WARNING, """
    A file that may hold references could not be read as what its name says, so they were not looked at.

    Usual causes: the write was interrupted; the file was edited by hand; it is larger than the reader accepts.

    Fix: copy or write the file again.
    """)
ABSOLUTE_LINK = Rule("portable.absolute-link", Level.WARNING, """
    A link has an absolute target inside the campaign directory.

    It works here and leads nowhere once the directory has been moved, packed or downloaded.

    Usual causes: `ln -s $PWD/checkpoint-4 best`.

    Fix: replace it by the relative link that the finding shows, or by the file.
    """)
TWINS = Rule("portable.twin-names", Level.ERROR, """
    Two names in one folder differ only in case, or only in how an accent is stored.

    On Windows and macOS they are one name: whoever unpacks the archive there has one of the two files, and does not know which.

    Usual causes: a script was renamed and ran again; an archive of macOS and one of Linux were joined.

    Fix: rename one of them.
    """)
ODD_NAME = Rule("portable.odd-name", Level.WARNING, """
    A name cannot be used on other systems, or not be typed.

    Names that are no UTF-8, hold control characters or a backslash, end in a dot or a blank, or are those of devices on
    Windows (`aux`, `con`, `nul`, `com1`). A colon and the like, which times and versions often have, Windows refuses too;
    that is a note only.

    Fix: rename the file, and what refers to it.
    """)
