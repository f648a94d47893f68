"""Where ``quarterdeck`` and ``qd`` begin. Imports almost nothing: ``--version`` is quick."""

import gc
import os
import sys
from collections.abc import Sequence

from quarterdeck import __version__

__all__ = ["main"]

_THRESHOLDS = (50_000, 20, 20)
"""Of the garbage collector; Python's own first is 700, from days of smaller programs."""
_COMPLETION = frozenset(("_QUARTERDECK_COMPLETE", "_QD_COMPLETE"))
"""Variables with which a shell asks for completions."""


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
    gc.callbacks.append(_keep_imports)
    from quarterdeck.system.late_module import delay_rarely_used

    delay_rarely_used()
    try:
        return _run(arguments)
    finally:
        gc.freeze()


def _keep_imports(_phase: str, _facts: dict[str, int]) -> None:
    """Before the first collection: what is there by then was imported, and stays until the end.

    So the first looks at nothing, and later ones not at it again.
    """
    gc.callbacks.remove(_keep_imports)
    gc.freeze()


def _run(arguments: Sequence[str]) -> int:
    if arguments == ["acp"]:
        from .exit_code import run_to_exit_code

        return run_to_exit_code(_serve_editor, arguments)
    if not arguments and _COMPLETION.isdisjoint(os.environ):
        # The workbench needs nothing of click, which takes 15 ms to import.
        from .exit_code import run_to_exit_code
        from .welcome import welcome

        return run_to_exit_code(welcome, arguments)
    from .root import run

    return run(arguments)


def _serve_editor() -> int:
    """``quarterdeck acp`` as editors start it, without what takes time and serves people: click."""
    from quarterdeck.system.late_module import delay_tls

    delay_tls()
    from quarterdeck.serve.standard_streams import serve_standard_streams

    serve_standard_streams(dict(os.environ))
    return 0


def _write_version() -> int:
    try:
        print(f"quarterdeck {__version__}", flush=True)  # noqa: T201 - before click is there
    except OSError as error:
        from .exit_code import leave_output

        return leave_output(error)
    return 0
