"""The texts of a landing: the message of its commit, and prompts that give failed work back.

The message is proposed from the transcript and edited by a person, with trailers. A prompt shows
conflicts with both sides, or the output of a check.
"""

import re
import shlex
from collections.abc import Iterable, Sequence

from quarterdeck.agent.checkpoints.file_state import path_line
from quarterdeck.wire.redaction import mask_secrets

from ..errors import InvalidOptionsError
from .api import LandingConflict, LandingResult

__all__ = ["add_trailers", "clean_message", "compose_hand_back", "parse_trailer", "propose_message"]

_SUBJECT = 72
_BODY = 2_000
_KEY = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]*\Z")
_TRAILER = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]*: \S")
_BACKTICKS = re.compile("`+")
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


_MOST_OUTPUT = 6_000
_MOST_FILES = 50


def compose_hand_back(result: LandingResult, *, own: bool, commit: str | None = None) -> str:
    """What an agent is asked to do about a landing that failed.

    Args:
        result: how it failed.
        own: it is the agent's own work; else that of another agent.
        commit: the work, if it is another agent's.
    """
    whose = "Your work" if own else f"The work of the agent {result.name}"
    lines = [f"{whose} could not be landed on the branch {result.into}: {result.reason}."]
    if result.state == "check":
        lines += [_ask_for_fix(own, commit), "", "The end of the output:", *_fence(result.output)]
        return "\n".join(lines)
    lines += [_ask_for_merge(result.into, own, commit), "", "Files that conflict:"]
    lines += _list_files(result.conflicts)
    for one in result.conflicts:
        if one.hunks:
            lines += ["", f"{path_line(one.path)} (ours: {result.into}, theirs: the work):"]
            lines += _fence(one.hunks)
    return "\n".join(lines)


def _ask_for_merge(into: str, own: bool, commit: str | None) -> str:
    if own:
        return (
            f"In your worktree, commit what is not committed, run {_merge_line(into)}, resolve "
            "each conflict so that both changes keep their purpose, test the result and commit it. "
            f"Do not change the branch {into} itself. Say when it is done."
        )
    return (
        f"In your worktree, run {_merge_line(commit or into)}, resolve each conflict so that both "
        "changes keep their purpose, test the result and commit it. Say when it is done."
    )


def _merge_line(name: str) -> str:
    """The command, as a shell takes it: a branch may have any of its signs in its name."""
    line = f"git merge {shlex.quote(name)}"
    return f"``{line}``" if "`" in line else f"`{line}`"


def _ask_for_fix(own: bool, commit: str | None) -> str:
    if own:
        return (
            "In your worktree, find the cause, fix it, run the check yourself and commit. The "
            "check ran on your work merged with the branch, so merge the branch first if you "
            "cannot reproduce it. Say when it is done."
        )
    return (
        f"In your worktree, run {_merge_line(commit or '')}, find the cause, fix it, run the check "
        "yourself and commit. Say when it is done."
    )


def _list_files(conflicts: Sequence[LandingConflict]) -> list[str]:
    lines = [f"- {path_line(one.path)}{f' ({one.kind})' if one.kind else ''}" for one in conflicts]
    if len(lines) > _MOST_FILES:
        return [*lines[:_MOST_FILES], f"- and {len(lines) - _MOST_FILES} more"]
    return lines


def _fence(text: str) -> list[str]:
    """Text that cannot end its own fence."""
    longest = max(map(len, _BACKTICKS.findall(text)), default=0)
    mark = "`" * max(3, longest + 1)
    return [mark, text[-_MOST_OUTPUT:].strip("\n"), mark]
