"""Becoming the parent of every orphan among our descendants (Linux), instead of process 1.

A host that runs for weeks wants this: orphans then stay below it in the tree of processes, and
their chain of parents leads to it whatever they did to their environment. Whoever adopts has to
reap; ``reap_adopted`` does that and takes no child from ``asyncio``, ``subprocess`` or us.
"""

import os
import sys
from contextlib import suppress

from quarterdeck.system.descendants import Running, running

__all__ = ["become_subreaper", "reap_adopted"]

_PR_SET_CHILD_SUBREAPER = 36


def become_subreaper() -> bool:
    """Adopt orphaned descendants from now on; False where the system has no such thing."""
    if sys.platform != "linux":
        return False
    import ctypes

    return ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0


def reap_adopted(table: dict[int, Running] | None = None) -> list[int]:
    """Reap the orphans that have ended; their ids. Blocks for some milliseconds.

    A child that we or a library started has our session, or began its own and is its leader. Any
    other was started by somebody else and came to us as an orphan: nobody waits for it. An orphan
    that leads a session cannot be told apart and is left alone until we end.
    """
    table = running() if table is None else table
    us, session = os.getpid(), os.getsid(0)
    reaped: list[int] = []
    for one in table.values():
        if one.parent != us or not one.is_dead or one.session in (0, session, one.pid):
            continue
        with suppress(ChildProcessError):
            if os.waitpid(one.pid, os.WNOHANG)[0]:
                reaped.append(one.pid)
    return reaped
