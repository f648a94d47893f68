"""What a project wants to be left out: .gitignore files, read as git reads them.

Characters are compared where git compares bytes; that differs only for ``?`` and ``[…]`` against
letters outside of ASCII.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from quarterdeck.system.api import Files
from quarterdeck.system.errors import NoSuchPathError, PathError, PathRefusedError, SpecialFileError

from .globs import wild_regex

__all__ = ["GitignoreRules", "IgnoreScope", "ignores_above", "parse_rules", "read_rules"]

_FILE_BYTES = 524_288
_REPOSITORY_NAMES = frozenset((".git", ".hg", ".svn"))
_NEVER = re.compile("(?!)")


@dataclass(frozen=True, slots=True)
class _Rule:
    regex: re.Pattern[str]
    is_negated: bool
    directories_only: bool
    names_only: bool
    """Compare the last name only, at any depth."""


class GitignoreRules:
    """The rules of one file, for paths relative to the directory that they are for."""

    __slots__ = ("_names", "_paths", "_rules")

    def __init__(self, rules: Iterable[_Rule]) -> None:
        self._rules = tuple(reversed(list(rules)))
        self._names = _any(rule.regex for rule in self._rules if rule.names_only)
        self._paths = _any(rule.regex for rule in self._rules if not rule.names_only)

    def __bool__(self) -> bool:
        return bool(self._rules)

    def decide(self, path: str, is_directory: bool) -> bool | None:
        """Whether the path is to be left out; None if no rule is about it."""
        name = path.rpartition("/")[2]
        # Nearly every path is matched by none, and one expression says so at once.
        if not self._names.fullmatch(name) and not self._paths.fullmatch(path):
            return None
        for rule in self._rules:
            if rule.directories_only and not is_directory:
                continue
            if rule.regex.fullmatch(name if rule.names_only else path):
                return not rule.is_negated
        return None


@dataclass(frozen=True, slots=True)
class IgnoreScope:
    """The rules that hold in a directory: its own and those of the directories above."""

    base: str
    """The directory of ``rules``, absolute."""
    rules: GitignoreRules
    above: "IgnoreScope | None" = None

    def holds_for(self, path: str, is_directory: bool) -> bool:
        """Whether an absolute path in this directory is to be left out."""
        if path.rpartition("/")[2] in _REPOSITORY_NAMES:
            return True
        level: IgnoreScope | None = self
        while level is not None:
            below = path[len(level.base.rstrip("/")) + 1 :]
            decided = level.rules.decide(below, is_directory)
            if decided is not None:
                return decided
            level = level.above
        return False


def parse_rules(text: str) -> GitignoreRules:
    """Read the text of a .gitignore file; a line that is no valid pattern matches nothing."""
    lines = text.removeprefix("\ufeff").split("\n")
    return GitignoreRules(rule for line in lines if (rule := _rule(line)) is not None)


async def read_rules(files: Files, path: str) -> GitignoreRules:
    """Read a file of rules; one that is not there or cannot be read has none."""
    try:
        content = await files.read(path, limit=_FILE_BYTES)
    except (NoSuchPathError, PathRefusedError, SpecialFileError):
        return GitignoreRules(())
    return parse_rules(content.data.decode("utf-8", "replace"))


async def ignores_above(files: Files, top: str) -> IgnoreScope | None:
    """The rules of the directories above ``top``, up to its repository's or the workspace's root.

    None when they would leave out ``top`` itself: who names a directory wants to look into it.
    """
    directories = await _directories_above(files, top)
    ignore: IgnoreScope | None = None
    for index, directory in enumerate(directories):
        if index == 0:
            exclude = await read_rules(files, f"{directory}/.git/info/exclude")
            ignore = IgnoreScope(directory, exclude) if exclude else None
        if directory == top:
            break
        rules = await read_rules(files, f"{directory}/.gitignore")
        ignore = IgnoreScope(directory, rules, ignore) if rules else ignore
        if ignore is not None and ignore.holds_for(directories[index + 1], True):
            return None
    return ignore


async def _directories_above(files: Files, top: str) -> list[str]:
    """From the repository's or workspace's root to ``top`` itself."""
    directories: list[str] = []
    current = top
    while current:
        directories.insert(0, current)
        try:
            await files.stat(f"{current}/.git", follow=False)
            break
        except NoSuchPathError:
            current = current.rpartition("/")[0]
        except PathError:  # above the workspace
            return directories[1:] or [top]
    return directories


def _rule(line: str) -> _Rule | None:
    line = _trimmed(line.removesuffix("\r"))
    if not line or line.startswith("#"):
        return None
    is_negated = line.startswith("!")
    pattern = line[1:] if is_negated else line
    directories_only = pattern.endswith("/")
    pattern = pattern.removesuffix("/")
    names_only = "/" not in pattern
    regex = _name_regex(pattern) if names_only else _path_regex(pattern.removeprefix("/"))
    if regex is None:
        return None
    return _Rule(re.compile(regex, re.DOTALL), is_negated, directories_only, names_only)


def _name_regex(pattern: str) -> str | None:
    return wild_regex(pattern) if pattern else None


def _path_regex(pattern: str) -> str | None:
    # git compares the part before the first wildcard literally and looks at the rest alone, so
    # that "**" counts as a whole name at the beginning of the rest too.
    match = re.match(r"[^*?\[\\]*", pattern)
    fixed = match.group() if match else ""
    rest = wild_regex(pattern[len(fixed) :])
    return None if rest is None else re.escape(fixed) + rest


def _trimmed(line: str) -> str:
    """The line without blanks at its end, except those after a backslash."""
    end = position = 0
    while position < len(line):
        if line[position] == "\\":
            position += 1
            if position == len(line):
                return line
            end = position + 1
        elif line[position] != " ":
            end = position + 1
        position += 1
    return line[:end]


def _any(patterns: Iterable[re.Pattern[str]]) -> re.Pattern[str]:
    sources = [f"(?:{pattern.pattern})" for pattern in patterns]
    return re.compile("|".join(sources), re.DOTALL) if sources else _NEVER
