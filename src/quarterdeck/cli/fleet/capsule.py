"""``quarterdeck capsule``: sessions in one file that another machine can take in."""

import asyncio
import os
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING

import click

from quarterdeck.config.places import Places
from quarterdeck.wire.clock import format_local_time
from quarterdeck.wire.private_files import open_private
from quarterdeck.wire.terminal_text import count_noun

from ..command_io import as_json_option, echo_json, terminal_width, with_fleet
from ..output import echo, escape_to_line, is_terminal, table, write_notice, write_output

if TYPE_CHECKING:
    from quarterdeck.fleet.api import AgentInfo
    from quarterdeck.fleet.capsule.archive import CapsuleLimits
    from quarterdeck.fleet.capsule.exporter import ExportOptions
    from quarterdeck.fleet.capsule.importer import ImportOptions, ImportReport, MovedSession
    from quarterdeck.fleet.capsule.manifest import CapsuleManifest, OmittedItem
    from quarterdeck.fleet.client import HostClient

__all__ = ["capsule", "export", "import_", "show", "verify"]

_MOST_NAMED = 20
_GIGABYTE = 1 << 30
_EVERY = 0.2
"""Seconds between two lines of progress."""

file_argument = click.argument(
    "file", type=click.Path(path_type=Path, dir_okay=False, exists=True), metavar="FILE"
)
signers_option = click.option(
    "--allowed-signers",
    "signers",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Who may sign, as ssh-keygen reads it; default: allowed_signers beside your settings.",
)
most_option = click.option(
    "--most",
    type=click.IntRange(1),
    metavar="GB",
    help="Refuse a capsule that unpacks to more; default: 256.",
)


@click.group()
def capsule() -> None:
    """Move sessions between machines, each capsule one file.

    A capsule has the events of a session and its sub-agents, the session files of its agent, and
    the work tree with uncommitted and untracked files. It is a zip file; docs/capsule.md describes
    it.
    """


@click.command()
@click.argument("sessions", nargs=-1, required=True, metavar="SESSION...")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write to this file, readable only by you; default: standard output.",
)
@click.option("--with-secrets", is_flag=True, help="Do not mask secrets.")
@click.option("--no-work-tree", is_flag=True, help="Without the files of the project.")
@click.option("--thin", is_flag=True, help="Without commits that branches of remotes have.")
@click.option(
    "--sign",
    "key",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="KEY",
    help="Sign it with this SSH key, such as ~/.ssh/id_ed25519.",
)
def export(
    sessions: tuple[str, ...],
    output: Path | None,
    with_secrets: bool,
    no_work_tree: bool,
    thin: bool,
    key: Path | None,
) -> None:
    """Write sessions to a capsule; SESSION is an id or an agent's name.

    Text that looks like a secret is masked, and where is reported. Commits are not masked; files
    with uncommitted changes are.
    """
    from quarterdeck.fleet.capsule.exporter import ExportOptions
    from quarterdeck.wire.redaction import find_secret_variables

    if output is None and is_terminal():
        raise click.UsageError("a capsule is not text; give -o FILE, or redirect the output")
    options = ExportOptions(
        is_masked=not with_secrets,
        secrets={} if with_secrets else find_secret_variables(os.environ),
        has_work_tree=not no_work_tree,
        is_thin=thin,
        key=key.expanduser() if key is not None else None,
    )
    manifest = asyncio.run(_export(sessions, output, options))
    _report_export(manifest)


async def _export(
    sessions: tuple[str, ...], output: Path | None, options: "ExportOptions"
) -> "CapsuleManifest":
    from quarterdeck.drivers.history.history import AgentHomes
    from quarterdeck.fleet.capsule.exporter import export_capsule

    homes = AgentHomes.find(os.environ)
    progress = _Progress()
    places = Places.find()
    if output is None:
        try:
            return await export_capsule(
                places, sessions, _Output(), options, homes=homes, progress=progress
            )
        finally:
            progress.end()
    unfinished = output.with_name(f".{output.name}.{os.getpid()}.part")
    try:
        with await asyncio.to_thread(_create, unfinished) as file:
            manifest = await export_capsule(
                places, sessions, file, options, homes=homes, progress=progress
            )
        await asyncio.to_thread(unfinished.replace, output)
    finally:
        progress.end()
        with suppress(OSError):
            await asyncio.to_thread(unfinished.unlink, missing_ok=True)
    return manifest


def _create(path: Path) -> IO[bytes]:
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    try:
        return os.fdopen(open_private(path, flags), "wb")
    except OSError as error:
        reason = error.strerror or str(error)
        raise click.UsageError(f"cannot write in {str(path.parent)!r}: {reason}") from error


class _Output:
    """Standard output."""

    def write(self, data: bytes) -> None:
        write_output(data)


class _Progress:
    """A line on standard error that is replaced; nothing where no one looks."""

    def __init__(self) -> None:
        self._is_shown = sys.stderr.isatty()
        self._last = 0.0
        self._width = 0

    def __call__(self, what: str, done: int, total: int | None) -> None:
        now = time.monotonic()
        if not self._is_shown or now - self._last < _EVERY:
            return
        self._last = now
        share = f" of {_size(total)}" if total is not None else ""
        text = escape_to_line(f"{what}: {_size(done)}{share}")[:78]
        sys.stderr.write(f"\r{text.ljust(self._width)}")
        sys.stderr.flush()
        self._width = len(text)

    def end(self) -> None:
        """Remove the line."""
        if self._width:
            sys.stderr.write(f"\r{' ' * self._width}\r")
            sys.stderr.flush()


def _size(count: int) -> str:
    return f"{count / 1_000_000:,.1f} MB" if count >= 100_000 else f"{count:,} bytes"


def _report_export(manifest: "CapsuleManifest") -> None:
    sessions = manifest.sessions
    events = sum(log.records for log in manifest.logs)
    size = sum(part.size for part in manifest.parts)
    write_notice(
        f"{count_noun(len(sessions), 'session')}, {count_noun(events, 'event')}, {_size(size)}"
    )
    for line in (*_masked_lines(manifest), *_omitted_lines(manifest.omitted)):
        write_notice(line)


def _masked_lines(manifest: "CapsuleManifest") -> Iterator[str]:
    if not manifest.is_masked:
        yield "Secrets are not masked."
        return
    yield f"Masked: {count_noun(manifest.masked_count, 'place')}" + (
        "; quarterdeck capsule show --masked FILE lists them" if manifest.masked_count else ""
    )


def _omitted_lines(omitted: "Iterable[OmittedItem]") -> Iterator[str]:
    for number, one in enumerate(omitted):
        if number == _MOST_NAMED:
            yield "  and more; --json has all of them"
            return
        of = f" ({one.session})" if one.session is not None else ""
        yield f"Not carried over: {one.what}: {one.why}{of}"


@click.command()
@file_argument
@click.option("--masked", is_flag=True, help="List the places that were masked.")
@signers_option
@most_option
@as_json_option
def show(file: Path, masked: bool, signers: Path | None, most: int | None, as_json: bool) -> None:
    """Show what a capsule has; reads its list, not its parts."""
    from quarterdeck.fleet.capsule.reader import open_capsule

    with open_capsule(file, _limits(most)) as opened:
        signature = opened.check_signature(_find_signers(signers))
        manifest, digest = opened.manifest, opened.digest
    if as_json:
        echo_json({"digest": digest, "signature": signature, "manifest": manifest})
        return
    if masked:
        for one in manifest.masked:
            echo(escape_to_line(f"{one.where}: {one.place}"))
        return
    for line in _manifest_lines(manifest, digest):
        echo(line)
    echo(escape_to_line(f"Signature: {signature.describe()}"))


def _manifest_lines(manifest: "CapsuleManifest", digest: str) -> Iterator[str]:
    made = format_local_time(manifest.created)
    yield escape_to_line(f"Capsule {digest[:16]}, version {manifest.version}, {made}")
    yield escape_to_line(f"Written by {manifest.program}")
    head = ("SESSION", "AGENT", "EVENTS", "FILES", "QUEUE", "GRANTS", "TITLE")
    rows = [
        (
            f"{'  ' * (one.id != log.root)}{one.id}",
            one.agent,
            str(one.records),
            str(len(one.files)),
            str(len(one.queue)),
            str(len(one.grants)),
            one.title or one.cwd,
        )
        for log in manifest.logs
        for one in log.sessions
    ]
    yield from table(head, rows, terminal_width())
    for tree in manifest.work_trees:
        needs = f", needs {', '.join(tree.needs[:3])}" if tree.needs else ""
        branch = f" on {tree.branch}" if tree.branch else ""
        yield escape_to_line(f"Work tree: {tree.base or 'no commit yet'}{branch}{needs}")
    yield from map(escape_to_line, _masked_lines(manifest))
    yield from map(escape_to_line, _omitted_lines(manifest.omitted))


@click.command()
@file_argument
@click.option("--require-signature", is_flag=True, help="Fail unless an allowed signer signed it.")
@signers_option
@most_option
@as_json_option
def verify(
    file: Path, require_signature: bool, signers: Path | None, most: int | None, as_json: bool
) -> None:
    """Check every byte of a capsule, and its signature; exits with 1 if something is wrong."""
    from quarterdeck.fleet.capsule.importer import check_signer
    from quarterdeck.fleet.capsule.reader import open_capsule

    progress = _Progress()
    with open_capsule(file, _limits(most)) as opened:
        signature = opened.check_signature(_find_signers(signers))
        check_signer(signature, is_needed=require_signature)
        try:
            opened.verify(lambda done, total: progress("verifying", done, total))
        finally:
            progress.end()
        parts, digest = opened.manifest.parts, opened.digest
    if as_json:
        echo_json({"digest": digest, "parts": len(parts), "signature": signature})
        return
    echo(f"{count_noun(len(parts), 'part')}, all as the manifest says; digest {digest}")
    echo(escape_to_line(f"Signature: {signature.describe()}"))


@click.command("import")
@file_argument
@click.option(
    "--directory",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Where it works from now on; the work tree is restored there.",
)
@click.option("--to", metavar="AGENT", help="Hand it over to this agent at once.")
@click.option("--prompt", metavar="TEXT", help="With --to: what the agent is to do.")
@click.option(
    "--trust",
    is_flag=True,
    help="Keep its grants, rules, modes, tool servers and worktrees; for capsules of your own.",
)
@click.option("--no-vendor-files", is_flag=True, help="Without the session files of its agent.")
@click.option(
    "--require-signature", is_flag=True, help="Refuse it unless an allowed signer signed."
)
@signers_option
@most_option
@as_json_option
def import_(
    file: Path,
    directory: Path | None,
    to: str | None,
    prompt: str | None,
    trust: bool,
    no_vendor_files: bool,
    require_signature: bool,
    signers: Path | None,
    most: int | None,
    as_json: bool,
) -> None:
    """Take a capsule in: its sessions can be read, continued and handed over here.

    A session that exists here already gets a new id. DIR may be a repository, which gets the
    commits and keeps its files, or a new directory, which becomes a repository with the files as
    they were. An import that is interrupted leaves nothing, and can be run again.
    """
    from quarterdeck.fleet.capsule.importer import ImportOptions

    if prompt is not None and to is None:
        raise click.UsageError("--prompt needs --to AGENT")
    options = ImportOptions(
        directory=Path(os.path.realpath(directory.expanduser())) if directory else None,
        is_trusted=trust,
        has_vendor_files=not no_vendor_files,
        allowed_signers=_find_signers(signers),
        needs_signature=require_signature,
        limits=_limits(most),
    )
    report = asyncio.run(_import(file, options))
    for line in _report_lines(report) if not as_json else ():
        echo(escape_to_line(line))
    started = _hand_over(report, to, prompt) if to is not None else None
    if as_json:
        echo_json({"import": report, "agent": started})
    elif started is not None:
        echo(escape_to_line(f"{started.name} ({started.agent}) continues it"))


async def _import(file: Path, options: "ImportOptions") -> "ImportReport":
    from quarterdeck.drivers.history.history import AgentHomes
    from quarterdeck.fleet.capsule.importer import import_capsule

    progress = _Progress()
    homes = AgentHomes.find(os.environ)
    try:
        return await import_capsule(Places.find(), file, options, homes=homes, progress=progress)
    finally:
        progress.end()


def _hand_over(report: "ImportReport", to: str, prompt: str | None) -> "AgentInfo":
    if len(report.sessions) != 1:
        raise click.UsageError(
            "the capsule is taken in, but has several sessions; export the one to hand over"
        )
    moved = report.sessions[0]
    if not Path(moved.cwd).is_dir():
        from quarterdeck.fleet.capsule.errors import CapsuleError

        raise CapsuleError(
            f"the session worked in {moved.cwd!r}, which is not here; import it with --directory"
        )

    async def start(fleet: "HostClient") -> "AgentInfo":
        from quarterdeck.fleet.api import HandoverOptions

        return await fleet.hand_over(moved.id, HandoverOptions(to=to, prompt=prompt))

    return with_fleet(start)


def _report_lines(report: "ImportReport") -> Iterator[str]:
    for one in report.sessions:
        yield from _session_lines(one)
    if report.work_tree:
        directory, *references = report.work_tree
        where = f"in {directory} as {', '.join(references)}; its files are unchanged"
        yield f"Work tree: {where if references else f'restored in {directory}'}"
    yield f"Signature: {report.signature}"
    yield from _omitted_lines(report.omitted)


def _session_lines(one: "MovedSession") -> Iterator[str]:
    state = "was taken in before" if one.was_there else f"{count_noun(one.records, 'event')}"
    sub = f", {count_noun(one.sub_agents, 'sub-agent')}" if one.sub_agents else ""
    yield f"{one.id} ({one.agent}): {state}{sub}"
    yield f"Read: quarterdeck journal export --session {one.id} --format markdown"
    agent = "" if one.agent == "native" else f" -a {one.agent}"
    if one.continues == "native":
        yield f"Continue: quarterdeck run{agent} --resume {one.id} PROMPT"
    else:
        yield (
            "Continue: not with its own agent, whose files did not come along; --to AGENT hands a "
            "session over"
        )


def _find_signers(given: Path | None) -> Path | None:
    if given is not None:
        return given.expanduser()
    usual = Places.find().config / "allowed_signers"
    return usual if usual.is_file() else None


def _limits(most: int | None) -> "CapsuleLimits":
    from quarterdeck.fleet.capsule.archive import CapsuleLimits

    return CapsuleLimits() if most is None else CapsuleLimits(total=most * _GIGABYTE)


for _command in (export, import_, show, verify):
    capsule.add_command(_command)
