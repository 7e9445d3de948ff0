"""The rules of the check ``fixity``."""

from __future__ import annotations

from ...findings import Level, Rule

SIZE = Rule("fixity.size", Level.ERROR, """
    A file has another size than was declared.

    It is not the file whose size was recorded, whatever can still be read from it.

    Usual causes: an interrupted copy; a full disk; a file that was written again after the list was made.

    Fix: copy the file again; if the file is right, write the list again and say why.
    """)
DIGEST = Rule("fixity.digest", Level.ERROR, """
    A file has another digest than was declared: its bytes are not those that were recorded.

    The size may be the same, and a loader may read it without a complaint: safetensors has no checksum, and `torch.load`
    looks at none.

    Usual causes: damage in transit or on the disk; line ends that were converted; an edit by hand; the checkpoint of another
    step under the same name.

    Fix: copy the file again; if the file is right, write the list again and say why.
    """)
MISSING = Rule("fixity.missing", Level.ERROR, """
    A file is declared, with its size or its digest, and is not there.

    It was there when the list was made.

    Usual causes: a copy that left out a part (hidden files, links, large files); a file that was deleted or renamed later.

    Fix: copy the file while the machine is still there.
    """, at_source=True)
CONTRADICTION = Rule("fixity.contradiction", Level.ERROR, """
    Two places declare different digests or sizes of one file.

    At most one of them can be right; which one, no check can say.

    Usual causes: a list that was not written again after the file was; a line that was copied.

    Fix: find out which file was meant, and write the other list again.
    """)
CHANGED = Rule("fixity.changed", Level.ERROR, """
    A file changed while it was checked.

    What was checked is then not what lies there now.

    Usual causes: the training or the copy is still running.

    Fix: wait until everything is written, and run the check again.
    """)
UNREADABLE = Rule("fixity.unreadable", Level.WARNING, """
    A file whose digest is declared could not be read by the user who runs the check.

    Fix: change the permission, or run the check as the owner.
    """, unanswered=True)
ADDED = Rule("fixity.added", Level.WARNING, """
    A deliverable has a file that its list in the manifest does not name.

    The list was complete when it was written, so the file came later, and nobody vouches for it. Files of tools, READMEs and
    lists of digests need no line.

    Usual causes: a file of another checkpoint; something that a tool wrote when the folder was opened.

    Fix: add the file to `files`, or remove it.
    """)
LINE = Rule("fixity.line", Level.ERROR, """
    A line in a list of digests cannot be understood, so a file that it may have named is not checked.

    Usual causes: a list that was cut; a digest with too few digits; text in a list.

    Fix: write the list again (`sha256sum FILES > SHA256SUMS`).
    """)
LIST_UNREADABLE = Rule("fixity.list-unreadable", Level.WARNING, """
    A list of digests could not be read, so the files that it names are not compared with it.

    The machine that checks has no permission, or the list is larger than is read.

    Fix: change the permission, or run the check as the owner; split a very large list by folder.
    """, unanswered=True)
LIST_ABSENT = Rule("fixity.list-absent", Level.ERROR, """
    A list of digests is announced and is not there.

    Its signature lies there, or a link with its name, or a bag without a payload manifest.

    Usual causes: a copy that left the list out.

    Fix: copy the list.
    """, at_source=True)
ALGORITHM = Rule("fixity.algorithm", Level.WARNING, """
    A list has digests in an algorithm that is not computed here, and its files have no other.

    Whether these are the bytes that were written stays open. Known are MD5, SHA-1, SHA-224, SHA-256, SHA-384, SHA-512 and
    BLAKE2b.

    Fix: add a list with SHA-256.
    """, unanswered=True)
WEAK = Rule("fixity.weak", Level.NOTE, """
    The only digests of some files are MD5 or SHA-1.

    They agree, so nothing was damaged by accident. They prove nothing against somebody who means to exchange a file: other files
    with the same digest can be made.

    Fix: add a list with SHA-256.
    """)
OUTSIDE = Rule("fixity.outside", Level.ERROR, """
    A list of digests names a file outside the campaign directory, or outside its bag.

    Such a path is never followed, so the line is worth nothing after a move.

    Usual causes: `sha256sum /workspace/out/*` with absolute paths; names that begin with `..`.

    Fix: write the list again from inside its folder.
    """)
HIGHER = Rule("fixity.higher-folder", Level.WARNING, """
    A list of digests was written from a folder higher up: all its names begin with a folder that is not there, and lead to
    files without it.

    The files are compared all the same. `sha256sum -c` in the folder of the list finds none of them.

    Usual causes: `sha256sum out/*` beside the directory, and the list put into it; a directory that was moved or renamed.

    Fix: write the list again from inside its folder, or take these folders out of its lines.
    """)
TWICE = Rule("fixity.twice", Level.ERROR, """
    A manifest of a bag lists a file twice.

    BagIt 1.0 forbids it, earlier versions did not (a warning).

    Usual causes: two lists that were joined; names that differ only in `./`.

    Fix: delete one of the lines.
    """)
BAG = Rule("fixity.bag", Level.ERROR, """
    A folder looks like a BagIt bag and its bagit.txt is missing or faulty.

    The file has exactly two lines, the version and the encoding of the tag files (RFC 8493, 2.1.1). A tool for bags refuses
    the folder.

    Usual causes: an editor that added a byte order mark; a copy that left the file out.

    Fix: write bagit.txt as RFC 8493 asks for, or make the bag again.
    """)
OXUM = Rule("fixity.payload-oxum", Level.ERROR, """
    The payload of a bag has another size or another number of files than its Payload-Oxum says.

    Usual causes: an interrupted copy; a file that was added to the bag later.

    Fix: copy the bag again, or make it again.
    """)
FETCH = Rule("fixity.not-fetched", Level.ERROR, """
    A bag says in fetch.txt from where a file is to be fetched, and it is not there.

    The bag is not complete, and the address may be gone tomorrow. Nothing is ever fetched here.

    Fix: fetch the file, and take its line out of fetch.txt.
    """)
UNLISTED = Rule("fixity.unlisted-payload", Level.ERROR, """
    A file lies in the payload of a bag, and the payload manifest does not list it.

    A bag is complete in both directions: nothing is missing, and nothing is there that nobody vouches for.

    Usual causes: a file that was added later; a file of a tool (.DS_Store).

    Fix: remove the file, or make the bag again.
    """)
FORM = Rule("fixity.unicode-form", Level.WARNING, """
    A list writes the name of a file in another Unicode form than the file has.

    What looks the same are other bytes: `é` is one character or two. Elsewhere the file will not be found under that name.

    Usual causes: a list that was written on macOS; a file system or an archive that changed the form.

    Fix: give files plain ASCII names, or write the list again where the files lie.
    """)
NOTHING = Rule("fixity.nothing-declared", Level.NOTE, """
    No place declares sizes or digests of a deliverable's files.

    Nobody can say later whether these are the bytes that were written.

    Fix: none is needed; `pytest-campaign draft` writes sizes and digests into a new manifest, `sha256sum` into a list, and a
    report (`--campaign-report`) can be the baseline of the next check.
    """)
COMPARED = Rule("fixity.compared", Level.NOTE, """
    What was compared: sizes only or digests, of how many files, and with what.

    A size shows what was cut; only a digest shows that a file still has the bytes that were written.
    """)
BASELINE = Rule("fixity.since-baseline", Level.ERROR, """
    A file is not, or no longer, the one that the baseline has.

    Of a deliverable that was accepted this is an error, of one that was unverified a warning, of any other a note: that it is
    mended was hoped for.

    Usual causes: a checkpoint that was saved or converted again under its old name; damage in the archive.

    Fix: restore what was accepted, or take the new files as the result and accept them anew, without the baseline.
    """)
BASELINE_ADDED = Rule("fixity.added-since-baseline", Level.WARNING, """
    A deliverable has a file that it had not when the baseline was made.

    Fix: none is needed when it belongs there; else remove it.
    """)
BASELINE_GONE = Rule("fixity.gone-since-baseline", Level.ERROR, """
    A deliverable that was accepted is gone, from the directory or from the manifest.

    A manifest that no longer lists it does not undo that it was delivered.

    Usual causes: a clean-up; a new manifest of a part of the campaign.

    Fix: restore it, and list it in the manifest.
    """)
OTHER_BASELINE = Rule("fixity.other-baseline", Level.ERROR, """
    The baseline is the report of another campaign.

    Nothing then says whether this one is as it was.

    Usual causes: the wrong file; a campaign whose id was changed in its manifest.

    Fix: pass a report of this campaign with --campaign-baseline, or restore the id.
    """)
VERDICT = Rule("fixity.verdict-changed", Level.NOTE, """
    The verdict is another one than in the baseline.

    The other findings say why: the files changed, or what is asked of them, or the machine that checks.
    """)
