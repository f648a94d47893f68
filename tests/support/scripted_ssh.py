"""A program ``ssh`` that connects to nothing and does what a test wrote down.

It understands the words that ``quarterdeck.fleet.remote`` gives it and fails at any other. A
forwarded socket is a symbolic link to the other one.
"""

import json
import os
from pathlib import Path
from shlex import quote
from typing import Any

from quarterdeck import __version__
from quarterdeck.fleet.host.methods import PROTOCOL

__all__ = ["ScriptedSsh"]

_PROGRAM = r"""#!/bin/sh
folder=${0%/*} control= local= path= batch=
{ printf '%s\0' "$@"; printf '\1\0'; /usr/bin/env -0; printf '\2\0'; } >> "$folder/calls"
while [ "$1" != -- ]; do
  case $1 in
    -O) control=$2 ;;
    -L) local=$2 ;;
    -F|-p) ;;
    -o) case $2 in ControlPath=/*) path=yes ;; BatchMode=yes) batch=yes ;; esac ;;
    *) echo "scripted ssh: unknown option $1" >&2; exit 99 ;;
  esac
  shift 2
done
case $2 in -*) exit 98 ;; esac
[ "$path" ] || exit 97
shift 2
if [ "$control" ]; then
  [ $# = 0 ] || exit 96
  step=$folder/$control
  [ "$control" != forward ] || [ -e "$step" ] || /bin/ln -sfn "${local#*:}" "${local%%:*}"
else
  [ $# = 1 ] && [ "$batch" ] || exit 95
  case $1 in *--version*) step=version ;; *" stop "*) step=stop ;; *) step=report ;; esac
  step=$folder/$step
fi
[ -e "$step" ] || exit 0
. "$step"
"""


class ScriptedSsh:
    """The program in a folder of its own, which is to be the only one on PATH."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.folder = folder
        program = folder / "ssh"
        program.write_text(_PROGRAM)
        program.chmod(0o755)
        self.report(None)

    def step(
        self, name: str, *, output: str = "", errors: str = "", code: int = 0, seconds: float = 0
    ) -> None:
        """What it does from now on for a command, or for a ``-O``."""
        new = self.folder / "new"
        new.write_text(
            f"/bin/sleep {seconds}\n" * bool(seconds)
            + f"printf %s {quote(output)}\nprintf %s {quote(errors)} >&2\nexit {code}\n"
        )
        new.replace(self.folder / name)

    def report(
        self, socket: str | os.PathLike[str] | None, *, noise: str = "", **changes: Any
    ) -> None:
        """A machine with our version, and a host at that socket."""
        facts = {
            "quarterdeck": __version__,
            "format": 1,
            "protocol": PROTOCOL,
            "home": "/home/there",
            "socket": None if socket is None else str(socket),
        }
        self.step("report", output=f"{noise}{json.dumps(facts | changes)}\n")

    def calls(self) -> list[dict[str, Any]]:
        """How it was run, each time: ``words`` and ``environment``."""
        try:
            text = (self.folder / "calls").read_text()
        except FileNotFoundError:
            return []
        found: list[dict[str, Any]] = []
        for call in text.split("\2\0")[:-1]:
            words, environment = call.split("\1\0")
            variables = (one.partition("=") for one in environment.split("\0")[:-1])
            found.append(
                {
                    "words": words.split("\0")[:-1],
                    "environment": {name: value for name, _, value in variables},
                }
            )
        return found
