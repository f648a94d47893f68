"""What a walk over a command line has found so far, and what commands mean for one another."""

import re
from collections.abc import Callable

from msgspec.structs import replace

from .command_line import CommandLine, Redirect, ShellCommand, ShellWord, unknown_word
from .program_options import code_texts
from .syntax_nodes import RESERVED
from .wrappers import ALL_SHELLS, INTERPRETERS, reads_program, runs_text, unwrap

__all__ = ["UNWRITTEN", "LineCollector", "split_roughly"]

UNWRITTEN = ShellCommand(
    words=(unknown_word("…"),), doubts=("it runs commands that are not in the line",)
)
"""Replaces a command that is known only when the line runs."""

_MAX_COMMANDS = 200
_MAX_WRAPPERS = 8
_MAX_TEXTS = 40
"""Texts of one line that are read as commands; in those beyond only words are searched."""
_TOKEN = re.compile(r"[^\s;&|()<>{}$`\"'=!,%:]+")


_MARKS = "!|:+@\\ \t"
"""What programs put before a command in their options: ``!cmd``, ``|cmd``, ``+!cmd``."""
_LITERAL_FORMAT = re.compile(r"[^%\\]*(?:%s|\\n)?[^%\\]*")
_RUNNING_CODE = re.compile(
    r"system|popen|exec|spawn|subprocess|fork|eval|__|getattr|\bos\b|\bpty\b|ctypes|require"
    r"|child_process|qx|`|shell|process|importlib|chr\(|decode|base64|fromhex|\bopen\b|\bio\b"
    r"|kernel|unpack|getline|glob|walk|listdir|scandir|(?<!\|)\|(?!\|)|syscall|file|path|read|\bdo\b",
    re.IGNORECASE,
)
"""What code that runs programs or opens files mostly has; code without it only calculates."""
_RUNNING_SED = re.compile(r"(?:^|[;{}\s\d/$,])[eEwWrR](?:\s|$)|[/|#,:@][gIipmM0-9]*[ew]")


def split_roughly(text: str) -> tuple[str, ...]:
    """Return every word that may name something in text that cannot be parsed."""
    return tuple(token.replace("\\", "") for token in _TOKEN.findall(text))


class LineCollector:
    """Commands, redirections and doubts of one line; ``read`` reads text within it."""

    def __init__(self, read: Callable[[str], CommandLine]) -> None:
        self.read = read
        self.commands: list[ShellCommand] = []
        self.redirects: list[Redirect] = []
        self.doubts: list[str] = []
        self.hidden: list[ShellCommand] = []
        self.tokens: list[str] = []
        self.texts: list[str] = []
        """Quoted text and here-documents: what a shell in the line might be fed."""
        self.moves: list[str | None] = []
        self.moves_unknown = False
        self.unread = False
        self.hidden_texts = 0
        self.loops = 0
        """How many loops and functions the walk is in."""

    def line(self) -> CommandLine:
        """Return what was read."""
        known = (*self.commands, *self.hidden)
        fed = self.texts and self._interprets()
        if fed or any(runs_text(command) or _reads_makefile(command) for command in known):
            self._feed()
        running = (*self.commands, *(each for each in self.hidden if each.wrapping == "opaque"))
        if any(_reads_program(command) for command in running) and not self._is_fed():
            self.hidden.append(UNWRITTEN)
        return CommandLine(
            commands=tuple(self.commands),
            redirects=tuple(self.redirects),
            doubts=tuple(dict.fromkeys(self.doubts)),
            hidden=tuple(self.hidden),
            tokens=tuple(self.tokens),
            unread=self.unread,
            moves_unknown=self.moves_unknown,
        )

    def _feed(self) -> None:
        """Keep all text of the line that a shell or interpreter in it may be given.

        What is printed or stands in a here-document is what it gets; what other commands are given
        may reach it.
        """
        elsewhere: set[str] = set()
        for command in self.commands:
            values = [word.value or "" for word in command.words[1:]]
            if command.name in ("echo", "printf"):
                self._hide(" ".join(values))
                self._hide("; ".join(values))
                if self._interprets():
                    self.tokens.extend(split_roughly(" ".join(values)))
            else:
                elsewhere.update(values)
        for text in self.texts:
            self._hide(text, certain=text not in elsewhere)
            if text not in elsewhere and self._interprets():
                self.tokens.extend(split_roughly(text))

    def _interprets(self) -> bool:
        """Say whether a program in the line reads a language in which commands may stand."""
        for command in self.commands:
            name = command.name or ""
            reads = _is_interpreter(name) and name not in ("sed", "gsed", "awk", "gawk", "mawk")
            if reads or name == "crontab" or _reads_makefile(command):
                return True
        return False

    def _is_fed(self) -> bool:
        """Say whether all that a shell in the line reads from its input stands in the line."""
        for command in self.commands:
            name = command.name or ""
            if name in ALL_SHELLS or name in ("true", ":", "cd", "set"):
                continue
            known = all(word.value is not None for word in command.words)
            words = [word.value or "" for word in command.words[1:]]
            if name == "echo" and known and not any(word[:1] == "-" for word in words):
                continue
            if name == "printf" and known and words and _LITERAL_FORMAT.fullmatch(words[0]):
                continue
            if name == "cat" and not words:
                continue
            return False
        return bool(self.texts) or len(self.commands) > 1

    def _hide(self, text: str, certain: bool = True, named: bool = False) -> None:
        """Keep what ``text`` would run, were it given to a shell.

        With ``named`` it may be no more than a program's name, which gets its words later.
        """
        self.hidden_texts += 1
        if self.hidden_texts > _MAX_TEXTS:
            self.tokens.extend(split_roughly(text))
            return
        line = self.read(text)
        found = (*line.commands, *line.hidden)
        if named:
            found = tuple(each for each in found if each is not UNWRITTEN)
        if not certain:
            found = tuple(replace(each, doubts=("it may not be run",)) for each in found)
        self.hidden.extend(found)
        if certain:
            self.tokens.extend(line.tokens)

    def add(self, words: tuple[ShellWord, ...], assignments: tuple[ShellWord, ...]) -> None:
        """Add a command, looked through, and note what it means for the rest."""
        if len(self.commands) >= _MAX_COMMANDS:
            self.unread = True
            self.doubts.append("it has too many commands to be judged")
            self.tokens.extend(split_roughly(" ".join(word.raw for word in words)))
            return
        command = self._build(words, assignments, 0)
        self.commands.append(command)
        self._follow(command)

    def _build(
        self, words: tuple[ShellWord, ...], assignments: tuple[ShellWord, ...], depth: int
    ) -> ShellCommand:
        """Make a command, looking through what wraps another."""
        command = ShellCommand(words=words, assignments=assignments, moves=tuple(self.moves))
        found = unwrap(words)
        if depth > _MAX_WRAPPERS:
            self.unread = True
            self.doubts.append("too many commands run one another")
            self.tokens.extend(split_roughly(command.text))
            return command
        for candidate in found.candidates:
            self.hidden.append(ShellCommand(words=candidate, wrapping="opaque"))
        for text in found.texts:
            self._hide_quietly(text)
        if found.unwritten:
            self.hidden.append(UNWRITTEN)
        inner = tuple(self._build(w, found.assignments, depth + 1) for w in found.inner)
        if found.text is not None:
            inner = self._merge(self.read(found.text))
        return replace(command, wrapping=found.wrapping, inner=inner, inner_at=found.inner_at)

    def _merge(self, line: CommandLine) -> tuple[ShellCommand, ...]:
        """Take over what a nested line does; returns its commands."""
        before = tuple(self.moves)
        self.redirects.extend(replace(r, moves=before + r.moves) for r in line.redirects)
        self.doubts.extend(line.doubts)
        self.hidden.extend(line.hidden)
        self.tokens.extend(line.tokens)
        self.unread = self.unread or line.unread
        self.moves_unknown = self.moves_unknown or line.moves_unknown
        if not line.commands:
            self.doubts.append("the command for a shell is not certain")
        return tuple(_moved(command, before) for command in line.commands)

    def _follow(self, command: ShellCommand) -> None:
        """Note what a command means for those after it and for deny rules."""
        name = command.name
        if command.words[0].raw in RESERVED:
            # The grammar takes "! { rm x; }" for a program named "{".
            self.unread = True
            self.doubts.append("the meaning of a keyword is not certain")
            self.tokens.extend(split_roughly(command.text))
        if not name or not name.isascii():
            self.doubts.append(f"which program {command.words[0].raw!r} names is not certain")
        elif name in ("cd", "pushd", "popd", "chdir"):
            self._move(command.words)
        elif name == "alias":
            self.doubts.append("it defines an alias")
            for word in command.words[1:]:
                self._hide((word.value or "").partition("=")[2])
        elif _is_interpreter(name):
            self._interpret(name, command.words[1:])
        self._follow_texts(command)
        for inner in command.inner:
            self._follow(inner)

    def _interpret(self, name: str, words: tuple[ShellWord, ...]) -> None:
        """Keep what an interpreter's arguments name, and whether they hide what they run."""
        form = _RUNNING_SED if name in ("sed", "gsed") else _RUNNING_CODE
        for index, word in enumerate(words):
            text = word.value or word.raw
            self.tokens.extend(split_roughly(text))
            if word.value is None:
                hides = all((before.value or "").startswith("-") for before in words[:index])
            else:
                # A script's name is no code; what it does is not in the line.
                hides = word.raw != text and bool(form.search(text))
            if hides:
                self.hidden.append(UNWRITTEN)

    def _follow_texts(self, command: ShellCommand) -> None:
        """Keep what variables and options hand to a shell: ``PAGER=…``, ``git -c alias.x=…``."""
        for assignment in command.assignments:
            value = (assignment.value or "").partition("=")[2]
            self._hide_quietly(value)
            self.tokens.extend(split_roughly(value))
        for text in code_texts(command.words):
            self._hide_quietly(text)
            self.tokens.extend(split_roughly(text))

    def _hide_quietly(self, text: str) -> None:
        for form in dict.fromkeys((text, text.partition("=")[2])):
            stripped = form.lstrip(_MARKS)
            if stripped:
                self._hide(stripped, named=not any(sign.isspace() for sign in stripped))

    def _move(self, words: tuple[ShellWord, ...]) -> None:
        arguments = [word for word in words[1:] if word.exact not in ("--", "-P", "-L")]
        target = None
        if len(arguments) == 1 and words[0].exact == "cd" and not arguments[0].glob:
            target = arguments[0].value
        if target is not None and (target.startswith("-") or not target):
            target = None
        if self.loops:
            self.moves_unknown = True
        self.moves.append(target)


def _reads_makefile(command: ShellCommand) -> bool:
    return command.name == "make" and any(word.raw.startswith("-f") for word in command.words)


def _reads_program(command: ShellCommand) -> bool:
    return reads_program(command.words) or any(_reads_program(each) for each in command.inner)


def _is_interpreter(name: str) -> bool:
    return name.lower() in INTERPRETERS or name.startswith(("python", "pypy", "perl", "ruby"))


def _moved(command: ShellCommand, before: tuple[str | None, ...]) -> ShellCommand:
    inner = tuple(_moved(each, before) for each in command.inner)
    return replace(command, moves=before + command.moves, inner=inner)
