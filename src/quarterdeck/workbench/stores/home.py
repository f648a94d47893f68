"""What the home screen knows: the checkout, recent sessions, the steps of the first run, tips."""

import asyncio
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

from quarterdeck.wire.errors import QuarterdeckError

if TYPE_CHECKING:
    from quarterdeck.config.places import Places
    from quarterdeck.drivers.history.history import AgentHistory
    from quarterdeck.drivers.history.session import HistorySession
    from quarterdeck.fleet.api import AgentInfo
    from quarterdeck.system.git.repository import GitRepository

    from ..context import WorkbenchContext
    from ..preferences.store import Preferences
    from .discovery import DiscoveryStore

__all__ = [
    "FIRST_STEPS",
    "MOST_RECENT",
    "TIPS",
    "FirstStep",
    "HomeStore",
    "ProjectCommit",
    "ProjectState",
    "RecentSession",
    "Tip",
    "choose_tips",
    "current_step",
    "find_done_steps",
    "list_recent_sessions",
    "look_at_project",
    "read_mode",
]

MOST_RECENT = 9
"""Sessions that are offered to continue where there is room; each has a key."""
_COMMITS = 5
_FILES = 8
_PAST = 20
"""Sessions on disk that are looked at; some may be in the fleet already."""
_SECONDS = 5.0
_MOST_STATUS = 1_000_000
"""Bytes of the answer of git that are read."""

FirstStep: TypeAlias = Literal["agent", "trust", "mode", "prompt"]
FIRST_STEPS: tuple[FirstStep, ...] = ("agent", "trust", "mode", "prompt")
"""The steps of the first run, in their order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectCommit:
    """A commit of the branch that is checked out. Its texts are foreign."""

    id: str
    subject: str
    time: int
    """Microseconds since the epoch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectState:
    """What git says about the directory; no branch: it is no repository."""

    root: str
    """The project, or the directory itself."""
    branch: str = ""
    changed: int | None = None
    """Files with uncommitted changes, new ones too; None: not known."""
    files: tuple[tuple[str, str], ...] = ()
    """The first of those: the letter of git, and the path."""
    commits: tuple[ProjectCommit, ...] = ()
    """The last ones, newest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecentSession:
    """A session of this project that can be continued: one of ours, or one on disk."""

    agent: str
    """Which agent: claude, codex."""
    title: str
    updated: int
    """Microseconds since the epoch."""
    info: "AgentInfo | None" = None
    past: "HistorySession | None" = None
    """One of the two is set."""


@dataclass(slots=True, kw_only=True)
class HomeStore:
    """What was found for the home screen so far; None until someone has looked."""

    project: ProjectState | None = None
    past: "Sequence[HistorySession] | None" = None
    """Sessions of other programs in this directory, newest first."""
    mode: str = ""
    """What agents may do without asking here, as the settings say; empty: not known."""
    problem: str = ""
    """Why sessions on disk could not be listed."""

    async def look(self, context: "WorkbenchContext") -> None:
        """Look at the project and for sessions, in threads; fast things first."""
        if context.remote is not None:
            self.past = ()
            return
        cwd = Path(context.cwd)
        self.project = await asyncio.to_thread(look_at_project, cwd)
        discovery = context.discovery
        if discovery.places is None:
            self.past = ()
            return
        self.mode = await asyncio.to_thread(read_mode, discovery.places, cwd)
        context.changed()
        try:
            self.past, self.problem = await _list_past(cwd, discovery.environment), ""
        except QuarterdeckError as error:
            self.past, self.problem = (), str(error)


async def _list_past(cwd: Path, environment: Mapping[str, str]) -> "Sequence[HistorySession]":
    def find_history() -> "AgentHistory":  # importing takes longer than a key may wait
        from quarterdeck.drivers.history.history import AgentHistory

        return AgentHistory.of(environment)

    history = await asyncio.to_thread(find_history)
    return (await history.list(cwd, limit=_PAST)).sessions


def look_at_project(cwd: Path) -> ProjectState:
    """Ask git about a directory. Blocks; never raises."""
    from quarterdeck.system.git.repository import find_repository

    try:
        repository = find_repository(str(cwd))
        if repository is None:
            return ProjectState(root=str(cwd))
        root, branch = repository.top, os.fsencode(repository.branch).decode("utf-8", "replace")
        words = ["status", "--porcelain", "-z", "--no-renames"]
        answer = repository.ask(words, most=_MOST_STATUS, seconds=_SECONDS)
        commits = _list_commits(repository)
    except (QuarterdeckError, OSError):
        return ProjectState(root=str(cwd))
    entries = answer.data.decode("utf-8", "replace").split("\0")[:_FILES]
    files = tuple((one[:2].strip()[:1], one[3:]) for one in entries if len(one) > 3)
    count = answer.data.count(b"\0")
    return ProjectState(root=root, branch=branch, changed=count, files=files, commits=commits)


def _list_commits(repository: "GitRepository") -> tuple[ProjectCommit, ...]:
    """The last commits; none where there are none yet."""
    from quarterdeck.system.errors import GitError

    words = ["log", f"-{_COMMITS}", "-z", "--format=%h%x1f%ct%x1f%s"]
    try:
        answer = repository.ask(words, most=_MOST_STATUS, seconds=_SECONDS)
    except GitError:
        return ()
    found: list[ProjectCommit] = []
    for entry in answer.data.decode("utf-8", "replace").split("\0"):
        id_, _, rest = entry.partition("\x1f")
        when, _, subject = rest.partition("\x1f")
        if when.isdecimal():
            found.append(ProjectCommit(id=id_, subject=subject, time=int(when) * 1_000_000))
    return tuple(found)


def read_mode(places: "Places", directory: Path) -> str:
    """The mode that the settings give agents in a directory; empty: it cannot be read. Blocks."""
    from quarterdeck.config.loader import load_config
    from quarterdeck.config.trust import TrustStore
    from quarterdeck.config.workspace import find_workspace

    try:
        project = find_workspace(directory).project
        trusted = TrustStore(places.trust_file).is_trusted(project)
        return load_config(places, directory=directory, trusted=trusted).settings.mode
    except (QuarterdeckError, OSError):
        return ""


def list_recent_sessions(
    agents: "Iterable[AgentInfo]",
    past: "Iterable[HistorySession]",
    roots: Sequence[str],
    most: int = MOST_RECENT,
) -> list[RecentSession]:
    """The sessions of a project, ours and those on disk, newest first; none of them twice.

    ``roots``: the directories that are the project. Agents that others started are left out.
    """
    known = list(agents)
    found = [
        RecentSession(
            agent=agent.agent, title=agent.title or agent.name, updated=agent.updated, info=agent
        )
        for agent in known
        if agent.parent is None and _is_in(agent, roots)
    ]
    ours = {(agent.agent, agent.agent_session) for agent in known}
    found += [
        RecentSession(
            agent=one.agent, title=one.title or one.id, updated=one.updated or 0, past=one
        )
        for one in past
        if (one.agent, one.id) not in ours
    ]
    return sorted(found, key=lambda one: -one.updated)[:most]


def _is_in(agent: "AgentInfo", roots: Sequence[str]) -> bool:
    tree = agent.worktree
    places = [agent.cwd, *([tree.repository] if tree is not None else [])]
    return any(
        place == root or place.startswith(root.rstrip("/") + "/")
        for place in places
        for root in roots
    )


# The first run


def find_done_steps(
    preferences: "Preferences", discovery: "DiscoveryStore", has_agents: bool
) -> set[str]:
    """The steps that are done: noted earlier, or there is nothing to do."""
    done = set(preferences.choices.first_steps)
    if has_agents:
        return {*done, *FIRST_STEPS}
    found = discovery.found
    if found is not None and (
        found.keys or any(one.is_here and one.login != "no" for one in found.agents)
    ):
        done.add("agent")
    trust = discovery.trust
    if trust is not None and (trust.state != "untrusted" or trust.is_unasked):
        done.add("trust")
    return done


def current_step(done: Iterable[str]) -> FirstStep | None:
    """The step to do next; None: all are done."""
    known = set(done)
    return next((step for step in FIRST_STEPS if step not in known), None)


# Tips


@dataclass(frozen=True, slots=True)
class Tip:
    """Something worth knowing; ``{key}`` stands for the key of ``command``."""

    text: str
    command: str = ""
    """A command of the workbench; empty: the text names no key."""


TIPS = (
    Tip("{key} answers the next request of any agent, wherever you are", "answer"),
    Tip("{key} finds every command by a few letters", "palette"),
    Tip("@ and some letters complete a file in your prompt"),
    Tip("{key} shows what all agents do, as one stream", "feed"),
    Tip("{key} chooses other colours", "themes"),
    Tip("{key} lists every key; each can be bound to something else", "keys"),
    Tip("{key} edits prompts that wait for their turn", "queue"),
    Tip("/group project groups the agents by directory"),
    Tip("worktree=new in the form for a new agent gives it a branch of its own"),
    Tip("/conflicts shows which agents change the same lines"),
    Tip("/undo takes back what the last turn did to your files"),
    Tip("/review shows what an agent changed, file by file"),
    Tip("/land merges the work of several agents, one after the other"),
    Tip("agents keep running when you quit; the next start shows them again"),
    Tip("{key} searches the whole transcript, also what is not loaded", "search"),
    Tip("quarterdeck tutorial shows the commands of the shell in five minutes"),
)
"""Each is true; one is shown at each start."""


def choose_tips(starts: int, find_key: Callable[[str], str | None], most: int = 1) -> list[str]:
    """The tips of a start, with the keys that their commands have now; others at the next start.

    ``find_key``: the key of a command; None: it has none, and the next tip is taken.
    """
    found: list[str] = []
    for at in range(len(TIPS)):
        tip = TIPS[(starts + at) % len(TIPS)]
        key = find_key(tip.command) if tip.command else ""
        if key is not None and len(found) < most:
            found.append(tip.text.format(key=key))
    return found
