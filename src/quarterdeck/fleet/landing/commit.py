"""Commit objects: read and written as they are, byte for byte, without a checkout.

``git commit-tree`` has one identity for author and committer and decodes messages; a commit that is
moved to another parent must keep its author, dates, encoding and message. Everything here blocks.
"""

import os
from collections.abc import Sequence

from msgspec import Struct

from quarterdeck.system.errors import GitError
from quarterdeck.system.git.command import GitIdentity
from quarterdeck.system.git.repository import GitRepository
from quarterdeck.wire.clock import format_local_time, read_wall_clock

__all__ = ["CommitFields", "commit_line", "read_commits", "read_tree", "write_commit"]


class CommitFields(Struct, frozen=True, kw_only=True):
    """What a commit says."""

    id: str
    tree: str
    parents: tuple[str, ...]
    author: bytes
    """The line of the author without its first word: name, address, time and zone."""
    message: bytes
    encoding: bytes = b""
    """What the message is written in; empty: UTF-8."""

    @property
    def subject(self) -> str:
        """The first line of the message, for people."""
        line = self.message.strip().split(b"\n", 1)[0]
        return line.decode("utf-8", "replace")


def read_commits(repository: GitRepository, ids: Sequence[str]) -> list[CommitFields]:
    """Read commits, in the order of their ids. Raises GitError."""
    if not ids:
        return []
    asked = "".join(f"{one}\n" for one in ids).encode()
    data = repository.ask(("cat-file", "--batch"), given=asked, seconds=60.0).data
    found: list[CommitFields] = []
    place = 0
    for id_ in ids:
        end = data.index(b"\n", place)
        words = data[place:end].split(b" ")
        if len(words) != 3 or words[1] != b"commit":
            raise GitError(f"{id_!r} is not a commit of {repository.top!r}")
        size = int(words[2])
        found.append(_parse(id_, data[end + 1 : end + 1 + size]))
        place = end + size + 2
    return found


def _parse(id_: str, data: bytes) -> CommitFields:
    head, _, message = data.partition(b"\n\n")
    tree, author, encoding = "", b"", b""
    parents: list[str] = []
    for line in head.split(b"\n"):
        word, _, value = line.partition(b" ")
        if word == b"tree":
            tree = value.decode()
        elif word == b"parent":
            parents.append(value.decode())
        elif word == b"author":
            author = value
        elif word == b"encoding":
            encoding = value
    return CommitFields(
        id=id_,
        tree=tree,
        parents=tuple(parents),
        author=author,
        message=message,
        encoding=encoding,
    )


def read_tree(repository: GitRepository, commit: str) -> str:
    """The tree of a commit. Raises GitError."""
    words = ("rev-parse", "--verify", "--quiet", "--end-of-options", f"{commit}^{{tree}}")
    return repository.ask(words).data.decode().strip()


def commit_line(identity: GitIdentity) -> bytes:
    """A person and the time now, as commits have them."""
    seconds = read_wall_clock() // 1_000_000
    who = f"{identity.name} <{identity.email}>"
    return os.fsencode(f"{who} {seconds} {format_local_time(seconds * 1_000_000, '%z')}")


def write_commit(
    repository: GitRepository,
    tree: str,
    parents: Sequence[str],
    message: bytes,
    *,
    identity: GitIdentity,
    author: bytes | None = None,
    encoding: bytes = b"",
    objects: str | None = None,
) -> str:
    """Write a commit and return its id; no reference names it yet.

    ``author``: as in ``CommitFields``; None: who commits. ``objects``: another directory for it.

    Raises:
        GitError: it cannot be written.
    """
    committer = commit_line(identity)
    lines = [b"tree " + tree.encode(), *(b"parent " + one.encode() for one in parents)]
    lines += [b"author " + (author or committer), b"committer " + committer]
    if encoding:
        lines.append(b"encoding " + encoding)
    data = b"\n".join(lines) + b"\n\n" + message
    words = ("hash-object", "-t", "commit", "-w", "--stdin")
    alternates = (repository.objects,) if objects is not None else ()
    answer = repository.change(words, given=data, objects=objects, alternates=alternates)
    return answer.data.decode().strip()
