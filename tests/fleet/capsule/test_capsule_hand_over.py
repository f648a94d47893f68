"""A session from another machine is continued by an agent of another vendor."""

import asyncio
from pathlib import Path

import pytest

from quarterdeck.fleet.api import HandoverOptions
from quarterdeck.fleet.capsule.importer import MovedSession
from quarterdeck.fleet.errors import InvalidOptionsError
from quarterdeck.wire.content import TextContent
from quarterdeck.wire.events import Prompted, SessionSpawned
from tests.support.capsules import Machine, short_session
from tests.support.deadlines import SOON
from tests.support.scripted_fleet import Casting, events_of, fleet_of


def move(tmp_path: Path, cwd: Path) -> tuple[Path, MovedSession]:
    here, there = Machine(tmp_path / "a"), Machine(tmp_path / "b")
    entries = short_session(str(cwd), "fix the parser", "and its tests", agent="claude")
    here.record(entries)
    here.export(tmp_path / "c", entries[0][0])
    return there.home / "quarterdeck", there.take(tmp_path / "c").sessions[0]


async def test_the_new_agent_gets_the_brief_and_can_read_the_transcript(tmp_path: Path):
    home, moved = await asyncio.to_thread(move, tmp_path, tmp_path)
    async with fleet_of(home, Casting()) as fleet:
        info = await fleet.hand_over(moved.id, HandoverOptions(to="codex", prompt="now the docs"))
        await fleet.wait([info.session], timeout=SOON)
        events = await events_of(fleet, info.name)
    (spawned,) = [one for one in events if isinstance(one, SessionSpawned)]
    assert spawned.continues == moved.id and info.cwd == str(tmp_path)
    (prompted, *_) = [one for one in events if isinstance(one, Prompted)]
    brief, task = prompted.content
    assert isinstance(brief, TextContent) and task == TextContent(text="now the docs")
    assert all(line.startswith("| ") for line in brief.text.splitlines() if "parser" in line)
    assert "| fix the parser" in brief.text and "| - and its tests" in brief.text


async def test_a_directory_that_is_not_here_is_said(tmp_path: Path):
    home, moved = await asyncio.to_thread(move, tmp_path, tmp_path / "gone")
    async with fleet_of(home, Casting()) as fleet:
        with pytest.raises(InvalidOptionsError, match="there is no directory"):
            await fleet.hand_over(moved.id, HandoverOptions(to="codex"))
        assert [one.session for one in await fleet.agents()] == [moved.id]
