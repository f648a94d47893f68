"""Standing permissions to offer with a question: the narrowest that would answer it next time.

Nothing is offered that covers more than the command's own leading words, that file or its
directory, or that host; nothing for a command that can do lasting harm, for a doubt, or where an
ask rule wants to be asked each time.
"""

import posixpath
from collections.abc import Iterable
from dataclasses import dataclass

from .call import Access, Call, PathUse
from .call_parts import CallPart, CommandPart, FetchPart, McpPart, NamedToolPart, PathPart
from .decision import Ask, examine_call
from .domains import HostPattern
from .errors import RuleError
from .grammar import parse_pattern, print_pattern
from .grants import Grant
from .matching import covers
from .modes import DEFAULT_MODE, NO_SANDBOX, Mode, SandboxState
from .rules import FetchPattern, McpPattern, NamedTool, PathPattern, Pattern, Rule, ShellPattern
from .shell.hazards import leading_words, never_standing

__all__ = ["Suggestion", "suggest_grants", "suggest_refusal"]

_MOST_PATTERNS = 5
"""Parts of one line beyond which a person could not judge what is offered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Suggestion:
    """Patterns that together would have answered the question."""

    patterns: tuple[Pattern, ...]

    def __str__(self) -> str:
        return ", ".join(print_pattern(pattern) for pattern in self.patterns)


def suggest_grants(
    call: Call,
    mode: Mode = DEFAULT_MODE,
    rules: Iterable[Rule] = (),
    grants: Iterable[Grant] = (),
    *,
    sandbox: SandboxState = NO_SANDBOX,
    trusted: bool = True,
    now: int = 0,
) -> tuple[Suggestion, ...]:
    """Return at most two offers for a call that is asked about, the narrowest first."""
    decision, parts = examine_call(
        call, mode, rules, grants, sandbox=sandbox, trusted=trusted, now=now
    )
    if not isinstance(decision, Ask) or not decision.standing or mode in ("plan", "read-only"):
        return ()
    choices = [_patterns(part, call) for part in parts]
    if not choices or not all(choices):
        return ()
    offers = (
        Suggestion(patterns=tuple(dict.fromkeys(p for choice in choices for p in choice[0]))),
        Suggestion(patterns=tuple(dict.fromkeys(p for choice in choices for p in choice[-1]))),
    )
    return tuple(offer for offer in dict.fromkeys(offers) if len(offer.patterns) <= _MOST_PATTERNS)


def suggest_refusal(
    call: Call,
    mode: Mode = DEFAULT_MODE,
    rules: Iterable[Rule] = (),
    grants: Iterable[Grant] = (),
) -> Pattern | None:
    """Return a pattern for "never": what nothing decided about the call, at its narrowest."""
    _, parts = examine_call(call, mode, rules, grants)
    for part in parts:
        found = _command_patterns(part) if isinstance(part, CommandPart) else _patterns(part, call)
        for patterns in found[:1]:
            return patterns[0]
    return None


_Choices = tuple[tuple[Pattern, ...], ...]
"""Ways to cover one part, the narrowest first; each may need several patterns."""


def _patterns(part: CallPart, call: Call) -> _Choices:
    match part:
        case CommandPart(action="run reading outside"):
            found = _path_patterns(part.reads, "read", call)
        case CommandPart(command=command):
            found = () if never_standing(command) else _command_patterns(part)
        case PathPart(use=use):
            found = _path_patterns((use,), use.access, call)
        case FetchPart(target=target):
            if target.address_class == "metadata":
                return ()
            port = None if target.has_default_port else target.port
            found = ((FetchPattern(host=HostPattern(host=target.host, port=port)),),)
        case McpPart(server=server, tool=tool):
            found = ((McpPattern(server=server, tool=tool),),)
        case NamedToolPart(name=name):
            found = ((NamedTool(name=name),),)
        case _:
            found = ()
    return tuple(patterns for patterns in found if _works(patterns, part, call))


def _works(patterns: tuple[Pattern, ...], part: CallPart, call: Call) -> bool:
    """Say whether the patterns can be written down and would have answered the question."""
    for pattern in patterns:
        try:
            if parse_pattern(print_pattern(pattern)) != pattern:
                return False
        except RuleError:
            return False
    if isinstance(part, CommandPart) and part.action == "run reading outside":
        return True
    return any(covers(pattern, part, call) for pattern in patterns)


def _command_patterns(run: CommandPart) -> _Choices:
    command = run.command
    words = (*command.assignments, *command.words)
    exact = tuple(word.exact for word in words)
    found: list[tuple[Pattern, ...]] = []
    if None not in exact:
        found.append((ShellPattern(words=tuple(word or "" for word in exact)),))
    leading = leading_words(command)
    if leading:
        kept = exact[: len(command.assignments) + leading]
        if None not in kept:
            first = tuple(word or "" for word in kept)
            found.append((ShellPattern(words=first, open_ended=True),))
    return tuple(found)


def _path_patterns(uses: Iterable[PathUse], access: Access, call: Call) -> _Choices:
    files: list[Pattern] = []
    directories: list[Pattern] = []
    for use in uses:
        files.append(PathPattern(access=access, glob=_written(use.path, call)))
        directory = posixpath.dirname(use.path)
        wide = directory in ("/", call.home, call.project_root, "/etc", "/home", "/Users")
        if wide:
            directories.append(files[-1])
        else:
            glob = _written(directory, call) + "/**"
            directories.append(PathPattern(access=access, glob=glob))
    return (tuple(dict.fromkeys(files)), tuple(dict.fromkeys(directories)))


def _written(path: str, call: Call) -> str:
    """Return a path as a pattern that means just it, from the project's root if it is below."""
    root = call.project_root.rstrip("/")
    text = path[len(root) + 1 :] if path.startswith(root + "/") else path
    for sign in "\\*?":
        text = text.replace(sign, "\\" + sign)
    return "./" + text if text.startswith("~") else text
