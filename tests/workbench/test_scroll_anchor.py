"""Who comes back finds the line that they read."""

from pathlib import Path

from quarterdeck.workbench.stores.transcript import TranscriptSpot
from quarterdeck.workbench.widgets.transcript_position import ScrollAnchors
from tests.support.memory_fleet import FakeFleet
from tests.support.workbench_app import begin, opened, say, screen_text, until


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
