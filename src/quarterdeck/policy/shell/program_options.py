"""What the options of programs can do, matched with the words of a command.

``reaching_word`` finds the first word of a command that reaches beyond what the command's name
lets expect: an option that runs a program, loads code or settings, writes a file that it names, or
works in another directory. ``code_texts`` returns the texts that options hand to a shell.
"""

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache

from .command_line import ShellWord
from .program_entry import ProgramOptions

__all__ = [
    "code_texts",
    "has_unknown_word",
    "is_plain",
    "options_of",
    "reaching_word",
]

_VERSION = re.compile(r"[-.]?\d+(?:\.\d+)*$")
_SUFFIX = re.compile(r"\.(?:exe|cmd|bat|py|sh)$")
_HEREDOC_TEXT = re.compile(r"\"\$\(cat <<-?'(\w+)'\n(.*)\n\1\n?\)\"", re.DOTALL)

_UNKNOWN_STEMS = (
    *("exec", "command", "cmd", "config", "conf", "plugin", "load", "require", "preload", "import"),
    *("output", "out-file", "outfile", "out-dir", "outdir", "shell", "eval", "script", "hook"),
    *("pager", "editor", "program", "interpreter", "rcfile", "init-file", "directory", "chdir"),
    *("cwd", "workdir", "working-dir", "rootdir", "extension", "log-file", "logfile", "to-command"),
)
_UNKNOWN_LETTERS = frozenset("oceC")


class _UnknownProgram(ProgramOptions, frozen=True, kw_only=True):
    """A program without an entry: what mostly means running, loading or writing elsewhere."""

    def reaches(self, value: str) -> bool:
        if not value.startswith("-") or value in ("-", "--"):
            return False
        if value[1] != "-" and value[1] in _UNKNOWN_LETTERS:
            return True
        name = value.lstrip("-").partition("=")[0].lower()
        return len(name) > 2 and any(
            name.startswith(stem) or stem.startswith(name) for stem in _UNKNOWN_STEMS
        )


_UNKNOWN = _UnknownProgram()


@lru_cache(maxsize=1)
def _table() -> tuple[dict[str, ProgramOptions], frozenset[str]]:
    # Imported at the first command line: without one they are not needed.
    from . import programs_build, programs_git, programs_languages, programs_services
    from . import programs_system as system

    found: dict[str, ProgramOptions] = {}
    for module in (programs_git, programs_languages, programs_build, programs_services, system):
        for name, options in module.PROGRAMS.items():
            found |= dict.fromkeys((name, *options.names), options)
    return found, system.PLAIN


def options_of(name: str) -> ProgramOptions | None:
    """Return what is known of a program's options; None when it has no entry.

    ``python3.12`` and ``clang-17`` are what they are without their version.
    """
    table, _ = _table()
    bare = _SUFFIX.sub("", name.rsplit("/", 1)[-1])
    return table.get(bare) or table.get(_VERSION.sub("", bare))


def is_plain(name: str) -> bool:
    """Say whether a program is known to run no other program that its words name."""
    bare = name.rsplit("/", 1)[-1]
    return bare in _table()[1] or options_of(bare) is not None


def reaching_word(words: tuple[ShellWord, ...], named: int, first: int = 0) -> str | None:
    """Return the first word from ``named`` on that reaches further than the words before it say.

    ``first`` is the index of the program's name. A word that is not known may be such a word,
    unless it is text for people, such as a commit's message.
    """
    walk = _Walk(options_of(words[first].exact or "") or _UNKNOWN)
    for index in range(first + 1, len(words)):
        reaches = walk.step(words[index])
        if reaches and index >= named:
            return words[index].raw
    return None


def has_unknown_word(words: tuple[ShellWord, ...]) -> bool:
    """Say whether a word that is known only at run time may be more than text for people."""
    walk = _Walk(options_of(words[0].exact or "") or _UNKNOWN)
    for word in words[1:]:
        reaches = walk.step(word)
        if word.value is None and reaches:
            return True
    return False


class _Walk:
    """The words of one command, matched with what is known of its options."""

    def __init__(self, program: ProgramOptions) -> None:
        self.value_next = False
        self.text_next = False
        self.module_next = False
        self.ended = False
        """After ``--``: what follows is no option of the program."""
        self.first = True
        self.unnamed = False
        """The next word is what a subcommand runs."""
        self.foreign = False
        """The subcommand may be any program."""
        self._begin(program)

    def _begin(self, program: ProgramOptions) -> None:
        self.program = program
        self.active: tuple[ProgramOptions, ...] = (program,)
        self.searching = bool(program.sub)
        """The subcommand was not met yet."""

    def step(self, word: ShellWord) -> bool:
        """Take the next word; True if it reaches further."""
        first, self.first = self.first, False
        if self.text_next:
            self.text_next = False
            return word.value is None and not _is_one_text(word.raw)
        value = word.value
        if value is None:
            return not self._text_of(word.raw)
        if self.module_next:
            self.module_next = False
            self._begin(options_of(value) or _UNKNOWN)
            return True
        # A file's name may look like an option.
        if word.glob and value[0] in "*?[" and not self.ended:
            return True
        return self._known(value, first)

    def _known(self, value: str, first: bool) -> bool:
        if self.ended:
            return self.program.anywhere and _UNKNOWN.reaches(value)
        if value == "--":
            self.ended = True
            return False
        reaches = any(options.reaches(value) for options in self.active)
        if first and self.program.bundled and not value.startswith("-"):
            reaches = any(letter in self.program.short for letter in value)
        if any(value in options.text for options in self.active):
            self.text_next = True
        unnamed, self.unnamed = self.unnamed, False
        if self.searching:
            self._search(value)
        elif self.program.stops:
            self._stop(value)
        return reaches or unnamed or self.foreign

    def _stop(self, value: str) -> None:
        """Note where an interpreter's own options end and those of a script begin."""
        if value == self.program.module:
            self.module_next = True
        elif not value.startswith("-"):
            self._begin(_UNKNOWN)

    def _text_of(self, raw: str) -> bool:
        """Say whether a word is ``--message="…"``: text in the same word as its option."""
        option, equals, rest = raw.partition("=")
        known = any(option in options.text for options in self.active)
        return bool(equals) and known and _is_one_text(rest)

    def _search(self, value: str) -> None:
        program = self.program
        if self.value_next:
            self.value_next = False
            return
        if not value.startswith("-"):
            self.searching = False
            sub = program.sub.get(value, _UNKNOWN)
            self.active = (program, sub) if program.anywhere else (sub,)
            self.unnamed = sub.runs
            self.foreign = program.closed and value not in program.sub
            return
        name, equals, _ = value.partition("=")
        if name in program.long_valued:
            self.value_next = not equals
        elif not (name in program.long_flags or _all_in(value, program.flags)):
            # A value may look like a subcommand: from here on all of them count.
            self.searching = False
            self.active = (program, *program.sub.values())


def _all_in(value: str, flags: frozenset[str]) -> bool:
    return value[1:2] != "-" and all(letter in flags for letter in value[1:])


def _is_one_text(raw: str) -> bool:
    """Say whether a word that is not known is one word whatever its expansions are."""
    if len(raw) < 2 or raw[0] != '"' or raw[-1] != '"':
        return False
    if '"' not in raw[1:-1].replace('\\"', ""):
        return True
    found = _HEREDOC_TEXT.fullmatch(raw)
    return found is not None and found[1] not in (line.strip() for line in found[2].splitlines())


def code_texts(words: tuple[ShellWord, ...]) -> Iterator[str]:
    """Yield the values of a program's options that name or hold a program, for deny rules."""
    options = options_of(words[0].exact or words[0].value or "")
    if options is None:
        return
    walk = _Walk(options)
    values = [word.value or "" for word in words]
    for index in range(1, len(words)):
        scopes, is_text = walk.active, walk.text_next
        reaches = walk.step(words[index])
        value = values[index]
        if is_text or not value:
            continue
        if any(scope.runs for scope in scopes):
            yield " ".join(values[index:])
        elif reaches and not value.startswith("-"):
            yield from (*_glued(value), " ".join(values[index + 1 :]), *values[index + 1 :])
        elif reaches or any(value in scope.code for scope in scopes):
            yield from _glued(value)
            yield from values[index + 1 : index + 2]
        elif any(value.startswith(tuple(scope.code) or "\0") for scope in scopes):
            yield from _glued(value)


def _glued(value: str) -> Iterable[str]:
    """Return what may be an option's own value in its word."""
    after = value.partition("=")[2]
    found = [after, after.partition("=")[2], value.partition("::")[2]]
    if value.startswith("-") and value[1:2] != "-":
        found.extend(value[start:] for start in range(2, min(len(value), 8)))
    elif not value.startswith("-"):
        found.append(value)
    return [text for text in found if text]
