"""The states of a screen that are about agents: none, at work, asking, failed, many."""

import asyncio
from pathlib import Path

from msgspec.structs import replace

from quarterdeck.drivers.errors import AgentMissingError
from quarterdeck.fleet.api import QueuedPrompt
from quarterdeck.fleet.errors import HostVersionError
from quarterdeck.fleet.permissions.workspace_trust import TrustEffect, WorkspaceTrust
from quarterdeck.wire.content import text
from quarterdeck.wire.events import (
    CommandsChanged,
    MessageChunk,
    NoticePosted,
    PermissionAnswered,
    PermissionAsked,
    PlanChanged,
    QuestionAsked,
    SessionChanged,
    SessionEnded,
    ThoughtChunk,
    ToolCallUpdated,
    TurnEnded,
)
from quarterdeck.wire.ids import MessageId, RequestId, SessionId, ToolCallId
from quarterdeck.wire.permissions import Decider, PermissionOption, Selected
from quarterdeck.wire.settings import Command, PlanEntry
from quarterdeck.wire.tool_calls import ContentItem, Diff
from quarterdeck.wire.usage import TokenUsage
from quarterdeck.workbench.screens.key_guard import QUIET
from quarterdeck.workbench.screens.trust import TrustScreen
from quarterdeck.workbench.stores.discovery import DiscoveredAgent, MachineDiscovery
from quarterdeck.workbench.widgets.agent_table import AgentTable

from .staged_workbench import Stage, StagedFleet, state
from .workbench_app import until

__all__ = ["at_work", "calm", "many"]

_OPTIONS = (
    PermissionOption(option_id="1", name="Allow once", kind="allow_once"),
    PermissionOption(option_id="2", name="Allow `pytest` in this session", kind="allow_always"),
    PermissionOption(option_id="3", name="Deny", kind="reject_once"),
)
_OLD = "def read(line):\n    return line.split(',')\n"
_NEW = "def read(line):\n    # quoted commas stay\n    return next(csv.reader([line]))\n"
_ANSWER = """\
The parser split lines at **every** comma. I now use `csv.reader`:

1. `src/parser.py`: reads quoted fields
2. `tests/test_parser.py`: three cases more

| case | before | now |
|---|---|---|
| `a,b` | 2 | 2 |
| `"a,b"` | 2 | 1 |

```python
assert read('"a,b"') == ["a,b"]
```
"""


async def at_work(fleet: StagedFleet, home: Path | None = None) -> SessionId:
    """One agent in the middle of a turn, with a plan, thoughts and tool calls."""
    ann = await fleet.agent_at_work("ann", "Fix the parser: quoted commas are split")
    plan = (("Find where lines are split", "completed"), ("Use csv.reader", "in_progress"),
            ("Run the tests", "pending"))  # fmt: skip
    entries = tuple(PlanEntry(content=c, priority="medium", status=s) for c, s in plan)  # pyright: ignore[reportArgumentType]
    await fleet.tell(
        ann, ThoughtChunk(content=text("The split is in read().\nI should look at its callers."))
    )
    await fleet.tell(ann, PlanChanged(entries=entries))
    await fleet.tool(ann, "grep", "split(',') in src", kind="search")
    edited = Diff(path="src/parser.py", old_text=_OLD, new_text=_NEW)
    await fleet.tool(ann, "edit", "src/parser.py", kind="edit", content=(edited,))
    failed = await fleet.tool(
        ann, "bash", "pytest -q tests/test_parser.py", kind="execute", end=None
    )
    await fleet.tell(
        ann,
        ToolCallUpdated(call=failed, content=(ContentItem(content=text("collected 14 items")),)),
    )
    return ann


async def idle(fleet: StagedFleet, home: Path) -> None:
    ann = await at_work(fleet)
    await fleet.tell(
        ann,
        MessageChunk(content=text(_ANSWER)),
        TurnEnded(stop="end_turn", usage=TokenUsage(input=9_100, output=820)),
    )


async def many(fleet: StagedFleet, home: Path) -> None:
    """Agents in every state, a child among them, and one that is put away."""
    ann = await at_work(fleet)
    await fleet.agent_at_work("docs", "Write the guide", agent="codex", model="gpt-6", parent=ann)
    bob = await fleet.agent_at_work(
        "bob", "Upgrade the build", agent="gemini", model="gemini-4-pro"
    )
    await fleet.tell(bob, SessionEnded(how="broken", reason="gemini ended with exit code 3"))
    cleo = await fleet.agent_at_work("cleo-of-a-long-name", "Count the tests")
    await fleet.tell(cleo, MessageChunk(content=text("There are 214.")), TurnEnded(stop="end_turn"))
    dora = await fleet.agent_at_work("dora", "Remove dead code", agent="native", model="haiku-5")
    await fleet.ask(dora, command_asked())
    old = await fleet.agent_at_work("old", "Long ago")
    await fleet.tell(old, SessionEnded(how="closed"), SessionChanged(archived=True))


def command_asked(number: int = 1) -> PermissionAsked:
    return PermissionAsked(
        request=RequestId(f"req_{number}"), call=ToolCallId(f"asked_{number}"),
        title="pytest -q && rm -rf build", name="bash", kind="execute", options=_OPTIONS,
        raw_input={"command": "pytest -q && rm -rf build", "timeout": 60},
        reason="no rule allows rm",
    )  # fmt: skip


def question_asked() -> QuestionAsked:
    form = {
        "type": "object",
        "properties": {
            "database": {"title": "Which database?", "enum": ["sqlite", "postgres"]},
            "parts": {
                "type": "array",
                "title": "Which parts?",
                "items": {"enum": ["api", "cli", "docs"]},
            },
            "why": {"type": "string", "title": "Else?", "description": "told to the agent"},
        },
        "required": ["database"],
    }
    return QuestionAsked(request=RequestId("req_q"), text="Before I migrate the store:", form=form)


async def _ready(stage: Stage) -> None:
    await stage.pilot.pause(QUIET + 0.05)


# Nobody yet


@state()
async def welcome(stage: Stage) -> None:
    await stage.until("Start with")


@state()
async def welcome_with_what_is_found(stage: Stage) -> None:
    claude = DiscoveredAgent(name="claude", title="Claude Code", is_here=True, login="no")
    codex = DiscoveredAgent(
        name="codex", title="Codex", is_here=False, install="npm install -g @openai/codex"
    )
    desk = stage.app.context
    desk.discovery.found = MachineDiscovery(
        agents=(claude, codex), key_names=("ANTHROPIC_API_KEY",)
    )
    acts = (TrustEffect(path="AGENTS.md", what="is read by agents"),)
    desk.discovery.trust = WorkspaceTrust(root="/work/project", state="untrusted", acts=acts)
    desk.changed()
    await stage.until("not trusted")


async def _never(starts: bool) -> None:
    await asyncio.Event().wait()


async def _too_new(starts: bool) -> None:
    raise HostVersionError(9, "2.0")


@state(reach=_never)
async def connecting(stage: Stage) -> None:
    await stage.until("host: connecting")


@state(idle)
async def host_lost(stage: Stage) -> None:
    await stage.fleet.lose()
    await stage.until("host: lost")


@state()
async def host_lost_with_no_agent(stage: Stage) -> None:
    await stage.fleet.lose()
    await stage.until("The host stopped", "no host is running")


@state(reach=_too_new)
async def host_failed(stage: Stage) -> None:
    await stage.until("host: unusable", "retry")


@state()
async def trust_question(stage: Stage) -> None:
    acts = (
        TrustEffect(path="AGENTS.md", what="is read by every agent that starts here"),
        TrustEffect(path=".quarterdeck/config.toml", what="allows bash(make *) without asking"),
        TrustEffect(path=".mcp.json", what="starts the programs 'npx' and 'uvx'"),
    )
    trust = WorkspaceTrust(root="/work/project", state="untrusted", acts=acts)
    stage.app.push_screen(TrustScreen(trust))
    await stage.until("never ask again")


# One agent


async def _waiting_for_a_prompt(fleet: StagedFleet, home: Path) -> None:
    await fleet.agent_at_work("ann")


@state(_waiting_for_a_prompt)
async def agent_without_a_prompt(stage: Stage) -> None:
    stage.app.main.show_agent(next(iter(stage.fleet.infos)))
    await stage.until("Ready. Type a task below", "# a note")


@state(idle)
async def one_agent_idle(stage: Stage) -> None:
    await stage.until("assert read")


@state(at_work)  # pyright: ignore[reportArgumentType]
async def running_with_a_plan_and_tools(stage: Stage) -> None:
    await stage.until("1/3", "pytest -q tests/test_parser.py")


@state(at_work)  # pyright: ignore[reportArgumentType]
async def tools_unfolded(stage: Stage) -> None:
    await stage.until("1/3")
    await stage.press("ctrl+o")
    await stage.until("quoted commas stay")


@state(at_work)  # pyright: ignore[reportArgumentType]
async def streaming(stage: Stage) -> None:
    session = next(iter(stage.fleet.infos))
    for part in ("The parser split", " lines at **every", "** comma. So `read(", "line)` was"):
        await stage.fleet.tell(session, MessageChunk(content=text(part)))
    await stage.until("read(line) was")


async def long_transcript(fleet: StagedFleet, home: Path) -> None:
    ann = await fleet.agent_at_work("ann", "Tell a long story")
    for number in range(1, 81):
        await fleet.tell(
            ann, ThoughtChunk(content=text("hm")),
            MessageChunk(content=text(f"Chapter {number}: the ship sails on.")),
        )  # fmt: skip


@state(long_transcript)
async def scrolled_up(stage: Stage) -> None:
    await stage.until("Chapter 80")
    await stage.press("f3", "g")
    await stage.until("Tell a long story")
    await stage.press("j", "j")


@state(long_transcript)
async def search_open(stage: Stage) -> None:
    await stage.until("Chapter 80")
    await stage.press("f3", "ctrl+f", *"ter 40")
    await stage.press("enter")
    await stage.until("Chapter 40:", "1 of 1")


@state(idle)
async def draft_of_several_lines(stage: Stage) -> None:
    await stage.press(*"And now", "ctrl+j", *"the docs", "ctrl+j", *"please")
    await stage.until("please")


@state(idle)
async def completion_of_a_command(stage: Stage) -> None:
    session = next(iter(stage.fleet.infos))
    commands = (Command(name="compact", description="forget what is old"),)
    await stage.fleet.tell(session, CommandsChanged(commands=commands))
    await stage.press(*"/co")
    await stage.until("/copy")


@state(files=True)
async def completion_of_a_file(stage: Stage) -> None:
    await stage.press(*"see @par")
    await stage.until("parser.py src")


async def queued(fleet: StagedFleet, home: Path) -> None:
    ann = await at_work(fleet)
    prompts = ("Then run the linter", "And tell me\nwhat is left", "Commit", "Rest")
    waiting = tuple(
        QueuedPrompt(message=MessageId(f"q{n}"), content=(text(words),))
        for n, words in enumerate(prompts)
    )
    fleet.infos[ann] = replace(fleet.infos[ann], queue=waiting)


@state(queued)
async def prompts_that_wait(stage: Stage) -> None:
    await stage.until("Then run the linter", "2 more queued")


@state(queued)
async def queue_editor(stage: Stage) -> None:
    await stage.until("Then run the linter")
    await stage.command("queue")
    await stage.until("Rest")


# Deciding


async def _asked(stage: Stage, asked: PermissionAsked | QuestionAsked) -> None:
    session = next(iter(stage.fleet.infos))
    await stage.until("pytest -q")
    await stage.fleet.ask(session, asked)
    roster = stage.app.context.roster
    words = ("needs permission", "wants to", "asks")
    await until(
        stage.pilot,
        lambda: (agent := roster.find(session)) and roster.doing(agent).startswith(words),
    )
    await until(stage.pilot, lambda: stage.app.context.inbox.items)
    for table in stage.app.query(AgentTable):
        table.update()  # whichever of the two came first


@state(at_work)  # pyright: ignore[reportArgumentType]
async def permission_for_a_command(stage: Stage) -> None:
    await _asked(stage, command_asked())
    await stage.until("y allow once", "esc later", "no rule allows rm")


@state(at_work)  # pyright: ignore[reportArgumentType]
async def permission_for_a_change(stage: Stage) -> None:
    asked = replace(
        command_asked(), title="Edit src/parser.py", name="edit", kind="edit", raw_input=None,
        content=(Diff(path="src/parser.py", old_text=_OLD, new_text=_NEW),), reason=None,
    )  # fmt: skip
    await _asked(stage, asked)
    await stage.until("y allow once", "quoted commas stay")


@state(at_work)  # pyright: ignore[reportArgumentType]
async def permission_for_a_long_command(stage: Stage) -> None:
    command = "\n".join(f"echo 'line {n} of a long script' >> out.txt" for n in range(1, 60))
    await _asked(stage, replace(command_asked(), title="a script", raw_input={"command": command}))
    await stage.until("y allow once", "line 1 of")


def codex_asked(number: int = 1) -> PermissionAsked:
    """As an agent asks that has options of its own besides ours."""

    def ours(id_: str, kind: str, scope: str, *patterns: str) -> PermissionOption:
        meaning = {"effect": kind.partition("_")[0], "scope": scope, "patterns": list(patterns)}
        name = f"Always allow {scope}: {', '.join(patterns)}" if patterns else kind
        return PermissionOption(option_id=id_, name=name, kind=kind, meta={"quarterdeck": meaning})

    options = (
        ours("allow-once", "allow_once", "call"),
        ours("allow-session-1", "allow_always", "session", "bash(pytest -q tests)"),
        ours("allow-session-2", "allow_always", "session", "bash(pytest:*)"),
        ours("allow-project-1", "allow_always", "project", "bash(pytest -q tests)"),
        ours("allow-project-2", "allow_always", "project", "bash(pytest:*)"),
        ours("reject-once", "reject_once", "call"),
        PermissionOption(option_id="approved", name="Yes, proceed", kind="allow_once"),
        PermissionOption(
            option_id="session", name="Yes, and don't ask again (kept by codex itself)",
            kind="allow_always",
        ),
        PermissionOption(option_id="abort", name="No, and tell Codex", kind="reject_once"),
    )  # fmt: skip
    return replace(
        command_asked(number), title="pytest -q tests", options=options, reason=None,
        raw_input={"command": ["bash", "-lc", "pytest -q tests"], "cwd": "/work/project"},
        content=(ContentItem(content=text("pytest -q tests")),),
    )  # fmt: skip


@state(at_work)  # pyright: ignore[reportArgumentType]
async def permission_with_every_choice(stage: Stage) -> None:
    await _asked(stage, codex_asked())
    await stage.until("allow pytest -q tests for this session", "3 more")
    await _ready(stage)
    await stage.press("m")
    await stage.until("don't ask again")


async def decided_before(fleet: StagedFleet, home: Path | None = None) -> SessionId:
    """An agent whose requests of this week were answered, most of them by allowing."""
    zoe = await fleet.agent_at_work("zoe", "")
    answers = [("pytest -q tests", "allow-once")] * 5 + [("git push", "reject-once")] * 2
    answers += [("pytest -q tests/slow", "reject-once"), ("make docs", "allow-once")]
    for number, (command, option) in enumerate(answers, 100):
        asked = replace(codex_asked(number), title=command, raw_input={"command": command})
        outcome = Selected(option_id=option)
        person = Decider(kind="person", name="ada")
        answered = PermissionAnswered(
            request=asked.request, call=asked.call, outcome=outcome, by=person
        )
        await fleet.tell(zoe, asked, answered)
    return await at_work(fleet)


async def _asked_by_ann(stage: Stage, asked: PermissionAsked) -> None:
    session = next(id_ for id_, info in stage.fleet.infos.items() if info.name == "ann")
    stage.app.main.show_agent(session)
    await stage.until("pytest -q")
    await stage.fleet.ask(session, asked)
    await until(stage.pilot, lambda: stage.app.context.inbox.items)


@state(decided_before)  # pyright: ignore[reportArgumentType]
async def permission_with_its_past(stage: Stage) -> None:
    await _asked_by_ann(stage, codex_asked())
    await stage.until("would have answered 5 of 9 requests of this week, none that you denied")


@state(decided_before)  # pyright: ignore[reportArgumentType]
async def permission_against_a_denial(stage: Stage) -> None:
    await _asked_by_ann(stage, codex_asked())
    await stage.until("would have answered 5 of 9 requests of this week", "3 more")
    await _ready(stage)
    await stage.press("m")
    await stage.until("would have answered 6 of 9 requests of this week, 1 that you denied")


async def two_alike(fleet: StagedFleet, home: Path) -> None:
    await fleet.agent_at_work("ann", "Fix the parser")
    for number, name in enumerate(("bob", "cleo"), 1):
        session = await fleet.agent_at_work(name, f"Task of {name}", agent="codex")
        await fleet.ask(session, codex_asked(number))


@state(two_alike)
async def permission_for_another_agent(stage: Stage) -> None:
    await calm(stage)
    stage.app.main.show_agent(next(iter(stage.fleet.infos)))
    await stage.until("❯ Fix the parser")
    await stage.press("ctrl+g")
    await stage.until("bob wants to run a command", "1 of 2, 1 alike")


@state(at_work)  # pyright: ignore[reportArgumentType]
async def permission_while_typing(stage: Stage) -> None:
    await stage.press(*"half a thought")
    await _asked(stage, codex_asked())
    await stage.until("allow pytest -q tests for this session", "ctrl+g answer")


@state(at_work)  # pyright: ignore[reportArgumentType]
async def denied_with_a_reason(stage: Stage) -> None:
    await _asked(stage, command_asked())
    await stage.until("y allow once", "no rule allows rm")
    await _ready(stage)
    await stage.press("d", *"leave build alone")
    await stage.until("leave build alone")


@state(at_work)  # pyright: ignore[reportArgumentType]
async def question_form(stage: Stage) -> None:
    await _asked(stage, question_asked())
    await stage.until("Which database?")
    await stage.press("down", "enter")


@state(at_work)  # pyright: ignore[reportArgumentType]
async def after_a_denial(stage: Stage) -> None:
    session = next(iter(stage.fleet.infos))
    call = await stage.fleet.tool(session, "bash", "rm -rf build", kind="execute", end=None)
    await stage.fleet.tell(
        session,
        PermissionAnswered(
            request=RequestId("r"), call=call, outcome=Selected(option_id="3"), kind="reject_once",
            by=Decider(kind="person"), feedback="leave build alone",
        ),
        NoticePosted(title="Rate limit near", severity="warning", description="82 % of this hour"),
    )  # fmt: skip
    await stage.until("leave build alone", "82 %")


async def three_ask(fleet: StagedFleet, home: Path) -> None:
    for number, name in enumerate(("ann", "bob", "cleo")):
        session = await fleet.agent_at_work(name, f"Task of {name}")
        asked = question_asked() if name == "bob" else command_asked(number)
        await fleet.ask(session, asked)


@state(three_ask)
async def inbox_with_three(stage: Stage) -> None:
    await calm(stage)
    await stage.until("Task of")


# Failing, many


async def missing(fleet: StagedFleet, home: Path) -> None:
    ann = await fleet.agent_at_work("ann", "Fix the parser")
    reason = str(
        AgentMissingError("claude", "claude", "PATH", "npm install -g @anthropic-ai/claude-code")
    )
    await fleet.tell(ann, SessionEnded(how="broken", reason=reason))


async def crashed(fleet: StagedFleet, home: Path) -> None:
    ann = await at_work(fleet)
    reason, stderr = "claude ended with exit code 139", "node: bad alloc\nSegmentation fault"
    await fleet.tell(ann, SessionEnded(how="broken", reason=reason, stderr=stderr))


@state(missing)
async def agent_is_not_installed(stage: Stage) -> None:
    await stage.until("start another agent")


@state(crashed)
async def agent_crashed(stage: Stage) -> None:
    await stage.until("Segmentation fault", "start another agent")


async def calm(stage: Stage) -> None:
    """Put off what an agent asks, so that the main screen is seen."""
    await until(stage.pilot, lambda: stage.app.requests.current is not None)
    await _ready(stage)
    await stage.press("escape")
    await until(stage.pilot, lambda: stage.app.requests.current is None)


async def _to_table(stage: Stage) -> None:
    await stage.press("f2")
    await until(stage.pilot, lambda: isinstance(stage.app.focused, AgentTable))


@state(many)
async def many_agents(stage: Stage) -> None:
    await calm(stage)


@state(many)
async def agents_put_away_are_shown(stage: Stage) -> None:
    await calm(stage)
    await _to_table(stage)
    await stage.press("z")
    await until(stage.pilot, lambda: stage.app.context.roster.shows_archived)


@state(many)
async def agents_sorted_and_filtered(stage: Stage) -> None:
    await calm(stage)
    await _to_table(stage)
    await stage.press("s", "slash", *"o")
    await stage.until("esc show all")


@state(many)
async def kill_is_confirmed(stage: Stage) -> None:
    await calm(stage)
    await _to_table(stage)
    await stage.press("k")
    await stage.until("y kill")
