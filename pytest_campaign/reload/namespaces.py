"""A network and an inter-process communication of its own: nothing is connected to them (namespaces(7)).

An ordinary user gets them inside a user namespace (user_namespaces(7)), in which every other user is nobody; root gets them as
they are, because in a user namespace it could no longer read files of others. Many containers refuse both.
"""

from __future__ import annotations

import os
from pathlib import Path

from . import kernel

_NEW_IPC, _NEW_USER, _NEW_NETWORK = 0x08000000, 0x10000000, 0x40000000  # unshare(2)


def enter() -> None:
    """Move this process, which must have one thread only, into new ones; OSError when it may not."""
    user, group = os.geteuid(), os.getegid()
    kernel.call("unshare", _NEW_NETWORK | _NEW_IPC | (_NEW_USER if user else 0))
    if user:
        for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
            Path("/proc/self", name).write_text(text)
