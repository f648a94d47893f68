"""Contents by digest, in a directory of one session that only its owner can read."""

import hashlib
import os
from pathlib import Path

import msgspec

from quarterdeck.config.places import make_private

from .entries import Manifest
from .errors import ContentMissing

__all__ = ["Blobs", "digest_of", "write_whole"]


def digest_of(data: bytes) -> str:
    """The name of a content."""
    return hashlib.blake2b(data, digest_size=20).hexdigest()


class Blobs:
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
        """The content of that name. Raises ContentMissing."""
        try:
            data = self._path(digest).read_bytes()
        except OSError as error:
            raise ContentMissing(_missing(digest)) from error
        if digest_of(data) != digest:
            raise ContentMissing(_missing(digest))
        return data

    def has(self, digest: str) -> bool:
        """Whether there is such a content."""
        return self._path(digest).exists()

    def put_manifest(self, manifest: Manifest) -> str:
        """Keep a list of changes; returns its digest."""
        return self.put(msgspec.msgpack.encode(manifest))

    def get_manifest(self, digest: str) -> Manifest:
        """The list of that name. Raises ContentMissing."""
        try:
            return msgspec.msgpack.decode(self.get(digest), type=Manifest)
        except msgspec.DecodeError as error:
            raise ContentMissing(_missing(digest)) from error

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
        f"the content {digest!r} is not kept any more, so this cannot be brought back; "
        "was the session's directory under checkpoints/ deleted?"
    )
