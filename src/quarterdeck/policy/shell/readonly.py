"""Which commands change nothing, and which files they read.

``classify_read_only`` answers only for what it knows whole: the command, every option, every
operand. Anything else is None, and that means the command is not known to be harmless.
"""

import re
from collections.abc import Callable, Iterable

from msgspec import Struct

from .command_line import ShellCommand, ShellWord
from .readonly_table import COMMANDS, GIT, VERSIONED, ReadOnlySpec

__all__ = ["ReadOnlyUse", "classify_read_only"]

_FIND_TESTS_VALUED = frozenset(
    (
        *("-name", "-iname", "-path", "-ipath", "-wholename", "-type", "-maxdepth", "-mindepth"),
        *("-size", "-mtime", "-mmin", "-atime", "-amin", "-ctime", "-cmin", "-perm", "-user"),
        *("-group", "-regex", "-iregex", "-regextype", "-printf", "-links", "-inum"),
    )
)
_FIND_TESTS = frozenset(
    (
        *("-not", "!", "-a", "-and", "-o", "-or", "(", ")", ",", "-print", "-print0", "-prune"),
        *("-empty", "-xdev", "-mount", "-depth", "-ls", "-quit", "-readable", "-writable"),
        *("-executable", "-true", "-false", "-daystart"),
    )
)
_SED_PRINT = re.compile(r"(?:(?:\d+|\$)(?:,(?:\d+|\$|\+\d+))?[pq](?:\s*;\s*)?)+")
_SED_SUBSTITUTE = re.compile(
    r"s([/|#,:@])(?:\\.|(?!\1)[^\\\n])*\1(?:\\.|(?!\1)[^\\\n])*\1[gIip0-9]*", re.DOTALL
)
_SED_ADDRESS = re.compile(r"(?:/(?:\\.|[^/\\\n])*/|\d+|\$)(?:,(?:\d+|\$))?[pd]")
_AWK_PRINT = re.compile(r"\{\s*print(?:\s+\$(?:\d+|NF)(?:\s*,\s*\$(?:\d+|NF))*)?\s*;?\s*\}")
_SET_FORMS = frozenset(
    (
        *(("-e",), ("-u",), ("-eu",), ("-o", "pipefail"), ("-eo", "pipefail")),
        *(("-euo", "pipefail"), ("-uo", "pipefail"), ("-e", "-o", "pipefail")),
    )
)
"""No ``-x``: it expands ``$PS4`` before each command, and that may run some."""
_GIT_GLOBALS = frozenset(("--no-pager", "-P", "--no-optional-locks", "--literal-pathspecs"))
_SECRET = re.compile(r"\$\{?\w*(?:KEY|TOKEN|SECRET|PASSW|CREDENTIAL|AUTH)", re.IGNORECASE)
_JQ_FILTER = re.compile(r"\.[\w.\[\]\"-]*(?:\s*\|\s*(?:keys|length|type|\.[\w.\[\]\"-]*))*")
_SIGNATURE = re.compile(r"%G|%\(signature")
"""Formats of git that run a program to check signatures."""
_PRINTF_FORMAT = re.compile(r"(?:[^%]|%%|%-?\d*s)*")
_FILE_TEST = re.compile(r"-[bcdefghkLnOGprsSuwxzN]")
_NUMBER_TEST = re.compile(r"-(?:eq|ne|lt|le|gt|ge)")
_PS_FORMS = frozenset(((), ("aux",), ("auxww",), ("ax",), ("axu",), ("-ef",), ("-e",), ("-A",)))


class ReadOnlyUse(Struct, frozen=True, kw_only=True):
    """A command that changes nothing."""

    paths: tuple[ShellWord, ...] = ()
    """Files and directories that it reads, as written."""
    here: bool = False
    """It reads the working directory."""
    recursive: bool = False
    """It reads all below them, too."""
    follows: bool = False
    """Given a directory it reads files in it, and follows links there."""
    at_root: bool = False
    """It obeys the settings of a repository, and those can name programs: it is harmless only at
    the root of a workspace that the person trusts. ``git status`` and ``git diff`` obey those of
    nested repositories as well, so that even there only a sandbox makes it certain."""
    core: bool = False
    """It is certain enough to run unasked where no sandbox contains it."""


_NOTHING = ReadOnlyUse(core=True)
_UNCERTAIN_LONG = frozenset(("--perl-regexp", "--pcre2", "--multiline", "--multiline-dotall"))


def classify_read_only(command: ShellCommand) -> ReadOnlyUse | None:
    """Say what a command reads, if it is known to change nothing. Never raises."""
    if command.assignments or command.wrapping != "none":
        return None
    # A path to a program is no known program: "./ls" is the project's own.
    name = command.words[0].exact
    if name is None:
        return None
    words = command.words[1:]
    if name in VERSIONED and len(words) == 1 and words[0].exact == "--version":
        return ReadOnlyUse()
    if (special := _SPECIAL.get(name)) is not None:
        return special(words)
    spec = COMMANDS.get(name)
    return None if spec is None else _read(spec, words)


def _read(spec: ReadOnlySpec, words: tuple[ShellWord, ...]) -> ReadOnlyUse | None:
    if spec.unvetted:
        return _text(words)
    found = _Options(spec)
    if not found.read(words):
        return None
    operands = found.operands
    most = len(operands) if spec.most is None else spec.most
    if not spec.least <= len(operands) <= most:
        return None
    match spec.operands:
        case "none":
            return None if operands else ReadOnlyUse(core=spec.core)
        case "text":
            return ReadOnlyUse(paths=_listed(operands), core=spec.core)
        case "number":
            return _NOTHING if all((w.exact or "").isdecimal() for w in operands) else None
        case "revisions":
            return ReadOnlyUse(paths=tuple(filter(_names_path, operands)), at_root=True)
        case "pattern" if not (found.has_pattern or found.long & {"--files", "--type-list"}):
            operands = operands[1:]
        case _:
            pass
    recursive = spec.recursive == "*" or bool(found.letters & set(spec.recursive))
    recursive = recursive or bool(found.long & {"--recursive", "--dereference-recursive"})
    here = not operands and (spec.here or recursive)
    core = spec.core and "P" not in found.letters and not found.long & _UNCERTAIN_LONG
    return ReadOnlyUse(
        paths=tuple(operands), here=here, recursive=recursive, follows=spec.follows, core=core
    )


def _text(words: tuple[ShellWord, ...]) -> ReadOnlyUse | None:
    """Read arguments of a command that only prints them."""
    if any(_shows_secret(word) for word in words):
        return None
    return ReadOnlyUse(paths=_listed(words), core=True)


def _listed(words: Iterable[ShellWord]) -> tuple[ShellWord, ...]:
    """Return the patterns among words: to print what they match is to read a directory."""
    return tuple(word for word in words if word.glob)


def _shows_secret(word: ShellWord) -> bool:
    return word.value is None and _SECRET.search(word.raw) is not None


def _names_path(word: ShellWord) -> bool:
    """Say whether an operand of git names a file by itself, rather than a revision's."""
    value = word.value or ""
    return word.tilde or value.startswith(("/", "..")) or "/.." in value


class _Options:
    """The reading of a command's arguments by its spec."""

    __slots__ = ("has_pattern", "letters", "long", "operands", "spec")

    def __init__(self, spec: ReadOnlySpec) -> None:
        self.spec = spec
        self.operands: list[ShellWord] = []
        self.letters: set[str] = set()
        self.long: set[str] = set()
        self.has_pattern = False

    def read(self, words: tuple[ShellWord, ...]) -> bool:
        """Sort the arguments; False when one is not known."""
        at = 0
        while at < len(words):
            word = words[at]
            if word.value is None:
                return False
            if word.exact == "--":
                return self._rest(words[at + 1 :])
            step = self._one(word, has_next=at + 1 < len(words))
            following = words[at + 1].value if step == 2 else ""
            if step == 0 or following is None or _SIGNATURE.search(following):
                return False
            at += step
        return True

    def _rest(self, words: tuple[ShellWord, ...]) -> bool:
        self.operands.extend(words)
        return all(word.value is not None for word in words)

    def _one(self, word: ShellWord, *, has_next: bool) -> int:
        """Read one argument; how many words it took, 0 when it is not known."""
        value = word.value or ""
        if not value.startswith("-") or value == "-":
            # A file's name may look like an option.
            if word.glob and value[:1] in "*?[" and not self.spec.globs:
                return 0
            self.operands.append(word)
            return 1
        if word.glob:
            return 0
        if value.startswith("--"):
            return self._long(value, has_next)
        if self.spec.numbers and value[1:].isdigit():
            return 1
        return self._letters(value[1:], has_next)

    def _long(self, value: str, has_next: bool) -> int:
        name, equals, given = value.partition("=")
        self.long.add(name)
        if _SIGNATURE.search(given):
            return 0
        if name == "--regexp":
            self.has_pattern = True
        if equals:
            return int(name in self.spec.long or name in self.spec.long_valued)
        if name in self.spec.long_valued:
            return 2 if has_next else 0
        return int(name in self.spec.long)

    def _letters(self, letters: str, has_next: bool) -> int:
        for index, letter in enumerate(letters):
            self.letters.add(letter)
            if letter in self.spec.valued:
                self.has_pattern = self.has_pattern or letter == "e"
                if index + 1 < len(letters):
                    return 1
                return 2 if has_next else 0
            if letter not in self.spec.flags:
                return 0
        return 1


def _find(words: tuple[ShellWord, ...]) -> ReadOnlyUse | None:
    at = 0
    while at < len(words) and words[at].exact in ("-P", "-H"):
        at += 1
    paths: list[ShellWord] = []
    while at < len(words) and words[at].value and words[at].exact not in _FIND_TESTS:
        if (words[at].value or "").startswith("-"):
            break
        if words[at].glob and (words[at].value or "")[:1] in "*?[":
            return None
        paths.append(words[at])
        at += 1
    while at < len(words):
        test = words[at].exact
        if test in _FIND_TESTS_VALUED and at + 1 < len(words):
            if words[at + 1].exact is None:
                return None
            at += 2
        elif test in _FIND_TESTS:
            at += 1
        else:
            return None
    # It lists names and reads no file's content.
    return ReadOnlyUse(paths=tuple(paths), here=not paths)


def _sed(words: tuple[ShellWord, ...]) -> ReadOnlyUse | None:
    at = 0
    while at < len(words) and words[at].exact in ("-n", "-E", "-r", "-e", "-ne", "-nE"):
        at += 1
        if words[at - 1].exact in ("-e", "-ne"):
            break
    if at >= len(words):
        return None
    script = words[at].exact
    forms = (_SED_PRINT, _SED_SUBSTITUTE, _SED_ADDRESS)
    if script is None or not any(form.fullmatch(script) for form in forms):
        return None
    return _only_paths(words[at + 1 :])


def _awk(words: tuple[ShellWord, ...]) -> ReadOnlyUse | None:
    at = 0
    if words and (words[0].exact or "").startswith("-F"):
        at = 1 if len(words[0].exact or "") > 2 else 2
    if at >= len(words) or not _AWK_PRINT.fullmatch(words[at].exact or ""):
        return None
    if any("=" in (word.value or "=") for word in words[at + 1 :]):
        return None
    return _only_paths(words[at + 1 :])


def _only_paths(words: tuple[ShellWord, ...]) -> ReadOnlyUse | None:
    for word in words:
        if word.value is None or word.value[:1] in ("-", "*", "?", "["):
            return None
    return ReadOnlyUse(paths=words)


def _printf(words: tuple[ShellWord, ...]) -> ReadOnlyUse | None:
    form = words[0].exact if words else None
    # A "%d" makes zsh calculate, and calculating can run commands.
    if form is None or form.startswith("-") or not _PRINTF_FORMAT.fullmatch(form):
        return None
    return _text(words)


def _jq(words: tuple[ShellWord, ...]) -> ReadOnlyUse | None:
    at = 0
    while at < len(words) and re.fullmatch(r"-[rcsjSaeM]+", words[at].exact or ""):
        at += 1
    # A filter can print the environment or import files; paths into the input cannot.
    if at >= len(words) or not _JQ_FILTER.fullmatch(words[at].exact or ""):
        return None
    return _only_paths(words[at + 1 :])


def _xxd(words: tuple[ShellWord, ...]) -> ReadOnlyUse | None:
    # Its options are words after one dash, and a second file is written: only numbers are known.
    at = 0
    while at + 1 < len(words) and words[at].exact in ("-l", "-s", "-c", "-g"):
        if not (words[at + 1].exact or "").isdecimal():
            return None
        at += 2
    rest = words[at:]
    return None if len(rest) > 1 else _only_paths(rest)


def _strings(words: tuple[ShellWord, ...]) -> ReadOnlyUse | None:
    # "@file" is replaced by the options in that file.
    if any((word.value or "@").startswith("@") for word in words):
        return None
    return _read(COMMANDS["strings"], words)


def _ps(words: tuple[ShellWord, ...]) -> ReadOnlyUse | None:
    # "ps e" shows the environment of other programs.
    return ReadOnlyUse() if tuple(word.exact for word in words) in _PS_FORMS else None


def _bracket(words: tuple[ShellWord, ...]) -> ReadOnlyUse | None:
    return _test(words[:-1]) if words and words[-1].raw == "]" else None


def _test(words: tuple[ShellWord, ...]) -> ReadOnlyUse | None:
    """Read a test of one file or string, or of two: never an expression, which shells evaluate."""
    if any(word.value is None or word.glob for word in words):
        return None
    texts = [word.value or "" for word in words]
    if len(texts) == 3 and texts[0] == "!":
        texts = texts[1:]
    if len(texts) == 2:
        return _NOTHING if _FILE_TEST.fullmatch(texts[0]) else None
    if len(texts) != 3:
        return None
    left, operator, right = texts
    if _NUMBER_TEST.fullmatch(operator):
        return _NOTHING if left.isdecimal() and right.isdecimal() else None
    return _NOTHING if operator in ("=", "!=") else None


def _date(words: tuple[ShellWord, ...]) -> ReadOnlyUse | None:
    for word in words:
        value = word.exact or ""
        if not (value.startswith("+") or value in ("-u", "-R", "-I", "-Iseconds", "--utc")):
            return None
    return _NOTHING


def _cd(words: tuple[ShellWord, ...]) -> ReadOnlyUse | None:
    target = words[0].value if len(words) == 1 else None
    # Shells resolve ".." by text and the kernel by links; "-" and "+" are stacks of directories.
    if not target or words[0].glob or target[0] in "-+" or ".." in target.split("/"):
        return None
    return ReadOnlyUse(paths=words, core=True)


def _set(words: tuple[ShellWord, ...]) -> ReadOnlyUse | None:
    return _NOTHING if tuple(word.exact for word in words) in _SET_FORMS else None


def _git(words: tuple[ShellWord, ...]) -> ReadOnlyUse | None:
    at = 0
    while at < len(words) and words[at].exact in _GIT_GLOBALS:
        at += 1
    if at >= len(words):
        return None
    subcommand, rest = words[at].exact or "", words[at + 1 :]
    if subcommand == "--version" and not rest:
        return ReadOnlyUse()
    if (form := tuple(word.exact for word in rest)) in _GIT_FORMS.get(subcommand, ()):
        return ReadOnlyUse(at_root=True)
    if subcommand == "stash" and form[:1] == ("show",):
        return _read(GIT["show"], rest[1:])
    if subcommand == "config" and form[:1] in (("--get",), ("--get-all",)) and len(rest) == 2:
        return ReadOnlyUse(at_root=True) if (rest[1].exact or "-")[0] != "-" else None
    if subcommand == "remote" and form[:1] == ("get-url",) and len(rest) == 2:
        return ReadOnlyUse(at_root=True) if (rest[1].exact or "-")[0] != "-" else None
    spec = GIT.get(subcommand)
    return None if spec is None else _read(spec, rest)


_GIT_FORMS: dict[str, tuple[tuple[str, ...], ...]] = {
    "remote": ((), ("-v",), ("--verbose",)),
    "stash": (("list",),),
    "worktree": (("list",), ("list", "--porcelain")),
    "reflog": ((), ("show",)),
    "notes": ((), ("list",)),
}

_SPECIAL: dict[str, Callable[[tuple[ShellWord, ...]], ReadOnlyUse | None]] = {
    "find": _find,
    "sed": _sed,
    "awk": _awk,
    "gawk": _awk,
    "jq": _jq,
    "ps": _ps,
    "xxd": _xxd,
    "strings": _strings,
    "printf": _printf,
    "test": _test,
    "[": _bracket,
    "date": _date,
    "cd": _cd,
    "set": _set,
    "git": _git,
}
