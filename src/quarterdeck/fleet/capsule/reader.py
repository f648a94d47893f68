"""Opens a capsule and checks it: the container, the manifest, the signature, every part's digest.

Everything here blocks.
"""

import hashlib
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

from .archive import (
    MANIFEST,
    SIGNATURE,
    ArchiveReader,
    CapsuleLimits,
    part_name,
)
from .errors import CapsuleError, CapsuleRefusedError
from .manifest import CapsuleManifest, CapsulePart, decode_manifest
from .signature import CapsuleSignature, check_signature

__all__ = ["OpenCapsule", "open_capsule"]


class OpenCapsule:
    """A capsule whose container and manifest are what they may be; its parts are not read yet."""

    def __init__(self, archive: ArchiveReader, limits: CapsuleLimits) -> None:
        self._archive = archive
        self._limits = limits
        if MANIFEST not in archive.members:
            raise CapsuleRefusedError("not a capsule", f"it has no {MANIFEST!r}")
        self._data = archive.read(MANIFEST, limits.manifest)
        self.manifest: CapsuleManifest = decode_manifest(self._data)
        self.digest = hashlib.sha256(self._data).hexdigest()
        """Of the manifest, and so of the whole."""
        self._check_members()

    @property
    def size(self) -> int:
        """Bytes of all parts, unpacked."""
        return sum(part.size for part in self.manifest.parts)

    def check_signature(self, allowed: Path | None) -> CapsuleSignature:
        """Who signed it. Raises CapsuleRefusedError, SignatureError."""
        signature = None
        if SIGNATURE in self._archive.members:
            signature = self._archive.read(SIGNATURE, self._limits.signature)
        return check_signature(self._data, signature, allowed)

    def stream(self, part: CapsulePart) -> Iterator[bytes]:
        """The bytes of a part. Raises CapsuleRefusedError at the end if they are others."""
        found = hashlib.sha256()
        for data in self._archive.stream(self._archive.members[part_name(part.sha256)]):
            found.update(data)
            yield data
        if found.hexdigest() != part.sha256:
            raise CapsuleRefusedError("changed", f"part {part.sha256} has another content")

    def verify(self, progress: Callable[[int, int], None]) -> None:
        """Read every part; ``progress`` gets the bytes so far, and all of them.

        Raises CapsuleRefusedError.
        """
        done = 0
        for part in self.manifest.parts:
            for data in self.stream(part):
                done += len(data)
                progress(done, self.size)

    def _check_members(self) -> None:
        """The members are the parts in their order, the manifest, and the signature."""
        names = list(self._archive.members)
        wanted = [part_name(part.sha256) for part in self.manifest.parts]
        if missing := set(wanted) - set(names):
            raise CapsuleRefusedError("missing part", f"{min(missing)!r} is not there")
        if unlisted := set(names) - {*wanted, MANIFEST, SIGNATURE}:
            raise CapsuleRefusedError("unlisted part", f"the manifest has no {min(unlisted)!r}")
        end = [MANIFEST, SIGNATURE] if SIGNATURE in names else [MANIFEST]
        if names != wanted + end:
            text = "its members are not in the order in which the manifest lists them"
            raise CapsuleRefusedError("reordered", text)
        for part in self.manifest.parts:
            if self._archive.members[part_name(part.sha256)].size != part.size:
                raise CapsuleRefusedError("changed", f"part {part.sha256} has another size")


@contextmanager
def open_capsule(path: Path, limits: CapsuleLimits | None = None) -> Generator[OpenCapsule]:
    """Open a capsule.

    Raises:
        CapsuleRefusedError: it is none, or not what one may be.
        CapsuleError: the file cannot be opened.
    """
    limits = limits or CapsuleLimits()
    try:
        file = path.open("rb")
    except OSError as error:
        raise CapsuleError(f"cannot open {str(path)!r}: {error.strerror or error}") from error
    with file:
        if not file.seekable():
            raise CapsuleError(f"{str(path)!r} is not a regular file; save the capsule first")
        yield OpenCapsule(ArchiveReader(file, limits), limits)
