"""A session from another machine is continued by an agent of another vendor."""

import asyncio
from pathlib import Path

import pytest

from quarterdeck.fleet.capsule.continuation import hand_over_moved
from quarterdeck.fleet.capsule.errors import CapsuleError
from quarterdeck.fleet.capsule.importer import MovedSession
from quarterdeck.wire.content import TextContent
from quarterdeck.wire.events import Prompted
from tests.support.capsules import Machine, short_session
from tests.support.deadlines import SOON
from tests.support.scripted_fleet import Casting, events_of, fleet_of


def move(tmp_path: Path, cwd: Path) -> tuple[Machine, MovedSession]:
    here, there = Machine(tmp_path / "a"), Machine(tmp_path / "b")
    entries = short_session(str(cwd), "fix the parser", "and its tests", agent="claude")
    here.record(entries)
    here.export(tmp_path / "c", entries[0][0])
    return there, there.take(tmp_path / "c").sessions[0]


async def test_the_new_agent_gets_a_summary_and_the_transcript(tmp_path: Path):
    there, moved = await asyncio.to_thread(move, tmp_path, tmp_path)
    async with fleet_of(tmp_path / "fleet", Casting()) as fleet:
        info = await hand_over_moved(fleet, there.places, moved, "codex", prompt="now the docs")
        await fleet.wait([info.session], timeout=SOON)
        (prompted, *_) = [
            one for one in await events_of(fleet, info.name) if isinstance(one, Prompted)
        ]
    assert info.cwd == str(tmp_path)
    (block,) = prompted.content
    assert isinstance(block, TextContent)
    assert block.text.endswith("Your task now: now the docs")
    assert all(line.startswith("| ") for line in block.text.splitlines() if "parser" in line)
    transcript = there.places.state / "transcripts" / f"{moved.id}.md"
    assert str(transcript) in block.text
    text = await asyncio.to_thread(transcript.read_text)
    assert "You wrote fix the parser." in text


async def test_a_directory_that_is_not_here_is_said(tmp_path: Path):
    there, moved = await asyncio.to_thread(move, tmp_path, tmp_path / "gone")
    async with fleet_of(tmp_path / "fleet", Casting()) as fleet:
        with pytest.raises(CapsuleError, match="--directory"):
            await hand_over_moved(fleet, there.places, moved, "codex")
        assert await fleet.agents() == []
