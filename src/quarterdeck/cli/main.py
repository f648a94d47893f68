"""Where ``quarterdeck`` and ``qd`` begin. Imports almost nothing: ``--version`` is quick."""

import sys
from collections.abc import Sequence

from quarterdeck import __version__

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code.

    0: done. 1: an error, told in words. 2: wrong usage. 130: interrupted. 141: nobody reads
    our output any more.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    if arguments in (["--version"], ["-V"]):
        return _write_version()
    from .run import run

    return run(arguments)


def _write_version() -> int:
    try:
        print(f"quarterdeck {__version__}", flush=True)  # noqa: T201 - before click is there
    except OSError as error:
        from .run import leave_output

        return leave_output(error)
    return 0
