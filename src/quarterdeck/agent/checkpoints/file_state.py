"""The state of files: what was at a path, what is there now, and the store of contents by
digest.

Everything here that touches the disk blocks.
"""

import errno
import hashlib
import os
import stat
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec
from msgspec import Struct, field

from quarterdeck.config.places import make_private
from quarterdeck.system.file_reader import open_regular_file
from quarterdeck.system.paths import real_directory
from quarterdeck.wire.decoders import decode_msgpack
from quarterdeck.wire.terminal_text import escape_controls

from .errors import ContentMissingError

__all__ = [
    "LARGEST",
    "BlobStore",
    "FileChange",
    "FileState",
    "Manifest",
    "PathKind",
    "SharedPath",
    "digest_of",
    "fingerprint",
    "is_within",
    "path_line",
    "path_text",
    "read_file_state",
    "write_whole",
]

PathKind: TypeAlias = Literal["file", "link", "large", "repository", "other"]


class FileState(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What was at a path; only ``file`` and ``link`` can be brought back."""

    kind: PathKind
    digest: str
    """Names the content, or the link's target, in the store; else tells two states apart."""
    executable: bool = False

    @property
    def is_restorable(self) -> bool:
        """Whether the content is known."""
        return self.kind in ("file", "link")


class FileChange(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A path that was one thing and is another; None: nothing was there."""

    path: bytes
    """Absolute, as the file system has it."""
    before: FileState | None = None
    after: FileState | None = None

    @property
    def reversed(self) -> "FileChange":
        """The way back."""
        return FileChange(path=self.path, before=self.after, after=self.before)


class SharedPath(Struct, frozen=True, kw_only=True):
    """A path that other agents may have changed at the same time."""

    path: bytes
    agents: tuple[str, ...]
    """Their names."""


class Manifest(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A list of changes, as it is kept: MessagePack, because paths are bytes.

    A path occurs more than once, oldest first, if it changed outside the turn in between.
    """

    v: int = 1
    root: bytes = b""
    """Where the session worked; paths below are shown relative to it."""
    changes: tuple[FileChange, ...] = ()
    uncovered: tuple[str, ...] = field(default=())
    shared: tuple[SharedPath, ...] = field(default=())


def is_within(path: bytes, directory: bytes) -> bool:
    """Whether a path is a directory or below it, by its name alone."""
    return path == directory or path.startswith(directory.rstrip(b"/") + b"/")


def path_text(path: bytes, root: bytes = b"") -> str:
    """A path for people: relative to ``root`` where it is below, bytes that are no text escaped.

    Control characters stay: where it stands among our own words it is a ``path_line``.
    """
    if root and path != root and is_within(path, root):
        path = path[len(root.rstrip(b"/")) + 1 :]
    return path.decode("utf-8", "backslashreplace")


def path_line(path: bytes | str, root: bytes = b"") -> str:
    """A path within a sentence, for people and models: line ends and other control characters are
    escaped too, so that a name cannot look like something else that we say.
    """
    shown = path if isinstance(path, str) else path_text(path, root)
    return escape_controls(shown, keep="")


def digest_of(data: bytes) -> str:
    """The name of a content."""
    return hashlib.blake2b(data, digest_size=20).hexdigest()


class BlobStore:
    """Contents that are written once and read by name. Everything here blocks."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def put(self, data: bytes) -> str:
        """Keep a content; returns its digest. The same content twice is kept once."""
        digest = digest_of(data)
        path = self._path(digest)
        if not path.exists():
            make_private(path.parent)
            write_whole(path, data)
        return digest

    def get(self, digest: str) -> bytes:
        """The content of that name. Raises ContentMissingError."""
        try:
            data = self._path(digest).read_bytes()
        except OSError as error:
            raise ContentMissingError(_missing(digest)) from error
        if digest_of(data) != digest:
            raise ContentMissingError(_missing(digest))
        return data

    def has(self, digest: str) -> bool:
        """Whether there is such a content."""
        return self._path(digest).exists()

    def put_manifest(self, manifest: Manifest) -> str:
        """Keep a list of changes; returns its digest."""
        return self.put(msgspec.msgpack.encode(manifest))

    def get_manifest(self, digest: str) -> Manifest:
        """The list of that name. Raises ContentMissingError."""
        try:
            return decode_msgpack(self.get(digest), Manifest)
        except msgspec.DecodeError as error:
            raise ContentMissingError(_missing(digest)) from error

    def _path(self, digest: str) -> Path:
        return self._directory / digest[:2] / digest[2:]


def write_whole(path: Path, data: bytes, *, durable: bool = False) -> None:
    """Write a file for its owner alone, in one step; ``durable``: safe from a loss of power."""
    beside = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(descriptor, view) :]
        if durable:
            os.fsync(descriptor)
    finally:
        os.close(descriptor)
    beside.replace(path)


def _missing(digest: str) -> str:
    return (
        f"the content {digest!r} is no longer stored, so this cannot be restored; was the "
        "session's directory under checkpoints/ deleted?"
    )


_NOTHING = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EMLINK)
"""What the system says of a way that ends early, or of a symlink on it."""
LARGEST = 10_000_000
"""Bytes of a file beyond which its content is not kept."""


def read_file_state(path: bytes, blobs: BlobStore | None = None) -> FileState | None:
    """What is there; with ``blobs`` its content is kept. Symlinks are not followed.

    None: nothing, also where a part of the way is no directory, or a symlink. A directory is
    ``other``.
    """
    parent, _, name = path.rpartition(b"/")
    try:
        with real_directory(parent) as directory:
            return _look(directory, name, blobs)
    except OSError as error:
        if error.errno in _NOTHING:
            return None
        raise


def _look(directory: int, name: bytes, blobs: BlobStore | None) -> FileState:
    status = os.lstat(name, dir_fd=directory)
    if stat.S_ISLNK(status.st_mode):
        target = os.readlink(name, dir_fd=directory)
        return FileState(kind="link", digest=_keep(target, blobs))
    if not stat.S_ISREG(status.st_mode):
        return FileState(kind="other", digest=str(stat.S_IFMT(status.st_mode)))
    if status.st_size > LARGEST:
        return fingerprint(status)
    try:
        with open_regular_file(name, follow=False, dir_fd=directory) as file:
            data = file.read(LARGEST + 1)
    except OSError:  # it may not be read, or is something else by now
        return fingerprint(status)
    return FileState(
        kind="file", digest=_keep(data, blobs), executable=bool(status.st_mode & stat.S_IXUSR)
    )


def fingerprint(status: os.stat_result) -> FileState:
    """A file whose content is not kept; a change of size or time tells two states apart."""
    return FileState(kind="large", digest=f"{status.st_size}-{status.st_mtime_ns}")


def _keep(data: bytes, blobs: BlobStore | None) -> str:
    return digest_of(data) if blobs is None else blobs.put(data)
