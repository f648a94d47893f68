"""What the screens of real agents mean, on streams recorded with stated versions of them."""

import pytest

from quarterdeck.drivers.catalogue import find_agent
from quarterdeck.drivers.pty.answers import Lines, Said
from quarterdeck.drivers.pty.knowledge import screens_of
from quarterdeck.drivers.pty.reading import Reader
from quarterdeck.drivers.screen import Screen, open_screen
from tests.support.screens import AGENTS, Recorded, played, recorded

COMMAND = "touch made-by-shell.txt && echo scripted-output"


@pytest.fixture(params=AGENTS)
def session(request: pytest.FixtureRequest) -> Recorded:
    return recorded(request.param)


def test_four_agents_are_recorded():
    assert {"claude", "codex", "gemini", "opencode"} <= set(AGENTS)


def test_the_version_is_the_one_that_is_claimed(session: Recorded):
    program, version = screens_of(session.agent).proven.split()
    assert program == session.agent and version in session.version
    assert find_agent(session.agent).transports["pty"].verified == f"{program} {version}"


def test_every_moment_shows_its_state(session: Recorded):
    reader = Reader(screens_of(session.agent))
    screen = open_screen(*session.size)
    done = 0
    for moment in session.moments:
        screen.feed(session.raw[done : moment["at"]])
        done = moment["at"]
        reading = reader.read(screen)
        assert reading.state == moment["state"], moment["name"]
        asked = reading.request
        assert (asked is not None) == ("request" in moment)
        if asked is not None:
            kinds = [choice.option.kind for choice in asked.choices]
            assert kinds == moment["request"]["kinds"] and "other" not in kinds
            assert COMMAND in asked.detail and asked.kind == "execute"


def test_asking_fires_once_for_each_dialog_and_never_on_prose(session: Recorded):
    reader = Reader(screens_of(session.agent))
    screen = open_screen(*session.size)
    seen: list[str] = []
    for piece in session.pieces():
        screen.feed(piece)
        state = reader.read(screen).state
        if state != "unknown" and (not seen or seen[-1] != state):
            seen.append(state)
    dialogs = [moment["state"] for moment in session.moments]
    for state in ("asking", "trust", "update", "login"):
        assert seen.count(state) == dialogs.count(state), seen
    assert "busy" in seen and seen[-1] == "ready"


def test_what_the_model_said_is_found(session: Recorded):
    assert said(session, "said").joined("text") == "Hello from the scripted model."
    words = said(session, "prose").joined("text").split()
    assert words[:2] == ["You", "said:"] and words[-1] == "Reject" and len(words) > 40
    ticks = said(session, "interrupted").joined("text").split()
    assert ticks[:4] == ["tick", "1", "tick", "2"]


def test_the_same_on_the_other_emulator(session: Recorded):
    reader = Reader(screens_of(session.agent))
    for moment in session.moments:
        if moment["state"] in ("asking", "ready"):
            screen = played(session.raw[: moment["at"]], session.size, "avt")
            assert reader.read(screen).state == moment["state"], moment["name"]


def said(session: Recorded, name: str) -> Said:
    """The last turn before a moment, read as the link reads it."""
    knowledge = screens_of(session.agent)
    screen = played(session.until(name), session.size)
    lines = _above(screen, Reader(knowledge).read(screen).chrome)
    reader = Lines(knowledge.answer, knowledge.columns)
    return reader.read(lines, reader.echoes(lines) - 1)


def _above(screen: Screen, chrome: int) -> list[str]:
    lines = screen.text()
    while lines and not lines[-1]:
        lines.pop()
    return lines[: len(lines) - chrome]
