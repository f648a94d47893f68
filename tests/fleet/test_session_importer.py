"""Sessions of other agents become agents of the fleet: once, and resumable by their own id."""

import asyncio
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from quarterdeck.drivers.history.session import HistoryError, NoHistorySessionError
from quarterdeck.drivers.history.turn_builder import derive_session_id
from quarterdeck.fleet.api import HandoverOptions
from quarterdeck.fleet.errors import AgentNotReadyError, InvalidOptionsError, NameTakenError
from quarterdeck.fleet.local import LocalFleet
from quarterdeck.fleet.names import looks_like_id
from quarterdeck.fleet.notifications import is_old
from quarterdeck.fleet.sessions.importer import SessionImporter
from quarterdeck.wire.content import TextContent, text
from quarterdeck.wire.events import (
    MessageChunk,
    Prompted,
    SessionEnded,
    SessionOpened,
    SessionResumed,
    SessionSpawned,
    TurnEnded,
    TurnStarted,
)
from tests.support.deadlines import SOON
from tests.support.history_homes import (
    CLAUDE,
    CODEX,
    GEMINI,
    LAB,
    OPENCODE,
    RECORDED,
    claude_lines,
    recorded_home,
    write_lines,
)
from tests.support.scripted_fleet import Casting, events_of, fleet_of, new_agent, places_in


@pytest.fixture
def casting() -> Casting:
    return Casting()


@pytest.fixture
async def fleet(tmp_path: Path, casting: Casting) -> AsyncIterator[LocalFleet]:
    async with fleet_of(tmp_path / "quarterdeck", casting) as fleet:
        yield fleet


@pytest.fixture
def lab(tmp_path: Path) -> Path:
    folder = tmp_path / "lab"
    folder.mkdir()
    return folder


@pytest.fixture
def homes(tmp_path: Path, lab: Path) -> dict[str, str]:
    return {"HOME": str(recorded_home(tmp_path / "home", str(lab)))}


def session_file(homes: dict[str, str], lab: Path, *prompts: str) -> Path:
    slug = "".join(letter if letter.isalnum() else "-" for letter in str(lab))
    file = Path(homes["HOME"]) / ".claude/projects" / slug / "grown.jsonl"
    return write_lines(file, claude_lines(*prompts, cwd=str(lab), id_="grown"))


async def prompts_in(fleet: LocalFleet, agent: str) -> list[str]:
    events = await events_of(fleet, agent, lambda e: isinstance(e, Prompted))
    return [e.content[0].text for e in events if isinstance(e, Prompted)]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("agent", "id_"),
    [("claude", CLAUDE), ("codex", CODEX), ("gemini", GEMINI), ("opencode", OPENCODE)],
)
async def test_a_session_becomes_an_agent_that_is_not_live(
    fleet: LocalFleet, homes: dict[str, str], lab: Path, agent: str, id_: str
):
    done = await fleet.import_session(agent, id_, homes)
    info = done.agent
    assert (info.agent, info.name, info.cwd) == (agent, f"{agent}-1", str(lab))
    assert (info.state, info.is_live, info.can_resume) == ("done", False, True)
    assert info.agent_session == id_ and info.title and info.usage.total
    assert info.session == derive_session_id(agent, id_) and looks_like_id(info.session)
    assert info.spawned < info.updated
    assert (done.skipped, done.added) == (0, done.added) and done.added > 20
    events = await events_of(fleet, info.name)
    assert isinstance(events[0], SessionSpawned) and isinstance(events[1], SessionOpened)
    assert isinstance(events[-1], SessionEnded)
    assert len(events) == done.added + 3
    (hit, *_) = await fleet.search('"Command finished."')
    assert hit.session == info.session


async def test_times_are_those_of_the_session(fleet: LocalFleet, homes: dict[str, str]):
    done = await fleet.import_session("claude", CLAUDE, homes)
    records = await fleet.read(done.agent.session)
    (first,) = [r for r in records if isinstance(r.event, Prompted)][:1]
    assert first.time == 1_794_815_530_086_000
    assert is_old(first, now=first.time + 3_600_000_000)
    assert not is_old(first, now=first.time + 1)


async def test_taken_twice_it_is_there_once(fleet: LocalFleet, homes: dict[str, str]):
    first = await fleet.import_session("codex", CODEX, homes, "mine")
    before = await events_of(fleet, "mine")
    again = await fleet.import_session("codex", CODEX[:10], homes)
    assert (again.added, again.agent) == (0, first.agent)
    assert await events_of(fleet, "mine") == before
    both = [fleet.import_session("gemini", GEMINI, homes) for _ in range(2)]
    added = sorted(done.added for done in await asyncio.gather(*both))
    assert added[0] == 0 < added[1]


async def test_what_has_grown_is_added(fleet: LocalFleet, homes: dict[str, str], lab: Path):
    file = session_file(homes, lab, "one")
    await fleet.import_session("claude", "grown", homes, "mine")
    session_file(homes, lab, "one", "two", "three")
    done = await fleet.import_session("claude", "grown", homes)
    assert await prompts_in(fleet, "mine") == ["one", "two", "three"]
    assert done.agent.usage.total == 36 and done.agent.state == "done"
    events = await events_of(fleet, "mine")
    runs = [e for e in events if isinstance(e, SessionOpened | SessionResumed | SessionEnded)]
    kinds = [type(e).__name__ for e in runs]
    assert kinds == ["SessionOpened", "SessionEnded", "SessionResumed", "SessionEnded"]
    assert file.exists()


async def test_a_turn_that_has_grown_goes_on(fleet: LocalFleet, homes: dict[str, str], lab: Path):
    file = session_file(homes, lab, "one", "two")
    whole = file.read_text()
    file.write_text("".join(whole.splitlines(keepends=True)[:3]))  # the answer is not there yet
    await fleet.import_session("claude", "grown", homes, "mine")
    for _ in range(2):
        file.write_text(whole)
        await fleet.import_session("claude", "grown", homes)
    events = await events_of(fleet, "mine")
    said = [e.content.text for e in events if isinstance(e, MessageChunk)]  # type: ignore[union-attr]
    assert said == ["You said one", "You said two"]
    assert await prompts_in(fleet, "mine") == ["one", "two"]
    begun = [e for e in events if isinstance(e, TurnStarted)]
    assert len(begun) == len([e for e in events if isinstance(e, TurnEnded)]) == 3


async def test_a_branch_that_was_taken_later_is_added(
    fleet: LocalFleet, homes: dict[str, str], lab: Path
):
    went_back = "01a1e3da-a77f-7151-8352-6a25a54b8c2d"
    folder = Path(homes["HOME"]) / ".codex/sessions/2026/11/16"
    recorded = sorted((RECORDED / "codex-0.166.0-branches/sessions").rglob(f"*{went_back}*"))
    files = [folder / one.name for one in recorded]
    texts = [one.read_text().replace(LAB, str(lab)) for one in recorded]
    files[0].write_text(texts[0])
    first = await fleet.import_session("codex", went_back, homes)
    before = ["scene:text go back", "scene:text this is taken back"]
    assert await prompts_in(fleet, first.agent.session) == before
    for file, text_ in zip(files, texts, strict=True):
        file.write_text(text_)
    again = await fleet.import_session("codex", went_back, homes)
    assert 0 < again.added < first.added * 2
    assert await prompts_in(fleet, first.agent.session) == [
        *before,
        "scene:text something else",
        "scene:text a third way",
    ]
    assert (await fleet.import_session("codex", went_back, homes)).added == 0


async def test_prompts_alone_are_taken_but_not_resumed(fleet: LocalFleet, homes: dict[str, str]):
    logged = "c1f5a1c2-6a55-4d0c-9a8f-0d5b6b8f2b10"
    project = Path(homes["HOME"]) / ".gemini/tmp/0000"
    project.mkdir()
    shutil.copy(RECORDED / "gemini-logs/logs.json", project)
    done = await fleet.import_session("gemini", logged, homes, cwd="/")
    assert done.added and not done.agent.can_resume
    assert (await fleet.import_session("gemini", logged, homes, cwd="/")).added == 0


async def test_it_goes_on_under_its_own_id(
    fleet: LocalFleet, homes: dict[str, str], lab: Path, casting: Casting
):
    session_file(homes, lab, "one")
    done = await fleet.import_session("claude", "grown", homes, "mine")
    await fleet.resume("mine")
    await fleet.wait(["mine"], timeout=SOON)
    (link,) = casting.links
    assert link.host.opening.options.resume == "grown" and link.host.opening.options.cwd == str(lab)
    await fleet.send("mine", (text("echo more"),))
    await fleet.wait(["mine"], timeout=SOON)
    session_file(homes, lab, "one", "echo more")  # the agent has written it down too
    again = await fleet.import_session("claude", "grown", homes)
    assert (again.added, again.agent.session) == (0, done.agent.session)
    assert await prompts_in(fleet, "mine") == ["one", "echo more"]
    await fleet.close("mine")
    assert (await fleet.import_session("claude", "grown", homes)).added == 0


async def test_one_that_the_fleet_began_is_not_taken_again(
    fleet: LocalFleet, homes: dict[str, str], lab: Path
):
    await fleet.spawn(new_agent(lab, name="ours", prompt="echo hello", resume="grown"))
    await fleet.wait(["ours"], timeout=SOON)
    session_file(homes, lab, "one")
    done = await fleet.import_session("claude", "grown", homes)
    assert (done.agent.name, done.added) == ("ours", 0)


async def test_what_cannot_be_is_refused(fleet: LocalFleet, homes: dict[str, str], lab: Path):
    with pytest.raises(NoHistorySessionError, match="nothing"):
        await fleet.import_session("claude", "nothing", homes)
    with pytest.raises(HistoryError, match="history of 'aider' is not supported"):
        await fleet.import_session("aider", "nothing", homes)
    await fleet.import_session("claude", CLAUDE, homes, "mine")
    session_file(homes, lab, "one")
    with pytest.raises(NameTakenError):
        await fleet.import_session("claude", "grown", homes, "mine")
    folder = Path(homes["HOME"]) / ".gemini/tmp/lab"
    (folder / ".project_root").unlink()
    with pytest.raises(InvalidOptionsError, match="--cwd"):
        await fleet.import_session("gemini", GEMINI, homes)
    done = await fleet.import_session("gemini", GEMINI, homes, cwd=str(lab))
    assert done.agent.cwd == str(lab)
    assert len(await fleet.agents()) == 2


async def test_a_reading_that_breaks_off_ends_the_session_and_can_be_taken_up(
    tmp_path: Path, homes: dict[str, str], lab: Path, monkeypatch: pytest.MonkeyPatch
):
    file = session_file(homes, lab, "one", "two")
    async with fleet_of(tmp_path / "quarterdeck") as fleet:
        importing: Any = fleet._importing
        notes, count = importing._notes, 0

        class Failing:
            def __getattr__(self, name: str) -> Any:
                return getattr(notes, name)

            async def keep(self, session: Any, event: Any, **place: Any) -> None:
                nonlocal count
                count += 1
                if count == 5:
                    raise AgentNotReadyError("the disk is gone")
                await notes.keep(session, event, **place)

        importing._notes = Failing()
        with pytest.raises(AgentNotReadyError):
            await fleet.import_session("claude", "grown", homes, "mine")
        importing._notes = notes
        await notes.settled()
        info = await fleet.agent("mine")
        assert (info.state, info.is_live) == ("failed", False)
        done = await fleet.import_session("claude", "grown", homes)
        assert await prompts_in(fleet, "mine") == ["one", "two"] and done.agent.state == "done"
    assert isinstance(importing, SessionImporter) and file.exists()


async def test_it_is_there_after_the_host_has_ended(tmp_path: Path, homes: dict[str, str]):
    async with fleet_of(tmp_path / "quarterdeck") as fleet:
        done = await fleet.import_session("claude", CLAUDE, homes)
    async with fleet_of(tmp_path / "quarterdeck") as fleet:
        assert await fleet.agent("claude-1") == done.agent
        assert (await fleet.import_session("claude", CLAUDE, homes)).added == 0


async def test_another_agent_takes_over_with_a_summary_and_the_transcript(
    fleet: LocalFleet, homes: dict[str, str], lab: Path, tmp_path: Path
):
    past = (await fleet.import_session("gemini", GEMINI, homes)).agent
    request = HandoverOptions(to="codex", name="new", prompt="go on")
    new = await fleet.hand_over(past.session, request)
    await fleet.wait(["new"], timeout=SOON)
    (prompted, *_) = await events_of(fleet, "new", lambda e: isinstance(e, Prompted))
    assert isinstance(prompted, Prompted) and isinstance(prompted.content[0], TextContent)
    told = prompted.content[0].text
    lines = [line.removeprefix("| ") for line in told.splitlines() if line.startswith("| ")]
    assert "scene:edit rename the greeting" in lines[lines.index("The first prompt:") + 1]
    assert f"- {lab}/hello.txt" in lines[lines.index("Files that were changed:") :]
    assert lines[lines.index("Its last message:") + 1] == "Command finished."
    assert prompted.content[-1] == TextContent(text="go on") and new.cwd == str(lab)
    assert "read_earlier_transcript reads the whole transcript" in told


async def test_an_agent_without_tools_gets_the_transcript_as_a_file(
    fleet: LocalFleet, homes: dict[str, str], tmp_path: Path
):
    past = (await fleet.import_session("gemini", GEMINI, homes)).agent
    await fleet.hand_over(past.session, HandoverOptions(to="aider", name="new"))
    await fleet.wait(["new"], timeout=SOON)
    (prompted, *_) = await events_of(fleet, "new", lambda e: isinstance(e, Prompted))
    assert isinstance(prompted, Prompted) and isinstance(prompted.content[0], TextContent)
    state = places_in(tmp_path / "quarterdeck").state
    transcript = state / "transcripts" / f"{past.session}.md"
    assert f"The whole transcript is in {transcript} (Markdown)." in prompted.content[0].text
    written = transcript.read_text()
    assert "scene:think why?" in written and "goodbye from script" in written
    assert transcript.stat().st_mode & 0o077 == 0
