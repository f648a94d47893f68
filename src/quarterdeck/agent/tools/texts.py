"""Text in files: what is no text, line ends, byte order marks."""

from dataclasses import dataclass

from .tool import ToolError

__all__ = ["HEAD_BYTES", "FileText", "binary_reason", "decode_file", "uses_crlf", "with_crlf"]

HEAD_BYTES = 8192
"""How much of a file is looked at to tell whether it is text."""
_BOM = "\ufeff"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileText:
    """The text of a file without its byte order mark; line ends are as in the file."""

    text: str
    has_bom: bool

    def encode(self, text: str) -> bytes:
        """Make the bytes of the file with other text in it."""
        return ((_BOM if self.has_bom else "") + text).encode("utf-8")


def binary_reason(head: bytes) -> str:
    """Say why the first bytes of a file are no text; empty when they are."""
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "it is UTF-16 text, and only UTF-8 is read"
    if head.startswith(b"%PDF-"):
        return "it is a PDF document"
    if b"\0" in head[:HEAD_BYTES]:
        return "it holds NUL bytes"
    return ""


def decode_file(data: bytes, shown: str) -> FileText:
    """Read the content of a file that is to be changed.

    Raises:
        ToolError: it is no UTF-8; writing it back would change what was not touched.
    """
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ToolError(
            f"{shown!r} is not UTF-8 (byte {error.start} is {data[error.start]:#04x}); editing it "
            "would damage it. Change it with a command that knows its encoding."
        ) from error
    return FileText(text=text.removeprefix(_BOM), has_bom=text.startswith(_BOM))


def uses_crlf(text: str) -> bool:
    """Whether most lines end in CR LF."""
    crlf = text.count("\r\n")
    return crlf > text.count("\n") - crlf


def with_crlf(text: str) -> str:
    """The text with every line end as CR LF."""
    return text.replace("\r\n", "\n").replace("\n", "\r\n")
