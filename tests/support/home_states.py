"""The states of the home screen, and of the agent table with many agents."""

from pathlib import Path

from msgspec.structs import replace

from quarterdeck.config.places import Places
from quarterdeck.drivers.history.session import HistorySession
from quarterdeck.fleet.api import AgentConflict
from quarterdeck.fleet.permissions.workspace_trust import TrustEffect, WorkspaceTrust
from quarterdeck.wire.content import text
from quarterdeck.wire.events import (
    MessageChunk,
    PlanChanged,
    SessionChanged,
    SessionEnded,
    ThoughtChunk,
    TurnEnded,
)
from quarterdeck.wire.settings import PlanEntry
from quarterdeck.wire.worktrees import ChangeCounts, ConflictFile, Worktree
from quarterdeck.workbench.stores.discovery import DiscoveredAgent, MachineDiscovery
from quarterdeck.workbench.stores.home import FIRST_STEPS, ProjectCommit, ProjectState

from .agent_states import calm, command_asked, question_asked
from .staged_workbench import START, Stage, StagedFleet, state
from .workbench_app import until

__all__: list[str] = []

_NAMES = ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY")
_CLAUDE = DiscoveredAgent(
    name="claude", title="Claude Code", is_here=True, login="yes", version="2.1.325"
)
_CODEX = DiscoveredAgent(name="codex", title="Codex", is_here=True, login="yes", version="0.166.0")
_GEMINI = DiscoveredAgent(name="gemini", title="Gemini CLI", is_here=True, login="no")
_MISSING = tuple(
    DiscoveredAgent(name=name, title=title, is_here=False, install=f"npm install -g {name}")
    for name, title in (("opencode", "OpenCode"), ("goose", "Goose"), ("qwen", "Qwen Code"))
)
_UNTRUSTED = WorkspaceTrust(
    root="/work/project",
    state="untrusted",
    acts=(TrustEffect(path="AGENTS.md", what="is read by agents"),),
)
_PLAIN = WorkspaceTrust(root="/work/project", state="plain", acts=())

_COMMITS = tuple(
    ProjectCommit(id=f"{n}1b2c3d", subject=subject, time=START - n * 7_000_000_000)
    for n, subject in enumerate(
        (
            "parser: keep the offset of dates",
            "docs: a page about \x1b[31mtides, with a title that is longer than most of them are",
            "Merge branch 'cache'",
        ),
        1,
    )
)


async def earlier(fleet: StagedFleet, home: Path) -> None:
    """Sessions that ended: of ours, one put away, one with changes."""
    parser = await fleet.agent_at_work("parser", "Read dates with a time zone")
    tree = Worktree(
        path="/state/parser", repository="/work/project", base="1a2b3c4", branch="qd/parser"
    )
    counts = ChangeCounts(files=3, added=41, removed=12)
    await fleet.tell(parser, SessionEnded(how="closed"))
    fleet.infos[parser] = replace(fleet.infos[parser], worktree=tree, changes=counts)
    docs = await fleet.agent_at_work("docs", "Bring the docs up to date", agent="codex")
    await fleet.tell(docs, SessionEnded(how="closed"), SessionChanged(archived=True))


def _past(agent: str, title: str, days: int) -> HistorySession:
    then = START - days * 86_400_000_000
    return HistorySession(agent=agent, id=f"{agent}-{days}", path="/x", title=title, updated=then)


async def _on_home(stage: Stage, discovery: MachineDiscovery, *, first: tuple[str, ...]) -> None:
    """The home screen with what was found, once it has looked by itself."""
    context = stage.app.context
    context.preferences.choices.first_steps = first
    context.discovery.found, context.discovery.has_versions = discovery, True
    panel = stage.app.main.panel
    await until(stage.pilot, lambda: panel.home is not None and panel.home.store.past is not None)
    assert panel.home is not None
    panel.home.store.project = ProjectState(
        root="/work/project",
        branch="main",
        changed=2,
        files=(("M", "src/parser.py"), ("?", "notes.txt")),
        commits=_COMMITS,
    )
    panel.home.store.mode = "ask"
    context.changed()


@state(earlier)
async def home_with_agents_and_recents(stage: Stage) -> None:
    found = MachineDiscovery(
        agents=(_CLAUDE, _CODEX, _GEMINI, *_MISSING), keys=_NAMES[:1], key_names=_NAMES
    )
    await _on_home(stage, found, first=FIRST_STEPS)
    panel = stage.app.main.panel
    assert panel.home is not None
    panel.home.store.past = (
        _past("claude", "why is CI red", 3),
        _past("codex", "explain the build\x1b[31m to me", 40),
    )
    stage.app.context.changed()
    await stage.until("Continue", "why is CI red", "2 changes")


@state(earlier)
async def home_list_with_the_focus(stage: Stage) -> None:
    found = MachineDiscovery(agents=(_CLAUDE, *_MISSING), key_names=_NAMES)
    await _on_home(stage, found, first=FIRST_STEPS)
    await stage.until("Continue", "Claude Code")
    await stage.press("down", "down")
    await until(stage.pilot, lambda: stage.app.focused is stage.app.main.panel.home)


@state()
async def home_empty(stage: Stage) -> None:
    await _on_home(stage, MachineDiscovery(agents=_MISSING, key_names=_NAMES), first=FIRST_STEPS)
    await stage.until("OpenCode not installed")


@state()
async def home_with_nothing_but_the_demo(stage: Stage) -> None:
    await _on_home(stage, MachineDiscovery(), first=FIRST_STEPS)
    await stage.until("no key needed")


async def _first_run(
    stage: Stage, found: MachineDiscovery, trust: WorkspaceTrust, noted: tuple[str, ...] = ()
) -> None:
    stage.app.context.discovery.trust = trust
    home = stage.project.parent
    stage.app.context.discovery.places = Places(
        config=home / "config", state=home / "state", cache=home / "c", runtime=home / "r"
    )
    await _on_home(stage, found, first=noted)


_FOUND = MachineDiscovery(agents=(_CLAUDE, *_MISSING), key_names=_NAMES)


@state()
async def first_step_no_agent(stage: Stage) -> None:
    await _first_run(stage, MachineDiscovery(agents=_MISSING, key_names=_NAMES), _PLAIN)
    await stage.until("step 1 of 4")


@state()
async def second_step_trust(stage: Stage) -> None:
    await _first_run(stage, _FOUND, _UNTRUSTED)
    await stage.until("step 2 of 4")


@state()
async def third_step_mode(stage: Stage) -> None:
    await _first_run(stage, _FOUND, _PLAIN)
    await stage.until("step 3 of 4", "full-auto")


@state()
async def fourth_step_prompt(stage: Stage) -> None:
    await _first_run(stage, _FOUND, _PLAIN, ("mode",))
    await stage.until("step 4 of 4")


async def ten(fleet: StagedFleet, home: Path) -> None:
    """Ten agents: two ask, five work, one of them below another, three are done."""
    fleet.passed = 560_000_000  # shortly before the clock of the screen
    parser = await fleet.agent_at_work("parser", "Read dates with a time zone")
    docs = await fleet.agent_at_work("docs", "Bring the docs up to date", agent="codex")
    api = await fleet.agent_at_work("api", "Route by host", model="sonnet-4.5")
    cache = await fleet.agent_at_work("cache", "Cache the index", agent="gemini")
    lint = await fleet.agent_at_work("lint", "Fix what ruff finds", agent="native")
    search = await fleet.agent_at_work("search", "Search by words")
    index = await fleet.agent_at_work("idx", "Build the index", parent=search)
    steps = [
        PlanEntry(content="x", priority="low", status="completed" if n < 3 else "pending")
        for n in range(7)
    ]
    await fleet.tell(cache, PlanChanged(entries=tuple(steps)))
    await fleet.tool(api, "edit", "Edit src/routes.py", kind="edit", end=None)
    await fleet.tool(lint, "bash", "ruff check src", kind="execute", end=None)
    await fleet.tool(index, "read", "Read words.txt", kind="read", end=None)
    for session, count in ((api, 9), (cache, 3), (search, 20)):
        for _ in range(count):
            await fleet.tell(session, ThoughtChunk(content=text("hm")))
    for name, how in (("mobile", None), ("release", "closed"), ("build", "broken")):
        session = await fleet.agent_at_work(name, f"Work on {name}")
        await fleet.tell(session, MessageChunk(content=text("Ready.")), TurnEnded(stop="end_turn"))
        if how is not None:
            await fleet.tell(session, SessionEnded(how=how, reason="exit code 3"))  # pyright: ignore[reportArgumentType]
    for session, other, branch in ((api, cache, "qd/api"), (cache, api, "qd/cache")):
        tree = Worktree(path="/state/tree", repository="/work/project", base="1", branch=branch)
        both = ConflictFile(path="src/routes.py", kind="symbol", symbols=("Router.match",))
        fleet.infos[session] = replace(
            fleet.infos[session],
            worktree=tree,
            changes=ChangeCounts(files=2, added=41, removed=12),
            conflicts=(AgentConflict(other=other, files=(both,)),),
        )
    asked = command_asked()
    await fleet.ask(parser, asked)
    await fleet.ask(docs, question_asked())


@state(ten)
async def ten_agents_in_groups(stage: Stage) -> None:
    await calm(stage)
    await stage.until("needs you 2", "running 5", "lint")


@state(ten)
async def agents_grouped_by_lead(stage: Stage) -> None:
    await calm(stage)
    await stage.command("group", "lead")
    await stage.until("└ idx")


async def fifty(fleet: StagedFleet, home: Path) -> None:
    fleet.passed = 300_000_000
    for number in range(50):
        session = await fleet.agent_at_work(f"agent-{number:02}", f"Task number {number}")
        if number % 3 == 1:
            await fleet.tell(session, TurnEnded(stop="end_turn"))


@state(fifty)
async def fifty_agents(stage: Stage) -> None:
    await stage.until("running 33", "agent-00")
