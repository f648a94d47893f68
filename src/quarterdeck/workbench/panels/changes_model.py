"""What changed: of one file or a whole work tree, against a commit; or what a patch says."""

import os
from dataclasses import dataclass, replace

from quarterdeck.system.errors import GitError, NotARepositoryError
from quarterdeck.system.git import GitOutput
from quarterdeck.system.git_repository import GitRepository, expect_repository

from .patch_model import PatchFile, parse_patch, patch_of_new_file

__all__ = ["Changes", "ChangesWanted", "read_changes"]

MOST = 3_000_000
"""Bytes of a patch that are read."""
_MOST_NEW = 200
_BIGGEST_NEW = 200_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangesWanted:
    """What is compared with what."""

    cwd: str
    path: str | None = None
    """One file or directory, absolute or below ``cwd``; None: all of the work tree."""
    base: str | None = None
    """A commit; None: HEAD."""
    patch: str | None = None
    """A patch to show instead of asking git."""
    ignores_space: bool = False

    def toggled(self) -> "ChangesWanted":
        """The same, with the other opinion about white space."""
        return replace(self, ignores_space=not self.ignores_space)


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """Files that changed, or why that is not known."""

    files: tuple[PatchFile, ...] = ()
    problem: str | None = None
    is_cut: bool = False
    """There is more than is shown."""
    against: str = ""
    """What it is compared with, in words."""


def read_changes(wanted: ChangesWanted) -> Changes:
    """Find out; never raises for what a repository can be. Blocks."""
    if wanted.patch is not None:
        is_cut = len(wanted.patch) > MOST
        return Changes(files=tuple(parse_patch(wanted.patch[:MOST])), is_cut=is_cut)
    cwd, path = _place(wanted)
    if not os.path.isdir(cwd):  # noqa: PTH112
        return Changes(problem=f"{cwd!r} is no directory.")
    try:
        repository = expect_repository(cwd)
        place = repository.top if path is None else cwd
        return _compare(_Asked(repository, place), path, wanted)
    except NotARepositoryError:
        return Changes(problem=f"{cwd!r} is in no git repository, so nothing can be compared.")
    except GitError as error:
        return Changes(problem=str(error))


def _place(wanted: ChangesWanted) -> tuple[str, str | None]:
    """Where to ask git, and about which path: a file may be in another repository than ``cwd``."""
    if wanted.path is None:
        return wanted.cwd, None
    path = os.path.join(wanted.cwd, wanted.path)  # noqa: PTH118 - a name may be no valid text
    return (path, ".") if os.path.isdir(path) else os.path.split(path)  # noqa: PTH112


class _Asked:
    """One repository, asked from one of its directories."""

    def __init__(self, repository: GitRepository, cwd: str) -> None:
        self.top = repository.top
        self._repository = repository
        self._cwd = cwd

    def __call__(self, words: list[str], most: int = 4_000_000) -> GitOutput:
        return self._repository.ask(words, cwd=self._cwd, most=most)


def _compare(ask: _Asked, path: str | None, wanted: ChangesWanted) -> Changes:
    only = ["--", f":(literal){path}" if path != "." else "."] if path is not None else ["--"]
    base, against = _base(ask, wanted.base)
    words = ["diff", "--find-renames", "--patch", "--src-prefix=a/", "--dst-prefix=b/"]
    words += ["-w"] if wanted.ignores_space else []
    answer = ask([*words, base, *only], MOST)
    files = parse_patch(answer.data.decode("utf-8", "surrogateescape"))
    new, more = _new_files(ask, only)
    return Changes(files=(*files, *new), is_cut=answer.is_cut or more, against=against)


def _base(ask: _Asked, base: str | None) -> tuple[str, str]:
    """A commit to compare with; of a repository without one: nothing at all."""
    name = base or "HEAD"
    try:
        words = ["rev-parse", "--verify", "--end-of-options", f"{name}^{{commit}}"]
        return ask(words).data.decode().strip(), name
    except GitError:
        if base is not None:
            raise GitError(
                f"there is no commit {base!r} here; name a branch or a commit."
            ) from None
    empty = ask(["hash-object", "-t", "tree", "/dev/null"]).data.decode().strip()
    return empty, "nothing (there is no commit yet)"


def _new_files(ask: _Asked, only: list[str]) -> tuple[list[PatchFile], bool]:
    words = ["ls-files", "--others", "--exclude-standard", "--full-name", "-z", *only]
    answer = ask(words, 1_000_000)
    names = [os.fsdecode(name) for name in answer.data.split(b"\0")[:-1]]
    found = [_new_file(ask.top, name) for name in names[:_MOST_NEW]]
    return found, answer.is_cut or len(names) > _MOST_NEW


def _new_file(top: str, name: str) -> PatchFile:
    from .file_model import FileReader, Unreadable

    reader = FileReader(f"{top}/{name}")
    try:
        facts = reader.open()
        if facts.is_binary or facts.size > _BIGGEST_NEW:
            kind = "binary" if facts.is_binary else "big"
            return patch_of_new_file(name, (), [f"{kind}, {facts.size:,} bytes"])
        return patch_of_new_file(name, reader.first().lines if facts.size else ())
    except Unreadable as error:
        return patch_of_new_file(name, (), [str(error)])
