"""Text in an editor and bytes in a file: each exactly what the other says.

What an editor of lines would lose or a terminal would obey (control characters, marks of
direction, other ends of lines, characters without width) gets a stand-in of one cell while it is
edited, and is itself again in the file. A file that would not come back byte by byte is not
decoded at all.
"""

import codecs
from dataclasses import dataclass

from quarterdeck.wire.errors import QuarterdeckError

from ..literal import literal

__all__ = ["StandIns", "TextForm", "Undecodable", "decode"]

_FIRST = 0xF0000
_LAST = 0xFFFFD
_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)


class Undecodable(QuarterdeckError):
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
            Undecodable: it holds half a character, which no file can.
        """
        if self.newline != "\n":
            text = text.replace("\n", self.newline)
        try:
            return self.mark + text.encode(self.encoding)
        except UnicodeEncodeError as error:
            raise Undecodable(f"the text cannot be written as {self.encoding}: {error}") from error


def decode(data: bytes) -> tuple[str, TextForm]:
    r"""The text of a file and its form; lines end with ``\n`` where all ended alike.

    ``form.encode(text)`` gives ``data`` again.

    Raises:
        Undecodable: it is no UTF-8 or UTF-16, or it is no text.
    """
    mark, encoding = next(
        ((mark, name) for mark, name in _BOMS if data.startswith(mark)), (b"", "utf-8")
    )
    try:
        text = data[len(mark) :].decode(encoding)
    except UnicodeDecodeError as error:
        raise Undecodable(
            f"byte {error.start + len(mark)} is no {encoding.upper()} ({error.reason})"
        ) from None
    if "\0" in text:
        raise Undecodable("it holds NUL bytes, so it is no text")
    ends = text.count("\r\n")
    is_crlf = ends > 0 and ends == text.count("\n") == text.count("\r")
    form = TextForm(encoding=encoding, mark=mark, newline="\r\n" if is_crlf else "\n")
    if is_crlf:
        text = text.replace("\r\n", "\n")
    if form.encode(text) != data:  # a form that we do not know well enough to write
        raise Undecodable("it would not be the same after saving")
    return text, form


class StandIns:
    r"""One character for each that cannot be edited as it is; told apart by when it was first met.

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
                    raise Undecodable("it holds too many different characters that are no text")
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
    return literal(character) == character and not _FIRST <= ord(character) <= _LAST


def _face(character: str) -> str:
    point = ord(character)
    if point < 0x20:
        return chr(0x2400 + point)
    return "␡" if point == 0x7F else "⍰"
