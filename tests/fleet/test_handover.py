"""Work goes from one agent to another of any make, with what was said and done."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from quarterdeck.drivers.errors import UnknownAgentError
from quarterdeck.fleet.errors import AgentNotReadyError, NoSuchAgentError
from quarterdeck.fleet.local import LocalFleet
from quarterdeck.fleet.sessions.handover import CONTINUE_PROMPT, hand_over
from quarterdeck.wire.content import TextContent
from quarterdeck.wire.events import Prompted
from tests.support.deadlines import SOON
from tests.support.scripted_fleet import Casting, events_of, fleet_of, new_agent


@pytest.fixture
def casting() -> Casting:
    return Casting()


@pytest.fixture
async def fleet(tmp_path: Path, casting: Casting) -> AsyncIterator[LocalFleet]:
    async with fleet_of(tmp_path / "home", casting) as fleet:
        yield fleet


async def first_prompt(fleet: LocalFleet, name: str) -> str:
    (prompted, *_) = [e for e in await events_of(fleet, name) if isinstance(e, Prompted)]
    (block,) = prompted.content
    assert isinstance(block, TextContent)
    return block.text


async def test_the_new_one_is_told_what_the_old_one_was_at(fleet: LocalFleet, tmp_path: Path):
    deny = ("bash(rm:*)",)
    await fleet.spawn(new_agent(tmp_path, name="old", prompt="echo mend\nthe parser", deny=deny))
    await fleet.wait(["old"], timeout=SOON)
    new = await hand_over(fleet, "old", "codex", name="new", prompt="now the printer")
    await fleet.wait(["new"], timeout=SOON)
    told = await first_prompt(fleet, "new")
    assert "called 'old'" in told and told.endswith("Your task now: now the printer")
    assert all(line.startswith("| ") for line in told.splitlines() if "parser" in line)
    assert "parser" in told and new.cwd == str(tmp_path)
    old = await fleet.agent("old")
    assert (old.state, old.is_live) == ("done", False)


async def test_without_words_it_goes_on(fleet: LocalFleet, tmp_path: Path):
    await fleet.spawn(new_agent(tmp_path, name="old", prompt="echo hello"))
    await fleet.wait(["old"], timeout=SOON)
    await hand_over(fleet, "old", "codex", name="new")
    await fleet.wait(["new"], timeout=SOON)
    assert (await first_prompt(fleet, "new")).endswith(CONTINUE_PROMPT)


async def test_what_cannot_be_leaves_the_old_one_as_it_is(fleet: LocalFleet, tmp_path: Path):
    await fleet.spawn(new_agent(tmp_path, name="old", prompt="echo hello"))
    await fleet.wait(["old"], timeout=SOON)
    with pytest.raises(UnknownAgentError):
        await hand_over(fleet, "old", "nobody")
    with pytest.raises(NoSuchAgentError):
        await hand_over(fleet, "none", "codex")
    assert (await fleet.agent("old")).is_live


async def test_one_that_works_is_not_taken_from_its_work(fleet: LocalFleet, tmp_path: Path):
    await fleet.spawn(new_agent(tmp_path, name="old", prompt="wait"))
    with pytest.raises(AgentNotReadyError, match="interrupt it"):
        await hand_over(fleet, "old", "codex")
