"""The rules of the check ``data``."""

from __future__ import annotations

from ...findings import Level, Rule

# What the readers find.

TORN = Rule("data.torn", Level.ERROR, """
    A record breaks off: the file, a line of it or a quoted field has no end. A Parquet file without its last bytes has no table.

    Whatever reads the file fails there, or leaves out the rest without a word. The end of a TensorBoard file is torn when the
    process that wrote it was killed; what stands before is sound, so that is a warning.

    Usual causes: the process was killed or the disk was full while the record was written; the copy was interrupted; a resumed
    run appended to a torn line.

    Fix: copy the file again; if the original is torn too, write it again.
    """, at_source=True)
JOINED = Rule("data.joined", Level.ERROR, """
    Two records stand on one line.

    Readers of JSON Lines fail there, or take the first of them only.

    Usual causes: a writer that puts the line end before a record or forgets it, two processes that append to one file.

    Fix: put each record on a line of its own.
    """)
SYNTAX = Rule("data.syntax", Level.ERROR, """
    A file is not what its name says: no JSON, no table, no YAML, no TOML.

    Usual causes: a dictionary of Python that was printed; comments in JSON; a message of a program at the top of the file; an
    edit by hand.

    Fix: write the file with a library.
    """)
DAMAGED = Rule("data.damaged", Level.ERROR, """
    A Parquet file or an event file of TensorBoard is none, or a part of it cannot be decoded.

    Whatever reads the file fails there; in the fresh process a crash of the library counts too. Checksums of pages are compared
    where the writer put them in (pyarrow: `write_page_checksum=True`); without them a changed number goes unseen.

    Usual causes: a copy that was interrupted or went through a tool that changes bytes; a disk with faults; a file that was
    renamed.

    Fix: copy the file again; if the original cannot be read either, write it again.
    """)
NUL = Rule("data.nul", Level.ERROR, """
    A text file contains NUL bytes.

    That is what a file system leaves of a block whose data never reached the disk. The records that stood there are lost.

    Usual causes: the machine was switched off or crashed soon after the write.

    Fix: copy the file again; if the original has them too, write it again.
    """, at_source=True)
ENCODING = Rule("data.encoding", Level.ERROR, """
    The text of a file is no UTF-8.

    Readers fail there, or show other characters than were written.

    Usual causes: a file that was written on Windows without an encoding; UTF-16 by PowerShell; damage.

    Fix: write the file with encoding="utf-8".
    """)
DUPLICATE_KEY = Rule("data.duplicate-key", Level.ERROR, """
    A name occurs twice in one record, or in the header of a table.

    Which of the two values a reader takes is its own choice; most take the last one without a word. In a table whose other
    columns alone matter it is a warning.

    Usual causes: records that were put together as text; a join of tables.

    Fix: give the second one another name.
    """)
FIELDS = Rule("data.fields", Level.ERROR, """
    A row has fewer or more fields than the header, or the columns differ in length.

    Values then stand under the wrong names, or are lost.

    Usual causes: a text with a comma, a quote or a line break that was written without quotes; a torn row.

    Fix: write the table with a library that puts quotes where they are needed.
    """)
HEADER_AGAIN = Rule("data.header-again", Level.ERROR, """
    The header of a table stands in the middle of it once more.

    The file is then two tables, and readers take the second header for a row.

    Usual causes: a resumed run that opened the file to append and wrote its header; two files that were joined.

    Fix: keep one header; if the rows are of two runs, deliver two files.
    """)
NO_ROWS = Rule("data.no-rows", Level.ERROR, """
    A file that should hold records holds none.

    The program that wrote it had nothing to say, which is no result.

    Usual causes: an evaluation over an empty split; a filter that removed every row.

    Fix: run the evaluation again and look at its input.
    """, at_source=True)
PARTS = Rule("data.part-missing", Level.ERROR, """
    A part of a set of records is not there: the names say how many parts there are (`train-00001-of-00003.parquet`), or
    `state.json` and `dataset_dict.json` of the library datasets name what is missing.

    What is there reads well, so that nobody notices that a share of the rows is gone. One part alone, listed by itself or of ten
    and more, may be meant as a sample; that is a warning.

    Usual causes: a copy that was interrupted between two files; a disk that was full; a process of several that died.

    Fix: copy the missing parts; if they were never written, write the set again.
    """, at_source=True)
NOT_READ = Rule("data.not-read", Level.WARNING, """
    A file was not read: its format needs a library or a reader that is not here, or it goes beyond a limit.

    What it holds is then not known, so the question stays open.

    Fix: deliver it as JSON Lines or CSV as well.
    """, unanswered=True)
OTHER_FORMAT = Rule("data.other-format", Level.NOTE, """
    A file is in a format whose records are not read here.

    No ids were promised for it, so that nothing is left open; what it holds was not looked at.
    """)

# Predictions and data sets.

MISSING_IDS = Rule("data.missing-ids", Level.ERROR, """
    Rows of the data set have no prediction.

    A score over the others is a score over another data set.

    Usual causes: the last batch was dropped (`drop_last`); a worker died; a filter on long inputs.

    Fix: predict the missing rows, or deliver a data set without them to all runs.
    """, at_source=True)
REPEATED_IDS = Rule("data.duplicated-ids", Level.ERROR, """
    Rows were predicted more often than they occur in the data set.

    Each counts twice in a score. In a data set itself, whose key then identifies no row, it is a warning.

    Usual causes: the padding of the last batch of a distributed evaluation was kept; a resumed evaluation appended to its file.

    Fix: keep one prediction for each row; if there are several on purpose, put their number into `key`.
    """)
UNKNOWN_IDS = Rule("data.unknown-ids", Level.ERROR, """
    Predictions carry ids that the data set does not have.

    They were made on something else.

    Usual causes: another split or version of the data set; ids made anew by position; ids that were read as numbers, so that 007
    became 7.

    Fix: predict the rows of the data set, and carry its ids along as text.
    """)
NO_ID = Rule("data.no-id", Level.ERROR, """
    A record lacks a field of the key.

    By its position alone nobody can tell which row a prediction belongs to: a shuffle or a lost row shifts all of them.

    Usual causes: only the labels were written; the key is called otherwise in the file.

    Fix: write the id of the row into every record, and name that field in `key`.
    """)
ID_TYPE = Rule("data.id-type", Level.ERROR, """
    An id is null, a fraction, a truth value, a list or an object.

    Ids are compared as text; only texts and integers have one spelling.

    Usual causes: a column of integers that went through floating point because a value was missing.

    Fix: write ids as texts or integers.
    """)
NO_VALUE = Rule("data.no-value", Level.ERROR, """
    A record lacks the field that holds the prediction, or no record has another field that the manifest declares
    (`truncated_field`, `file_columns`).

    Usual causes: a request that failed and was written down without its answer; the field is called otherwise in the file.

    Fix: predict these rows again, or correct `value`, `truncated_field` or `file_columns` in the manifest.
    """)
ALL_EMPTY = Rule("data.all-empty", Level.ERROR, """
    Every record is empty where its content should stand.

    One empty answer of ten is an answer; ten of ten are none.

    Usual causes: a tokenizer without its template; a model that ends at once; metrics that were written too
    early.

    Fix: run it again and look at its output.
    """, at_source=True)
NULL = Rule("data.null", Level.ERROR, """
    A value that is not declared as nullable is null, or an empty cell among numbers.

    A metric that cannot be computed and one that was lost look the same.

    Usual causes: NaN that was turned into null by the writer; a failed request.

    Fix: compute the value, or list the field in `nullable`.
    """)
NON_FINITE = Rule("data.non-finite", Level.ERROR, """
    A number is NaN or infinite, written as a word or too large to be one.

    JSON has no such numbers, so that some readers fail on them, and nothing can be compared with NaN.

    Usual causes: a training that diverged; a division by zero in a metric; `json.dump` without `allow_nan=False`.

    Fix: find out why; write null for what is undefined, and list the field in `nullable`.
    """)
ROWS = Rule("data.rows", Level.ERROR, """
    The number of rows is not the one that the manifest declares.

    Usual causes: the copy was interrupted at the end of a line; the manifest was written for another version of the file.

    Fix: copy the file again, or correct `rows`.
    """)
CUT_INPUTS = Rule("data.cut-inputs", Level.ERROR, """
    Inputs were cut short before they were predicted.

    Such a prediction is of another input than the data set has, and no other run need have cut it at the same place.

    Usual causes: a maximal length below the longest input; the field is only there to say so.

    Fix: predict these rows with a sufficient length; if the cut belongs to the question, do not declare it as `truncated_field`.
    """, at_source=True)
LOST_FILE = Rule("data.file-missing", Level.ERROR, """
    A record names a file that is not in the campaign.

    The prediction is then the name of something that nobody has.

    Usual causes: only the table was copied; the names are relative to another folder.

    Fix: deliver the files, and write their paths relative to the campaign directory.
    """, at_source=True)
OTHER_IDS = Rule("data.other-ids", Level.ERROR, """
    A variant predicted other rows than the control.

    The two can then not be compared row by row, and their scores are of two data sets.

    Usual causes: a limit or another split in one of the runs; rows that were lost.

    Fix: predict the same rows in both, or declare the data set of both.
    """)
DATASET = Rule("data.no-dataset", Level.ERROR, """
    The data set that predictions refer to cannot be used: it is not there, it cannot be read, or it has other key fields.

    Nobody can then say whether every row was predicted.

    Usual causes: the data set was left out of the copy; only its name was written down.

    Fix: deliver the data set, or list the ids of its rows in the manifest (`ids`).
    """)
NOT_COMPARED = Rule("data.not-compared", Level.WARNING, """
    The ids were not compared, since the data set is in a format that is not read here.

    Fix: list the ids in the manifest (`ids`), or deliver them as JSON Lines or CSV.
    """, unanswered=True)

# Metrics and parameters.

RESTARTED = Rule("data.history-restarts", Level.ERROR, """
    The steps of a history go back: it begins again in the middle of the file.

    Two trainings are then in one file, and nobody can tell whose values are the result. A run that says that it was resumed
    writes the steps since its last checkpoint again; there it is a warning. A step that is counted anew in each epoch is no
    restart.

    Usual causes: the training was started again in the same folder; a resumed run appended to its log.

    Fix: deliver the history of the run that counts; say `resumed_from` where it was resumed.
    """)
REPEATED_STEPS = Rule("data.repeated-steps", Level.WARNING, """
    One metric has several values at the same step.

    Usual causes: all processes of a distributed run logged; a step was evaluated twice.

    Fix: log from one process, or add a column that tells them apart.
    """)
LATE_START = Rule("data.history-starts-late", Level.WARNING, """
    A history begins long after the step at which its run began.

    What came before is lost, and the file shows a part of the run as if it were the whole.

    Usual causes: a resumed run opened the file to write and wiped it; the metrics of the first part lie in another folder.

    Fix: deliver the first part as well; if the run began later on purpose, say its `first_step`.
    """, at_source=True)
EARLY_END = Rule("data.history-ends-early", Level.WARNING, """
    A history ends long before the last step of its run, which claims to be completed.

    Usual causes: the file was copied while the training went on; the writer was never flushed; the training stopped early.

    Fix: copy it again, or correct `steps`.
    """, at_source=True)
FORBIDDEN = Rule("data.abort-rule", Level.ERROR, """
    By a rule that the plan announced the run had to be aborted, and it claims to be completed.

    A limit without `for_steps` counts in a history from the record on that keeps it for the first time: a training begins with a
    high loss and a low accuracy.

    The rule was meant to keep such a run out of the comparison.

    Usual causes: nobody watched the metric; the rule was given up after the fact.

    Fix: record the run as aborted, with the rule and the step.
    """)
LIMITED = Rule("data.limited", Level.WARNING, """
    The evaluation says of itself that it looked at a part of the data only.

    A limit is for trying out; a score of the first hundred samples is none of the data set.

    Usual causes: `--limit` or `max_samples` of a smoke test was left on; `smoke_test`, `dry_run` or `fast_dev_run` is true.

    Fix: evaluate without the limit; if the part is what was planned, say so in the analysis.
    """, at_source=True)
EMPTY_COLUMN = Rule("data.empty-column", Level.WARNING, """
    A column of a table of metrics has no value in any row.

    Usual causes: a metric that was announced and never computed; a name that changed.

    Fix: leave the column out, or list it in `nullable`.
    """)
