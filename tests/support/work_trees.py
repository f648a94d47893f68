"""Work trees of git for tests, made by git itself with a clean environment."""
# Names of files may be no text, and pathlib takes text alone.
# ruff: noqa: PTH114, PTH115, PTH116, PTH118, PTH123

import os
import subprocess
from pathlib import Path

__all__ = ["git", "new_repository", "state_of", "untouched"]

_ENVIRONMENT = {
    "PATH": os.environ.get("PATH", ""),
    "HOME": "/nonexistent",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_AUTHOR_NAME": "Ada",
    "GIT_AUTHOR_EMAIL": "ada@example.org",
    "GIT_COMMITTER_NAME": "Ada",
    "GIT_COMMITTER_EMAIL": "ada@example.org",
}


def git(directory: Path, *words: str) -> str:
    """Run git in a directory and give what it prints."""
    done = subprocess.run(
        ["git", "-c", "protocol.file.allow=always", "-C", str(directory), *words],
        env=_ENVIRONMENT,
        check=True,
        capture_output=True,
    )
    return done.stdout.decode("utf-8", "replace")


def new_repository(directory: Path, files: dict[str, str] | None = None) -> Path:
    """A repository with one commit of these files; without files: with no commit."""
    directory.mkdir(parents=True, exist_ok=True)
    git(directory, "init", "-q", "-b", "main")
    for name, text in (files or {}).items():
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_text(text)
    if files:
        git(directory, "add", "-A")
        git(directory, "commit", "-q", "-m", "first")
    return directory


def state_of(directory: Path) -> dict[bytes, tuple[str, bytes, bool]]:
    """Everything below a directory but ``.git``: kind, content or target, executable."""
    found: dict[bytes, tuple[str, bytes, bool]] = {}
    top = os.fsencode(directory)
    for here, directories, files in os.walk(top):
        if b".git" in directories:
            directories.remove(b".git")
        links = [name for name in directories if os.path.islink(os.path.join(here, name))]
        for name in (*files, *links):
            path = os.path.join(here, name)
            shown = os.path.relpath(path, top)
            if shown == b".git":
                continue
            if os.path.islink(path):
                found[shown] = ("link", os.readlink(path), False)
            else:
                with open(path, "rb") as file:
                    found[shown] = ("file", file.read(), bool(os.stat(path).st_mode & 0o100))
    return found


def untouched(directory: Path) -> tuple[object, ...]:
    """What must never change by our doing: index, refs, stash, settings, hooks."""
    common = Path(git(directory, "rev-parse", "--path-format=absolute", "--git-common-dir").strip())
    own = Path(git(directory, "rev-parse", "--path-format=absolute", "--git-dir").strip())
    index = own / "index"
    return (
        index.read_bytes() if index.exists() else None,
        git(directory, "for-each-ref"),
        git(directory, "stash", "list"),
        (common / "config").read_bytes(),
        (own / "HEAD").read_bytes(),
        sorted(str(path.relative_to(common)) for path in common.rglob("*") if path.is_file()),
    )
