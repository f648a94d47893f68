"""The changes of a file or a work tree against a commit, or those that a patch describes."""

import os
from dataclasses import dataclass

from quarterdeck.fleet.review.patch import PatchFile, make_new_file_patch, parse_patch
from quarterdeck.system.errors import GitError, NotARepositoryError
from quarterdeck.system.git.command import GitOutput
from quarterdeck.system.git.repository import GitRepository, expect_repository

__all__ = ["Changes", "ChangesQuery", "read_changes"]

MOST = 3_000_000
"""Bytes of a patch that are read."""
_MOST_NEW = 200
_BIGGEST_NEW = 200_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangesQuery:
    """What is compared with what."""

    cwd: str
    path: str | None = None
    """One file or directory, absolute or below ``cwd``; None: all of the work tree."""
    base: str | None = None
    """A commit; None: HEAD."""
    patch: str | None = None
    """A patch to show instead of asking git."""
    ignores_space: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """Files that changed, or why that is not known."""

    files: tuple[PatchFile, ...] = ()
    problem: str | None = None
    is_cut: bool = False
    """There is more than is shown."""
    against: str = ""
    """What it is compared with, in words."""


def read_changes(wanted: ChangesQuery) -> Changes:
    """Find out; never raises for what a repository can be. Blocks."""
    if wanted.patch is not None:
        is_cut = len(wanted.patch) > MOST
        return Changes(files=tuple(parse_patch(wanted.patch[:MOST])), is_cut=is_cut)
    cwd, path = _place(wanted)
    if not os.path.isdir(cwd):  # noqa: PTH112
        return Changes(problem=f"{cwd!r} is not a directory.")
    try:
        repository = expect_repository(cwd)
        place = repository.top if path is None else cwd
        return _compare(_Repository(repository, place), path, wanted)
    except NotARepositoryError:
        return Changes(problem=f"{cwd!r} is not in a git repository.")
    except GitError as error:
        return Changes(problem=str(error))


def _place(wanted: ChangesQuery) -> tuple[str, str | None]:
    """Where to ask git, and about which path: a file may be in another repository than ``cwd``."""
    if wanted.path is None:
        return wanted.cwd, None
    path = os.path.join(wanted.cwd, wanted.path)  # noqa: PTH118 - a name may be no valid text
    return (path, ".") if os.path.isdir(path) else os.path.split(path)  # noqa: PTH112


class _Repository:
    """One repository, asked from one of its directories."""

    def __init__(self, repository: GitRepository, cwd: str) -> None:
        self.top = repository.top
        self._repository = repository
        self._cwd = cwd

    def __call__(self, words: list[str], most: int = 4_000_000) -> GitOutput:
        return self._repository.ask(words, cwd=self._cwd, most=most)


def _compare(ask: _Repository, path: str | None, wanted: ChangesQuery) -> Changes:
    only = ["--", f":(literal){path}" if path != "." else "."] if path is not None else ["--"]
    base, against = _base(ask, wanted.base)
    words = ["diff", "--find-renames", "--patch", "--src-prefix=a/", "--dst-prefix=b/"]
    words += ["-w"] if wanted.ignores_space else []
    answer = ask([*words, base, *only], MOST)
    files = parse_patch(answer.data.decode("utf-8", "surrogateescape"))
    new, more = _new_files(ask, only)
    return Changes(files=(*files, *new), is_cut=answer.is_cut or more, against=against)


def _base(ask: _Repository, base: str | None) -> tuple[str, str]:
    """A commit to compare with; of a repository without one: nothing at all."""
    name = base or "HEAD"
    try:
        words = ["rev-parse", "--verify", "--end-of-options", f"{name}^{{commit}}"]
        return ask(words).data.decode().strip(), name
    except GitError:
        if base is not None:
            raise GitError(f"no branch or commit {base!r} here.") from None
    empty = ask(["hash-object", "-t", "tree", "/dev/null"]).data.decode().strip()
    return empty, "nothing (no commits yet)"


def _new_files(ask: _Repository, only: list[str]) -> tuple[list[PatchFile], bool]:
    words = ["ls-files", "--others", "--exclude-standard", "--full-name", "-z", *only]
    answer = ask(words, 1_000_000)
    names = [os.fsdecode(name) for name in answer.data.split(b"\0")[:-1]]
    found = [_new_file(ask.top, name) for name in names[:_MOST_NEW]]
    return found, answer.is_cut or len(names) > _MOST_NEW


def _new_file(top: str, name: str) -> PatchFile:
    from .file.model import FilePanelReadError, FileReader

    reader = FileReader(f"{top}/{name}")
    try:
        facts = reader.open()
        if facts.is_binary or facts.size > _BIGGEST_NEW:
            kind = "binary" if facts.is_binary else "big"
            return make_new_file_patch(name, (), [f"{kind}, {facts.size:,} bytes"])
        return make_new_file_patch(name, reader.first().lines if facts.size else ())
    except FilePanelReadError as error:
        return make_new_file_patch(name, (), [str(error)])
