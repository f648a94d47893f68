"""What models say cannot do anything to a terminal, and tables fit into it."""

import unicodedata

import msgspec
from hypothesis import example, given, settings
from hypothesis import strategies as st

from quarterdeck.cli.output import (
    count,
    count_columns,
    cut_to_width,
    escape_controls,
    escape_json,
    escape_to_line,
    format_age,
    table,
)
from quarterdeck.fleet.api import AgentInfo
from quarterdeck.wire.ids import SessionId
from quarterdeck.wire.usage import Cost, TokenUsage


@settings(deadline=None, max_examples=200)
@given(st.text())
def test_nothing_that_controls_a_terminal_is_left(text: str):
    for character in escape_controls(text):
        category = unicodedata.category(character)
        assert character == "\n" or character in "\u200c\u200d" or category[0] not in "C"
        assert category not in ("Zl", "Zp")


def test_hidden_things_are_shown():
    assert escape_controls("a\x1b[2Jb\u202ec\x9b") == "a\\x1b[2Jb\\u202ec\\x9b"
    assert escape_controls("zero\u200bwidth\u2066") == "zero\\u200bwidth\\u2066"
    assert escape_controls("plain, 你好, é, \u3000 and 👩‍👧") == "plain, 你好, é, \u3000 and 👩‍👧"
    assert escape_to_line("a\n\tb\rc") == "a b c"


@settings(deadline=None, max_examples=200)
@given(st.text(alphabet=st.characters(exclude_categories=["Cs"])))
@example("\x7f\x9b\u202e")
def test_json_means_the_same_and_controls_nothing(text: str):
    shown = escape_json(msgspec.json.encode({text: [text]}).decode())
    assert msgspec.json.decode(shown) == {text: [text]}
    assert escape_controls(shown) == shown


@settings(deadline=None, max_examples=100)
@given(st.text(alphabet="aé你👍 b"), st.integers(1, 20))
def test_what_is_cut_fits(text: str, width: int):
    assert count_columns(cut_to_width(text, width)) <= width
    assert cut_to_width(text, count_columns(text)) == text


def test_numbers_and_times_are_short():
    assert [count(n) for n in (0, 999, 1_500, 23_456, 4_100_000)] == [
        "0", "999", "1.5k", "23k", "4.1M",
    ]  # fmt: skip
    second = 1_000_000
    assert [format_age(0, n * second) for n in (5, 61, 7_300, 200_000)] == ["5s", "1m", "2h", "2d"]


def test_the_list_of_agents_fits_into_eighty_columns():
    from quarterdeck.cli.fleet.sessions import agent_table

    def agent(name: str, **facts: object) -> AgentInfo:
        return AgentInfo(
            session=SessionId("ses_1"),
            name=name,
            agent="claude",
            cwd="/",
            usage=TokenUsage(input=12_345),
            cost=Cost(amount=1.234, currency="USD"),
            **facts,  # type: ignore[arg-type]
        )

    agents = [
        agent(
            "ann",
            state="waiting",
            needs_person=True,
            waits_for="permission",
            title="Mend the \x1b[31m parser",
        ),
        agent("a-rather-long-name-for-an-agent-indeed", state="interrupted", title="你好" * 40),
        agent("bob", state="failed", reason="no such model"),
    ]
    lines = list(agent_table(agents, 80, 90 * 1_000_000))
    assert max(count_columns(line) for line in lines) <= 80
    assert " ".join(lines[0].split()) == "NAME AGENT STATE WAITING FOR AGE TOKENS COST TITLE"
    said = " ".join(lines[1].split())
    assert said.startswith("ann claude needs you permission 1m 12k 1.23 $")
    assert "\x1b" not in "".join(lines)
    assert "no such model"[:8] in lines[3]
    wide = list(agent_table(agents, None, 0))
    assert "a-rather-long-name-for-an-agent-indeed" in wide[2]


def test_a_narrow_terminal_still_shows_every_column():
    rows = [("x" * 30, "y" * 30, "z" * 30)]
    for width in (20, 40, 80):
        lines = list(table(("ONE", "TWO", "THREE"), rows, width))
        assert max(map(count_columns, lines)) <= width
