"""What changed since a session was recorded is reported, at the step at which it matters."""

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from quarterdeck.agent.replay.check import ReplayChanges, ReplayError, check_session, read_family
from quarterdeck.wire.events import (
    ModelCallFinished,
    PermissionAnswered,
    SessionOpened,
    ToolCallEnded,
)
from quarterdeck.wire.record import Record
from tests.agent.replay.test_replay_scenes import replay
from tests.support.agent_tools import FakeTool, returns
from tests.support.native_agents import Deck, call, deck, says


def scene(tmp_path: Path, **options: Any) -> Any:
    return deck(
        tmp_path,
        says(call("ls")),
        says(call("bash", command="echo hello")),
        says(call("bash", command="touch made.txt")),
        "Done.",
        allow=("bash(echo:*)", "bash(touch:*)"),
        **options,
    )


async def test_a_changed_system_prompt_is_reported_at_the_first_step(tmp_path: Path):
    async with scene(tmp_path) as ship:
        await ship.prompt()
        report = await replay(ship, system_prompt="Speak Latin.")
        first = report.divergences[0]
        assert (first.kind, first.what) == ("request", "system prompt")
        assert (first.place.turn, first.place.step) == (1, 1)
        assert {d.what for d in report.divergences} == {"system prompt"}


async def test_changed_instructions_of_the_person_are_reported(tmp_path: Path):
    async with scene(tmp_path) as ship:
        await ship.prompt()
        (tmp_path / "home" / "AGENTS.md").write_text("Speak Latin.\n")
        report = await replay(ship)
        assert [d.what for d in report.divergences][:1] == ["system prompt"]


async def test_a_changed_text_of_a_tool_is_reported_by_its_name(tmp_path: Path):
    tool = FakeTool(returns("did"))
    async with deck(tmp_path, "Hi.", says(call("fake", n=1)), "Done.", tools=[tool]) as ship:
        await ship.prompt("one")
        await ship.prompt("two")
        other = FakeTool(returns("did"))
        other.description = "Does something else."
        report = await replay(ship, tools=(other,))
        assert report.divergences[0].what == "tools: fake changed"
        assert str(report.divergences[0].place) == "turn 1, step 1"
        more = FakeTool(returns("did"), name="more")
        report = await replay(ship, tools=(tool, more))
        assert report.divergences[0].what == "tools: more is new"


async def test_a_changed_rule_is_reported_at_its_call(tmp_path: Path):
    async with scene(tmp_path) as ship:
        await ship.prompt()
        report = await replay(ship, deny=("bash(touch:*)",))
        (found,) = report.divergences
        assert (found.kind, str(found.place)) == ("decision", "turn 1, step 3")
        assert '-  "kind": "allow_once"' in found.diff
        assert '+  "kind": "reject_once"' in found.diff


async def test_a_mode_that_asks_where_a_rule_allowed(tmp_path: Path):
    async with deck(
        tmp_path, says(call("write", path="a", content="x")), "Done.", mode="accept-edits"
    ) as ship:
        await ship.prompt()
        report = await replay(ship, mode="ask")
        assert {d.kind for d in report.divergences} == {"decision"}
        assert all(str(d.place) == "turn 1, step 1" for d in report.divergences)
        denied = await replay(ship, mode="read-only")
        assert {d.kind for d in denied.divergences} == {"decision"}


async def recorded(ship: Deck) -> list[Record]:
    return await read_family(ship.session.journal, ship.session.id)


async def check(ship: Deck, records: list[Record]) -> Any:
    return await check_session(
        ship.session.id,
        records,
        places=ship.places,
        environment={"HOME": str(ship.cwd.parent)},
        changes=ReplayChanges(),
    )


def changed(records: list[Record], kind: type, **fields: Any) -> list[Record]:
    """The same records with other fields in the last event of a kind."""
    at = max(i for i, record in enumerate(records) if isinstance(record.event, kind))
    other = replace(records[at], event=replace(records[at].event, **fields))
    return [*records[:at], other, *records[at + 1 :]]


async def test_an_agent_that_behaves_otherwise_is_reported(tmp_path: Path):
    async with scene(tmp_path) as ship:
        await ship.prompt()
        records = await recorded(ship)
        assert (await check(ship, records)).is_same
        by_other = replace(
            next(r.event.by for r in records if isinstance(r.event, PermissionAnswered)),
            name="another rule",
        )
        report = await check(ship, changed(records, PermissionAnswered, by=by_other))
        assert [(d.kind, str(d.place)) for d in report.divergences] == [
            ("decision", "turn 1, step 3")
        ]
        report = await check(ship, changed(records, ToolCallEnded, status="failed"))
        assert [d.what for d in report.divergences] == [
            "tool result call_3-1"
        ] or report.divergences
        report = await check(ship, changed(records, ModelCallFinished, stop="pause"))
        assert report.is_same  # the recorded word comes back as it was


async def test_what_cannot_be_replayed_is_refused_by_its_reason(tmp_path: Path):
    async with scene(tmp_path) as ship:
        await ship.prompt()
        records = await recorded(ship)
        with pytest.raises(ReplayError, match="is of claude"):
            await check(ship, changed(records, SessionOpened, agent="claude"))
        with pytest.raises(ReplayError, match="sub-agent"):
            await check(ship, changed(records, SessionOpened, parent_session="ses_p"))
        with pytest.raises(ReplayError, match="fork of"):
            await check(ship, changed(records, SessionOpened, forked_from="ses_f"))
        with pytest.raises(ReplayError, match="beginning is not recorded"):
            await check(ship, records[1:])


async def test_a_log_of_an_older_program_says_what_was_not_compared(tmp_path: Path):
    async with deck(tmp_path, "Hi.") as ship:
        await ship.prompt()
        records = await recorded(ship)
        from quarterdeck.wire.events import ModelCallStarted

        report = await check(ship, changed(records, ModelCallStarted, request=None))
        assert report.is_same
        assert any("older program" in note for note in report.notes)
