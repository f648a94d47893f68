"""Branches and other references of a repository: read, and changed all together or not at all.

Only branches and references of our own are ever written, each against the value that it is
expected to have, so that nothing which appeared meanwhile is overwritten. Everything here blocks.
"""
# Names of files are joined as they are.
# ruff: noqa: PTH114

import os
from collections.abc import Sequence

from msgspec import Struct

from ..errors import GitError, GitUnsafeError
from .command import GitIdentity
from .repository import GitRepository, find_identity

__all__ = [
    "BRANCHES",
    "OWN_REFERENCES",
    "ReferenceUpdate",
    "is_branch_name",
    "list_references",
    "read_reference",
    "resolve_commit",
    "update_references",
]

BRANCHES = "refs/heads/"
OWN_REFERENCES = "refs/quarterdeck/"
_WRITABLE = (BRANCHES, OWN_REFERENCES)


class ReferenceUpdate(Struct, frozen=True, kw_only=True):
    """What a reference is to be."""

    name: str
    """Whole, such as ``refs/heads/main``."""
    new: str | None
    """The id of an object; None: the reference goes."""
    old: str | None = None
    """What it must be now; None: it must not exist yet, or with ``new`` None anything."""


def update_references(
    repository: GitRepository,
    updates: Sequence[ReferenceUpdate],
    *,
    reason: str,
    identity: GitIdentity | None = None,
) -> None:
    """Change references, all of them or none; ``reason`` is for their logs.

    Raises:
        GitError: one is not what it is expected to be, or is locked; nothing was changed.
        GitUnsafeError: one would be written through a symbolic link.
    """
    lines: list[bytes] = []
    zero = "0" * (64 if repository.object_format == "sha256" else 40)
    for update in updates:
        if not update.name.startswith(_WRITABLE):
            raise ValueError(f"{update.name!r} is not a reference that this program writes.")
        _expect_no_links(repository, update.name)
        name = os.fsencode(update.name)
        if update.new is None:
            lines += [b"delete " + name, (update.old or "").encode()]
        else:
            lines += [b"update " + name, update.new.encode(), (update.old or zero).encode()]
    repository.change(
        ("update-ref", "-m", reason, "--create-reflog", "-z", "--stdin"),
        given=b"".join(line + b"\0" for line in lines),
        identity=identity or find_identity(repository),
    )


def read_reference(repository: GitRepository, name: str) -> str | None:
    """The object that a reference names, by its whole name; None: there is none."""
    words = ("rev-parse", "--verify", "--quiet", "--end-of-options", name)
    answer = repository.ask(words, accepted=(0, 1))
    return answer.data.decode().strip() if answer.code == 0 else None


def list_references(repository: GitRepository, prefix: str) -> dict[str, str]:
    """The objects of all references below a prefix that ends with a slash, by whole name."""
    words = ("for-each-ref", "--format=%(objectname) %(refname)", prefix)
    lines = repository.ask(words).data.splitlines()
    return {
        os.fsdecode(line[line.index(b" ") + 1 :]): line.split(b" ")[0].decode() for line in lines
    }


def resolve_commit(repository: GitRepository, name: str) -> str:
    """The commit of a branch, a tag or an id.

    Raises:
        GitError: there is none.
    """
    words = ("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
    answer = repository.ask(words, accepted=(0, 1, 128))
    if answer.code:
        raise GitError(
            f"there is no commit {name!r} in {repository.top!r}; name a branch or commit"
        )
    return answer.data.decode().strip()


def is_branch_name(repository: GitRepository, name: str) -> bool:
    """Whether git accepts a name for a branch; an expression such as ``main~1`` is none.

    Neither is one that git itself would take for something else: ``@``, ``refs/tags/x``.
    """
    words = ("check-ref-format", f"{BRANCHES}{name}")
    if name.startswith(("-", "refs/")) or name in ("HEAD", "@"):
        return False
    return repository.ask(words, accepted=(0, 1, 128, 129)).code == 0


def _expect_no_links(repository: GitRepository, name: str) -> None:
    """A repository that was cloned or changed by an agent may lead elsewhere by links."""
    parts = name.split("/")
    for start in (f"{repository.common_dir}", f"{repository.common_dir}/logs"):
        for count in range(len(parts) + 1):
            path = "/".join((start, *parts[:count]))
            if os.path.islink(path):
                raise GitUnsafeError(
                    f"{name!r} was not written, because {path!r} is a symbolic link; replace it "
                    "by what it links to"
                )
