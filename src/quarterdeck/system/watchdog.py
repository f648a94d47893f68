"""The process that ends our children when we are killed and can do nothing any more.

There is one per owner process, started with the first child. It reads lines from a pipe
(``+mark`` and ``=mark pid start`` when a tree begins, ``-mark`` when it is gone) and waits for the
owner to die. Then it kills every process of the trees that are left, and leaves.

It ignores the signals that a terminal or a supervisor sends to a whole group, and does not
depend on the pipe alone: a forked copy of the owner may hold it open.
"""

import os
import select
import signal
import sys
import time

from quarterdeck.system.process_tree import ProcessTree, find_processes, send_signal

__all__ = ["main"]

_DEADLINE = 10.0  # seconds to go on killing what does not die


def main(owner: int) -> None:
    """Watch until ``owner`` is gone, then end what it left. Standard input is the pipe."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)
    trees: dict[str, ProcessTree] = {}
    rest = b""
    handle = _handle_of(owner)
    while True:
        ready = select.select(
            [0] if handle < 0 else [0, handle], [], [], 1.0 if handle < 0 else None
        )[0]
        if 0 in ready:
            data = os.read(0, 65536)
            *lines, rest = (rest + data).split(b"\n")
            _note(trees, lines)
            if not data:
                break
        elif ready or os.getppid() != owner:
            _note(trees, _what_is_left(rest))
            break
    _end(trees)


def _handle_of(owner: int) -> int:
    """Something that becomes readable when the owner dies, or -1."""
    try:
        handle = os.pidfd_open(owner)
    except (AttributeError, OSError):
        return -1
    # The owner may have died, and its id been reused, before we came to open it.
    return handle if os.getppid() == owner else -1


def _what_is_left(rest: bytes) -> list[bytes]:
    """The lines still in the pipe after the owner's death, though another process holds it open."""
    os.set_blocking(0, False)
    try:
        while data := os.read(0, 65536):
            rest += data
    except BlockingIOError:
        pass
    return rest.split(b"\n")[:-1]


def _note(trees: dict[str, ProcessTree], lines: list[bytes]) -> None:
    for line in lines:
        mark, *more = line[1:].decode().split(" ", 2)
        if line.startswith(b"-"):
            trees.pop(mark, None)
        else:
            trees[mark] = (
                ProcessTree(mark, int(more[0]), more[1]) if len(more) == 2 else ProcessTree(mark)
            )


def _end(trees: dict[str, ProcessTree]) -> None:
    deadline = time.monotonic() + _DEADLINE
    while trees and time.monotonic() < deadline:
        left = find_processes(trees.values())
        if not left:
            return
        for one in left:
            send_signal(one, signal.SIGKILL)
        time.sleep(0.01)


if __name__ == "__main__":
    main(int(sys.argv[1]))
