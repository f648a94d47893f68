"""Paths and path patterns, as text only: no disk is touched.

A pattern is read component by component: ``*`` and ``?`` stay within one, ``**`` stands for any
number of them, a backslash takes the next character literally. ``/…`` is absolute, ``~/…`` begins
at the home directory, anything else at the project's root. A pattern that ends in ``/`` means the
directory and all below.

An allow rule compares exactly. A deny or ask rule is broad: it ignores case and the form of
accents, holds for all below a match, and a pattern of one name holds at any depth.
"""

import posixpath
import re
import unicodedata
from collections.abc import Iterable
from functools import lru_cache

__all__ = ["absolute", "fixed_part", "is_below", "is_protected", "matches", "matches_broadly"]

_PROTECTED_NAMES = frozenset(
    (
        ".git",
        ".hg",
        ".quarterdeck",
        ".claude",
        ".codex",
        ".gemini",
        ".opencode",
        ".vscode",
        ".idea",
        ".husky",
        ".envrc",
        ".mcp.json",
        ".gitmodules",
        ".gitattributes",
        ".gitconfig",
        ".bashrc",
        ".bash_profile",
        ".profile",
        ".zshrc",
        ".zshenv",
        ".npmrc",
        ".pre-commit-config.yaml",
    )
)


def absolute(path: str, *, cwd: str, home: str = "") -> str:
    """Make ``path`` absolute and resolve ``.`` and ``..`` by text.

    ``~`` and ``~/…`` begin at ``home``; ``~name`` cannot be known and becomes a path that is in
    no workspace.
    """
    if path == "~" or path.startswith("~/"):
        path = (home or "/~") + path[1:]
    elif path.startswith("~"):
        path = "/" + path
    joined = posixpath.normpath(posixpath.join(cwd or "/", path))
    # POSIX keeps two leading slashes apart; no system that we run on does.
    return "/" + joined.lstrip("/")


def is_below(path: str, roots: Iterable[str]) -> bool:
    """Say whether an absolute path is one of ``roots`` or below one."""
    return any(path == root or path.startswith(root.rstrip("/") + "/") for root in roots)


def is_protected(path: str) -> bool:
    """Say whether writing there changes what programs run later: ``.git``, agents' settings…

    No mode writes there without asking.
    """
    return any(part in _PROTECTED_NAMES for part in path.casefold().split("/"))


def matches(pattern: str, path: str, *, root: str, home: str) -> bool:
    """Say whether a pattern holds for an absolute path, exactly; what an allow rule needs."""
    return _exact(pattern, root, home).fullmatch(path) is not None


def matches_broadly(pattern: str, path: str, *, root: str, home: str) -> bool:
    """Say whether a pattern may be meant for an absolute path; what a deny rule needs."""
    folded = _folded(path)
    return any(form.fullmatch(folded) for form in _broad(pattern, root, home))


@lru_cache(maxsize=1024)
def fixed_part(pattern: str, *, root: str, home: str) -> str:
    """Return the directory or file below which all matches of a pattern are."""
    fixed: list[str] = []
    for part in _anchored(pattern, root, home).split("/"):
        if any(sign in part for sign in "*?\\"):
            break
        fixed.append(part)
    return "/".join(fixed) or "/"


@lru_cache(maxsize=1024)
def _exact(pattern: str, root: str, home: str) -> re.Pattern[str]:
    return _compiled(_anchored(pattern, root, home))


@lru_cache(maxsize=1024)
def _broad(pattern: str, root: str, home: str) -> tuple[re.Pattern[str], ...]:
    forms = [pattern] if "/" in pattern.rstrip("/") else [pattern, "**/" + pattern]
    anchored = [_folded(_anchored(form, root, home)) for form in forms]
    return tuple(_compiled(form, below=True) for form in anchored)


def _anchored(pattern: str, root: str, home: str) -> str:
    if pattern.endswith("/") and pattern != "/":
        pattern += "**"
    if pattern.startswith("/"):
        base, rest = "", pattern[1:]
    elif pattern == "~" or pattern.startswith("~/"):
        base, rest = _literal(home or "/~"), pattern[2:]
    else:
        base, rest = _literal(root), pattern
    parts = [part for part in rest.split("/") if part not in ("", ".")]
    return base.rstrip("/") + "/" + "/".join(parts)


def _literal(directory: str) -> str:
    return re.sub(r"([\\*?])", r"\\\1", directory)


def _folded(text: str) -> str:
    return unicodedata.normalize("NFC", text).casefold() if not text.isascii() else text.lower()


def _compiled(pattern: str, below: bool = False) -> re.Pattern[str]:
    """Make a regular expression of an anchored pattern; linear, since ``**`` is a whole part."""
    out: list[str] = []
    parts = pattern.split("/")[1:]
    for index, part in enumerate(parts):
        if part != "**":
            out.append("/" + _component(part))
        elif index == 0 or parts[index - 1] != "**":
            out.append("(?:/[^/]+)*")
    tail = "(?:/.*)?" if below else ""
    body = "".join(out) or "/"
    return re.compile(("/?" if body == "(?:/[^/]+)*" else "") + body + tail, re.DOTALL)


def _component(part: str) -> str:
    out: list[str] = []
    signs = iter(part)
    for sign in signs:
        if sign == "*":
            out.append("[^/]*")
        elif sign == "?":
            out.append("[^/]")
        elif sign == "\\":
            out.append(re.escape(next(signs, "\\")))
        else:
            out.append(re.escape(sign))
    return re.sub(r"(\[\^/\]\*)+", "[^/]*", "".join(out))
