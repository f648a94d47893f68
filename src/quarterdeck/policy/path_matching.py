"""Path rules that deny or ask, matched with all that a call may read or write.

A rule is taken at its broadest: a path counts wherever in a word it stands, by every name that a
link gives it, and as what a pattern of the shell may become. Where only running the call would
show, the answer is ``maybe``.
"""

import posixpath
from collections.abc import Iterable
from typing import Literal, TypeAlias

from .call import Call, PathUse
from .call_parts import CallPart, CommandPart, HiddenPart, PathPart, UnclearPart
from .command_paths import argument_paths, expand_braces
from .paths import absolute, fixed_part, is_below, matches_broadly, may_match
from .rules import PathPattern
from .shell.collector import split_roughly
from .shell.command_line import ShellCommand, ShellWord
from .shell.program_options import has_unknown_word

__all__ = ["Fit", "command_chain", "path_touches", "places_of", "strictest_fit"]

Fit: TypeAlias = Literal["no", "maybe", "yes"]

_TEXT_PROGRAMS = frozenset(("echo", "printf", "true", "false", ":", "test", "[", "exit", "return"))
"""What opens no file, whatever its words are."""


def command_chain(command: ShellCommand) -> Iterable[ShellCommand]:
    """Yield a command and all that it runs in turn."""
    yield command
    for inner in command.inner:
        yield from command_chain(inner)


def strictest_fit(fits: Iterable[Fit]) -> Fit:
    """Return the strictest of several answers."""
    strictest_fit: Fit = "no"
    for fit in fits:
        if fit == "yes":
            return "yes"
        if fit == "maybe":
            strictest_fit = "maybe"
    return strictest_fit


def places_of(text: str, cwd: str, call: Call) -> tuple[str, str]:
    """Return the absolute path that a text names, and where it was found to lead.

    With ``..`` in it both are needed: after a link, it leads to the parent of the link's target.
    """
    path = absolute(text, cwd=cwd, home=call.home)
    if ".." in text.split("/") and not text.startswith("~"):
        return path, call.links.get(posixpath.join(cwd, text), call.links.get(path, path))
    return path, call.links.get(path, path)


def path_touches(pattern: PathPattern, part: CallPart, call: Call) -> Fit:
    """Say whether a deny or ask rule for paths holds for a part of a call."""
    if isinstance(part, PathPart):
        if pattern.access == "write" and part.use.access == "read":
            return "no"
        return _use_touched(pattern, part.use, call, whole=part.whole)
    if isinstance(part, CommandPart):
        outer = _run_touched(pattern, part, call)
        return strictest_fit((outer, *(path_touches(pattern, inner, call) for inner in part.inner)))
    if isinstance(part, HiddenPart):
        return _hidden_touched(pattern, part, call)
    if isinstance(part, UnclearPart):
        if part.family == "bash":
            return _text_touched(pattern, part, call)
        meant = part.family == "edit" or (part.family == "read" and pattern.access == "read")
        return ("yes" if pattern.glob is None else "maybe") if meant else "no"
    return "no"


def _use_touched(pattern: PathPattern, use: PathUse, call: Call, *, whole: bool) -> Fit:
    if pattern.glob is None:
        return "yes"
    root, home = call.project_root, call.home
    paths = (use.path,) if use.path == use.resolved else (use.path, use.resolved)
    for path in paths:
        if matches_broadly(pattern.glob, path, root=root, home=home):
            return "yes"
    if whole and is_below(fixed_part(pattern.glob, root=root, home=home), paths):
        return "maybe"
    return _search_touched(pattern, paths, call) if use.access == "read" else "no"


def _search_touched(pattern: PathPattern, paths: tuple[str, ...], call: Call) -> Fit:
    """Hold a path rule against the patterns by which a call looks for files below paths."""
    if pattern.glob is None:
        return "no"
    root, home = call.project_root, call.home
    globs = [word.value or "" for glob in call.globs for word in expand_braces(glob)]
    found: Fit = "no"
    for glob in (*call.globs, *globs):
        for base in (*paths, call.cwd):
            place = posixpath.join(base, glob)
            if matches_broadly(pattern.glob, place, root=root, home=home):
                return "yes"
            if may_match(pattern.glob, place, root=root, home=home):
                found = "maybe"
    return found


def _run_touched(pattern: PathPattern, run: CommandPart, call: Call) -> Fit:
    reading = run.reading
    if reading is not None and pattern.access == "write":
        return "no"
    given = _expanded(run.command.words)
    found = _globs_touched(pattern, given[1:], run.cwds, call)
    if reading is not None:
        whole = reading.recursive
        reads = strictest_fit(_use_touched(pattern, use, call, whole=whole) for use in run.reads)
        return strictest_fit((found, reads, _git_touched(pattern, run, call)))
    if pattern.glob is None:
        return "no"
    named = strictest_fit(_use_touched(pattern, use, call, whole=True) for use in run.named)
    words = _words_touched(pattern, given[1:], run.cwds, call)
    unread = run.command.name not in _TEXT_PROGRAMS and has_unknown_word(given)
    unknown: Fit = "maybe" if unread else "no"
    return strictest_fit((found, named, words, unknown, _git_touched(pattern, run, call)))


def _expanded(words: tuple[ShellWord, ...]) -> tuple[ShellWord, ...]:
    """Return the words that a command gets, braces expanded where that is certain."""
    if all(word.value is not None for word in words):
        return words
    found: list[ShellWord] = []
    for word in words:
        found.extend((expand_braces(word.raw) if word.value is None else ()) or (word,))
    return tuple(found)


def _words_touched(
    pattern: PathPattern, words: Iterable[ShellWord], cwds: tuple[str, ...] | None, call: Call
) -> Fit:
    """Hold a path rule against all that words may name."""
    if pattern.glob is None:
        return "no"
    root, home = call.project_root, call.home
    for word in words:
        for text in argument_paths(word):
            for cwd in cwds or (call.cwd,):
                places = places_of(text, cwd, call)
                if any(
                    matches_broadly(pattern.glob, each, root=root, home=home) for each in places
                ):
                    return "yes"
    return "no"


def _globs_touched(
    pattern: PathPattern, words: Iterable[ShellWord], cwds: tuple[str, ...] | None, call: Call
) -> Fit:
    """Say whether a pattern among the words may become a path that a rule means."""
    if pattern.glob is None:
        return "no"
    root, home = call.project_root, call.home
    for word in words:
        for text in argument_paths(word) if word.glob else ():
            for cwd in cwds or (call.cwd,):
                path = absolute(text, cwd=cwd, home=home)
                if may_match(pattern.glob, path, root=root, home=home):
                    return "maybe"
    return "no"


_GIT_SEARCHES = frozenset(("grep", "archive"))


def _git_touched(pattern: PathPattern, run: CommandPart, call: Call) -> Fit:
    """Hold a path rule against what git reads of other revisions: ``git show HEAD:.env``."""
    command = run.command
    if command.name != "git" or pattern.access == "write" or pattern.glob is None:
        return "no"
    values = [word.value or "" for word in command.words[1:]]
    sub = next((value for value in values if not value.startswith("-")), "")
    named = _words_touched(pattern, command.words[1:], (call.cwd, call.project_root), call)
    if named != "no":
        return named
    if sub in _GIT_SEARCHES:
        limited = values[values.index("--") + 1 :] if "--" in values else ["."]
        uses = (
            PathUse(path=path, resolved=path, access="read")
            for path in (absolute(text, cwd=call.cwd) for text in limited)
        )
        return strictest_fit(_use_touched(pattern, use, call, whole=True) for use in uses)
    # An object that is named by its hash may be any file.
    by_hash = sub == "cat-file" and not {"-t", "-s", "-e"} & set(values)
    return "maybe" if by_hash else "no"


def _hidden_touched(pattern: PathPattern, part: HiddenPart, call: Call) -> Fit:
    """Hold a path rule against what a line may run besides."""
    if pattern.glob is None:
        return "no"
    tokens = (ShellWord(token, token) for token in part.tokens)
    if _words_touched(pattern, tokens, None, call) == "yes":
        return "yes"
    return strictest_fit(_hidden_reads(pattern, top, call) for top in part.commands)


def _hidden_reads(pattern: PathPattern, top: ShellCommand, call: Call) -> Fit:
    found: Fit = "no"
    for command in command_chain(top):
        words = _expanded(command.words)[1:]
        found = strictest_fit((found, _words_touched(pattern, words, None, call)))
        found = strictest_fit((found, _globs_touched(pattern, words, None, call)))
    if top.doubts:
        unwritten = top.words[0].value is None
        return "maybe" if unwritten or found != "no" else "no"
    return found


def _text_touched(pattern: PathPattern, part: UnclearPart, call: Call) -> Fit:
    """Hold a path rule against a line that was not read with certainty."""
    if pattern.glob is None:
        return "no"
    tokens = (ShellWord(token, token) for token in split_roughly(call.command or ""))
    named = _words_touched(pattern, tokens, None, call) == "yes"
    return "maybe" if part.unread or named else "no"
