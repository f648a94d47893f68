"""Another commit of this repository that can be run beside the working tree.

Nothing is installed. A temporary git worktree holds the source of the commit. A virtual environment
without packages has one ``.pth`` file: the ``src`` of that worktree first, then the packages that
run the bench. Both sides of a comparison get such an environment, so that they start alike.
"""

import subprocess
import sys
import tomllib
import venv
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Checkout", "CommitNotFoundError", "check_out", "make_environment"]

ROOT = Path(__file__).parents[1]
_LOCK = "requirements/run.lock"


class CommitNotFoundError(Exception):
    """Git does not know the commit that was named."""


@dataclass(frozen=True, slots=True)
class Checkout:
    """One side of a comparison: its source, and the program that runs it."""

    root: Path
    program: Path
    """``quarterdeck`` of this side."""

    @property
    def python(self) -> Path:
        """The interpreter that imports this side's source."""
        return self.program.with_name("python")

    def has_same_lock(self) -> bool:
        """Whether it wants the packages that it is given."""
        mine, theirs = (ROOT / _LOCK, self.root / _LOCK)
        return theirs.exists() and mine.read_bytes() == theirs.read_bytes()


@contextmanager
def check_out(
    commit: str, folder: Path, repository: Path = ROOT
) -> Generator[Checkout, None, None]:
    """Check a commit out below ``folder``; it is removed at the end.

    Raises ``CommitNotFoundError``.
    """
    tree = folder / "tree"
    git = ["git", "-C", str(repository), "-c", "core.hooksPath=/dev/null"]
    add = [*git, "worktree", "add", "--detach", "--quiet", str(tree), commit]
    done = subprocess.run(add, capture_output=True, text=True)
    if done.returncode:
        raise CommitNotFoundError(f"cannot check out {commit!r}: {done.stderr.strip()}")
    try:
        yield make_environment(tree, folder / "environment")
    finally:
        subprocess.run([*git, "worktree", "remove", "--force", str(tree)], check=True)


def make_environment(root: Path, folder: Path) -> Checkout:
    """Make an environment in ``folder`` that runs the source in ``root``."""
    venv.create(folder, with_pip=False, symlinks=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    shared = [path for path in sys.path if path.endswith("site-packages")]
    (packages / "checkout.pth").write_text("\n".join([str(root / "src"), *shared]) + "\n")
    project = tomllib.loads((root / "pyproject.toml").read_text())
    module, _, function = project["project"]["scripts"]["quarterdeck"].partition(":")
    program = folder / "bin" / "quarterdeck"
    program.write_text(
        f"#!{folder}/bin/python\nimport sys\nfrom {module} import {function}\n"
        f"if __name__ == '__main__':\n    sys.exit({function}())\n"
    )
    program.chmod(0o755)
    return Checkout(root, program)
