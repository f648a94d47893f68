"""What a fake agent really does to the disk, if it may: so that the disk shows what it did.

Prompts have the same words for every fake: ``do`` is done as the real agent would, after asking or
as far as its flags go; ``sneak`` and ``sneak-run`` are done unasked and reported; ``hide`` is not
even reported. See ``docs/fake-agent.md``.
"""

import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

__all__ = ["DiskAction", "DiskActionKind", "parse_action", "parse_sneak"]

DiskActionKind: TypeAlias = Literal["read", "edit", "run"]

_SECONDS = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskAction:
    """A file to read, a file to write, or a command to run."""

    kind: DiskActionKind
    target: str
    """The path as it was given, or the command."""
    content: str = ""
    """What is written."""

    @property
    def path(self) -> str:
        """The file, from the root on."""
        return str(Path.cwd() / self.target)

    @property
    def title(self) -> str:
        """What it is, for people."""
        return self.target if self.kind == "run" else f"{self.kind} {self.target}"

    def carry_out(self) -> str:
        """Do it; blocks. Returns what was read or printed."""
        match self.kind:
            case "read":
                return Path(self.path).read_text()
            case "edit":
                Path(self.path).write_text(self.content)
                return "written"
            case "run":
                return self.run()[0]

    def run(self) -> tuple[str, int]:
        """Run the command; blocks. Returns what it printed, and its exit code."""
        done = subprocess.run(
            ["/bin/sh", "-c", self.target],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=_SECONDS,
        )
        return done.stdout, done.returncode


def parse_action(words: str) -> DiskAction:
    """The action that ``read PATH``, ``edit PATH TEXT`` or ``run COMMAND`` names.

    Raises:
        ValueError: it is none of these.
    """
    kind, _, rest = words.partition(" ")
    match kind:
        case "read":
            return DiskAction(kind="read", target=rest)
        case "edit":
            path, _, content = rest.partition(" ")
            return DiskAction(kind="edit", target=path, content=content)
        case "run":
            return DiskAction(kind="run", target=rest)
        case _:
            raise ValueError(f"no deed is called {kind!r}; there are read, edit and run")


def parse_sneak(name: str, rest: str) -> DiskAction:
    """The action of ``sneak PATH TEXT``, ``hide PATH TEXT`` or ``sneak-run COMMAND``."""
    return parse_action(f"{'run' if name == 'sneak-run' else 'edit'} {rest}")
