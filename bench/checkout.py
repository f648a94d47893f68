"""Another commit of this repository that can be run beside the working tree.

A temporary git worktree holds the source of the commit. A virtual environment without packages has
one ``.pth`` file: the ``src`` of that worktree first, then the packages that run the bench. Both
sides of a comparison get such an environment, so that they start alike. If the commit locks other
packages, these are installed once into ``build/locked`` and come before those of the bench.
"""

import hashlib
import shutil
import subprocess
import sys
import tomllib
import venv
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

__all__ = ["ROOT", "Checkout", "CommitNotFoundError", "check_out", "make_environment"]

ROOT = Path(__file__).parents[1]
"""The working tree."""
_LOCK = "requirements/run.lock"


class CommitNotFoundError(Exception):
    """Git does not know the commit that was named."""


@dataclass(frozen=True, slots=True)
class Checkout:
    """One side of a comparison: its source, and the program that runs it."""

    root: Path
    program: Path
    """``quarterdeck`` of this side."""
    has_own_packages: bool = True
    """Whether it runs with the packages that its commit locks."""

    @property
    def python(self) -> Path:
        """The interpreter that imports this side's source."""
        return self.program.with_name("python")


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
        has_same = _read_lock(tree) == _read_lock(repository)
        installed = None if has_same else _install(tree / _LOCK, repository / "build" / "locked")
        made = make_environment(tree, folder / "environment", [installed] if installed else [])
        yield replace(made, has_own_packages=has_same or installed is not None)
    finally:
        subprocess.run([*git, "worktree", "remove", "--force", str(tree)], check=True)


def _read_lock(root: Path) -> bytes:
    lock = root / _LOCK
    return lock.read_bytes() if lock.exists() else b""


def _install(lock: Path, folder: Path) -> Path | None:
    """Where the packages of a lock are; None: they cannot be had here, for example without a net.

    They stay for the next time, under the hash of the lock.
    """
    content = _read_lock(lock.parents[1])
    place = folder / hashlib.sha256(content).hexdigest()[:16]
    if content and not place.exists():
        pip = [sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check"]
        partial = place.with_suffix(".partial")
        shutil.rmtree(partial, ignore_errors=True)
        wanted = ["--require-hashes", "--no-deps", "--target", str(partial), "-r", str(lock)]
        if subprocess.run([*pip, *wanted]).returncode:
            return None
        partial.mkdir(parents=True, exist_ok=True)
        partial.rename(place)
    return place if content else None


def make_environment(root: Path, folder: Path, packages: Sequence[Path] = ()) -> Checkout:
    """Make an environment in ``folder`` that runs the source in ``root``.

    Folders of ``packages`` come before those of the bench.
    """
    venv.create(folder, with_pip=False, symlinks=True)
    (site,) = folder.glob("lib/python*/site-packages")
    shared = [path for path in sys.path if path.endswith("site-packages")]
    lines = [str(root / "src"), *map(str, packages), *shared]
    (site / "checkout.pth").write_text("\n".join(lines) + "\n")
    project = tomllib.loads((root / "pyproject.toml").read_text())
    module, _, function = project["project"]["scripts"]["quarterdeck"].partition(":")
    program = folder / "bin" / "quarterdeck"
    program.write_text(
        f"#!{folder}/bin/python\nimport sys\nfrom {module} import {function}\n"
        f"if __name__ == '__main__':\n    sys.exit({function}())\n"
    )
    program.chmod(0o755)
    return Checkout(root, program)
