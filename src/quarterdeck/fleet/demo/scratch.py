"""A scratch project on disk: made, found again by its mark, and removed. Everything here blocks."""

import os
import shutil
import tempfile
from importlib import resources
from pathlib import Path

from quarterdeck.wire.errors import QuarterdeckError

__all__ = ["NAME", "ScratchFailed", "is_kept", "keep", "make_project", "remove", "scratch_of"]

NAME = "tides"
"""The project's folder, inside a scratch folder of its own."""
_PREFIX = "quarterdeck-demo-"
_MARK = ".quarterdeck-demo"
"""A file that says that the folder is ours to remove; empty until the person keeps it."""
_KEPT = "kept\n"
_GIT_SECONDS = 20.0


class ScratchFailed(QuarterdeckError):
    """The scratch project cannot be made; the message says where and why."""


def make_project() -> Path:
    """Write the project to a new temporary directory, under version control if git is there.

    Raises:
        ScratchFailed: nothing can be written there. What was written is removed.
    """
    try:
        scratch = Path(os.path.realpath(tempfile.mkdtemp(prefix=_PREFIX)))
    except OSError as error:
        raise _failed(Path(tempfile.gettempdir()), error) from error
    project = scratch / NAME
    try:
        (scratch / _MARK).touch()
        project.mkdir()
        for name, content in _files().items():
            (project / name).write_text(content, "utf-8")
    except OSError as error:
        shutil.rmtree(scratch, ignore_errors=True)
        raise _failed(scratch, error) from error
    _commit(project)
    return project


def scratch_of(directory: str) -> Path | None:
    """The scratch folder that a directory is the project of; None if it is none of ours."""
    project = Path(directory)
    scratch = project.parent
    is_ours = project.name == NAME and scratch.name.startswith(_PREFIX)
    return scratch if is_ours and (scratch / _MARK).is_file() else None


def is_kept(scratch: Path) -> bool:
    """Whether the person wants to keep it."""
    return (scratch / _MARK).read_text("utf-8") == _KEPT


def keep(scratch: Path) -> None:
    """Note that it shall stay."""
    (scratch / _MARK).write_text(_KEPT, "utf-8")


def remove(scratch: Path) -> None:
    """Remove a scratch folder; one without our mark stays."""
    if (scratch / _MARK).is_file():
        shutil.rmtree(scratch, ignore_errors=True)


def _files() -> dict[str, str]:
    import tomllib

    file = resources.files("quarterdeck.fleet.demo") / "project.toml"
    return tomllib.loads(file.read_text("utf-8"))


def _commit(project: Path) -> None:
    """Put the project under version control; without git it is just a directory."""
    from quarterdeck.system.errors import GitError
    from quarterdeck.system.git import GitPlaces, run_git

    top = str(project)
    places = GitPlaces(git_dir=f"{top}/.git", work_tree=top, cwd=top)
    settings = ("user.name=Quarterdeck", "user.email=demo@localhost")
    for words in (
        ("init", "-q", "-b", "main"),
        ("add", "."),
        ("commit", "-q", "-m", "Tides, with a test that fails"),
    ):
        try:
            run_git(places, words, settings=settings, seconds=_GIT_SECONDS)
        except GitError:
            return


def _failed(place: Path, error: OSError) -> ScratchFailed:
    return ScratchFailed(
        f"the demo cannot write its project to {str(place)!r}: {error.strerror or error}; "
        "make room there, or set TMPDIR to another directory"
    )
