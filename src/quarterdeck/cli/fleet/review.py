"""``review``: marks, comments and decisions about what an agent changed."""

import re
from typing import TYPE_CHECKING, Any

import click

from quarterdeck.fleet.review.patch import quote_path
from quarterdeck.wire.terminal_text import count_noun

from ..command_io import as_json_option, echo_json, terminal_width, with_fleet
from ..output import echo, table
from .diff import choose_files, report_notes, since_option

if TYPE_CHECKING:
    from collections.abc import Sequence

    from quarterdeck.fleet.client import HostClient
    from quarterdeck.fleet.review.api import (
        AgentChanges,
        ChangedFile,
        FilePatch,
        PlacedComment,
        ReviewOutcome,
        ReviewSelection,
    )

__all__ = ["review"]

_PLACE = re.compile(r"(.+):([0-9]{1,9})(?:-([0-9]{1,9}))?", re.DOTALL)
_HUNKS = re.compile(r"(.+):([0-9]{1,6}(?:,[0-9]{1,6})*)", re.DOTALL)
_MARKS = {"accepted": "✓", "viewed": "·"}


_EXAMPLES = """\b
Examples:
  quarterdeck review docs README.md
  quarterdeck review docs --accept README.md:1 --reject setup.py
  quarterdeck review docs --comment README.md:12-14 "Too long." --send
"""


@click.command(epilog=_EXAMPLES)
@click.argument("agent")
@click.argument("paths", nargs=-1, metavar="[PATH]...")
@click.option("--viewed", multiple=True, metavar="FILE", help="Mark a file as viewed.")
@click.option("--unviewed", multiple=True, metavar="FILE", help="Remove the marks of a file.")
@click.option("--accept", multiple=True, metavar="FILE[:HUNK]", help="Accept and stage changes.")
@click.option("--reject", multiple=True, metavar="FILE[:HUNK]", help="Revert changes.")
@click.option("--undo", is_flag=True, help="Undo the last --accept or --reject.")
@click.option(
    "--comment",
    multiple=True,
    nargs=2,
    metavar="FILE:LINE[-LINE] TEXT",
    help="Comment on lines of the new file.",
)
@click.option("--removed", is_flag=True, help="--comment counts lines of the old file.")
@click.option("--drop", multiple=True, metavar="ID", help="Delete a comment.")
@click.option("--resolve", multiple=True, metavar="ID", help="Resolve a comment.")
@click.option("--resolve-changed", is_flag=True, help="Resolve sent comments on changed lines.")
@click.option("--reopen", multiple=True, metavar="ID", help="Reopen a resolved comment.")
@click.option("--send", is_flag=True, help="Send the open comments to the agent as one prompt.")
@click.option("--note", default="", metavar="TEXT", help="What --send says first.")
@click.option("--all", "everything", is_flag=True, help="Also show resolved comments.")
@since_option
@as_json_option
def review(agent: str, paths: tuple[str, ...], as_json: bool, **wanted: Any) -> None:
    """Comment on, accept or reject what AGENT changed.

    Without options it lists the changed files, your marks and your comments. PATH shows the
    numbered hunks of files. HUNK is such a number, or several: `a.py:1,3`. Accepted changes are
    staged in the agent's worktree; rejected ones are reverted, and --undo restores them. Comments
    stay open until --send.
    """
    with_fleet(lambda fleet: _review(fleet, agent, paths, wanted, as_json))


async def _review(
    fleet: "HostClient",
    agent: str,
    paths: tuple[str, ...],
    wanted: dict[str, Any],
    as_json: bool,
) -> None:
    done = await _decide(fleet, agent, wanted)
    done += await _comment(fleet, agent, wanted)
    changes = await fleet.changes(agent, since=wanted["since"])
    comments = await fleet.comments(agent, all=wanted["everything"])
    if as_json:
        echo_json({"done": done, "changes": changes, "comments": comments})
        return
    for line in done:
        echo(line)
    if done:
        return
    if paths:
        await _show_hunks(fleet, agent, changes, paths, wanted["since"])
    else:
        _show(changes, comments)


async def _decide(fleet: "HostClient", agent: str, wanted: dict[str, Any]) -> list[str]:
    done: list[str] = []
    if wanted["viewed"]:
        await fleet.mark_files(agent, list(wanted["viewed"]), "viewed")
        done.append(f"viewed: {', '.join(wanted['viewed'])}")
    if wanted["unviewed"]:
        await fleet.mark_files(agent, list(wanted["unviewed"]), "none")
        done.append(f"not viewed: {', '.join(wanted['unviewed'])}")
    since = wanted["since"]
    if wanted["accept"]:
        chosen = await _select(fleet, agent, wanted["accept"], since)
        done += _report(await fleet.accept_changes(agent, chosen, since=since))
    if wanted["reject"]:
        chosen = await _select(fleet, agent, wanted["reject"], since)
        done += _report(await fleet.reject_changes(agent, chosen, since=since))
    if wanted["undo"]:
        done += _report(await fleet.undo_review(agent))
    return done


def _report(outcome: "ReviewOutcome") -> list[str]:
    verb = f"{outcome.action}ed"
    what = f"undone, {verb} before" if outcome.is_undone else verb
    return [f"{what}: {', '.join(outcome.files)}", *outcome.notes]


async def _select(
    fleet: "HostClient", agent: str, texts: "Sequence[str]", since: Any
) -> "list[ReviewSelection]":
    """Files, or hunks of them by number; what is given for one file is put together."""
    from quarterdeck.fleet.review.api import ReviewSelection
    from quarterdeck.fleet.review.selection import select_hunks

    changes = await fleet.changes(agent, since=since)
    names = {name for file in changes.files for name in (file.path, file.id)}
    numbers: dict[str, set[int]] = {}
    for text in texts:
        found = None if text in names else _HUNKS.fullmatch(text)
        file, hunks = (found[1], found[2]) if found is not None else (text, "")
        numbers.setdefault(file, set()).update(int(one) for one in hunks.split(",") if one)
    chosen: list[ReviewSelection] = []
    for name, wanted in numbers.items():
        (file,) = choose_files(changes, (name,))[:1]
        if not wanted:
            chosen.append(ReviewSelection(file=file.id, content=file.content))
            continue
        hunks = await _read_hunks(fleet, agent, file, changes, since)
        if wrong := sorted(wanted - set(range(1, len(hunks) + 1))):
            raise click.UsageError(
                f"{file.path!r} has no hunk {wrong[0]}; it has {count_noun(len(hunks), 'hunk')}"
            )
        picked = [hunks[number - 1] for number in sorted(wanted)]
        chosen.append(select_hunks(file.id, picked, content=file.content))
    return chosen


async def _read_hunks(
    fleet: "HostClient", agent: str, file: "ChangedFile", changes: "AgentChanges", since: Any
) -> "list[Any]":
    hunks: list[Any] = []
    after: int | None = 0
    while after is not None:
        page = await fleet.patch(agent, file.id, since=since, after=after, tree=changes.new)
        for hunk in page.patch.hunks:
            if hunk.is_continued and hunks:
                hunks[-1].lines += hunk.lines
            else:
                hunks.append(hunk)
        after = page.next
    return hunks


async def _comment(fleet: "HostClient", agent: str, wanted: dict[str, Any]) -> list[str]:
    done: list[str] = []
    for place, text in wanted["comment"]:
        found = _PLACE.fullmatch(place)
        if found is None:
            raise click.UsageError(f"{place!r} names no line; write FILE:LINE or FILE:LINE-LINE")
        made = await fleet.comment(
            agent,
            found[1],
            int(found[2]),
            text,
            end_line=int(found[3]) if found[3] is not None else None,
            is_old=wanted["removed"],
        )
        done.append(f"comment {made.id}")
    for id_ in wanted["drop"]:
        await fleet.drop_comment(agent, id_)
        done.append(f"deleted: {id_}")
    done += await _resolve(fleet, agent, wanted)
    if wanted["send"]:
        await fleet.send_comments(agent, note=wanted["note"])
        done.append("sent")
    return done


async def _resolve(fleet: "HostClient", agent: str, wanted: dict[str, Any]) -> list[str]:
    done: list[str] = []
    if wanted["resolve"] or wanted["resolve_changed"]:
        ids = list(wanted["resolve"])
        changed = await fleet.resolve_comments(agent, ids, changed=wanted["resolve_changed"])
        done.append(f"resolved: {', '.join(one.id for one in changed) or 'none'}")
    if wanted["reopen"]:
        changed = await fleet.resolve_comments(agent, list(wanted["reopen"]), resolved=False)
        done.append(f"open again: {', '.join(one.id for one in changed) or 'none'}")
    return done


def _show(changes: "AgentChanges", comments: "list[PlacedComment]") -> None:
    report_notes(changes)
    if not changes.files:
        echo(f"no changes against {changes.against}")
    else:
        rows = [
            (_mark(file), f"+{file.added}", f"-{file.removed}", quote_path(file.path), _facts(file))
            for file in changes.files
        ]
        lines = table(("", "", "", "FILE", ""), rows, terminal_width())
        for line in lines:
            echo(line)
        what = f"{count_noun(changes.count, 'file')}, +{changes.added} -{changes.removed}"
        echo(f"{what} against {changes.against}")
    for placed in comments:
        echo("")
        _show_comment(placed)


def _mark(file: "ChangedFile") -> str:
    return "±" if file.accepted == "part" else _MARKS.get(file.mark, "")


def _facts(file: "ChangedFile") -> str:
    facts = [file.kind] if file.kind != "changed" else []
    facts += ["binary"] if file.is_binary else []
    facts += ["accepted"] if file.mark == "accepted" else []
    facts += ["partly accepted"] if file.accepted == "part" else []
    facts += ["viewed"] if file.mark == "viewed" else []
    facts += ["changed since you viewed it"] if file.is_changed_since else []
    facts += [count_noun(file.comments, "comment")] if file.comments else []
    facts += [f"shared with {', '.join(file.shared_with)}"] if file.shared_with else []
    return ", ".join(facts)


def _show_comment(placed: "PlacedComment") -> None:
    comment = placed.comment
    last = f"-{placed.end_line}" if placed.end_line not in (None, placed.line) else ""
    path = quote_path(placed.path)
    where = f"{path}:{placed.line}{last}" if placed.line is not None else path
    state = comment.state + (", lines changed since" if placed.is_changed else "")
    echo(f"{where}  {comment.id}  ({state})")
    for line in comment.quote.splitlines()[:6]:
        echo(f"  > {line}")
    for line in comment.text.splitlines():
        echo(f"  {line}")


async def _show_hunks(
    fleet: "HostClient",
    agent: str,
    changes: "AgentChanges",
    paths: tuple[str, ...],
    since: Any,
) -> None:
    """The changes of files, hunk by hunk, with their numbers."""
    for file in choose_files(changes, paths):
        echo(f"{quote_path(file.path)}  {_facts(file)}".rstrip())
        number, after = 0, 0
        while after is not None:
            page = await fleet.patch(agent, file.id, since=since, after=after, tree=changes.new)
            number = _show_page(page, number)
            after = page.next


def _show_page(page: "FilePatch", number: int) -> int:
    """The hunks of a page, after so many of the file; returns how many there are by now."""
    if page.after == 0:
        for note in page.patch.notes:
            echo(f"  {note}")
    for at, hunk in enumerate(page.patch.hunks):
        if not hunk.is_continued:
            number += 1
            state = page.accepted[at] if at < len(page.accepted) else "none"
            acceptance = {"whole": " (accepted)", "part": " (partly accepted)"}.get(state, "")
            where = f": {hunk.where}" if hunk.where else ""
            echo(f"hunk {number}{acceptance}, line {hunk.new}{where}")
        for sign, line in hunk.lines:
            echo(f"  {sign}{line}")
    return number
