"""What a line of the input is by its first sign: ``!`` a command of the person, ``#`` a note."""

from typing import Literal, TypeAlias

__all__ = ["LineSign", "describe_sign", "find_sign", "parse_note", "parse_shell_line"]

LineSign: TypeAlias = Literal["!", "#"]
_NO_COMMAND = ("![",)
"""An image in Markdown."""
_NO_NOTE = ("##", "#!")
"""A heading of Markdown, the first line of a script."""


def find_sign(text: str) -> LineSign | None:
    """The sign of a text of one line; None: it is a prompt, as every text of several lines."""
    if "\n" in text.strip("\n") or not text:
        return None
    if text[0] == "!" and not text.startswith(_NO_COMMAND):
        return "!"
    return "#" if text[0] == "#" and not text.startswith(_NO_NOTE) else None


def parse_shell_line(text: str) -> str | None:
    """The command after ``!``, which may be empty; None: it is none."""
    return text[1:].strip() if find_sign(text) == "!" else None


def parse_note(text: str) -> str | None:
    """The words after ``#``, which may be none; None: it is no note."""
    return text[1:].strip() if find_sign(text) == "#" else None


def describe_sign(sign: LineSign, directory: str, *, has_agent: bool) -> str:
    """What enter would do with such a line, in a few words."""
    if sign == "#":
        return "# keeps a note for agents · enter, then choose where"
    if not has_agent:
        return f"! runs with your rights, in a terminal · in {directory}"
    return f"! runs with your rights · ctrl+c ends it · /give for the agent · in {directory}"
