"""Where ``quarterdeck`` and ``qd`` begin. Imports almost nothing: ``--version`` is quick."""

import gc
import sys
from collections.abc import Sequence

from quarterdeck import __version__

__all__ = ["main"]

_THRESHOLDS = (50_000, 20, 20)
"""Of the garbage collector; Python's own first is 700, from days of smaller programs."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code.

    0: done. 1: an error, with a message. 2: wrong usage. 130: interrupted. 141: the reader of
    our output is gone.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    if arguments in (["--version"], ["-V"]):
        return _write_version()
    if argv is not None:
        return _run(arguments)
    # A process of our own. Importing makes many objects and no garbage: looking for some all the
    # while, and once more through everything at the end, is a sixth of a short run.
    gc.set_threshold(*_THRESHOLDS)
    try:
        return _run(arguments)
    finally:
        gc.freeze()


def _run(arguments: Sequence[str]) -> int:
    from .root import run

    return run(arguments)


def _write_version() -> int:
    try:
        print(f"quarterdeck {__version__}", flush=True)  # noqa: T201 - before click is there
    except OSError as error:
        from .root import leave_output

        return leave_output(error)
    return 0
