"""What a review says in words: its first line, where there is nothing to show, and its keys."""

from typing import TYPE_CHECKING

from ...rendering import glyphs
from ...rendering.lines import Line, Span, wrap
from ...sanitize import sanitize_line, sanitize_text
from ..components import empty_lines, problem_lines
from .lines import FILE_MARKS, format_counts
from .model import conflicting_agents

if TYPE_CHECKING:
    from collections.abc import Mapping

    from quarterdeck.fleet.api import AgentInfo
    from quarterdeck.fleet.review.api import AgentChanges
    from quarterdeck.wire.ids import SessionId

    from .model import ReviewModel
    from .view import PatchCanvas

__all__ = ["head_line", "key_hints", "notice_lines"]


def head_line(
    model: "ReviewModel", agent: "AgentInfo | None", names: "Mapping[SessionId, str]"
) -> tuple[str, list[Span]]:
    """What is reviewed, and how far it is; ``names``: of agents by their session."""
    name = sanitize_line(agent.name if agent is not None else model.agent, 40)
    changes = model.changes
    if changes is None:
        return f"review {name}" if name else "review", []
    into = agent.worktree.base_ref if agent is not None and agent.worktree is not None else None
    target = f" {glyphs.TO} {sanitize_line(_short(into), 40)}" if into else ""
    files = f"{changes.count:,} file{'s' * (changes.count != 1)}"
    counts = format_counts(changes.added, changes.removed)
    spans: list[Span] = [(files, "text"), (counts, "text")]
    spans += _progress(model, changes)
    if model.since is not None:
        spans.append(("  since you last looked: l all", "warning"))
    if model.turn is not None:
        spans.append((f"  turn {sanitize_line(model.turn, 20)}", "warning"))
    if model.ignores_space:
        spans.append(("  whitespace ignored", "warning"))
    if others := conflicting_agents(agent, names):
        shown = ", ".join(sanitize_line(one, 30) for one in others)
        spans.append((f"  {FILE_MARKS['conflict']} conflicts with {shown}", "warning"))
    elif changes.shared_with:
        shown = ", ".join(sanitize_line(one, 30) for one in changes.shared_with)
        spans.append((f"  shared with {shown}", "warning"))
    return f"review {name}{target}", spans


def _progress(model: "ReviewModel", changes: "AgentChanges") -> list[Span]:
    """How far the reviewer is."""
    found: list[Span] = []
    viewed = sum(file.mark != "none" for file in changes.files)
    accepted = sum(file.accepted == "whole" for file in changes.files)
    partly = sum(file.accepted == "part" for file in changes.files)
    if viewed:
        found.append((f"  {viewed} of {changes.count:,} viewed", "faint"))
    if accepted or partly:
        words = [f"{accepted} accepted"] * (accepted > 0) + [f"{partly} in part"] * (partly > 0)
        found.append((f"  {', '.join(words)}", "good"))
    if comments := len(model.comments):
        found.append((f"  {glyphs.COMMENT}{comments}", "warning" if model.unsent else "faint"))
    return found


def _short(ref: str) -> str:
    return ref.removeprefix("refs/heads/")


def notice_lines(model: "ReviewModel", is_read: bool, width: int) -> list[Line]:
    """What is shown where there are no changes: why, and what to do."""
    if not model.agent:
        hints = [("ctrl+n", "selects the next one"), ("ctrl+t", "starts one")]
        return empty_lines("No agent is selected.", hints, width)
    if not is_read:
        return []
    if model.problem is not None:
        return problem_lines(model.problem, width)
    changes = model.changes
    name = sanitize_line(changes.name, 40) if changes is not None else "this agent"
    if model.since is not None:
        words = "Nothing has changed since you last looked."
        return empty_lines(words, [("l", "shows all changes")], width)
    against = sanitize_line(changes.against, 80) if changes is not None else ""
    compared = f" compared with {against}" if against else ""
    words = f"{name} has changed no file{compared}. Changes appear here when it does."
    found = empty_lines(words, [("r", "looks again")], width)
    for note in changes.notes if changes is not None else ():
        found += [(("  ", "text"), *line) for line in wrap([(sanitize_text(note), "faint")], width)]
    return found


def key_hints(model: "ReviewModel", patch: "PatchCanvas", is_full: bool) -> list[tuple[str, str]]:
    """The keys that are of use where the cursor is, the most useful ones first."""
    back = [("esc", "back")] if is_full else []
    if not model.files:
        return [("r", "refresh"), *([("l", "all changes")] if model.since else []), *back]
    if patch.has_selection:
        count = len(patch.selected_lines())
        lines = f"{count} line{'s' * (count != 1)}"
        return [
            ("a", f"accept {lines}"), ("x", "reject"), ("c", "comment"), ("space", "mark"),
            ("esc", "clear"),
        ]  # fmt: skip
    row = patch.row
    send = [("s", f"send {model.unsent}")] if model.unsent else []
    if row is not None and row[1].kind == "comment":
        placed = model.find_comment(row[1].comment)
        is_open = placed is not None and placed.comment.state == "open"
        edit = [("c", "edit")] if is_open else []
        return [*edit, ("R", "resolve"), ("D", "delete"), *send, ("j/k", "hunk"), *back]
    what = "file" if row is not None and row[1].kind in ("file", "note") else "hunk"
    undo = [("z", "undo")] if model.changes is not None and model.changes.can_undo else []
    return [
        ("j/k", "hunk"), ("a", f"accept {what}"), ("x", "reject"), ("c", "comment"), *send,
        ("m", "viewed"), *back, ("M", "merge"), *undo, ("N/P", "file"), ("l", "since"),
        ("u", "split"), ("v", "select"), ("w", "whitespace"), ("f1", "help"),
    ]  # fmt: skip
