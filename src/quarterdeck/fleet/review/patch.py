"""Patches as git and diff write them: read, and written again."""

import re
from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple, TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

__all__ = [
    "LONGEST_LINE",
    "SUBMODULE",
    "ChangeKind",
    "PatchFile",
    "PatchHunk",
    "PatchLine",
    "PatchSign",
    "cut_page",
    "format_patch",
    "make_new_file_patch",
    "parse_patch",
    "quote_path",
]

ChangeKind: TypeAlias = Literal["changed", "new", "deleted", "renamed", "copied", "mode"]
"""``mode``: the content is the same, and the file can be run now, or no more."""
PatchSign: TypeAlias = Literal[" ", "+", "-", "\\"]

SUBMODULE = "160000"
"""The mode of a submodule, whose content is the id of a commit."""
_HUNK = re.compile(r"^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@ ?(.*)$", re.DOTALL)
_INDEX = re.compile(r"^index ([0-9a-f]+)\.\.([0-9a-f]+)(?: ([0-7]{6}))?$")
_KINDS: dict[str, ChangeKind] = {
    "new file mode": "new",
    "deleted file mode": "deleted",
    "rename from": "renamed",
    "copy from": "copied",
}
_ESCAPES = {
    "a": 7, "b": 8, "t": 9, "n": 10, "v": 11, "f": 12, "r": 13, '"': 34, "\\": 92,
}  # fmt: skip
_LETTERS = {code: letter for letter, code in _ESCAPES.items()}
_BINARY = "binary; content not shown"


class PatchLine(NamedTuple):
    """A line of a hunk; in JSON a list of the two."""

    sign: str
    """A ``PatchSign``: ``\\`` says that the line before has no newline at its end."""
    text: str
    """The line without its sign and its newline; a carriage return at its end is part of it."""


class PatchHunk(Struct, kw_only=True, omit_defaults=True):
    """Lines that belong together."""

    old: int
    """The first line of the old file, from 1; 0 where there is none."""
    new: int
    where: str = ""
    """The function or section it is in, as the patch says."""
    lines: list[PatchLine] = field(default_factory=list[PatchLine])
    is_continued: bool = False
    """It is the rest of a hunk whose first lines were on the page before."""

    @property
    def text(self) -> str:
        """The hunk as a patch has it."""
        old = sum(sign in " -" for sign, _ in self.lines)
        new = sum(sign in " +" for sign, _ in self.lines)
        head = f"@@ -{self.old},{old} +{self.new},{new} @@ {self.where}".rstrip()
        return "\n".join([head, *(sign + line for sign, line in self.lines)]) + "\n"


class PatchFile(Struct, kw_only=True, omit_defaults=True):
    """What happens to one file."""

    path: str
    """Where it is afterwards, or was if it is deleted."""
    kind: ChangeKind = "changed"
    old_path: str | None = None
    """Where it was, if elsewhere."""
    old_mode: str | None = None
    """As git writes modes, ``100644`` or ``100755``; None: there was no file, or it is not said."""
    new_mode: str | None = None
    old_blob: str | None = None
    """The beginning of the name of its content; None: it is not said."""
    new_blob: str | None = None
    is_binary: bool = False
    head: list[str] = field(default_factory=list[str])
    """The lines before the first hunk."""
    hunks: list[PatchHunk] = field(default_factory=list[PatchHunk])
    notes: list[str] = field(default_factory=list[str])
    """What else is to be said: that it is binary, or a mode that changed."""

    @property
    def added(self) -> int:
        """How many lines come."""
        return sum(sign == "+" for hunk in self.hunks for sign, _ in hunk.lines)

    @property
    def removed(self) -> int:
        """How many lines go."""
        return sum(sign == "-" for hunk in self.hunks for sign, _ in hunk.lines)

    @property
    def is_submodule(self) -> bool:
        """Whether it is another repository's commit and no file."""
        return SUBMODULE in (self.old_mode, self.new_mode)


def parse_patch(text: str) -> list[PatchFile]:
    """Read a patch; words before, between and after files are passed over.

    The counts of a hunk decide which lines are its own, so that a removed line that looks like
    the head of a file is not one. A patch that ends early gives what is there.
    """
    reader = _Reader(text.split("\n"))
    reader.read()
    for file in reader.files:
        _finish(file)
    return reader.files


def _finish(file: PatchFile) -> None:
    if file.old_mode != file.new_mode and file.old_mode and file.new_mode and not file.hunks:
        is_plain = file.kind == "changed" and not file.is_binary
        file.kind = "mode" if is_plain and file.old_blob == file.new_blob else file.kind


class _Reader:
    def __init__(self, lines: list[str]) -> None:
        self.files: list[PatchFile] = []
        self._lines = lines
        self._at = 0

    def read(self) -> None:
        while self._at < len(self._lines):
            line = self._lines[self._at]
            if line.startswith("diff --git "):
                self._begin(PatchFile(path=_git_path(line), head=[line]))
            elif self._is_plain_head(line):
                self._begin(PatchFile(path=_side(self._lines[self._at + 1], "b/")))
                continue
            elif self.files:
                self._part(line)
            self._at += 1

    def _begin(self, file: PatchFile) -> None:
        self.files.append(file)
        if not file.head:  # a patch without git's own line: its two paths are next
            old, new = self._lines[self._at], self._lines[self._at + 1]
            file.head = [old, new]
            self._sides(file, old, new)
            self._at += 2

    def _is_plain_head(self, line: str) -> bool:
        if not line.startswith("--- ") or self._at + 2 >= len(self._lines):
            return False
        is_head = self._lines[self._at + 1].startswith("+++ ") and bool(
            _HUNK.match(self._lines[self._at + 2])
        )
        return is_head and not (self.files and self._belongs_to_git_head())

    def _belongs_to_git_head(self) -> bool:
        file = self.files[-1]
        return bool(file.head) and file.head[0].startswith("diff --git ") and not file.hunks

    def _part(self, line: str) -> None:
        file = self.files[-1]
        if found := _HUNK.match(line):
            self._hunk(file, found)
        elif not file.hunks:
            file.head.append(line)
            self._header(file, line)

    def _header(self, file: PatchFile, line: str) -> None:
        for words, kind in _KINDS.items():
            if line.startswith(words):
                file.kind = kind
        if line.startswith(("rename from ", "copy from ")):
            file.old_path = _unquoted(line.split(" from ", 1)[1])
        elif line.startswith(("rename to ", "copy to ")):
            file.path = _unquoted(line.split(" to ", 1)[1])
        elif line.startswith("+++ ") and len(file.head) > 1 and file.head[-2].startswith("--- "):
            self._sides(file, file.head[-2], line)
        elif line.startswith(("Binary files", "GIT binary patch")):
            file.is_binary = True
            file.notes.append(_BINARY)
        else:
            self._modes(file, line)

    def _modes(self, file: PatchFile, line: str) -> None:
        mode = line[-6:]
        if line.startswith(("old mode ", "deleted file mode ")):
            file.old_mode = mode
        elif line.startswith("new file mode "):
            file.new_mode = mode
        elif line.startswith("new mode "):
            file.new_mode = mode
            file.notes.append(f"mode changed to {mode}")
        elif found := _INDEX.match(line):
            file.old_blob, file.new_blob = found[1], found[2]
            if found[3] is not None:
                file.old_mode = file.new_mode = found[3]

    def _sides(self, file: PatchFile, old: str, new: str) -> None:
        before, after = _side(old, "a/"), _side(new, "b/")
        if after == "/dev/null":
            file.path, file.kind = before, "deleted"
        else:
            file.path = after
            if before == "/dev/null":
                file.kind = "new"

    def _hunk(self, file: PatchFile, found: "re.Match[str]") -> None:
        old, olds, new, news, where = found.groups()
        hunk = PatchHunk(old=int(old), new=int(new), where=where)
        file.hunks.append(hunk)
        left_old = 1 if olds is None else int(olds)
        left_new = 1 if news is None else int(news)
        while (left_old > 0 or left_new > 0) and self._at + 1 < len(self._lines):
            line = self._lines[self._at + 1]
            sign = line[:1] or " "  # some tools cut white space at the end of a line
            if sign not in " +-\\":
                return
            self._at += 1
            hunk.lines.append(PatchLine(sign, line[1:]))
            left_old -= sign in " -"
            left_new -= sign in " +"
        if self._at + 1 < len(self._lines) and self._lines[self._at + 1].startswith("\\"):
            self._at += 1
            hunk.lines.append(PatchLine("\\", self._lines[self._at][1:]))


def _side(line: str, prefix: str) -> str:
    # A tab ends a path that holds spaces; in quotes there is none that means itself.
    path = _unquoted(line[4:].split("\t", 1)[0])
    return path if path == "/dev/null" else path.removeprefix(prefix)


def _git_path(line: str) -> str:
    """The path in ``diff --git a/x b/x``; right where it is the same twice, else a first guess."""
    rest = line.removeprefix("diff --git ")
    if rest.endswith('"'):
        return _unquoted(rest[rest.rfind(' "') + 1 :]).removeprefix("b/")
    half = len(rest) // 2
    return rest[half + 1 :].removeprefix("b/")


def _unquoted(path: str) -> str:
    """A path as git writes it if it holds control characters or quotes."""
    if not (len(path) >= 2 and path.startswith('"') and path.endswith('"')):
        return path
    found = bytearray()
    at, inside = 0, path[1:-1]
    while at < len(inside):
        character = inside[at]
        if character != "\\" or at + 1 >= len(inside):
            found += character.encode("utf-8", "surrogateescape")
            at += 1
        elif inside[at + 1] in _ESCAPES:
            found.append(_ESCAPES[inside[at + 1]])
            at += 2
        elif re.fullmatch("[0-3][0-7]{2}", inside[at + 1 : at + 4]):
            found.append(int(inside[at + 1 : at + 4], 8))
            at += 4
        else:
            found += b"\\"
            at += 1
    return bytes(found).decode("utf-8", "surrogateescape")


def quote_path(path: str) -> str:
    """A path as git writes it in a patch: in quotes if it holds control characters or quotes."""
    if not any(character < " " or character in '"\\\x7f' for character in path):
        return path
    return '"' + "".join(map(_escape, path)) + '"'


def _escape(character: str) -> str:
    code = ord(character)
    if code in _LETTERS:
        return "\\" + _LETTERS[code]
    return f"\\{code:03o}" if code < 32 or code == 127 else character


def format_patch(files: Iterable[PatchFile]) -> str:
    """A patch as git writes it, from the files alone; ``parse_patch`` reads the same from it."""
    return "".join(map(_format_file, files))


def _format_file(file: PatchFile) -> str:
    old, new = file.old_path or file.path, file.path
    lines = [f"diff --git {quote_path('a/' + old)} {quote_path('b/' + new)}"]
    if file.kind == "new":
        lines.append(f"new file mode {file.new_mode or '100644'}")
    elif file.kind == "deleted":
        lines.append(f"deleted file mode {file.old_mode or '100644'}")
    elif file.old_mode != file.new_mode and file.old_mode and file.new_mode:
        lines += [f"old mode {file.old_mode}", f"new mode {file.new_mode}"]
    if file.kind in ("renamed", "copied"):
        verb = "rename" if file.kind == "renamed" else "copy"
        lines += [f"{verb} from {quote_path(old)}", f"{verb} to {quote_path(new)}"]
    if file.old_blob is not None and file.new_blob is not None:
        is_same = file.old_mode == file.new_mode and file.new_mode is not None
        mode = f" {file.new_mode}" if is_same else ""
        lines.append(f"index {file.old_blob}..{file.new_blob}{mode}")
    before = "/dev/null" if file.kind == "new" else "a/" + old
    after = "/dev/null" if file.kind == "deleted" else "b/" + new
    if file.is_binary:
        lines.append(f"Binary files {quote_path(before)} and {quote_path(after)} differ")
    elif file.hunks:
        lines += [f"--- {_ended(before)}", f"+++ {_ended(after)}"]
    return "\n".join(lines) + "\n" + "".join(hunk.text for hunk in file.hunks)


def _ended(path: str) -> str:
    """A path at the end of a line; with a space in it, git ends it with a tab."""
    quoted = quote_path(path)
    return f"{quoted}\t" if " " in path and quoted == path else quoted


def make_new_file_patch(path: str, lines: Sequence[str], notes: Iterable[str] = ()) -> PatchFile:
    """A file that git does not know yet, as a patch would show it."""
    added = [PatchLine("+", line) for line in lines]
    hunks = [PatchHunk(old=0, new=1, lines=added)] if lines else []
    return PatchFile(path=path, kind="new", hunks=hunks, notes=["not added to git", *notes])


LONGEST_LINE = 10_000
"""Characters of a line that are given."""
_MOST_CHARACTERS = 1_000_000


def cut_page(patch: PatchFile, after: int, limit: int) -> tuple[PatchFile, list[int], int | None]:
    """The lines of hunks after the first ``after`` ones.

    Returns the patch with the hunks of the page, which hunks they are counted from 0, and how many
    lines come before the next page; None: there is none.
    """
    hunks: list[PatchHunk] = []
    numbers: list[int] = []
    passed = taken = characters = 0
    for number, hunk in enumerate(patch.hunks):
        count = len(hunk.lines)
        if passed + count <= after and count:
            passed += count
            continue
        start = max(0, after - passed)
        room = limit - taken
        if room <= 0 or characters > _MOST_CHARACTERS:
            return replace(patch, hunks=hunks), numbers, passed
        lines: list[PatchLine] = []
        for line in hunk.lines[start : start + room]:
            if characters > _MOST_CHARACTERS and lines:
                break
            characters += min(len(line.text), LONGEST_LINE)
            lines.append(_clip(line))
        hunks.append(_part(hunk, start, lines))
        numbers.append(number)
        taken += len(lines)
        if start + len(lines) < count:
            return replace(patch, hunks=hunks), numbers, passed + start + len(lines)
        passed += count
    return replace(patch, hunks=hunks), numbers, None


def _clip(line: PatchLine) -> PatchLine:
    if len(line.text) <= LONGEST_LINE:
        return line
    left = len(line.text) - LONGEST_LINE
    return PatchLine(line.sign, f"{line.text[:LONGEST_LINE]}… ({left:,} more characters)")


def _part(hunk: PatchHunk, start: int, lines: list[PatchLine]) -> PatchHunk:
    """A hunk that begins with another of its lines; numbers of lines stay right."""
    if start == 0:
        return replace(hunk, lines=lines)
    before = hunk.lines[:start]
    has_old = any(sign in " -" for sign, _ in hunk.lines)
    has_new = any(sign in " +" for sign, _ in hunk.lines)
    old = hunk.old + (not has_old) + sum(sign in " -" for sign, _ in before)
    new = hunk.new + (not has_new) + sum(sign in " +" for sign, _ in before)
    # Where the rest has no lines of a side, its number is that of the line before.
    old -= not any(sign in " -" for sign, _ in lines)
    new -= not any(sign in " +" for sign, _ in lines)
    return replace(hunk, old=old, new=new, lines=lines, is_continued=True)
