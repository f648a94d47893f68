"""Who comes back finds the line that they read; requests fit, and are shown once."""

from pathlib import Path

from quarterdeck.fleet.api import InboxItem
from quarterdeck.wire.content import TextContent
from quarterdeck.wire.events import PermissionAsked
from quarterdeck.wire.ids import RequestId, SessionId, ToolCallId
from quarterdeck.wire.permissions import PermissionOption
from quarterdeck.wire.tool_calls import ContentItem, Diff, ToolCallContent
from quarterdeck.workbench.rendering.lines import text_of, width_of
from quarterdeck.workbench.screens.permission import option_lines, request_lines
from quarterdeck.workbench.stores.transcript import TranscriptSpot
from quarterdeck.workbench.widgets.transcript_position import ScrollAnchors
from tests.support.memory_fleet import FakeFleet
from tests.support.workbench_app import begin, opened, say, screen_text, until

RULE = "Always allow in this project: bash(a-very-long-program --with-many-options:*)"
OPTIONS = (
    PermissionOption(option_id="1", name="Allow once", kind="allow_once"),
    PermissionOption(option_id="2", name=RULE, kind="allow_always"),
    PermissionOption(option_id="3", name="Reject", kind="reject_once"),
)


async def test_a_transcript_opens_where_it_was_read_the_last_time(tmp_path: Path):
    fleet = FakeFleet()
    await begin(fleet, "bob")
    ann = await begin(fleet, "ann")
    for number in range(500):  # one message of many chunks, longer than a page
        await say(fleet, ann, f"word {number}\n\n")
    async with opened(fleet, tmp_path) as (app, pilot):
        app.context.select(ann)
        await until(pilot, lambda: "word 499" in screen_text(app))
        app.main.transcript.scroll_to(y=300, animate=False)
        await until(pilot, lambda: "word 499" not in screen_text(app))
        kept, before = app.main.panel.remember(), top_word(screen_text(app))
    async with opened(fleet, tmp_path / "other") as (app, pilot):
        app.main.panel.recall({"read": "nonsense"})  # of another version, say
        spots = {session: TranscriptSpot(*spot) for session, spot in kept["read"].items()}
        app.main.transcript.places.recall(spots)
        assert app.main.panel.remember() == kept  # also if nobody has looked at it
        app.context.select(ann)
        await until(pilot, lambda: before in screen_text(app))
        assert top_word(screen_text(app)) == before
        assert not app.main.transcript.follows


def top_word(shown: str) -> str:
    return next(line.strip() for line in shown.splitlines() if line.strip().startswith("word "))


def test_places_at_the_end_are_not_kept():
    places = ScrollAnchors()
    places.recall({"ses_1": TranscriptSpot(5, 9, 0, 2)})
    assert (
        places.expected("ses_1") == TranscriptSpot(5, 9, 0, 2) and places.expected("ses_2") is None
    )
    assert list(places.remember()) == ["ses_1"]


def test_each_choice_has_a_line_where_it_is_tight_and_what_it_means_stays():
    lines = option_lines(OPTIONS, 50, is_tight=True)
    assert len(lines) == len(OPTIONS) and all(width_of(line) <= 50 for line in lines)
    assert "…" in text_of(lines[1]) and text_of(lines[1]).endswith("(allow always)")
    assert RULE in "".join(text_of(line).strip() + " " for line in option_lines(OPTIONS, 120))


def asked(raw: dict[str, str], *content: ToolCallContent) -> str:
    request = PermissionAsked(
        request=RequestId("req_1"),
        call=ToolCallId("call_1"),
        kind="execute",
        title="Do it",
        raw_input=raw,
        content=content,
        options=OPTIONS,
    )
    item = InboxItem(
        session=SessionId("ses_1"),
        name="ann",
        request=RequestId("req_1"),
        since=0,
        seq=1,
        permission=request,
    )
    return "\n".join(text_of(line) for line in request_lines(item, None, 100))


def test_what_is_in_a_request_twice_is_shown_once():
    told = ContentItem(content=TextContent(text="rm -rf build"))
    assert asked({"command": "rm -rf build"}, told).count("rm -rf build") == 1
    other = ContentItem(content=TextContent(text="rm -rf build "))
    assert asked({"command": "rm -rf build"}, other).count("rm -rf build") == 2
    new = "one\ntwo\nthree"
    shown = asked({"path": "a", "content": new}, Diff(path="a", new_text=new))
    assert shown.count("three") == 1 and "content: 3 lines, see below" in shown
    part = asked({"content": new}, Diff(path="a", new_text=new + "\nfour"))
    assert part.count("three") == 2
