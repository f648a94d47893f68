"""Path patterns, in the form that .gitignore has, plus braces.

``*`` and ``?`` stay within one name, ``**`` as a whole name matches any number of directories,
``[a-z]`` and ``[!a-z]`` one character, a backslash takes the next character literally.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from .tool import ToolError

__all__ = ["compile_glob", "expand_braces", "split_fixed", "wild_regex"]

_EXPANSIONS = 200
_POSIX = {
    "alnum": "a-zA-Z0-9",
    "alpha": "a-zA-Z",
    "blank": r" \t",
    "cntrl": r"\x00-\x1f\x7f",
    "digit": "0-9",
    "graph": r"\x21-\x7e",
    "lower": "a-z",
    "print": r"\x20-\x7e",
    "punct": r"!-/:-@\[-`{-~",
    "space": r" \t\n\r\f\v",
    "upper": "A-Z",
    "xdigit": "0-9a-fA-F",
}


class _Invalid(Exception):
    """The pattern can never match: an open bracket, a backslash at the end."""


def compile_glob(pattern: str) -> re.Pattern[str]:
    """Compile a pattern for relative paths; one without ``/`` is for names at any depth.

    Raises:
        ToolError: the pattern is not valid.
    """
    sources: list[str] = []
    for one in expand_braces(pattern):
        path = one.removeprefix("./")
        source = wild_regex(path if "/" in path else f"**/{path}")
        if source is None:
            raise ToolError(
                f"The pattern {pattern!r} is not valid: unclosed bracket or trailing backslash."
            )
        sources.append(source)
    return re.compile("|".join(sources), re.DOTALL)


def split_fixed(pattern: str) -> tuple[str, str]:
    """Split off the leading directories that hold no wildcard: ``a/b/*.py`` is (``a/b``, ``*.py``).

    An absolute pattern keeps its leading ``/``.
    """
    names = pattern.split("/")
    count = 0
    while count < len(names) - 1 and not set(names[count]) & set("*?[{\\"):
        count += 1
    fixed = "/".join(names[:count])
    if pattern.startswith("/") and not fixed:
        fixed = "/"
    return fixed, "/".join(names[count:])


def expand_braces(pattern: str) -> list[str]:
    """Expand ``{a,b}``, also nested; a group without a comma stays as it is.

    Raises:
        ToolError: there are too many alternatives.
    """
    results = [""]
    for choices in _choices(pattern):
        results = [result + choice for result in results for choice in choices]
        if len(results) > _EXPANSIONS:
            raise ToolError(f"The pattern {pattern!r} has more than {_EXPANSIONS} alternatives.")
    return results


def wild_regex(pattern: str) -> str | None:
    """Translate a pattern for whole paths to a regular expression; None if it can never match.

    The match of each ``*`` but the last of a row ends as early as it can and is not tried again,
    which never changes the answer and keeps a hostile pattern from taking for ever.
    """
    try:
        tokens = list(_tokens(pattern))
    except _Invalid:
        return None
    out: list[str] = []
    index = 0
    while index < len(tokens):
        token = tokens[index]
        index += 1
        if not token.is_star:
            out.append(token.source)
            continue
        fixed: list[str] = []
        while index < len(tokens) and not tokens[index].is_wild:
            fixed.append(tokens[index].source)
            index += 1
        more = index < len(tokens)
        out.append(f"(?>[^/]*?{''.join(fixed)})" if more else f"[^/]*{''.join(fixed)}")
    return "".join(out)


@dataclass(frozen=True, slots=True)
class _Token:
    source: str
    is_star: bool = False
    is_wild: bool = False


def _tokens(pattern: str) -> Iterator[_Token]:
    position = 0
    while position < len(pattern):
        sign = pattern[position]
        if sign == "*":
            token, position = _stars(pattern, position)
            yield token
            continue
        if sign == "[":
            source, position = _bracket(pattern, position + 1)
            yield _Token(source)
            continue
        if sign == "\\":
            position += 1
            if position == len(pattern):
                raise _Invalid
            yield _Token(re.escape(pattern[position]))
        else:
            yield _Token("[^/]" if sign == "?" else re.escape(sign))
        position += 1


def _stars(pattern: str, start: int) -> tuple[_Token, int]:
    end = start
    while end < len(pattern) and pattern[end] == "*":
        end += 1
    is_alone = (start == 0 or pattern[start - 1] == "/") and (
        end == len(pattern) or pattern[end] == "/" or pattern[end : end + 2] == "\\/"
    )
    if end - start == 1 or not is_alone:
        return _Token("", is_star=True, is_wild=True), end
    if end < len(pattern) and pattern[end] == "/":
        return _Token("(?:.*/)?", is_wild=True), end + 1
    return _Token(".*", is_wild=True), end


def _bracket(pattern: str, start: int) -> tuple[str, int]:
    """Translate what follows a ``[``; gives the position after the ``]``."""
    negated = pattern[start : start + 1] in ("!", "^")
    position = start + negated
    first = position
    parts: list[str] = []
    low = ""
    """The character before, if a range may begin with it."""
    while position == first or pattern[position : position + 1] != "]":
        is_dash = pattern[position : position + 1] == "-"
        sign, position, named = _bracket_sign(pattern, position)
        if is_dash and low and pattern[position : position + 1] not in ("", "]"):
            high, position = _range_end(pattern, position)
            if low <= high:
                parts.append(f"{re.escape(low)}-{re.escape(high)}")
            low = ""
        elif named:
            parts.append(named)
            low = ""
        else:
            parts.append(re.escape(sign))
            low = sign
    inside = "".join(parts)
    if negated:
        return f"[^/{inside}]", position + 1
    return f"(?!/)[{inside}]" if inside else "(?!)", position + 1


def _bracket_sign(pattern: str, position: int) -> tuple[str, int, str]:
    """One character of a bracket, the position after it, and the class that it names, if any."""
    if position >= len(pattern):
        raise _Invalid
    sign = pattern[position]
    if sign == "\\":
        if position + 1 >= len(pattern):
            raise _Invalid
        return pattern[position + 1], position + 2, ""
    if pattern[position : position + 2] == "[:":
        end = pattern.find("]", position + 2)
        if end < 0:
            raise _Invalid
        if end - position >= 3 and pattern[end - 1] == ":":
            name = pattern[position + 2 : end - 1]
            if name not in _POSIX:
                raise _Invalid
            return "", end + 1, _POSIX[name]
    return sign, position + 1, ""


def _range_end(pattern: str, position: int) -> tuple[str, int]:
    if pattern[position] != "\\":
        return pattern[position], position + 1
    if position + 1 >= len(pattern):
        raise _Invalid
    return pattern[position + 1], position + 2


def _choices(pattern: str) -> Iterator[list[str]]:
    """The pattern in a row of pieces, each with its alternatives."""
    position = 0
    while position < len(pattern):
        sign = pattern[position]
        if sign == "\\":
            yield [pattern[position : position + 2]]
            position += 2
            continue
        end = _closing(pattern, position) if sign == "{" else -1
        options = _split_options(pattern[position + 1 : end]) if end > 0 else []
        if len(options) > 1:
            yield [one for option in options for one in expand_braces(option)]
            position = end + 1
            continue
        yield [sign]
        position += 1


def _closing(pattern: str, start: int) -> int:
    depth = 0
    for position in range(start, len(pattern)):
        depth += {"{": 1, "}": -1}.get(pattern[position], 0)
        if depth == 0:
            return position
    return -1


def _split_options(inside: str) -> list[str]:
    options, depth = [""], 0
    for sign in inside:
        depth += {"{": 1, "}": -1}.get(sign, 0)
        if sign == "," and depth == 0:
            options.append("")
        else:
            options[-1] += sign
    return options
