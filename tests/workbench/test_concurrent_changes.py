"""What comes at a bad moment: sizes, pastes and hosts that change while something goes on."""

import random
from pathlib import Path

import pytest
from textual import events

from tests.support.memory_fleet import FakeFleet
from tests.support.workbench_app import LostFleet, begin, opened, say, screen_text, until


@pytest.mark.timeout(300)
@pytest.mark.parametrize("many", [20, pytest.param(100, marks=pytest.mark.stress)])
async def test_a_storm_of_sizes_while_an_agent_writes(tmp_path: Path, many: int):
    chance = random.Random(7)
    fleet = FakeFleet()
    ann = await begin(fleet, "ann")
    async with opened(fleet, tmp_path) as (app, pilot):
        await pilot.press(*"half a th")
        for number in range(many):
            await say(fleet, ann, f"Sentence {number} of **many** 你好.\n\n")
            await pilot.resize_terminal(chance.randint(20, 220), chance.randint(5, 60))
        await pilot.press(*"ought")
        await pilot.resize_terminal(120, 40)
        await until(pilot, lambda: f"Sentence {many - 1} of" in screen_text(app))
        assert app.main.chat.text == "half a thought"
        assert app.main.transcript.follows


async def test_a_paste_of_a_megabyte_is_kept_whole(tmp_path: Path):
    pasted = "".join(f"line {number} \x1b[31mred\u202e\n" for number in range(50_000))
    assert len(pasted) > 1_000_000
    fleet = FakeFleet()
    await begin(fleet, "ann")
    async with opened(fleet, tmp_path) as (app, pilot):
        await pilot.press(*"see ")
        app.main.chat.post_message(events.Paste(pasted))
        await until(pilot, lambda: len(app.main.chat.text) > 5)
        await pilot.press(*" end")
        shown = screen_text(app)
        assert "\x1b" not in shown and "\u202e" not in shown
        assert "end" in shown and len(app.main.chat.text) < 1_000
        await pilot.press("enter")
        sent = await _sent(fleet, pilot)
        assert sent == f"see {pasted} end"


async def test_a_host_that_comes_and_goes_takes_no_letter_away(tmp_path: Path):
    fleet = LostFleet()
    ann = await begin(fleet, "ann")
    typed = ""
    async with opened(fleet, tmp_path) as (app, pilot):
        for number in range(4):
            await fleet.lose()
            await pilot.press(*"gone ")
            await until(pilot, lambda: "host: lost" in screen_text(app))
            fleet.is_gone = False
            app.action_start_host()
            await pilot.press(*"back ")
            await until(pilot, lambda: app.context.host == "connected")
            await say(fleet, ann, f"said {number}")
            typed += "gone back "
        await until(pilot, lambda: "said 3" in screen_text(app))
        assert app.main.chat.text == typed


async def _sent(fleet: FakeFleet, pilot) -> str:
    from quarterdeck.wire.content import TextContent
    from quarterdeck.wire.events import PromptQueued

    def prompts() -> list[PromptQueued]:
        return [r.event for r in fleet.records if isinstance(r.event, PromptQueued)]

    await until(pilot, prompts)
    return "".join(p.text for p in prompts()[-1].content if isinstance(p, TextContent))
