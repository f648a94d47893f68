"""Profiles: what is read, what is refused, and in which directories they count."""

import asyncio
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quarterdeck.agent.children.profile import ProfileError, parse_profile, read_built_in_profiles
from quarterdeck.agent.frontmatter import read_front_matter
from quarterdeck.config.trust import TrustStore
from quarterdeck.models.script import Script
from quarterdeck.wire.events import ChildStarted, NoticePosted, ToolCallEnded
from tests.support.native_agents import Deck, call, deck, says

FILE = """\
---
name: reviewer
description: >
  Reads a change
  and says what is wrong.
model: scripted/other
tools: [read, grep]
mode: plan
max_turns: 12
max_cost: 0.5
---
Be strict.
"""


def test_a_profile_says_how_its_agent_shall_be():
    profile = parse_profile(FILE, "reviewer.md", stem="reviewer")
    assert profile.name == "reviewer"
    assert profile.description == "Reads a change and says what is wrong."
    assert (profile.model, profile.mode, profile.max_turns) == ("scripted/other", "plan", 12)
    assert profile.tools == ("read", "grep")
    assert profile.max_cost == 0.5
    assert profile.prompt == "Be strict."


def test_without_a_mode_it_only_reads():
    profile = parse_profile("---\ntools:\n  - read\n  - ls\n---\nLook.", "x.md", stem="x")
    assert (profile.name, profile.mode, profile.tools) == ("x", "read-only", ("read", "ls"))


def test_those_that_come_with_us_can_be_read():
    explore, general = read_built_in_profiles()
    assert (explore.name, explore.mode) == ("explore", "read-only")
    assert (general.name, general.mode, general.tools) == ("general", None, None)
    assert explore.tools is not None
    assert "edit" not in explore.tools


def test_a_file_of_claude_is_understood():
    text = (
        "---\nname: helper\ndescription: Helps\ntools: Read, Bash(git:*), WebSearch\n"
        "model: sonnet\ncolor: red\nmaxTurns: 3\n---\nHelp."
    )
    profile = parse_profile(text, "helper.md", stem="helper", claude=True)
    assert profile.tools == ("read", "bash", "WebSearch")
    assert (profile.model, profile.mode, profile.max_turns) == (None, None, 3)
    edits = parse_profile(
        "---\npermissionMode: acceptEdits\n---\nGo.", "e.md", stem="e", claude=True
    )
    assert edits.mode == "accept-edits"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("---\nname: a b\n---\nx", "the name 'a b'"),
        ("---\nname: a\n---\n", "has no prompt"),
        ("---\nmode: yolo\n---\nx", "write 'full-auto'"),
        ("---\nmodle: x\n---\nx", "unknown key 'modle'"),
        ("---\nmodel: sonnet\n---\nx", "must be 'vendor/id'"),
        ("---\nmax_turns: many\n---\nx", "max_turns must be a number above 0, not 'many'"),
        ("---\nmax_cost: -1\n---\nx", "max_cost must be a number above 0"),
    ],
)
def test_a_bad_profile_is_refused_with_its_file(text: str, reason: str):
    with pytest.raises(ProfileError) as caught:
        parse_profile(text, "bad.md", stem="bad")
    assert "'bad.md'" in str(caught.value)
    assert reason in str(caught.value)


@settings(deadline=None, max_examples=200)
@given(st.text(max_size=200))
def test_any_text_is_read_or_refused(text: str):
    for claude in (False, True):
        try:
            parse_profile(f"---\n{text}", "x.md", stem="x", claude=claude)
        except ProfileError as error:
            assert "x.md" in str(error)


@settings(deadline=None, max_examples=100)
@given(st.text(max_size=100))
def test_what_has_no_facts_is_all_body(text: str):
    matter = read_front_matter(text)
    if not matter.facts:
        assert matter.body == text.strip() or "---" in text


def put(directory: Path, name: str, text: str) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"{name}.md"
    path.write_text(text)
    return path


def trust(ship_home: Path, directory: Path) -> None:
    TrustStore(ship_home / "state" / "trust.json").trust(directory)


async def told(ship: Deck) -> list[str]:
    return [notice.title for notice in await ship.events(NoticePosted)]


async def test_profiles_of_a_project_do_nothing_until_it_is_trusted(tmp_path: Path):
    work = tmp_path / "work"
    put(work / ".quarterdeck" / "profiles", "local", "---\nname: local\n---\nWork.")
    put(work / ".claude" / "agents", "theirs", "---\nname: theirs\n---\nWork.")
    script = Script.sequence(says(call("spawn_agent", task="x", profile="local")), "done")
    async with deck(tmp_path, script) as ship:
        await ship.prompt("go")
        (end,) = await ship.events(ToolCallEnded)
    assert "There is no profile 'local'" in (end.reason or "")
    assert "local" not in ship.requests[0].system
    await asyncio.to_thread(trust, tmp_path / "home", work)
    script = Script.sequence(
        says(call("spawn_agent", task="x", profile="theirs")), "answer", "done"
    )
    async with deck(tmp_path, script) as ship:
        await ship.prompt("go")
        (started,) = await ship.events(ChildStarted)
    assert started.name == "theirs"
    assert "- `local`: local\n- `theirs`: theirs" in ship.requests[0].system


async def test_a_tool_that_there_is_not_is_told_and_left_out(tmp_path: Path):
    home = tmp_path / "home" / "profiles"
    path = put(home, "odd", "---\nname: odd\ntools: read, teleport\n---\nWork.")
    bad = put(home, "broken", "---\nmode: wild\n---\nWork.")
    script = Script.sequence(says(call("spawn_agent", task="x", profile="odd")), "answer", "done")
    async with deck(tmp_path, script) as ship:
        notices = await told(ship)
        await ship.prompt("go")
        (end,) = await ship.events(ToolCallEnded)
    assert end.status == "completed"
    assert any(str(path) in one and "'teleport'" in one for one in notices)
    assert any(str(bad) in one and "'wild'" in one for one in notices)
    assert [tool.name for tool in ship.requests[1].tools] == ["read"]
    assert "broken" not in ship.requests[0].system


async def test_a_profile_without_any_tool_of_its_parents_is_refused(tmp_path: Path):
    put(tmp_path / "home" / "profiles", "odd", "---\nname: odd\ntools: teleport\n---\nWork.")
    script = Script.sequence(says(call("spawn_agent", task="x", profile="odd")), "done")
    async with deck(tmp_path, script) as ship:
        await ship.prompt("go")
        (end,) = await ship.events(ToolCallEnded)
    assert "would have no tool" in (end.reason or "")


async def test_the_nearest_profile_of_a_name_counts(tmp_path: Path):
    put(tmp_path / "home" / "profiles", "explore", "---\nname: explore\n---\nMINE, not yours.")
    script = Script.sequence(says(call("spawn_agent", task="x")), "answer", "done")
    async with deck(tmp_path, script) as ship:
        await ship.prompt("go")
    assert "MINE, not yours." in ship.requests[1].system
    assert "Another agent started you" in ship.requests[1].system
