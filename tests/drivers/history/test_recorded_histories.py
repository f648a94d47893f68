"""What real agents wrote to disk, read as events; the facts are the programs' own."""

from pathlib import Path
from typing import Any

import pytest

from quarterdeck.drivers.history.history import AgentHistory
from quarterdeck.drivers.history.reader import ReadTally
from quarterdeck.wire.content import TextContent
from quarterdeck.wire.events import (
    CompactionChanged,
    MessageChunk,
    Prompted,
    SessionChanged,
    ThoughtChunk,
    ToolCallEnded,
    ToolCallStarted,
    TurnEnded,
    TurnStarted,
    UsageReported,
)
from quarterdeck.wire.tool_calls import Diff
from quarterdeck.wire.usage import TokenUsage
from tests.support.history_homes import (
    CLAUDE,
    CLAUDE_SUB,
    CODEX,
    FIRST,
    GEMINI,
    LAB,
    OPENCODE,
    events_of,
    history_in,
    read_all,
    recorded_home,
)

IDS = {"claude": CLAUDE, "codex": CODEX, "gemini": GEMINI, "opencode": OPENCODE}


@pytest.fixture
def history(tmp_path: Path) -> AgentHistory:
    return history_in(recorded_home(tmp_path / "home"))


def said(events: list[Any], kind: type = MessageChunk) -> list[str]:
    return [
        e.content.text for e in events if isinstance(e, kind) and isinstance(e.content, TextContent)
    ]


def prompts(events: list[Any]) -> list[str]:
    return [e.content[0].text for e in events if isinstance(e, Prompted)]


def usages(events: list[Any]) -> list[TokenUsage | None]:
    return [e.usage for e in events if isinstance(e, TurnEnded)]


async def test_each_lists_what_worked_here_and_nothing_else(history: AgentHistory):
    listed = await history.list(Path(LAB))
    assert {past.id for past in listed.sessions} == {*IDS.values(), CLAUDE_SUB}
    assert not listed.failures
    assert [past.cwd for past in listed.sessions] == [LAB] * 5
    times = [past.updated for past in listed.sessions]
    assert times == sorted(times, reverse=True)
    assert (await history.list(Path("/home/dev"))).sessions == ()
    assert (await history.list(Path("/home/dev/lab/below"))).sessions == ()


@pytest.mark.parametrize(
    ("agent", "title", "version"),
    [
        ("claude", "scene:think why is the sky blue?", "2.1.325"),
        ("codex", "scene:shell run it", "0.166.0"),
        ("gemini", "scene:edit rename the greeting", None),
        ("opencode", "A scripted title", "1.18.33"),
    ],
)
async def test_a_session_has_the_facts_of_its_file(
    history: AgentHistory, agent: str, title: str, version: str | None
):
    past = await history.find(IDS[agent])
    assert (past.agent, past.title, past.version) == (agent, title, version)
    assert past.started and past.updated
    assert past == await history.find(IDS[agent][:12], agent=agent)


@pytest.mark.parametrize("agent", IDS)
async def test_turns_and_calls_keep_the_rules(history: AgentHistory, agent: str):
    past, tally = await history.find(IDS[agent]), ReadTally()
    places = await read_all(history, past, tally)
    assert (tally.skipped, tally.is_cut) == (0, False)
    assert places == await read_all(history, past)  # the same each time
    turn, calls = None, set[str]()
    for one in places:
        match one.event:
            case TurnStarted():
                assert turn is None
                turn = one.turn
            case TurnEnded():
                assert one.turn == turn and not calls
                turn = None
            case Prompted():
                assert turn is None
            case ToolCallStarted(call=call):
                assert one.turn == turn is not None and call not in calls
                calls.add(call)
            case ToolCallEnded(call=call):
                calls.remove(call)
            case MessageChunk() | ThoughtChunk():
                assert one.turn == turn is not None
            case _:
                pass
    assert turn is None
    times = [one.time or 0 for one in places]
    assert all(times) and abs(times[0] - past.started) < 3_000_000


async def test_claude_with_thoughts_tools_and_a_compaction(history: AgentHistory):
    events = await events_of(history, await history.find(CLAUDE))
    assert prompts(events) == [
        "scene:think why is the sky blue?",
        "scene:shell run it",
        "/compact",
        "scene:text after",
    ]
    assert said(events, ThoughtChunk) == ["Let me think about this."]
    assert said(events) == [
        "Thought and answered.",
        "Running a command.",
        "Command finished.",
        "Hello from the scripted model.",
    ]
    (call,) = [e for e in events if isinstance(e, ToolCallStarted)]
    assert (call.name, call.kind) == ("Bash", "execute")
    (ended,) = [e for e in events if isinstance(e, ToolCallEnded)]
    assert ended.status == "completed" and "scripted-output" in str(ended.content)
    statuses = [(e.status, e.summary) for e in events if isinstance(e, CompactionChanged)]
    assert statuses[0] == ("in_progress", None)
    assert statuses[1][0] == "completed" and "continued from a previous" in str(statuses[1][1])
    assert usages(events) == [
        TokenUsage(input=11605, output=12),
        TokenUsage(input=11658 + 11733, output=21 + 5),
        None,
        TokenUsage(input=12559, output=8),
    ]


async def test_a_sub_agent_of_claude_stands_within_its_call(history: AgentHistory):
    places = await read_all(history, await history.find(CLAUDE_SUB))
    (call,) = [p.event for p in places if isinstance(p.event, ToolCallStarted)]
    assert (call.name, call.title) == ("Task", "Task: count files")
    inner = [p.event for p in places if p.parent == call.call]
    assert said(inner) == ["You said: look at the files"]
    assert prompts([p.event for p in places]) == ["scene:sub"]


async def test_codex_with_a_denied_patch(history: AgentHistory):
    events = await events_of(history, await history.find(CODEX))
    assert prompts(events) == ["scene:shell run it", "scene:think why?", "scene:write please"]
    shell, patch = [e for e in events if isinstance(e, ToolCallStarted)]
    assert (shell.kind, shell.title) == (
        "execute",
        "touch made-by-shell.txt && echo scripted-output",
    )
    assert (patch.kind, patch.locations[0].path) == ("edit", "hello.txt")
    ends = [e for e in events if isinstance(e, ToolCallEnded)]
    assert [e.status for e in ends] == ["completed", "failed"]
    assert usages(events) == [
        TokenUsage(input=19164, output=27),
        TokenUsage(input=9978, output=12, thought=6),
        TokenUsage(input=20335, output=30),
    ]
    totals = [e.session_tokens for e in events if isinstance(e, UsageReported)]
    assert totals[-1] == TokenUsage(input=49477, output=69, thought=6)
    (model,) = [e.model for e in events if isinstance(e, SessionChanged)]
    assert model == "gpt-5.5"


async def test_gemini_which_writes_everything_anew_when_it_goes_on(history: AgentHistory):
    events = await events_of(history, await history.find(GEMINI))
    assert prompts(events) == [
        "scene:edit rename the greeting",
        "scene:think why?",
        "scene:shell run",
    ]
    names = [e.name for e in events if isinstance(e, ToolCallStarted)]
    assert names == ["write_file", "read_file", "replace", "run_shell_command"]
    diffs = [
        item
        for e in events
        if isinstance(e, ToolCallEnded) and isinstance(e.content, tuple)
        for item in e.content
        if isinstance(item, Diff)
    ]
    assert [(d.old_text, d.new_text) for d in diffs] == [
        (None, "hello from script\n"),
        ("hello from script\n", "goodbye from script\n"),
    ]
    assert usages(events) == [
        TokenUsage(input=47603, output=93),
        TokenUsage(input=12202, output=12, thought=6),
        TokenUsage(input=12230 + 12339, output=30),
    ]


async def test_opencode_with_its_database(history: AgentHistory):
    past = await history.find(OPENCODE)
    assert past.messages == 10
    events = await events_of(history, past)
    assert [one.strip('"') for one in prompts(events)] == [
        "scene:edit rename the greeting",
        "scene:think why?",
        "scene:shell run it",
    ]
    names = [e.name for e in events if isinstance(e, ToolCallStarted)]
    assert names == ["write", "read", "edit", "bash"]
    total = TokenUsage()
    for usage in usages(events):
        total += usage or TokenUsage()
    # The session's own row: 55340 in, 115 out, 6 of reasoning.
    assert total == TokenUsage(input=55340, output=115 + 6, thought=6)


async def test_words_are_found_with_the_place(history: AgentHistory):
    listed = await history.list(Path(LAB))
    hits = [hit async for hit in history.search("COMMAND finished.", listed.sessions)]
    assert {hit.past.agent for hit in hits} == set(FIRST)
    assert all("Command finished." in hit.snippet for hit in hits)
    assert [h async for h in history.search("nowhere-to-be-found", listed.sessions)] == []
    some = [hit async for hit in history.search('"sky blue"', listed.sessions)]
    assert [hit.past.id for hit in some] == [CLAUDE]
    assert len([h async for h in history.search("scene:", listed.sessions, limit=2)]) == 2
