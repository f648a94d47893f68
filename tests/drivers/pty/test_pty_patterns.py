"""What the screens of real agents mean, on streams recorded with stated versions of them."""

import pytest

from quarterdeck.drivers.catalogue import find_agent
from quarterdeck.drivers.pty.events import TextBeforeTurn, TurnText, TurnTextFinder
from quarterdeck.drivers.pty.patterns import load_patterns
from quarterdeck.drivers.pty.reader import TerminalReader
from quarterdeck.terminal.emulator import Emulator, open_emulator
from tests.support.recorded_terminals import AGENTS, RECORDINGS, Recorded, played, recorded

COMMAND = "touch made-by-shell.txt && echo scripted-output"


@pytest.fixture(params=AGENTS)
def session(request: pytest.FixtureRequest) -> Recorded:
    return recorded(request.param)


@pytest.fixture(params=AGENTS)
def agent(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(params=RECORDINGS)
def any_of(request: pytest.FixtureRequest) -> Recorded:
    return recorded(request.param)


def test_five_agents_are_recorded():
    assert AGENTS == ["aider", "claude", "codex", "gemini", "opencode"]


def test_the_version_is_the_one_that_is_claimed(any_of: Recorded):
    session = any_of
    program, version = load_patterns(session.agent).proven.split()
    assert program == session.agent and version in session.version
    assert find_agent(session.agent).transports["pty"].verified == f"{program} {version}"


def test_every_moment_shows_its_state(any_of: Recorded):
    session = any_of
    reader = TerminalReader(load_patterns(session.agent))
    screen = open_emulator(*session.size)
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
            if moment["name"].endswith("-asked"):
                assert COMMAND in asked.detail and asked.kind == "execute"


def test_what_the_model_said_is_found(session: Recorded):
    assert said(session, "said").joined("text") == "Hello from the scripted model."
    words = said(session, "prose").joined("text").split()
    assert words[:2] == ["You", "said:"] and words[-1] == "Reject" and len(words) > 40
    ticks = said(session, "interrupted").joined("text").split()
    assert ticks[:4] == ["tick", "1", "tick", "2"]


def test_the_words_of_a_dialog_are_said_by_a_model_that_says_them(agent: str):
    for name in ("plain", "fenced"):
        heard = said(recorded(f"{agent}/copy"), name)
        assert {item.kind for item in heard.items} == {"text"}
        assert heard.joined("text").startswith("Look:")
        # Aider's own line between a model's words and what it does is a line of that dialog.
        assert agent == "aider" or "made-by-shell.txt" in heard.joined("text")


def test_a_command_and_its_output_in_a_box_are_no_prompt():
    heard = said(recorded("opencode"), "allow-done")
    assert [(item.kind, item.text) for item in heard.items] == [
        ("text", "Running a command."),
        ("tool", COMMAND),
        ("text", "Command finished."),
    ]


def test_prompts_that_have_left_the_window_do_not_matter():
    reader = TurnTextFinder(load_patterns("claude").answer, 100)
    window = ["❯ one", "● first", "❯ two", "● second"]
    before = reader.before(window, is_window=True)
    assert not reader.read(window, before).began
    later = ["● first", "❯ two", "● second", "❯ two", "  more", "● third"]
    assert reader.read(later, before).joined("text") == "third"
    assert reader.read(["❯ two", "● second", "❯ two"], before).began
    assert not reader.read(["● third", "  that is long"], before).began


def test_lines_of_a_prompt_are_one_prompt():
    reader = TurnTextFinder(load_patterns("opencode").answer, 100)
    window = ["  ┃", "  ┃  one", "  ┃", "  ┃  three", "  ┃", "", "     said", "  │  $ make"]
    heard = reader.read(window, reader.before([], is_window=True))
    assert [(item.kind, item.text) for item in heard.items] == [("text", "said"), ("tool", "make")]


def test_the_option_that_is_lit_is_known():
    session = recorded("opencode")
    screen = played(session.until("allow-asked"), session.size)
    reader = TerminalReader(load_patterns("opencode"))
    request = reader.read(screen).request
    assert request is not None
    assert [one.keys for one in request.choices] == [
        ("enter",),
        ("right", "enter"),
        ("right", "right", "enter"),
    ]
    # Somebody has moved on to the last one.
    at = next(n for n, row in enumerate(screen.rows(), 1) if "Allow once   Allow" in row.text)
    lit, dark = "\x1b[48;2;245;167;66m", "\x1b[48;2;30;30;30m"
    names = f"{dark}Allow once{dark}   Allow always   {lit}Reject{dark}"
    screen.feed(f"\x1b[{at};7H{names}".encode())
    moved = reader.read(screen).request
    assert moved == request and [one.keys for one in moved.choices] == [
        ("left", "left", "enter"),
        ("left", "enter"),
        ("enter",),
    ]


def test_the_same_on_the_other_emulator(any_of: Recorded):
    session = any_of
    reader = TerminalReader(load_patterns(session.agent))
    for moment in session.moments:
        if moment["state"] != "busy":
            screen = played(session.raw[: moment["at"]], session.size, "avt")
            assert reader.read(screen).state == moment["state"], moment["name"]


def said(session: Recorded, name: str) -> TurnText:
    """The last turn before a moment, read as the link reads it."""
    knowledge = load_patterns(session.agent)
    screen = played(session.until(name), session.size)
    reader = TurnTextFinder(knowledge.answer, knowledge.columns)
    lines = _above(screen, TerminalReader(knowledge).read(screen).chrome, reader)
    return reader.read(lines, TextBeforeTurn(prompts=0, last=()))


def _above(screen: Emulator, chrome: int, reader: TurnTextFinder) -> list[str]:
    if not screen.modes.alternate_screen:
        lines = screen.text()
    else:
        rows = list(screen.rows())
        while rows and not rows[-1].text:
            rows.pop()
        lines = [reader.plain(row, reader.color(rows[-chrome])) for row in rows]
    while lines and not lines[-1]:
        lines.pop()
    return lines[: len(lines) - chrome]
