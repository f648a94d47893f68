"""When the vendor of an agent fails, the next one of the list continues: each once, and said."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from quarterdeck.drivers.errors import AgentMissingError, LoginNeededError
from quarterdeck.drivers.link import TurnOutcome
from quarterdeck.fleet.api import AgentInfo, HandoverOptions
from quarterdeck.fleet.local import LocalFleet
from quarterdeck.wire.budgets import parse_limit
from quarterdeck.wire.content import TextContent, text
from quarterdeck.wire.errors import LinkBrokenError
from quarterdeck.wire.events import NoticePosted, Prompted, RateLimited, SessionSpawned
from tests.support.deadlines import SOON
from tests.support.scripted_fleet import Casting, PlayedLink, events_of, fleet_of, new_agent

LIST = ("codex", "gemini")


class BadLink(PlayedLink):
    """Agents of the vendors that a test names fail in the way that it names."""

    async def start(self, host):
        failure = self.casting.failures.get(self.agent)
        if isinstance(failure, Exception):
            raise failure
        return await super().start(host)

    @property
    def agent(self) -> str:
        return self.start_.spawn.options.agent

    async def prompt(self, content) -> TurnOutcome:
        failure = self.casting.failures.get(self.agent)
        if failure == "crash":
            return await self._crash("")
        if failure == "fail":
            return await self._fail("the model is overloaded")
        if failure == "held back":
            for _ in range(3):
                await self.host.emit(RateLimited(reason="too many requests"))
            return await self._wait("")
        return await super().prompt(content)


class BadCasting(Casting):
    def __init__(self) -> None:
        super().__init__()
        self.make = BadLink
        self.failures: dict[str, object] = {}


@pytest.fixture
def casting() -> BadCasting:
    return BadCasting()


@pytest.fixture
async def fleet(tmp_path: Path, casting: BadCasting) -> AsyncIterator[LocalFleet]:
    async with fleet_of(tmp_path / "home", casting) as fleet:
        yield fleet


async def continued(fleet: LocalFleet, old: str) -> AgentInfo:
    """The agent that continues the work of another, at rest."""
    session = (await fleet.agent(old)).session
    async with asyncio.timeout(SOON):
        async for record in fleet.follow(0):
            event = record.event
            if isinstance(event, NoticePosted) and "continues the work" in event.title:
                (spawned,) = await events_of(
                    fleet, record.session, lambda e: isinstance(e, SessionSpawned)
                )
                if spawned.continues == session:
                    break
    (info,) = await fleet.wait([record.session], timeout=SOON)
    return info


async def notices(fleet: LocalFleet, name: str) -> list[NoticePosted]:
    return [e for e in await events_of(fleet, name) if isinstance(e, NoticePosted)]


async def prompts(fleet: LocalFleet, name: str) -> list[str]:
    found = [e for e in await events_of(fleet, name) if isinstance(e, Prompted)]
    return [e.content[-1].text for e in found if isinstance(e.content[-1], TextContent)]


@pytest.mark.parametrize(
    ("failure", "words"),
    [
        ("crash", "it crashed"),
        ("fail", "its turn failed: the model is overloaded"),
        ("held back", "its vendor holds it back: too many requests"),
        (LoginNeededError("claude: not logged in"), "not logged in"),
        (AgentMissingError("claude", "claude", "PATH", "npm i claude"), "no program 'claude'"),
    ],
    ids=["crash", "failed turn", "held back", "login", "missing"],
)
async def test_the_next_agent_continues_with_the_prompt(
    fleet: LocalFleet, casting: BadCasting, tmp_path: Path, failure: object, words: str
):
    casting.failures["claude"] = failure
    await fleet.spawn(new_agent(tmp_path, name="old", prompt="mend it", fallback=LIST))
    new = await continued(fleet, "old")
    assert (new.agent, new.state, new.cwd) == ("codex", "idle", str(tmp_path))
    (notice,) = await notices(fleet, new.name)
    assert notice.severity == "warning" and words in (notice.description or "")
    told = "".join(str(e) for e in await events_of(fleet, new.name))
    assert "mend it" in told
    assert not (await fleet.agent("old")).is_live
    assert (await fleet.agent("old")).queue == ()


async def test_queued_prompts_go_along_and_agents_that_do_not_start_are_passed_over(
    fleet: LocalFleet, casting: BadCasting, tmp_path: Path
):
    casting.failures["codex"] = LoginNeededError("codex: not logged in")
    await fleet.spawn(new_agent(tmp_path, name="old", prompt="wait", fallback=LIST))
    await fleet.send("old", (text("crash"),))
    await fleet.send("old", (text("say more"),))
    await fleet.interrupt("old")
    new = await continued(fleet, "old")
    assert new.agent == "gemini"
    assert (await prompts(fleet, new.name))[1:] == ["say more"]
    assert sorted(one.agent for one in await fleet.agents()) == ["claude", "gemini"]


async def test_each_agent_is_tried_once_and_the_end_of_the_list_is_said(
    fleet: LocalFleet, casting: BadCasting, tmp_path: Path
):
    casting.failures = dict.fromkeys(("claude", *LIST), "fail")
    await fleet.spawn(new_agent(tmp_path, name="old", prompt="mend it", fallback=(*LIST, "claude")))
    second = await continued(fleet, "old")
    third = await continued(fleet, second.name)
    await fleet.wait([third.session], timeout=SOON)
    assert [second.agent, third.agent] == ["codex", "gemini"]
    # What comes later finds no one to continue, and starts nobody.
    await fleet.send(third.session, (text("again"),))
    await fleet.wait([third.session], timeout=SOON)
    await fleet.journal.durable(fleet.journal.last)
    assert len(await fleet.agents(archived=True)) == 3
    assert (await fleet.handover_brief(third.session)).goal == "mend it"


async def test_if_none_starts_the_agent_says_so(
    fleet: LocalFleet, casting: BadCasting, tmp_path: Path
):
    casting.failures = dict.fromkeys(LIST, LoginNeededError("not logged in"))
    casting.failures["claude"] = "fail"
    await fleet.spawn(new_agent(tmp_path, name="old", prompt="mend it", fallback=LIST))
    async with asyncio.timeout(SOON):
        async for record in fleet.follow(0, agent="old"):
            if isinstance(record.event, NoticePosted) and record.event.severity == "error":
                break
    assert record.event.title == "no agent could continue this work; tried codex, gemini"
    assert (record.event.description or "").count("not logged in") == 2
    old = await fleet.agent("old")
    assert (old.is_live, old.state) == (True, "failed")


async def test_without_a_list_nothing_happens_and_an_interrupt_is_no_failure(
    fleet: LocalFleet, casting: BadCasting, tmp_path: Path
):
    await fleet.spawn(new_agent(tmp_path, name="plain", prompt="fail"))
    await fleet.spawn(new_agent(tmp_path, name="held", prompt="wait", fallback=LIST))
    await fleet.wait(["plain"], timeout=SOON)
    await fleet.interrupt("held")
    await fleet.kill("held")
    # A hand-over that comes later is done after all that a rule would have begun.
    await fleet.hand_over("plain", HandoverOptions(to="gemini", name="new"))
    assert sorted(one.name for one in await fleet.agents()) == ["held", "new", "plain"]


async def test_the_list_of_the_settings_counts(casting: BadCasting, tmp_path: Path):
    home = tmp_path / "home"
    home.mkdir()
    (home / "config.toml").write_text('fallback = ["native", "codex"]\n')
    casting.failures["claude"] = "fail"
    casting.failures["native"] = LinkBrokenError("it is broken")
    async with fleet_of(home, casting) as fleet:
        await fleet.spawn(new_agent(tmp_path, name="old", prompt="mend it"))
        assert (await continued(fleet, "old")).agent == "codex"
        await fleet.spawn(new_agent(tmp_path, name="alone", prompt="mend it", fallback=()))
        await fleet.wait(["alone"], timeout=SOON)
        assert len(await fleet.agents()) == 3


async def test_a_budget_that_is_used_up_hands_the_work_on(
    fleet: LocalFleet, casting: BadCasting, tmp_path: Path
):
    budget = (parse_limit("100tok"),)
    await fleet.spawn(
        new_agent(tmp_path, name="old", prompt="tokens 500", fallback=LIST, budget=budget)
    )
    await fleet.wait(["old"], timeout=SOON)
    await fleet.send("old", (text("say more"),))
    new = await continued(fleet, "old")
    (notice,) = await notices(fleet, new.name)
    assert "its budget is used up" in (notice.description or "")
    assert "say more" in await prompts(fleet, new.name)
    assert await fleet.inbox() == []
