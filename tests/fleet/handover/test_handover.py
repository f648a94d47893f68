"""Work goes from one agent to another of any vendor, in the middle of it, and nothing is lost."""

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from quarterdeck.drivers.errors import LoginNeededError, UnknownAgentError
from quarterdeck.fleet.api import AgentInfo, HandoverOptions, SpawnOptions
from quarterdeck.fleet.errors import AgentNotReadyError, InvalidOptionsError, NoSuchAgentError
from quarterdeck.fleet.handover.brief import CONTINUE_PROMPT
from quarterdeck.fleet.local import LocalFleet
from quarterdeck.fleet.mcp.tokens import TOKEN_VARIABLE
from quarterdeck.wire.content import TextContent, text
from quarterdeck.wire.events import (
    NoticePosted,
    PromptDropped,
    Prompted,
    SessionEnded,
    SessionSpawned,
)
from quarterdeck.wire.session_options import SessionOptions
from quarterdeck.wire.worktrees import WorktreeOptions
from tests.support.deadlines import SOON
from tests.support.puppet_fleet import leading
from tests.support.scripted_fleet import (
    Casting,
    PlayedLink,
    events_of,
    fleet_of,
    new_agent,
    places_in,
)
from tests.support.work_trees import new_repository


@pytest.fixture
def casting() -> Casting:
    return Casting()


@pytest.fixture
async def fleet(tmp_path: Path, casting: Casting) -> AsyncIterator[LocalFleet]:
    async with fleet_of(tmp_path / "home", casting) as fleet:
        yield fleet


def to(agent: str, **fields) -> HandoverOptions:
    return HandoverOptions(to=agent, **fields)


async def start(fleet: LocalFleet, cwd: Path, prompt: str = "mend the parser", **fields):
    await fleet.spawn(new_agent(cwd, name="old", prompt=prompt, **fields))
    await fleet.wait(["old"], timeout=SOON)


async def prompts_of(fleet: LocalFleet, name: str) -> list[tuple[str, ...]]:
    prompted = [e for e in await events_of(fleet, name) if isinstance(e, Prompted)]
    return [tuple(b.text for b in e.content if isinstance(b, TextContent)) for e in prompted]


async def rested(fleet: LocalFleet, name: str) -> AgentInfo:
    (info,) = await fleet.wait([name], timeout=SOON)
    return info


async def until_said(fleet: LocalFleet, name: str, words: str) -> None:
    async with asyncio.timeout(SOON):
        async for record in fleet.follow(0, agent=name):
            if words in str(record.event):
                return


async def test_the_new_agent_gets_the_brief_and_the_old_one_is_closed(
    fleet: LocalFleet, tmp_path: Path
):
    await start(fleet, tmp_path, deny=("bash(rm:*)",))
    new = await fleet.hand_over("old", to("codex", name="new", prompt="now the printer"))
    await rested(fleet, "new")
    ((brief, task),) = await prompts_of(fleet, "new")
    assert "(claude, called 'old')" in brief and task == "now the printer"
    assert all(line.startswith("| ") for line in brief.splitlines() if "parser" in line)
    assert "read_earlier_transcript" in brief and new.cwd == str(tmp_path)
    old = await fleet.agent("old")
    assert (old.state, old.is_live, old.can_resume) == ("done", False, True)
    events = await events_of(fleet, "new")
    (spawned,) = [one for one in events if isinstance(one, SessionSpawned)]
    assert spawned.continues == old.session
    assert spawned.options.deny == ("bash(rm:*)",)
    assert "continues the work of 'old'" in [e.title for e in events if isinstance(e, NoticePosted)]
    (ended,) = [e for e in await events_of(fleet, "old") if isinstance(e, SessionEnded)]
    assert (ended.how, ended.reason) == ("closed", "handed over to 'new' (codex)")
    assert (await fleet.agent("new")).title == old.title


async def test_a_running_turn_ends_and_queued_prompts_go_along(fleet: LocalFleet, tmp_path: Path):
    await fleet.spawn(new_agent(tmp_path, name="old", prompt="wait"))
    await until_said(fleet, "old", "waiting")
    await fleet.send("old", (text("then the tests"),))
    await fleet.send("old", (text("then the docs"),))
    await fleet.hand_over("old", to("codex", name="new"))
    await rested(fleet, "new")
    told = await prompts_of(fleet, "new")
    assert [one[-1] for one in told] == [CONTINUE_PROMPT, "then the tests", "then the docs"]
    assert await prompts_of(fleet, "old") == [("wait",)]
    dropped = [e for e in await events_of(fleet, "old") if isinstance(e, PromptDropped)]
    assert [e.reason for e in dropped] == ["handed over to 'new' (codex)"] * 2
    assert (await fleet.agent("old")).queue == ()


async def test_an_agent_that_is_kept_keeps_its_queue_and_can_go_on(
    fleet: LocalFleet, tmp_path: Path
):
    await start(fleet, tmp_path)
    await fleet.hand_over("old", to("codex", name="new", keep=True))
    assert (await fleet.agent("old")).is_live
    await fleet.send("old", (text("say more"),))
    await rested(fleet, "old")
    assert (await prompts_of(fleet, "old"))[-1] == ("say more",)


async def test_a_summary_of_the_old_agent_is_in_the_brief(fleet: LocalFleet, tmp_path: Path):
    await start(fleet, tmp_path)
    await fleet.hand_over("old", to("codex", name="new", summary=True))
    await rested(fleet, "new")
    ((brief, _),) = await prompts_of(fleet, "new")
    # The played agent says what it is told.
    assert "| Its own summary:\n| Another agent will continue your work." in brief
    assert "The latest prompts" not in brief


@pytest.mark.parametrize("failure", [LoginNeededError("codex: not logged in"), None])
async def test_a_new_agent_that_does_not_start_leaves_the_old_one_at_its_work(
    fleet: LocalFleet, casting: Casting, tmp_path: Path, failure: Exception | None
):
    await fleet.spawn(new_agent(tmp_path, name="old", prompt="wait"))
    await until_said(fleet, "old", "waiting")
    casting.failure = failure or OSError("no program 'codex' in PATH")
    with pytest.raises(AgentNotReadyError, match=r"codex did not start, so 'old' keeps its work: "):
        await fleet.hand_over("old", to("codex", name="new"))
    assert (await fleet.agent("old")).state == "running"
    assert [one.name for one in await fleet.agents()] == ["old"]
    casting.failure = None
    await fleet.hand_over("old", to("codex", name="new"))
    assert (await rested(fleet, "new")).state == "idle"


async def test_what_cannot_be_is_said_and_changes_nothing(fleet: LocalFleet, tmp_path: Path):
    await start(fleet, tmp_path)
    with pytest.raises(UnknownAgentError):
        await fleet.hand_over("old", to("nobody"))
    with pytest.raises(NoSuchAgentError):
        await fleet.hand_over("none", to("codex"))
    with pytest.raises(InvalidOptionsError, match="a claude agent already; resume or fork"):
        await fleet.hand_over("old", to("claude"))
    await fleet.spawn(new_agent(tmp_path, name="empty"))
    await fleet.wait(["empty"], timeout=SOON)
    with pytest.raises(AgentNotReadyError, match="no work to hand over"):
        await fleet.hand_over("empty", to("codex"))
    assert [one.is_live for one in await fleet.agents()] == [True, True]


async def test_an_open_request_is_answered_first(fleet: LocalFleet, tmp_path: Path):
    await fleet.spawn(new_agent(tmp_path, name="old", prompt="ask rm -rf build"))
    await fleet.wait(["old"], timeout=SOON)
    with pytest.raises(AgentNotReadyError, match=r"waits for an answer; answer it"):
        await fleet.hand_over("old", to("codex"))
    (item,) = await fleet.inbox()
    assert await fleet.answer(item.request, "no", feedback="not there")
    await rested(fleet, "old")
    await fleet.hand_over("old", to("codex", name="new"))
    await rested(fleet, "new")
    ((brief, _),) = await prompts_of(fleet, "new")
    assert "| - not allowed by the person: rm -rf build: not there" in brief


async def test_a_finished_agent_is_handed_over_from_its_log(fleet: LocalFleet, tmp_path: Path):
    await start(fleet, tmp_path)
    await fleet.kill("old")
    await fleet.hand_over("old", to("codex", name="new"))
    await rested(fleet, "new")
    ((brief, _),) = await prompts_of(fleet, "new")
    assert "| mend the parser" in brief
    (noted,) = [e for e in await events_of(fleet, "old") if isinstance(e, NoticePosted)]
    assert noted.title == "handed over to 'new' (codex)"


async def test_two_hand_overs_at_once_are_one(fleet: LocalFleet, casting: Casting, tmp_path: Path):
    await start(fleet, tmp_path)
    casting.hold = asyncio.Event()
    casting.starting_now.clear()
    first = asyncio.ensure_future(fleet.hand_over("old", to("codex", name="new")))
    await asyncio.wait_for(casting.starting_now.wait(), SOON)
    with pytest.raises(AgentNotReadyError, match="being handed over already"):
        await fleet.hand_over("old", to("gemini", name="newer"))
    casting.hold.set()
    await first
    assert sorted(one.name for one in await fleet.agents()) == ["new", "old"]


async def test_a_chain_keeps_the_goal_and_adds_the_tasks(fleet: LocalFleet, tmp_path: Path):
    await start(fleet, tmp_path)
    for number, (agent, task) in enumerate((("codex", "now the printer"), ("gemini", None))):
        name = "old" if number == 0 else "n0"
        await fleet.hand_over(name, to(agent, name=f"n{number}", prompt=task))
        await rested(fleet, f"n{number}")
    ((brief, task),) = await prompts_of(fleet, "n1")
    assert "| The first prompt:\n| mend the parser" in brief and task == CONTINUE_PROMPT
    assert "| - now the printer" in brief
    assert brief.count("You take over") == 1 + brief.count("| You take over") <= 2
    found = await fleet.handover_brief("n1")
    assert (found.goal, found.earlier, found.agent) == ("mend the parser", 2, "gemini")


async def test_the_transcript_can_be_read_page_by_page_with_a_tool(
    fleet: LocalFleet, casting: Casting, tmp_path: Path
):
    await start(fleet, tmp_path, "say the key is sk-abcdefghijklmnop")
    for word in range(12):
        await fleet.send("old", (text(f"say {word} " + "x" * 200),))
    await rested(fleet, "old")
    await fleet.hand_over("old", to("native", transport="acp", name="new"))
    await rested(fleet, "new")
    link: PlayedLink = casting.links[-1]
    assert [one.name for one in link.host.opening.options.mcp_servers] == ["quarterdeck"]
    token = link.host.opening.options.mcp_servers[0].variables[TOKEN_VARIABLE]
    endpoint = fleet._tools.endpoint_of(token)  # pyright: ignore[reportPrivateUsage]
    assert endpoint is not None
    read, cursor = [], None
    for _ in range(20):
        arguments = {"characters": 500} | ({"cursor": cursor} if cursor else {})
        page = await endpoint.toolset.call("read_earlier_transcript", arguments)
        assert not page.is_error and page.data is not None
        read.insert(0, page.data["text"])
        cursor = page.data["earlier"]
        if cursor is None:
            break
    whole = "\n".join(read)
    assert "prompt: say the key is …" in whole and "sk-abc" not in whole
    assert all(f"prompt: say {word} " in whole for word in range(12)) and len(read) > 3
    assert list(endpoint.toolset.tools) == ["read_earlier_transcript"]
    bad = await endpoint.toolset.call("read_earlier_transcript", {"back": 2})
    assert bad.is_error and "Only 1 worked on this before you" in bad.text
    bad = await endpoint.toolset.call("read_earlier_transcript", {"cursor": "x"})
    assert bad.is_error


async def test_children_stay_with_the_new_lead(fleet: LocalFleet, tmp_path: Path):
    await fleet.spawn(new_agent(tmp_path, name="old", prompt="say hello", lead=True))
    old = (await fleet.wait(["old"], timeout=SOON))[0].session
    await fleet.spawn(new_agent(tmp_path, name="kid", prompt="say hi", parent=old))
    await rested(fleet, "kid")
    new = await fleet.hand_over("old", to("codex", name="new"))
    await rested(fleet, "new")
    assert (await fleet.agent("kid")).parent == new.session
    assert [one.name for one in await fleet.agents(parent=new.session)] == ["kid"]
    words = "".join((await prompts_of(fleet, "new"))[0])
    assert "| - kid (claude, idle)" in words
    await fleet.resume("old")
    await fleet.wait(["old"], timeout=SOON)
    assert (await fleet.agent("kid")).parent == old


async def test_a_lead_hands_over_its_own_agents_and_no_others(tmp_path: Path):
    async with leading(tmp_path) as led:
        boss = await led.lead()
        await led.call("boss", "spawn_agent", name="one", task="say eins", agent="codex")
        await led.call("boss", "wait_for")
        done = await led.call("boss", "hand_over_agent", agent="one", to="gemini", task="say zwei")
        assert not done.is_error, done.text
        assert "continues the work of one, which is closed" in done.text
        name = done.data["name"]
        waited = await led.call("boss", "wait_for", agents=[name])
        # A played agent says the first block of what it is sent.
        assert "You take over the work of another coding agent (codex, called 'one')" in waited.text
        ((brief, task),) = await prompts_of(led.fleet, name)
        assert "| say eins" in brief and task == "say zwei"
        info = await led.fleet.agent(name)
        assert (info.agent, info.parent, info.mode) == ("gemini", boss.session, "ask")
        for wrong in ({"agent": "boss", "to": "codex"}, {"agent": name, "to": "nobody"}):
            assert (await led.call("boss", "hand_over_agent", **wrong)).is_error


async def test_the_worktree_goes_along_and_the_brief_has_the_diff(tmp_path: Path):
    repository = tmp_path / "project"
    await asyncio.to_thread(new_repository, repository, {"a.txt": "first\n"})
    host = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    async with LocalFleet.open(places_in(tmp_path / "home"), host, open_session=Casting()) as fleet:
        options = SessionOptions(agent="claude", cwd=str(repository), worktree=WorktreeOptions())
        await fleet.spawn(SpawnOptions(options=options, name="old", prompt="say hello"))
        old = await rested(fleet, "old")
        assert old.worktree is not None
        (Path(old.worktree.path) / "a.txt").write_text("second\n")
        new = await fleet.hand_over("old", to("codex", name="new"))
        await rested(fleet, "new")
        assert new.worktree is not None and new.cwd == old.cwd
        assert (new.worktree.path, new.worktree.base) == (old.worktree.path, old.worktree.base)
        ((brief, _),) = await prompts_of(fleet, "new")
        assert "| -first\n| +second" in brief
        changes = await fleet.changes("new")
        assert [one.path for one in changes.files] == ["a.txt"]
