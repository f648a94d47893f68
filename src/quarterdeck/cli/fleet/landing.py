"""``quarterdeck merge`` and ``quarterdeck land``: the work of agents goes to a branch."""

import sys
from typing import TYPE_CHECKING, Any

import click

from quarterdeck.wire.terminal_text import count_noun

from ..command_io import as_json_option, echo_json, with_fleet
from ..output import echo, is_terminal, table
from ..remote.host_option import refuse_remote

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from quarterdeck.fleet.client import HostClient
    from quarterdeck.fleet.landing.api import (
        LandingConflict,
        LandingEntry,
        LandingOptions,
        LandingPreview,
        LandingQueueInfo,
        LandingResult,
    )

__all__ = ["land", "merge"]

_FAILED = 6
"""The exit code when something was not landed."""
_MOST_FILES = 30
_SHOWN_OUTPUT = 40
_WORDS = {
    "waiting": "waits",
    "merging": "is being merged",
    "checking": "is being checked",
    "landed": "landed",
    "unchanged": "nothing to land",
    "refused": "refused",
    "conflict": "conflicts",
    "check": "check failed",
    "cancelled": "cancelled",
    "interrupted": "interrupted",
}
_SCISSORS = "# ------------------------ >8 ------------------------"


def _landing_options(command: "Callable[..., Any]") -> "Callable[..., Any]":
    for option in reversed(
        (
            click.option(
                "--method",
                type=click.Choice(["merge", "squash", "rebase"]),
                help="How to land; default: the setting landing.method.",
            ),
            click.option(
                "--into", metavar="BRANCH", help="Branch; default: the one it started from."
            ),
            click.option(
                "--trailer",
                "trailers",
                multiple=True,
                metavar="KEY=VALUE",
                help="Add a trailer to the message, such as Co-authored-by or "
                "Quarterdeck-Session (which needs no value).",
            ),
            click.option(
                "--checkout",
                is_flag=True,
                help="Also update the files of the checkout that has the branch, if it is clean.",
            ),
            click.option("--check", metavar="CMD", help="Command that must succeed on the result."),
            click.option("--no-check", is_flag=True, help="Run no check."),
            click.option("--keep-worktree", is_flag=True, help="Keep the agent's worktree."),
            click.option("--now", is_flag=True, help="Land even while a turn of the agent runs."),
        )
    ):
        command = option(command)
    return command


def _make_options(given: dict[str, Any]) -> "LandingOptions":
    from quarterdeck.fleet.landing.api import LandingOptions

    if given["check"] is not None and given["no_check"]:
        raise click.UsageError("--check and --no-check exclude each other")
    return LandingOptions(
        method=given["method"],
        into=given["into"],
        message=given.get("message"),
        trailers=given["trailers"],
        checkout=given["checkout"],
        check=given["check"],
        skip_check=given["no_check"],
        keep_worktree=given["keep_worktree"],
        now=given["now"],
        hand_to=given.get("hand_to"),
        batch=given.get("batch", False),
    )


@click.command(
    epilog="Exit codes: 0 landed or nothing to land, 6 refused, conflicts or a failed check."
)
@click.argument("agent")
@_landing_options
@click.option("-m", "--message", help="Message of the commit; default: from the transcript.")
@click.option("--edit", is_flag=True, help="Edit the message in $EDITOR first.")
@click.option("--hand-back", is_flag=True, help="Send conflicts or check output to the agent.")
@click.option("--to", "other", metavar="OTHER", help="Send them to another agent.")
@click.option("--dry-run", is_flag=True, help="Show what would happen and change nothing.")
@click.option("--pr", is_flag=True, help="Push the work and open a pull request instead.")
@click.option("--remote", metavar="NAME", help="Remote for --pr; default: origin.")
@as_json_option
def merge(agent: str, **given: Any) -> None:
    """Land the work of one AGENT on a branch: the one that it started from, or --into.

    Committed and uncommitted files of its worktree are landed; its files stay as they are. If
    something conflicts or fails, nothing is changed.
    """
    if given["hand_back"] and given["other"] is not None:
        raise click.UsageError("--hand-back and --to exclude each other")
    given["hand_to"] = agent if given["hand_back"] else given["other"]
    options = _make_options(given)
    if given["edit"] and not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise click.UsageError("--edit needs a terminal; use --message")
    if given["pr"]:
        _open_pull_request(agent, options, given)
        return
    if given["dry_run"]:
        preview = with_fleet(lambda fleet: fleet.preview_landing(agent, options))
        _show_preview(preview, given["as_json"])
        raise SystemExit(_FAILED if preview.problem or preview.conflicts else 0)
    options = _ask_person(agent, options, given)
    result = with_fleet(lambda fleet: fleet.land(agent, options))
    if given["as_json"]:
        echo_json(result)
    else:
        _show_result(result)
    raise SystemExit(0 if result.state in ("landed", "unchanged") else _FAILED)


def _ask_person(agent: str, options: "LandingOptions", given: dict[str, Any]) -> "LandingOptions":
    """Let a person at a terminal edit the message and decide about the checkout."""
    from msgspec.structs import replace

    is_asked = sys.stdin.isatty() and is_terminal() and not given["as_json"]
    if not given["edit"] and (not is_asked or options.checkout):
        return options
    preview = with_fleet(lambda fleet: fleet.preview_landing(agent, options))
    options = replace(options, expected=preview.tree)
    if given["edit"] and not preview.is_empty and not preview.conflicts:
        options = replace(options, message=_edit_message(preview), trailers=())
    if is_asked and not options.checkout:
        options = replace(options, checkout=_ask_for_checkout(preview))
    return options


def _ask_for_checkout(preview: "LandingPreview") -> bool:
    """Whether the files of the person's checkout may follow; asked only where they can."""
    target = preview.target
    if target.checkout is None or target.problem or preview.conflicts or preview.is_empty:
        return False
    echo(f"{target.branch} is checked out in {target.checkout}, which is clean.")
    return click.confirm(f"Update {count_noun(preview.counts.files, 'file')} there?")


def _edit_message(preview: "LandingPreview") -> str:
    from quarterdeck.fleet.review.patch import quote_path

    files = "\n".join(f"# {quote_path(one.path)}" for one in preview.files[:_MOST_FILES])
    head = f"# Everything below is ignored. Lands on {preview.target.branch}:\n{files}\n"
    edited = click.edit(f"{preview.message}\n{_SCISSORS}\n{head}")
    if edited is None:
        raise click.ClickException("the message was not saved; nothing was landed")
    message = edited.partition(_SCISSORS)[0].strip()
    if not message:
        raise click.ClickException("the message is empty; nothing was landed")
    return message


def _open_pull_request(agent: str, options: "LandingOptions", given: dict[str, Any]) -> None:
    import asyncio

    from quarterdeck.config.places import Places
    from quarterdeck.config.trust import TrustStore
    from quarterdeck.fleet.landing.pull_request import open_pull_request

    if not given["dry_run"]:
        refuse_remote("merge --pr")
    draft = with_fleet(lambda fleet: fleet.draft_pull_request(agent, options))
    if given["dry_run"]:
        if given["as_json"]:
            echo_json(draft)
        else:
            echo(f"would push {draft.commit[:10]} to {draft.branch}, for {draft.base}")
            echo(f"\n{draft.title}\n\n{draft.body}")
        return
    trust = TrustStore(Places.find().trust_file)
    opened = asyncio.run(open_pull_request(draft, trust, remote=given["remote"]))
    if given["as_json"]:
        echo_json(opened)
    else:
        echo(opened.url or f"{opened.program} opened a pull request for {opened.branch}")


@click.command(epilog="Exit codes: 0 all landed, 6 something was not landed.")
@click.argument("agents", nargs=-1)
@_landing_options
@click.option("--batch", is_flag=True, help="Check all together first; bisect if that fails.")
@click.option("--no-wait", is_flag=True, help="Print the queue's id and return.")
@click.option("--list", "is_list", is_flag=True, help="List the queues.")
@click.option("--cancel", metavar="ID", help="Cancel a queue; what has landed stays.")
@as_json_option
def land(agents: tuple[str, ...], **given: Any) -> None:
    """Land the work of several AGENTS in a queue, each after its check.

    Work that conflicts or fails the check goes back to its agent as a prompt (setting
    landing.on_failure); the others are landed.
    """
    as_json = given["as_json"]
    if given["is_list"]:
        found = with_fleet(lambda fleet: fleet.landings())
        _show_queues(found, as_json)
        return
    if (queue := given["cancel"]) is not None:
        _show_queue(with_fleet(lambda fleet: fleet.cancel_landing(queue)), as_json)
        return
    if not agents:
        raise click.UsageError("name at least one agent, or use --list")
    options = _make_options(given)
    if given["no_wait"]:
        info = with_fleet(lambda fleet: fleet.queue_landings(agents, options))
        if as_json:
            echo_json(info)
        else:
            echo(info.id)
        return
    done = with_fleet(lambda fleet: _land_all(fleet, agents, options, as_json))
    _show_queue(done, as_json)
    landed = all(one.state in ("landed", "unchanged") for one in done.entries)
    raise SystemExit(0 if landed else _FAILED)


async def _land_all(
    fleet: "HostClient", agents: tuple[str, ...], options: "LandingOptions", as_json: bool
) -> "LandingQueueInfo":
    info = await fleet.queue_landings(agents, options)
    shown = ""
    while not info.is_done:
        info = await fleet.wait_landing(info.id, seen=info.revision, timeout=30.0)
        if info.doing != shown and info.doing and not as_json:
            echo(f"quarterdeck: {info.doing}", err=True)
        shown = info.doing
    return info


def _show_preview(preview: "LandingPreview", as_json: bool) -> None:
    if as_json:
        echo_json(preview)
        return
    target = preview.target
    if preview.is_empty:
        note = f"\n{preview.note}" if preview.note else ""
        echo(f"{target.branch} has all of the work of {preview.name} already{note}")
        return
    landed = f"be landed on {target.branch} by {preview.method}"
    would = f"conflict with {target.branch}" if preview.conflicts else landed
    echo(f"{preview.name} would {would}:")
    _show_files(preview)
    if preview.uncommitted:
        echo(f"{count_noun(preview.uncommitted, 'file')} not committed by the agent")
    _show_conflicts(preview.conflicts)
    if target.checkout is not None:
        state = target.problem or "clean; --checkout updates it"
        echo(f"{target.branch} is checked out in {target.checkout}: {state}")
    if preview.check is not None:
        echo(f"check: {preview.check}")
    for words in (preview.problem, preview.note):
        if words:
            echo(words)
    echo(f"\n{preview.message}", nl=False)


def _show_conflicts(conflicts: "Iterable[LandingConflict]") -> None:
    from quarterdeck.fleet.review.patch import quote_path

    for conflict in conflicts:
        echo(f"conflict: {quote_path(conflict.path)} ({conflict.kind})")


def _show_files(preview: "LandingPreview") -> None:
    from quarterdeck.fleet.review.patch import quote_path

    for one in preview.files[:_MOST_FILES]:
        moved = f"  (was {quote_path(one.old_path)})" if one.old_path else ""
        lines = f"+{one.added} -{one.removed}" if one.added is not None else "binary"
        echo(f"  {quote_path(one.path)}  {lines}{moved}")
    if preview.counts.files > _MOST_FILES:
        echo(f"  and {preview.counts.files - _MOST_FILES} more")


def _show_result(result: "LandingResult") -> None:
    match result.state:
        case "landed":
            counts = result.counts
            echo(
                f"{result.name} landed on {result.into} as {result.commit[:10]}: "
                f"{count_noun(counts.files, 'file')}, +{counts.added} -{counts.removed}"
            )
            if result.checkout is not None:
                echo(f"the files in {result.checkout} are updated")
        case "unchanged":
            echo(f"{result.into} has all of the work of {result.name} already")
        case _:
            echo(f"quarterdeck: {result.name} was not landed: {result.reason}", err=True)
            _show_failure(result)
    if result.note:
        echo(result.note)


def _show_failure(result: "LandingResult") -> None:
    _show_conflicts(result.conflicts)
    for line in result.output.splitlines()[-_SHOWN_OUTPUT:]:
        echo(f"  {line}")
    if result.handed_to is not None:
        echo(f"{result.handed_to} was asked to fix it")
    elif result.state == "conflict":
        echo("--hand-back asks the agent to resolve them, --to OTHER another agent")


def _show_queue(info: "LandingQueueInfo", as_json: bool) -> None:
    if as_json:
        echo_json(info)
        return
    for entry in info.entries:
        if entry.result is not None:
            _show_result(entry.result)
        else:
            echo(f"{entry.name} {_WORDS[entry.state]}")


def _show_queues(queues: "list[LandingQueueInfo]", as_json: bool) -> None:
    if as_json:
        echo_json({"queues": queues})
        return
    rows = [
        (one.id if not n else "", entry.name, one.into, _state_words(entry))
        for one in queues
        for n, entry in enumerate(one.entries)
    ]
    if not rows:
        echo("nothing was queued for landing")
        return
    for line in table(("QUEUE", "AGENT", "INTO", "STATE"), rows, None):
        echo(line)


def _state_words(entry: "LandingEntry") -> str:
    words = _WORDS[entry.state]
    if entry.result is not None and entry.result.reason:
        return f"{words}: {entry.result.reason}"
    return words
