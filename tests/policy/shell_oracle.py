"""Real shells as judges: they run lines that policy let pass, and tell what happened.

A line runs in a directory of its own kind, with a program named ``effect`` on the ``PATH`` that
leaves a mark. An effect is a mark, or any file that came, went or changed. Many lines run in one
process; where a batch had an effect, it is halved until the lines are found.
"""

import os
import shlex
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.policy.shell_lines import EFFECT

__all__ = ["ShellOracle"]

_FILES = {
    "a": "x 1\ny 2\n",
    "b": "x 1\nz 3\n",
    "n.txt": "text\n",
    "x.json": '{"a": 1}\n',
    "src/x.py": "x = 1\n",
    "src/y.py": "y = 2\n",
}
_HANDLER = r"""
command_not_found_handle() { printf '%s\0' "${@//$'\n'/$'\3'}" $'\1' >&9; return 127; }
"""
"""Bash writes at every line end, and what two programs of a pipeline write must not mix."""


class ShellOracle:
    """Runs lines with one shell in a scratch directory."""

    def __init__(
        self, scratch: Path, shell: str, *, real_programs: bool = False, no_programs: bool = False
    ) -> None:
        self.work = scratch / "work"
        self.home = scratch / "home"
        self._bin = scratch / "bin"
        self._script = scratch / "script"
        self._log = scratch / "log"
        self._mark = scratch / "mark"
        self._shell = shutil.which(shell) or shell
        self._is_bash = Path(shell).name == "bash"
        places = [str(self._bin), *(("/usr/bin", "/bin") if real_programs else ())]
        self._path = "/nonexistent" if no_programs else ":".join(places)
        for place in (self.work, self.home, self._bin):
            place.mkdir(parents=True, exist_ok=True)
        effect = self._bin / EFFECT
        effect.write_text(f"#!/bin/sh\n: >'{self._mark}'\n")
        effect.chmod(0o755)
        self._fill()

    def _fill(self) -> None:
        for place in (self.work, self.home):
            shutil.rmtree(place)
            place.mkdir()
        for name, text in _FILES.items():
            file = self.work / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        shutil.copy(self._bin / EFFECT, self.work / EFFECT)
        self._mark.unlink(missing_ok=True)
        self._before = self._state()

    def _state(self) -> list[tuple[str, int, int]]:
        found: list[tuple[str, int, int]] = []
        for top in (self.work, self.home):
            for folder, _, files in os.walk(top):
                found.append((folder, 0, 0))
                for name in files:
                    known = (Path(folder) / name).lstat()
                    found.append((f"{folder}/{name}", known.st_size, known.st_mtime_ns))
        return sorted(found)

    def effects_of(self, lines: Sequence[str]) -> list[str]:
        """Return the lines that had an effect."""
        if not lines:
            return []
        self._run(lines)
        if self._state() == self._before and not self._mark.exists():
            return []
        self._fill()
        if len(lines) == 1:
            return list(lines)
        half = len(lines) // 2
        found = self.effects_of(lines[:half]) + self.effects_of(lines[half:])
        return found or [f"together: {lines!r}"]

    def words_run(self) -> list[list[tuple[str, ...]]]:
        """Return, for each line of the last batch, the words of every program that bash missed."""
        lines: list[list[tuple[str, ...]]] = []
        for record in self._log.read_bytes().split(b"\2\0")[1:]:
            programs = record.split(b"\1\0")[:-1]
            lines.append([_words(program) for program in programs])
        return lines

    def _run(self, lines: Sequence[str]) -> None:
        mark = "printf '\\2\\0' >&9\n" if self._is_bash else ""
        runs = (
            f"{mark}( eval {shlex.quote(line)} ) </dev/null >/dev/null 2>&1\n" for line in lines
        )
        head = f"exec 9>{shlex.quote(str(self._log))}\n{_HANDLER}" if self._is_bash else ""
        self._script.write_text(head + "".join(runs))
        subprocess.run(
            [self._shell, str(self._script)],
            env={"PATH": self._path, "HOME": str(self.home), "LC_ALL": "C.UTF-8"},
            cwd=self.work,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=30 + len(lines),
            check=False,
        )


def _words(program: bytes) -> tuple[str, ...]:
    words = program.replace(b"\3", b"\n").split(b"\0")[:-1]
    return tuple(word.decode(errors="surrogateescape") for word in words)
