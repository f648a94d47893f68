"""The message of a landing: proposed from the transcript, edited by a person, with trailers."""

import re
from collections.abc import Iterable, Sequence

from quarterdeck.wire.redaction import mask_secrets

from ..errors import InvalidOptionsError

__all__ = ["add_trailers", "clean_message", "parse_trailer", "propose_message"]

_SUBJECT = 72
_BODY = 2_000
_KEY = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]*\Z")
_TRAILER = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]*: \S")
_CONTROLS = {
    **{code: " " for code in (*range(32), *range(127, 160)) if chr(code) not in "\n\t"},
    **dict.fromkeys((*range(0x202A, 0x202F), *range(0x2066, 0x206A)), ""),
}
"""Control characters, and marks that show text in another order than it has."""
SESSION_TRAILER = "Quarterdeck-Session"


def propose_message(name: str, title: str | None, last_words: str) -> str:
    """A message for what an agent did.

    Args:
        name: the agent's.
        title: of its session: what it was asked for.
        last_words: what it said at the end; known forms of secrets in it are masked.
    """
    subject = _cut_line(mask_secrets(clean_message(title or ""))) or f"Land the work of {name}"
    body = mask_secrets(clean_message(last_words))
    if len(body) > _BODY:
        body = f"{body[:_BODY].rsplit(' ', 1)[0]} …"
    if not body or body == subject:
        return f"{subject}\n"
    return f"{subject}\n\n{body}\n"


def _cut_line(text: str) -> str:
    line = " ".join(text.split("\n", 1)[0].split())
    if len(line) <= _SUBJECT:
        return line
    return f"{line[: _SUBJECT - 1].rsplit(' ', 1)[0]}…"


def clean_message(text: str) -> str:
    """A message without control characters, spaces at line ends and empty lines around it."""
    text = text.replace("\r\n", "\n").replace("\r", "\n").translate(_CONTROLS)
    lines = [line.rstrip() for line in text.split("\n")]
    return "\n".join(lines).strip("\n")


def parse_trailer(given: str, session: str) -> str:
    """A trailer from ``Key=value``, ``Key: value`` or the name of one that we know the value of.

    Raises:
        InvalidOptionsError: it cannot be one.
    """
    key, has_value, value = (
        given.partition("=") if ": " not in given.partition("=")[0] else given.partition(": ")
    )
    key, value = key.strip(), value.strip()
    if not has_value and key.lower() == SESSION_TRAILER.lower():
        key, value = SESSION_TRAILER, session
    if not _KEY.match(key) or not value or "\n" in value or "\r" in value:
        raise InvalidOptionsError(
            f"trailer {given!r}: write it as Key=value on one line, or as {SESSION_TRAILER}"
        )
    return f"{key}: {value}"


def add_trailers(message: str, trailers: Sequence[str]) -> str:
    """A message with trailers in its last paragraph; one that it has already is not repeated."""
    text = clean_message(message)
    lines = text.split("\n")
    fresh = list(dict.fromkeys(one for one in trailers if one not in lines))
    if not fresh:
        return f"{text}\n"
    gap = "\n" if _ends_with_trailers(text.split("\n\n")) else "\n\n"
    return f"{text}{gap}" + "\n".join(fresh) + "\n"


def _ends_with_trailers(paragraphs: Sequence[str]) -> bool:
    return len(paragraphs) > 1 and _all_trailers(paragraphs[-1].split("\n"))


def _all_trailers(lines: Iterable[str]) -> bool:
    return all(_TRAILER.match(line) for line in lines)
