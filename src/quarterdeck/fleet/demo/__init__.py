"""The demo: two agents on a scripted model do a small real task in a scratch project.

Needs no key and no network. Everything but the model's words is real: files, a failing test,
permission requests, the log. It is cleared away again, unless the person keeps it.

The scratch project is a temporary folder with a marker file; functions that touch it block.
"""

import asyncio
import os
import shutil
import tempfile
from contextlib import suppress
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

from quarterdeck.config.trust import TrustStore
from quarterdeck.wire.errors import QuarterdeckError
from quarterdeck.wire.events import PermissionAsked
from quarterdeck.wire.session_options import SessionOptions

from ..api import SpawnOptions
from ..errors import NameTakenError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from quarterdeck.config.places import Places

    from ..api import AgentInfo, Fleet

__all__ = [
    "PROJECT_NAME",
    "PROMPT",
    "ScratchProjectError",
    "begin_demo",
    "demo_agents",
    "end_demo",
    "find_scratch_folder",
    "is_project_kept",
    "keep_demo",
    "keep_project",
    "make_project",
    "remove_project",
]

PROJECT_NAME = "tides"
"""The project's folder, inside a scratch folder of its own."""
_PREFIX = "quarterdeck-demo-"
_MARK = ".quarterdeck-demo"
"""A file that says that the folder is ours to remove; empty until the person keeps it."""
_KEPT = "kept\n"
_GIT_SECONDS = 20.0


class ScratchProjectError(QuarterdeckError):
    """The scratch project cannot be made; the message says where and why."""


def make_project() -> Path:
    """Write the project to a new temporary directory, under version control if git is there.

    Raises:
        ScratchProjectError: nothing can be written there. What was written is removed.
    """
    try:
        scratch = Path(os.path.realpath(tempfile.mkdtemp(prefix=_PREFIX)))
    except OSError as error:
        raise _failed(Path(tempfile.gettempdir()), error) from error
    project = scratch / PROJECT_NAME
    try:
        (scratch / _MARK).touch()
        project.mkdir()
        for name, content in _files().items():
            (project / name).write_text(content, "utf-8")
    except OSError as error:
        shutil.rmtree(scratch, ignore_errors=True)
        raise _failed(scratch, error) from error
    _commit(project)
    return project


def find_scratch_folder(directory: str) -> Path | None:
    """The scratch folder that a directory is the project of; None if it is none of ours."""
    project = Path(directory)
    scratch = project.parent
    is_ours = project.name == PROJECT_NAME and scratch.name.startswith(_PREFIX)
    return scratch if is_ours and (scratch / _MARK).is_file() else None


def is_project_kept(scratch: Path) -> bool:
    """Whether the person wants to keep it."""
    return (scratch / _MARK).read_text("utf-8") == _KEPT


def keep_project(scratch: Path) -> None:
    """Note that it is to stay."""
    (scratch / _MARK).write_text(_KEPT, "utf-8")


def remove_project(scratch: Path) -> None:
    """Remove a scratch folder; one without our mark stays."""
    if (scratch / _MARK).is_file():
        shutil.rmtree(scratch, ignore_errors=True)


def _files() -> dict[str, str]:
    import tomllib

    file = resources.files("quarterdeck.fleet.demo") / "project.toml"
    return tomllib.loads(file.read_text("utf-8"))


def _commit(project: Path) -> None:
    """Put the project under version control; without git it is just a directory."""
    from quarterdeck.system.errors import GitError
    from quarterdeck.system.git.command import GitPlaces, run_git

    top = str(project)
    places = GitPlaces(git_dir=f"{top}/.git", work_tree=top, cwd=top)
    settings = ("user.name=Quarterdeck", "user.email=demo@localhost")
    for words in (
        ("init", "-q", "-b", "main"),
        ("add", "."),
        ("commit", "-q", "-m", "Tides, with a test that fails"),
    ):
        try:
            run_git(places, words, settings=settings, seconds=_GIT_SECONDS)
        except GitError:
            return


def _failed(place: Path, error: OSError) -> ScratchProjectError:
    return ScratchProjectError(
        f"the demo cannot write its project to {str(place)!r}: {error.strerror or error}; "
        "make room there, or set TMPDIR to another directory"
    )


PROMPT = (
    "A test fails: high water of tomorrow is wrong. Fix it. README.md should say how to run the "
    "tests; let another agent do that."
)
_NAME = "demo"
_MODEL = "scripted/demo"
_PAGE = 500


async def begin_demo(fleet: "Fleet", places: "Places") -> "AgentInfo":
    """Make the scratch project and start the agent that leads; an earlier demo is cleared away.

    The project is trusted, and nothing else is, until the demo ends.

    Raises:
        QuarterdeckError: it cannot be made or started; nothing is left behind.
    """
    await end_demo(fleet, places)
    project = await asyncio.to_thread(make_project)
    request = SpawnOptions(
        options=SessionOptions(cwd=str(project), model=_MODEL, mode="ask"),
        name=_NAME,
        prompt=PROMPT,
        lead=True,
    )
    try:
        await asyncio.to_thread(TrustStore(places.trust_file).trust, project)
        return await _spawn(fleet, request)
    except BaseException:
        await asyncio.to_thread(_forget, project.parent, places)
        raise


async def demo_agents(fleet: "Fleet") -> "list[AgentInfo]":
    """The agents of demos that are not kept, the leading ones first."""
    agents = await fleet.agents(archived=True)
    found = await asyncio.to_thread(_ours, agents)
    return sorted(found, key=lambda agent: (agent.parent is not None, agent.spawned))


async def end_demo(fleet: "Fleet", places: "Places") -> int:
    """Clear demos away: agents, their log, their grants, their project and its trust.

    Does what can be done, and returns how many agents there were.

    Raises:
        QuarterdeckError: the fleet cannot be reached.
    """
    agents = await demo_agents(fleet)
    folders = {Path(agent.cwd).parent for agent in agents}
    await _revoke(fleet, agents)
    for agent in agents:
        with suppress(QuarterdeckError):
            await fleet.kill(agent.session, reason="the demo is over")
    for agent in reversed(agents):
        with suppress(QuarterdeckError):
            await fleet.delete(agent.session)
    for folder in folders:
        await asyncio.to_thread(_forget, folder, places)
    return len(agents)


async def keep_demo(fleet: "Fleet", places: "Places") -> list[str]:
    """Let demos stay; returns where their projects are. They are trusted no longer."""
    projects = sorted({agent.cwd for agent in await demo_agents(fleet)})
    for project in projects:
        await asyncio.to_thread(_keep, project, places)
    return projects


async def _spawn(fleet: "Fleet", request: SpawnOptions) -> "AgentInfo":
    try:
        return await fleet.spawn(request)
    except NameTakenError:  # by an agent of the person's own
        from msgspec.structs import replace

        return await fleet.spawn(replace(request, name=None))


async def _revoke(fleet: "Fleet", agents: "Sequence[AgentInfo]") -> None:
    """Take back what the person allowed for longer than the demo."""
    if not agents or not (grants := await fleet.grants()):
        return
    asked = {request for agent in agents for request in await _requests(fleet, agent)}
    for grant in grants:
        if grant.request in asked:
            with suppress(QuarterdeckError):
                await fleet.revoke(grant.id, by="demo")


async def _requests(fleet: "Fleet", agent: "AgentInfo") -> set[str]:
    found: set[str] = set()
    after = 0
    while records := await fleet.read(agent.session, after=after, limit=_PAGE):
        asked = (record.event for record in records)
        found |= {event.request for event in asked if isinstance(event, PermissionAsked)}
        after = records[-1].seq
    return found


def _ours(agents: "Iterable[AgentInfo]") -> "list[AgentInfo]":
    def is_ours(agent: "AgentInfo") -> bool:
        scratch = find_scratch_folder(agent.cwd)
        return scratch is not None and not is_project_kept(scratch)

    return [agent for agent in agents if is_ours(agent)]


def _keep(project: str, places: "Places") -> None:
    keep_project(Path(project).parent)
    TrustStore(places.trust_file).revoke(Path(project))


def _forget(scratch: Path, places: "Places") -> None:
    with suppress(QuarterdeckError):
        TrustStore(places.trust_file).revoke(scratch / PROJECT_NAME)
    remove_project(scratch)
