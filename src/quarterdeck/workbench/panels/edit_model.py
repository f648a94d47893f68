"""A file that is edited: what was read, what is on disk now, and a copy of what is not saved."""

import asyncio
import hashlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec

from quarterdeck.system.errors import NoSuchPath, SystemFault
from quarterdeck.system.files import LocalFiles
from quarterdeck.system.paths import Roots
from quarterdeck.system.port import Identity

from .text_form import TextForm, Undecodable, decode

__all__ = ["BIGGEST", "DiskState", "EditedFile", "Kept", "KeptCopies"]

BIGGEST = 4_000_000
"""Bytes of a file that can be edited."""

DiskState: TypeAlias = Literal["same", "changed", "gone", "unreadable"]


class EditedFile:
    """One file by its path; symbolic links are followed, and stay.

    ``saved`` is the text on disk when it was last read or written. ``problem`` says why it cannot
    be written: it was not decoded, and so never will be overwritten from here.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.saved = ""
        self.form = TextForm()
        self.problem: str | None = None
        self.is_new = True
        """It was not on disk when it was last looked at."""
        self._identity: Identity | None = None
        self._files = LocalFiles(Roots(["/"]))

    async def load(self) -> str:
        """Read the file and give its text; of a file that is not there an empty one.

        What cannot be decoded is given as well as it can be shown, and ``problem`` is set.
        """
        self.problem = None
        try:
            found = await self._files.stat(self.path)
            if found.identity.size > BIGGEST:
                size = found.identity.size / 1_000_000
                return self._refused(f"it is too big to be edited here ({size:.1f} MB)", b"")
            content = await self._files.read(self.path, limit=BIGGEST + 1)
        except NoSuchPath:
            self.saved, self._identity, self.is_new = "", None, True
            return ""
        except SystemFault as error:
            return self._refused(getattr(error, "reason", None) or str(error), b"")
        self._identity, self.is_new = content.identity, False
        if not await asyncio.to_thread(os.access, self.path, os.W_OK):
            # Moving a new file over it would work all the same; its owner said no.
            return self._refused("it may not be written", content.data)
        try:
            self.saved, self.form = decode(content.data)
        except Undecodable as error:
            return self._refused(str(error), content.data)
        return self.saved

    async def look(self) -> DiskState:
        """Whether the file is still what was last read or written; its time alone says nothing."""
        try:
            found = await self._files.stat(self.path)
            if self._identity is None:
                return "changed"
            if _is_same(found.identity, self._identity):
                return "same"
            content = await self._files.read(self.path, limit=BIGGEST + 1)
        except NoSuchPath:
            return "same" if self.is_new else "gone"
        except SystemFault:
            return "unreadable"
        if self._identity.digest and content.identity.digest == self._identity.digest:
            self._identity = content.identity
            return "same"
        return "changed"

    def vanished(self) -> None:
        """Take it as a new file: nothing is on disk, and saving makes it anew."""
        self._identity, self.is_new = None, True

    async def on_disk(self) -> str | None:
        """The text that is on disk now; None where there is none."""
        try:
            content = await self._files.read(self.path, limit=BIGGEST + 1)
        except SystemFault:
            return None
        return content.data.decode("utf-8", "backslashreplace").replace("\r\n", "\n")

    async def save(self, text: str, *, anyway: bool = False) -> None:
        r"""Write the text, in one step; mode, owner and link stay.

        Args:
            text: lines end with ``\n``.
            anyway: also over a file that is another than was read.

        Raises:
            FileChanged: it is another on disk, and nothing was written.
            Undecodable: it was never decoded, or the text cannot be written.
            SystemFault: it cannot be written.
        """
        if self.problem is not None:
            raise Undecodable(f"{self.path!r} is not written: {self.problem}")
        data = self.form.encode(text)
        expected = None if anyway else self._identity
        create = True if self._identity is None and not anyway else None
        self._identity = await self._files.write(self.path, data, expected=expected, create=create)
        self.saved, self.is_new = text, False

    def _refused(self, reason: str, data: bytes) -> str:
        self.problem = reason
        self.saved = data.decode("utf-8", "backslashreplace").replace("\r\n", "\n")
        return self.saved


def _is_same(one: Identity, other: Identity) -> bool:
    return (one.device, one.inode, one.size, one.modified_ns) == (
        other.device,
        other.inode,
        other.size,
        other.modified_ns,
    )


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """A copy of what was not saved."""

    path: str
    text: str
    time: float
    """Seconds since the epoch."""


@dataclass(frozen=True, slots=True)
class KeptCopies:
    """Copies of unsaved texts, one file for each path, for its owner alone. All of it blocks."""

    directory: Path

    def find(self, path: str) -> Kept | None:
        """The copy for a path; None where there is none that can be read."""
        try:
            kept = msgspec.json.decode(self._file(path).read_bytes(), type=Kept)
        except (OSError, msgspec.MsgspecError):
            return None
        return kept if kept.path == _spelled(path) else None

    def keep(self, path: str, text: str, time: float) -> None:
        """Write a copy, in one step. Raises OSError."""
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        file = self._file(path)
        beside = file.with_suffix(f".{os.getpid()}.new")
        clean = text.encode("utf-8", "backslashreplace").decode()
        data = msgspec.json.encode(Kept(path=_spelled(path), text=clean, time=time))
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "wb") as written:
            written.write(data)
        beside.replace(file)

    def drop(self, path: str) -> None:
        """Forget the copy. Raises OSError."""
        self._file(path).unlink(missing_ok=True)

    def _file(self, path: str) -> Path:
        name = hashlib.blake2b(os.fsencode(path), digest_size=16).hexdigest()
        return self.directory / f"{name}.json"


def _spelled(path: str) -> str:
    return os.fsencode(path).decode("utf-8", "backslashreplace")
