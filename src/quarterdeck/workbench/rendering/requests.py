"""What an agent asks for, as lines: every argument, literally and whole."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, cast

from quarterdeck.wire.events import PermissionAsked, QuestionAsked
from quarterdeck.wire.permissions import PermissionOption
from quarterdeck.wire.toolcalls import ContentItem, Diff, TerminalItem

from ..literal import literal, one_line
from ..stores.contents import as_json, told
from .diffs import diff_lines
from .lines import Line, Span, clip, indented, plain, wrap

if TYPE_CHECKING:
    from quarterdeck.fleet.port import InboxItem

__all__ = ["KEYS", "option_lines", "request_lines"]

KEYS = {"allow_once": "y", "allow_always": "a", "reject_once": "n", "reject_always": "x"}
"""The key for the first option of a kind; each option has its number, too."""


def request_lines(item: "InboxItem", cwd: str | None, width: int) -> list[Line]:
    """Everything about a request."""
    if item.permission is not None:
        parts = _permission(item.permission, cwd)
    elif item.question is not None:
        parts = _question(item.question)
    else:
        parts = iter(())
    return [line for part in parts for line in _fit(part, width)]


def option_lines(
    options: tuple[PermissionOption, ...], width: int, *, is_tight: bool = False
) -> list[Line]:
    """What can be answered, with the keys for it; one line for each where it is tight."""
    taken: set[str] = set()
    lines: list[Line] = []
    for number, option in enumerate(options[:9], 1):
        key = KEYS.get(option.kind)
        keys = f"{number}"
        if key is not None and key not in taken:
            taken.add(key)
            keys = f"{key} {number}"
        words = one_line(option.name, 400)
        kind = one_line(option.kind.replace("_", " "), 40)
        head: Span = (f" {keys:>3}  ", "key")
        spans: list[Span] = [(words, "text")]
        if kind.lower() != words.lower():
            spans.append((f"  ({kind})", "faint"))
        if is_tight:
            room = width - 6 - sum(len(text) for text, _ in spans[1:])
            lines.append((head, *clip((spans[0],), room), *spans[1:]))
            continue
        lines += indented(wrap(spans, width - 6), head, ("      ", "text"))
    return lines


def _permission(asked: PermissionAsked, cwd: str | None) -> Iterator[Line]:
    yield ((one_line(asked.name or asked.kind, 80), "tool"), (f"  {asked.kind}", "faint"))
    yield from _text(asked.title, "strong")
    if cwd:
        yield plain(f"in {one_line(cwd)}", "faint")
    if asked.raw_input is not None:
        yield ()
        yield from _input(asked.raw_input, _in_diffs(asked))
    for place in asked.locations:
        where = f"{place.path}:{place.line}" if place.line else place.path
        yield plain(f"at {literal(where)}", "faint")
    known = _words(asked.raw_input)
    for item in asked.content:
        if isinstance(item, ContentItem) and told(item.content) in known:
            continue  # it is among the arguments
        yield ()
        match item:
            case Diff(path=path, old_text=old, new_text=new):
                yield from diff_lines(path, old, new)
            case ContentItem(content=content):
                yield from _text(told(content), "text")
            case TerminalItem(terminal_id=terminal):
                yield plain(f"terminal {one_line(terminal)}", "faint")
    if asked.reason:
        yield ()
        yield plain(f"asked because {one_line(asked.reason)}", "faint")


def _words(value: object) -> set[str]:
    """Arguments that are texts."""
    given = cast("dict[object, object]", value).values() if isinstance(value, dict) else ()
    return {one for one in given if isinstance(one, str)}


def _in_diffs(asked: PermissionAsked) -> set[str]:
    """Long arguments that a difference shows whole."""
    texts = {item.new_text for item in asked.content if isinstance(item, Diff)}
    return {text for text in texts & _words(asked.raw_input) if "\n" in text}


def _input(value: object, elsewhere: set[str]) -> Iterator[Line]:
    """Arguments by name, each text as it is; what is no object as JSON."""
    if not isinstance(value, dict):
        yield from _text(as_json(value), "code")
        return
    for name, given in cast("dict[object, object]", value).items():
        words = literal(as_json(given)).split("\n")
        label = one_line(str(name), 80)
        if isinstance(given, str) and given in elsewhere:
            yield ((f"{label}: ", "faint"), (f"{len(words)} lines, see below", "faint"))
            continue
        if len(words) == 1:
            yield ((f"{label}: ", "faint"), (words[0], "code"))
            continue
        yield plain(f"{label}:", "faint")
        yield from ((("  ", "code"), (word, "code")) for word in words)


def _question(asked: QuestionAsked) -> Iterator[Line]:
    yield from _text(asked.text, "text")
    if asked.url:
        yield plain(f"to be answered at {literal(asked.url)}", "link")


def _text(text: str, role: str) -> Iterator[Line]:
    for line in literal(text).split("\n"):
        yield plain(line, role)


def _fit(line: Line, width: int) -> list[Line]:
    return wrap(line, width) if line else [()]
