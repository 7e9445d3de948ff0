"""Which texts are paths of one machine, and whether what they lead to outlives the job that wrote them.

Only a text that is a path as a whole counts, never one in which a path occurs. Addresses of remote stores, names of
metrics and routes with slashes are no paths of a machine.
"""

from __future__ import annotations

import dataclasses
import enum
import posixpath
import re
import urllib.parse

LONGEST = 4096  # PATH_MAX of Linux


class Lifetime(enum.Enum):
    """How long what lies at a path stays there."""

    JOB = "job"  # temporary folders, RAM disks, caches, the scratch space of a job
    MACHINE = "machine"  # as long as the machine, its disk or its mounts


@dataclasses.dataclass(frozen=True)
class MachinePath:
    """A path of one machine: ``path`` as the machine would read it, with ``/`` and decoded; ``place`` says where it leads.

    ``rooted`` says that it begins like the paths of real machines do, so that it is one whatever the field is called that
    holds it: ``/api/v1`` may be a route.
    """

    path: str
    lifetime: Lifetime
    place: str
    rooted: bool

    @property
    def names(self) -> list[str]:
        """The names that it is made of."""
        return [name for name in self.path.split("/") if name]


_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):(?=[/\\.~])")
_DRIVE = re.compile(r"[A-Za-z]:[\\/]")
_SHARE = re.compile(r"//[\w.$-]+/[^/]")
_LOCAL_SCHEMES = re.compile(r"file|(?:sqlite|duckdb)(?:\+[a-z]+)?", re.I)
_VARIABLE = re.compile(r"(?:\$([A-Z_][A-Z0-9_]*)|\$\{([A-Z_][A-Z0-9_]*)\}|\$\{(?:oc\.)?env:([A-Za-z_][A-Za-z0-9_]*)(?:,[^{}]*)?\}"
                       r"|%([A-Za-z_][A-Za-z0-9_()]*)%)(?=[/\\]|\Z)")
_HOME = re.compile(r"~[A-Za-z0-9_.-]*(?=[/\\])|~\Z")
_JOB_VARIABLES = re.compile(
    r"TMP|TEMP|\w*TMPDIR|TEMPDIR|\w*SCRATCH\w*|XDG_(?:RUNTIME_DIR|CACHE_HOME)|HF_HOME|\w*_CACHE", re.I)

# Where paths of what does not outlive the job begin, or what occurs in them; each is matched against the whole path.
_JOB: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("a temporary folder", re.compile(
        r"(?:/private|/mnt/[a-z])?/(?:var/)?te?mp(?:/|\Z)|(?:/private)?/var/folders/|/run/user/|[a-z]:/(?:windows/)?te?mp(?:/|\Z)"
        r"|.*/appdata/local/temp(?:/|\Z)|.*/pytest-of-[^/]+/|.*/tmp(?=[a-z_]*[0-9])[a-z0-9_]{8}(?:/|\Z)", re.I)),
    ("a RAM disk", re.compile(r"/dev/shm(?:/|\Z)|/run/shm(?:/|\Z)")),
    ("a cache", re.compile(
        r".*/\.cache(?:/|\Z)|.*/models--[^/]+(?:/|\Z)|.*/(?:hf|huggingface|hub|transformers|torch)[-_]cache[^/]*(?:/|\Z)", re.I)),
    ("the scratch space of a job", re.compile(
        r".*/(?:l|local_?)?scratch(?:/|\Z)|/local_disk0(?:/|\Z)|/mnt/local(?:/|\Z)|/kaggle/temp(?:/|\Z)", re.I)),
)
_ROOTS = re.compile(
    r"/(?:(?:private/)?(?:tmp|var)|home|root|users|mnt|media|opt|data|datasets|dev|run|srv|usr|etc|scratch|l(?:ocal)?scratch"
    r"|local_disk0|volumes|workspace|runpod-volume|notebooks|storage|content|kaggle|lambda|gpfs|lustre|fefs|beegfs|nfs|nas|raid"
    r"|azureml-envs|plx-context|teamspace|cluster|project|projects|work|fsx|efs|dbfs|vol|checkpoints|cache)(?:/|\Z)", re.I)


def parse(text: str) -> MachinePath | None:
    """What machine path a text is; None when it is a relative path, a remote address or no path at all.

    Paths are absolute ones of POSIX, of Windows (drive letters and shares, with either slash) and of ``file:`` addresses (with
    ``%20`` decoded), the home folder (``~``), and those that begin with a variable of the environment.
    """
    if not text or len(text) > LONGEST or any(ord(c) < 32 for c in text):
        return None
    if not _DRIVE.match(text) and (scheme := _SCHEME.match(text)):
        if not _LOCAL_SCHEMES.fullmatch(scheme[1]):
            return None
        return _local(text[scheme.end():], database=scheme[1].lower() != "file")
    return _plain(text)


def _local(rest: str, database: bool) -> MachinePath | None:
    """What follows the scheme of a local address (RFC 8089; that of a database as SQLAlchemy reads it, without ``%``)."""
    if database:
        _, slash, path = rest.removeprefix("//").partition("/")
        return _plain(path) if rest.startswith("//") and slash else None
    rest = urllib.parse.unquote(rest, errors="replace")
    authority, slash, path = rest[2:].partition("/") if rest.startswith("//") else ("", "", rest)
    if _DRIVE.match(path.lstrip("/")):
        return _plain(path.lstrip("/"))
    if authority in ("", "localhost"):
        return _plain(slash + path)
    return _plain(rest[2:] if authority in (".", "..") or authority.startswith("~") or _DRIVE.match(rest[2:]) else rest)


def _plain(text: str) -> MachinePath | None:
    slashed = text.replace("\\", "/") if _DRIVE.match(text) or text.startswith("\\\\") or "/" not in text else text
    if variable := _VARIABLE.match(text):
        name = next(group for group in variable.groups() if group)
        lifetime = Lifetime.JOB if _JOB_VARIABLES.fullmatch(name) else Lifetime.MACHINE
        return MachinePath(slashed, lifetime, f"what {name} says there", True)
    if _HOME.match(text):
        return _placed(slashed, "a home folder")
    if _DRIVE.match(text):
        return _placed(posixpath.normpath(slashed), "a drive of one machine")
    if not slashed.startswith("/") or not slashed.strip("/"):
        return None
    path = "/" + posixpath.normpath(slashed).lstrip("/")
    if _SHARE.match(slashed) and not _ROOTS.match(path):
        return _placed("/" + path, "a shared folder of one network")
    found = _placed(path, "a folder of one machine")
    return dataclasses.replace(found, rooted=_ROOTS.match(path) is not None or found.lifetime is Lifetime.JOB)


def _placed(path: str, otherwise: str) -> MachinePath:
    """The path with where it leads: ``otherwise`` when it is no place that goes with the job."""
    for place, pattern in _JOB:
        if pattern.match(path):
            return MachinePath(path, Lifetime.JOB, place, True)
    return MachinePath(path, Lifetime.MACHINE, otherwise, True)
