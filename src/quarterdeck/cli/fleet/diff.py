"""``diff``: what an agent changed, as a patch, a summary or JSON."""

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from quarterdeck.fleet.review.patch import quote_path
from quarterdeck.wire.terminal_text import count_noun

from ..command_io import as_json_option, echo_json, terminal_width, with_fleet
from ..output import echo, escape_controls, is_terminal, table, write_output

if TYPE_CHECKING:
    from quarterdeck.fleet.client import HostClient
    from quarterdeck.fleet.review.api import AgentChanges, ChangedFile, FilePatch, ReviewSince

__all__ = ["PatchPrinter", "choose_files", "diff", "format_stat", "report_notes", "since_option"]

_COLOURS = {"+": "green", "-": "red", "@": "cyan"}
_LETTERS = {"new": "A", "deleted": "D", "renamed": "R", "copied": "C"}

since_option = click.option(
    "--since",
    type=click.Choice(["viewed", "accepted"]),
    help="Compare with what was marked as viewed, or with what is accepted.",
)


@click.command()
@click.argument("agent")
@click.argument("paths", nargs=-1, metavar="[PATH]...")
@click.option("--turn", metavar="N", help="Only the changes of this turn, by number or id.")
@since_option
@click.option("--stat", is_flag=True, help="Only list the files and count their lines.")
@click.option("--name-only", is_flag=True, help="Only list the paths.")
@click.option("-U", "--unified", "context", default=3, metavar="N", help="Lines of context.")
@click.option("-w", "--ignore-space", is_flag=True, help="Ignore changes of white space.")
@click.option("--binary", is_flag=True, help="Include binary contents, for `git apply`.")
@as_json_option
def diff(
    agent: str, paths: tuple[str, ...], turn: str | None, since: "ReviewSince | None", **how: Any
) -> None:
    """Show all changes since AGENT started as one patch: committed, uncommitted and new files.

    The patch can be piped into `git apply`. PATH limits it to files and directories. An agent that
    shares its directory with others is compared by the checkpoints of its turns.
    """
    asked: dict[str, Any] = {"turn": turn, "since": since}
    if how["stat"] or how["name_only"] or how["as_json"]:
        with_fleet(lambda fleet: _summarize(fleet, agent, paths, asked, how))
    else:
        asked |= {key: how[key] for key in ("context", "ignore_space", "binary")}
        with_fleet(lambda fleet: _write_patch(fleet, agent, paths, asked))


async def _summarize(
    fleet: "HostClient",
    agent: str,
    paths: tuple[str, ...],
    asked: dict[str, Any],
    how: dict[str, Any],
) -> None:
    changes = await fleet.changes(agent, **asked)
    files = choose_files(changes, paths)
    if how["as_json"]:
        patches: list[Any] = []
        if not how["stat"] and not how["name_only"]:
            more = asked | {"context": how["context"], "ignore_space": how["ignore_space"]}
            patches += [await _read_patch(fleet, agent, file, changes, more) for file in files]
        echo_json({"changes": changes, "patches": patches})
        return
    report_notes(changes)
    if how["name_only"]:
        for file in files:
            echo(quote_path(file.path))
        return
    for line in format_stat(files, terminal_width()):
        echo(line)


async def _read_patch(
    fleet: "HostClient",
    agent: str,
    file: "ChangedFile",
    changes: "AgentChanges",
    asked: dict[str, Any],
) -> Any:
    """All pages of the change of one file, as one."""
    pages: list[FilePatch] = []
    after: int | None = 0
    while after is not None:
        page = await fleet.patch(agent, file.id, after=after, tree=changes.new, **asked)
        pages.append(page)
        after = page.next
    whole = pages[0].patch
    for page in pages[1:]:
        for hunk in page.patch.hunks:
            if hunk.is_continued and whole.hunks:
                whole.hunks[-1].lines += hunk.lines
            else:
                whole.hunks.append(hunk)
    return {"id": file.id, "patch": whole}


def choose_files(changes: "AgentChanges", paths: tuple[str, ...]) -> "list[ChangedFile]":
    """The changed files at or below these paths; all without any. Raises NoSuchChangeError."""
    from quarterdeck.fleet.review.errors import NoSuchChangeError

    if not paths:
        return list(changes.files)
    found: dict[str, ChangedFile] = {}
    for path in paths:
        wanted = path.removeprefix("./").rstrip("/")
        inside = [file for file in changes.files if _is_at(file, wanted)]
        if not inside:
            known = (file.path for file in changes.files)
            raise NoSuchChangeError.of_file(changes.name, path, known)
        found |= {file.id: file for file in inside}
    return list(found.values())


def _is_at(file: "ChangedFile", wanted: str) -> bool:
    names = (file.path, file.old_path or file.path)
    return wanted in ("", ".", file.id) or any(
        name == wanted or name.startswith(f"{wanted}/") for name in names
    )


def report_notes(changes: "AgentChanges") -> None:
    """Say on standard error what the changes do not cover."""
    for note in changes.notes:
        echo(f"note: {note}", err=True)
    if changes.shared_with:
        names = ", ".join(changes.shared_with)
        echo(f"note: some files are shared with {names}", err=True)
    if changes.count > len(changes.files):
        echo(f"note: only the first {len(changes.files):,} of {changes.count:,} files", err=True)


def format_stat(files: "list[ChangedFile]", width: int | None) -> Iterator[str]:
    """A line for each file, and one for all."""
    if not files:
        yield "no changes"
        return
    rows = [(_letter(file), f"+{file.added}", f"-{file.removed}", _name(file)) for file in files]
    lines = table(("", "", "", ""), rows, width)
    next(lines)
    yield from lines
    added, removed = sum(file.added for file in files), sum(file.removed for file in files)
    yield f"{count_noun(len(files), 'file')}, +{added} -{removed}"


def _letter(file: "ChangedFile") -> str:
    return _LETTERS.get(file.kind, "M")


def _name(file: "ChangedFile") -> str:
    name = quote_path(file.path)
    if file.old_path is not None:
        name = f"{quote_path(file.old_path)} => {name}"
    facts = [
        *(["binary"] if file.is_binary else []),
        *(["submodule"] if file.is_submodule else []),
        *([f"mode {file.new_mode}"] if file.kind == "mode" else []),
        *([f"shared with {', '.join(file.shared_with)}"] if file.shared_with else []),
    ]
    return f"{name} ({'; '.join(facts)})" if facts else name


async def _write_patch(
    fleet: "HostClient", agent: str, paths: tuple[str, ...], asked: dict[str, Any]
) -> None:
    painter = PatchPrinter(has_colour="NO_COLOR" not in os.environ) if is_terminal() else None
    after: int | None = 0
    tree = None
    is_cut = False
    while after is not None:
        piece = await fleet.patch_text(agent, list(paths), after=after, tree=tree, **asked)
        write_output(piece.data if painter is None else painter.paint(piece.data))
        after, tree, is_cut = piece.next, piece.tree, piece.is_cut
    if painter is not None:
        write_output(painter.finish())
    if is_cut:
        raise click.ClickException("the patch is too large; name some of its PATHs")
    report_notes(await fleet.changes(agent, turn=asked["turn"], since=asked["since"]))


class PatchPrinter:
    """A patch for a terminal, piece by piece: coloured, with nothing that acts on it."""

    def __init__(self, *, has_colour: bool) -> None:
        self._has_colour = has_colour
        self._rest = b""
        self._is_head = True

    def paint(self, data: bytes) -> str:
        """The lines that are whole by now."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        return "".join(self._line(line) + "\n" for line in lines)

    def finish(self) -> str:
        """What is left."""
        return self.paint(b"\n") if self._rest else ""

    def _line(self, line: bytes) -> str:
        text = line.decode("utf-8", "backslashreplace").removesuffix("\r")
        shown = escape_controls(text, keep="\t") + ("\\r" if line.endswith(b"\r") else "")
        if text.startswith("diff --git "):
            self._is_head = True
        elif text.startswith("@@ "):
            self._is_head = False
        if not self._has_colour:
            return shown
        if self._is_head:
            return click.style(shown, bold=True)
        colour = _COLOURS.get(text[:1])
        return click.style(shown, fg=colour) if colour else shown
