"""The file in an editor: its encoding and line ends, its state on disk, and copies of unsaved
text.
"""

import asyncio
import codecs
import hashlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec

from quarterdeck.system.api import FileIdentity
from quarterdeck.system.errors import NoSuchPathError, OperatingSystemError
from quarterdeck.system.files import LocalFiles
from quarterdeck.system.paths import Roots
from quarterdeck.wire.decoders import decode_json
from quarterdeck.wire.errors import QuarterdeckError

from ...sanitize import sanitize_text

__all__ = [
    "BIGGEST",
    "DiskState",
    "EditedFile",
    "StandInCharacters",
    "TextForm",
    "UndecodableFileError",
    "UnsavedCopies",
    "UnsavedCopy",
    "decode_text",
]

_FIRST = 0xF0000
_LAST = 0xFFFFD
_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)


class UndecodableFileError(QuarterdeckError):
    """Bytes that are no text we could write back; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TextForm:
    """How a text is written: its encoding, the mark before it, how its lines end."""

    encoding: str = "utf-8"
    mark: bytes = b""
    newline: str = "\n"

    def encode(self, text: str) -> bytes:
        r"""The bytes of a text whose lines end with ``\n``.

        Raises:
            UndecodableFileError: it holds half a character, which no file can.
        """
        if self.newline != "\n":
            text = text.replace("\n", self.newline)
        try:
            return self.mark + text.encode(self.encoding)
        except UnicodeEncodeError as error:
            raise UndecodableFileError(
                f"cannot encode the text as {self.encoding}: {error}"
            ) from error


def decode_text(data: bytes) -> tuple[str, TextForm]:
    r"""The text of a file and its form; lines end with ``\n`` where all ended alike.

    ``form.encode(text)`` gives ``data`` again.

    Raises:
        UndecodableFileError: it is no UTF-8 or UTF-16, or it is no text.
    """
    mark, encoding = next(
        ((mark, name) for mark, name in _BOMS if data.startswith(mark)), (b"", "utf-8")
    )
    try:
        text = data[len(mark) :].decode(encoding)
    except UnicodeDecodeError as error:
        raise UndecodableFileError(
            f"byte {error.start + len(mark)} is not {encoding.upper()} ({error.reason})"
        ) from None
    if "\0" in text:
        raise UndecodableFileError("it contains NUL bytes, so it is not text")
    ends = text.count("\r\n")
    is_crlf = ends > 0 and ends == text.count("\n") == text.count("\r")
    form = TextForm(encoding=encoding, mark=mark, newline="\r\n" if is_crlf else "\n")
    if is_crlf:
        text = text.replace("\r\n", "\n")
    if form.encode(text) != data:  # a form that we do not know well enough to write
        raise UndecodableFileError("saving would change its bytes")
    return text, form


class StandInCharacters:
    r"""One character for each that cannot be edited as it is; distinguished by when it was first
    met.

    ``real(edited(text)) == text`` for every text, and an edited text has no end of line but
    ``\n``, and nothing that is not one cell or two.
    """

    def __init__(self) -> None:
        self._edited: dict[int, int] = {}
        self._real: dict[int, str] = {}

    def edited(self, text: str) -> str:
        """A text as the editor holds it."""
        if text.isascii() and text.replace("\n", "").replace("\t", "").isprintable():
            return text
        for character in set(text):
            if ord(character) not in self._edited and not _is_editable(character):
                point = _FIRST + len(self._real)
                if point > _LAST:
                    raise UndecodableFileError("it contains too many non-text characters")
                self._edited[ord(character)] = point
                self._real[point] = character
        return text.translate(self._edited)

    def real(self, text: str) -> str:
        """A text as the file holds it."""
        return text.translate(self._real) if self._real else text

    def faces(self, text: str) -> str:
        """A text of the editor as it is drawn: each stand-in has a face of one cell."""
        if not self._real or text.isascii():
            return text
        return "".join(_face(self._real[ord(c)]) if ord(c) in self._real else c for c in text)

    def name(self, character: str) -> str | None:
        """What stands behind a character of the editor, if it is a stand-in."""
        real = self._real.get(ord(character))
        return None if real is None else f"U+{ord(real):04X}"


def _is_editable(character: str) -> bool:
    if character in "\n\t":
        return True
    # A combining mark alone is harmless, and needed; a pile of them is a matter of looks only.
    return sanitize_text(character) == character and not _FIRST <= ord(character) <= _LAST


def _face(character: str) -> str:
    point = ord(character)
    if point < 0x20:
        return chr(0x2400 + point)
    return "␡" if point == 0x7F else "⍰"


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
        self._identity: FileIdentity | None = None
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
                return self._refused(f"it is too large to edit here ({size:.1f} MB)", b"")
            content = await self._files.read(self.path, limit=BIGGEST + 1)
        except NoSuchPathError:
            self.saved, self._identity, self.is_new = "", None, True
            return ""
        except OperatingSystemError as error:
            return self._refused(getattr(error, "reason", None) or str(error), b"")
        self._identity, self.is_new = content.identity, False
        if not await asyncio.to_thread(os.access, self.path, os.W_OK):
            # Moving a new file over it would work all the same; its owner said no.
            return self._refused("it is not writable", content.data)
        try:
            self.saved, self.form = decode_text(content.data)
        except UndecodableFileError as error:
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
        except NoSuchPathError:
            return "same" if self.is_new else "gone"
        except OperatingSystemError:
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
        except OperatingSystemError:
            return None
        return content.data.decode("utf-8", "backslashreplace").replace("\r\n", "\n")

    async def save(self, text: str, *, anyway: bool = False) -> None:
        r"""Write the text, in one step; mode, owner and link stay.

        Args:
            text: lines end with ``\n``.
            anyway: also over a file that is another than was read.

        Raises:
            FileChangedError: it is another on disk, and nothing was written.
            UndecodableFileError: it was never decoded, or the text cannot be written.
            OperatingSystemError: it cannot be written.
        """
        if self.problem is not None:
            raise UndecodableFileError(f"{self.path!r} was not saved: {self.problem}")
        data = self.form.encode(text)
        expected = None if anyway else self._identity
        create = True if self._identity is None and not anyway else None
        self._identity = await self._files.write(self.path, data, expected=expected, create=create)
        self.saved, self.is_new = text, False

    def _refused(self, reason: str, data: bytes) -> str:
        self.problem = reason
        self.saved = data.decode("utf-8", "backslashreplace").replace("\r\n", "\n")
        return self.saved


def _is_same(one: FileIdentity, other: FileIdentity) -> bool:
    return (one.device, one.inode, one.size, one.modified_ns) == (
        other.device,
        other.inode,
        other.size,
        other.modified_ns,
    )


class UnsavedCopy(msgspec.Struct, frozen=True, kw_only=True):
    """A copy of what was not saved."""

    path: str
    text: str
    time: float
    """Seconds since the epoch."""


@dataclass(frozen=True, slots=True)
class UnsavedCopies:
    """Copies of unsaved texts, one file for each path, for its owner alone. All of it blocks."""

    directory: Path

    def find(self, path: str) -> UnsavedCopy | None:
        """The copy for a path; None where there is none that can be read."""
        try:
            copy = decode_json(self._file(path).read_bytes(), UnsavedCopy)
        except (OSError, msgspec.MsgspecError):
            return None
        return copy if copy.path == _spelled(path) else None

    def keep(self, path: str, text: str, time: float) -> None:
        """Write a copy, in one step. Raises OSError."""
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        file = self._file(path)
        beside = file.with_suffix(f".{os.getpid()}.new")
        clean = text.encode("utf-8", "backslashreplace").decode()
        data = msgspec.json.encode(UnsavedCopy(path=_spelled(path), text=clean, time=time))
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
