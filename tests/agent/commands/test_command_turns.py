"""Slash commands: answered in a turn of their own, which the model never hears of."""

import asyncio
from pathlib import Path

import pytest

from quarterdeck.agent.commands import AnsweredCommand, ExpandedCommand
from quarterdeck.models.model import ModelRequest
from quarterdeck.wire.content import ImageContent, TextContent, text
from quarterdeck.wire.conversation import TextPart
from quarterdeck.wire.errors import QuarterdeckError
from quarterdeck.wire.events import (
    CommandsChanged,
    CompactionChanged,
    MessageChunk,
    ModelCallStarted,
    Prompted,
    TurnEnded,
)
from tests.support.native_agents import Deck, deck, types


def heard(request: ModelRequest) -> list[str]:
    return [part.text for m in request.messages for part in m.parts if isinstance(part, TextPart)]


async def said(ship: Deck) -> str:
    chunks = await ship.events(MessageChunk)
    content = chunks[-1].content
    assert isinstance(content, TextContent)
    return content.text


async def test_a_command_is_a_turn_without_a_call_of_the_model(tmp_path: Path):
    async with deck(tmp_path, "unused") as ship:
        before = len(await ship.records())
        ended = await ship.prompt("/mode plan")
        records = (await ship.records())[before:]
        assert ended == TurnEnded(stop="end_turn")
        assert types(r.event for r in records if r.turn) == [
            "Prompted",
            "TurnStarted",
            "MessageChunk",
            "TurnEnded",
        ]
        assert ship.session.gate.mode == "plan"
        assert "`plan`" in await said(ship)
        assert ship.session.title is None
        assert not ship.requests


async def test_the_model_never_hears_of_it_live_resumed_or_forked(tmp_path: Path):
    async with deck(tmp_path, "one", "two", "two", "two") as ship:
        await ship.prompt("hello")
        await ship.prompt("/context")
        await ship.prompt("/model nonsense")
        fork = await ship.agent.fork(ship.session.id, options=ship.options)
        await fork.prompt((text("again"),))
        forked = ship.requests[-1]
        id_ = ship.session.id
        await ship.reload()
        assert ship.session.id == id_
        await ship.prompt("again")
        resumed = ship.requests[-1]
    assert heard(resumed) == heard(forked) == ["hello", "one", "again"]


async def test_the_same_bytes_go_out_with_and_without_a_reload(tmp_path: Path):
    async def run(folder: Path, *, reload: bool) -> list[ModelRequest]:

        async with deck(folder, "one", "two") as ship:
            ship.session.commands.add(_shout())
            await ship.prompt("hello")
            await ship.prompt("/help")
            if reload:
                await ship.reload()
                ship.session.commands.add(_shout())
            await ship.prompt("/shout land ho")
            return ship.requests

    for name in ("live", "resumed"):
        (tmp_path / name).mkdir()
    live = await run(tmp_path / "live", reload=False)
    resumed = await run(tmp_path / "resumed", reload=True)
    assert [r.messages for r in live] == [r.messages for r in resumed]
    assert heard(live[-1])[-1] == "Shout LAND HO!"


def _shout() -> ExpandedCommand:
    async def expand(_: object, words: str) -> tuple[TextContent, ...]:
        return (text(f"Shout {words.upper()}!"),)

    return ExpandedCommand(name="shout", description="Be loud", hint="what", expand=expand)


async def test_an_expanded_command_keeps_what_was_typed_for_people(tmp_path: Path):
    async with deck(tmp_path, "aye") as ship:
        ship.session.commands.add(_shout())
        picture = ImageContent(data="aGk=", mime_type="image/png")
        await ship.session.prompt((text("/shout  land\nho "), picture))
        prompted = await ship.only(Prompted)
        assert prompted.content == (text("/shout  land\nho "), picture)
        assert prompted.model_content == (text("Shout LAND\nHO!"), picture)
        assert heard(ship.requests[0]) == ["Shout LAND\nHO!"]
        assert ship.session.title == "/shout land ho"


@pytest.mark.parametrize(
    "words", ["/unknown thing", "/", "/ help", "//help", " /help", "say /help", "/help-me", "/HELP"]
)
async def test_other_words_are_for_the_model(tmp_path: Path, words: str):
    async with deck(tmp_path, "aye") as ship:
        await ship.prompt(words)
        assert heard(ship.requests[0]) == [words]


async def test_another_agent_cannot_give_commands(tmp_path: Path):
    async with deck(tmp_path, "aye") as ship:
        await ship.session.prompt((text("/mode full-auto"),), origin="agent")
        assert ship.session.gate.mode == "ask"
        assert heard(ship.requests[0]) == ["/mode full-auto"]


async def test_a_command_with_a_file_attached_is_for_the_model(tmp_path: Path):
    async with deck(tmp_path, "aye") as ship:
        await ship.session.prompt((text("/mode plan"), text("more")))
        assert ship.session.gate.mode == "ask"


async def test_commands_are_told_when_the_session_begins(tmp_path: Path):
    async with deck(tmp_path) as ship:
        model_content = await ship.only(CommandsChanged)
        names = [command.name for command in model_content.commands]
        about_files = ["changes", "undo", "redo", "rewind"]
        assert names == [
            *("help", "model", "mode", "context", "compact", "pin", "unpin"),
            *about_files,
        ]
        hints = {command.name: command.input for command in model_content.commands}
        assert hints["help"] is None
        assert hints["compact"] is not None


async def test_help_names_them_all(tmp_path: Path):
    async with deck(tmp_path) as ship:
        await ship.prompt("/help")
        model_content = await said(ship)
        assert all(f"`/{c.name}" in model_content for c in ship.session.commands.all)


async def test_compact_summarises_and_its_summary_is_what_the_model_hears(tmp_path: Path):
    long = ["word " * 1000] * 5
    async with deck(tmp_path, *long, "A fine summary.", "five") as ship:
        for word in ("a", "b", "c", "d", "e"):
            await ship.prompt(word)
        await ship.prompt("/compact the names")
        changes = await ship.events(CompactionChanged)
        assert changes[-1].status == "completed", changes[-1].error
        await ship.prompt("and now")
        assert "A fine summary." in heard(ship.requests[-1])[0]
        assert all("/compact" not in words for words in heard(ship.requests[-1]))


@pytest.mark.parametrize(
    ("error", "stop"), [(QuarterdeckError("no wind"), "end_turn"), (ValueError("oops"), "failed")]
)
async def test_a_command_that_fails_says_why(tmp_path: Path, error: Exception, stop: str):
    async def fail(*_: object) -> str:
        raise error

    async with deck(tmp_path, "aye") as ship:
        ship.session.commands.add(AnsweredCommand(name="fail", description="", answer=fail))
        ended = await ship.prompt("/fail")
        assert ended.stop == stop
        assert str(error) in (ended.reason or await said(ship))
        assert (await ship.prompt("go")).stop == "end_turn"


async def test_an_expansion_that_fails_is_said_and_the_model_not_asked(tmp_path: Path):
    async def fail(*_: object) -> tuple[TextContent, ...]:
        raise QuarterdeckError("the file is gone")

    async with deck(tmp_path) as ship:
        ship.session.commands.add(ExpandedCommand(name="gone", description="", expand=fail))
        assert (await ship.prompt("/gone")).stop == "end_turn"
        assert "the file is gone" in await said(ship)
        assert await ship.events(ModelCallStarted) == []


async def test_a_command_can_be_cancelled(tmp_path: Path):
    begun = asyncio.Event()

    async def wait(*_: object) -> str:
        begun.set()
        await asyncio.Event().wait()
        return ""

    async with deck(tmp_path) as ship:
        ship.session.commands.add(AnsweredCommand(name="wait", description="", answer=wait))
        running = ship.start("/wait")
        await begun.wait()
        await ship.session.cancel()
        assert (await running).stop == "cancelled"
        assert (await ship.only(TurnEnded)).stop == "cancelled"
