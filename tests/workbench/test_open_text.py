"""A message that is being written: what is decided is drawn, and what was drawn stays."""

import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quarterdeck.wire.content import text
from quarterdeck.wire.events import MessageChunk, NoticePosted
from quarterdeck.wire.ids import MessageId, SessionId
from quarterdeck.wire.record import Record
from quarterdeck.workbench.rendering.block_layout import BlockLayout
from quarterdeck.workbench.rendering.lines import Line, text_of, width_of
from quarterdeck.workbench.rendering.open_text import OpenText
from quarterdeck.workbench.stores.blocks import MOST_TEXT
from quarterdeck.workbench.stores.transcript import TranscriptStore

SESSION = SessionId("ses_1")
BLOCKS = (
    "# A **head**", "words and **more** words, `code` and *em*phasis",
    "- one\n- **two**\n\n- three", "1. first\n1. second\n1. third `x`",
    "> quoted\n> lines with ~~none~~",
    "```python\ndef f():\n\n    return 1\n```", "- item\n\n  ```\n  code\n\n  more\n  ```\n- next",
    "para\n- tight list\n- of [a link](https://example.com/a_b) and more", "    indented code",
    "- [ ] open\n- [x] done", "2 * 3 * 4 and snake_case_name",
    "text before\n```\nfence\n```\ntext after",
    "first\n\n---\n\nlast", "* a\n  * b\n    continued\n* c",
)  # fmt: skip
sources = st.lists(st.sampled_from(BLOCKS), min_size=1, max_size=4).map("\n\n".join)


def record(seq: int, words: str) -> Record:
    event = MessageChunk(content=text(words), message=MessageId("m"))
    return Record(seq=seq, time=seq, session=SESSION, event=event)


class Watched:
    """A transcript that is watched while a message is written."""

    def __init__(self, width: int = 60) -> None:
        self.store = TranscriptStore(SESSION)
        self.store.start([], is_end=True)
        self.layout = BlockLayout(width)
        self.written = ""
        self._seq = 0

    def write(self, words: str) -> None:
        self._seq += 1
        self.written += words
        self.store.live([record(self._seq, words)])

    def end(self) -> None:
        self._seq += 1
        note = NoticePosted(title="end")
        self.store.live([Record(seq=self._seq, time=0, session=SESSION, event=note)])

    def lines(self) -> list[Line]:
        self.layout.sync(self.store.blocks)
        lines: list[Line] = []
        at = 0
        while at < len(self.layout):
            self.layout.measure(at)
            lines += [self.layout.line(at, n) for n in range(self.layout.height(at))]
            at += 1
        while lines and not text_of(lines[-1]).strip():
            lines.pop()
        return lines

    def text(self) -> list[str]:
        return [text_of(line).rstrip() for line in self.lines()]


def open_lines(source: str, width: int = 60) -> list[Line]:
    return OpenText(is_code=False, text=source).lines(width)


@pytest.mark.parametrize(
    ("source", "shown", "role"),
    [
        ("split at **ev", "split at ev", "strong"),
        ("split at **every*", "split at every", "strong"),
        ("an *emph", "an emph", "emphasis"),
        ("calls `read(li", "calls read(li", "code"),
        ("see [the gui", "see the gui", "link"),
        ("see [the guide](https://exa", "see the guide", "link"),
        ("- one\n- **tw", "• two"[:4], "strong"),
        ("## He", "He", "heading"),
        ("~~go", "go", "struck"),
        ("- [x] do", "☑ do", "bullet"),
    ],
)
def test_what_is_open_is_drawn_without_its_marks(source: str, shown: str, role: str):
    line = open_lines(source)[-1]
    assert text_of(line).rstrip() == shown
    assert role in {role for _, role in line}


@pytest.mark.parametrize(
    "source",
    [
        "2 * 3 is",
        "*.py files",
        "a snake_case_na",
        "arr[0] and",
        "[1] says",
        "\\*not",
        "5 * x",
        "a*b",
    ],
)
def test_what_is_no_mark_is_drawn_as_it_is(source: str):
    (line,) = open_lines(source)
    assert text_of(line) == source.replace("\\", "")
    assert {role for _, role in line} == {"text"}


def test_a_mark_that_never_ends_comes_back():
    watched = Watched()
    watched.write("**Note that it is open")
    assert watched.text() == ["Note that it is open"]
    watched.write(" " + "word " * 70)
    assert watched.text()[0].startswith("**Note")
    watched.end()
    assert watched.text()[0].startswith("**Note")


@settings(deadline=None, max_examples=25)
@given(sources)
def test_lines_that_ended_never_change_while_more_is_written(source: str):
    watched = Watched()
    ended: list[str] = []
    for at, sign in enumerate(source):
        watched.write(sign)
        shown = watched.text()
        assert shown[: len(ended)] == ended, source[: at + 1]
        ended = shown if sign == "\n" else ended
    last = watched.text()
    watched.end()
    assert watched.text()[: len(last)] == last


@settings(deadline=None, max_examples=25)
@given(sources)
def test_no_mark_that_is_closed_later_is_ever_seen(source: str):
    watched = Watched()
    for sign in source:
        watched.write(sign)
        words = "\n".join(watched.text())
        assert "**" not in words and "`" not in words and "~~" not in words
        assert "](" not in words


def test_code_has_its_language_from_the_first_line_on_and_its_colours_soon():
    watched = Watched()
    watched.write("```pyth")
    assert watched.text() == []
    watched.write("on\ndef f")
    assert watched.text() == ["python", "  def f"]
    watched.write("():\n    return 1\nx")
    lines = watched.lines()
    assert "code-keyword" in {role for _, role in lines[1]}
    assert [text_of(line).rstrip() for line in lines][-1] == "  x"


def test_a_table_is_one_from_its_head_on_and_takes_rows_as_they_end():
    watched = Watched()
    watched.write("| name | si")
    head = watched.text()
    assert head[0].split() == ["name", "si"] and set(head[1]) == {"─"}
    watched.write("ze |\n|---|--")
    assert watched.text()[0].split() == ["name", "size"] and len(watched.text()) == 2
    watched.write("-|\n| a **lo")
    assert watched.text()[2] == "a lo"
    watched.write("ng** word | 4 |\n| b")
    rows = watched.text()
    assert rows[2].split() == ["a", "long", "word", "4"] and rows[3] == "b"
    assert rows[0].index("size") == rows[2].index("4")


@pytest.mark.parametrize("before", ["", "These are they:\n", "```\ncode\n```\n"])
def test_numbers_of_a_long_list_go_on_where_items_are_kept(before: str):
    watched = Watched()
    watched.write(before)
    for number in range(40):
        watched.write(f"1. item {number} with some words that make it longer\n")
        assert watched.text()[-1].startswith(f"{number + 1}. item {number} ")


@pytest.mark.parametrize(
    ("begin", "unit"),
    [("", "- an item with **some** words in `it`\n"), ("", "a line of **prose** that ends\n"),
     ("", "word **word** "), ("", "```python\nx = [1, 2, 3]\n```\n\n"),
     ("", "A paragraph with `code`.\n\n"), ("```python\n", "value = compute(one, two)  # sum\n"),
     ("```\n", "value = compute(one, two)  # sum\n"), ("```python\n", "value + "),
     ("- so:\n\n  ```python\n", "  value = compute(one, two)  # sum\n"),
     ("1. so:\n   ~~~\n", "   value = compute(one, two)  # sum\n")],
    ids=["list", "lines", "one line", "codes", "paragraphs", "code", "code without a language",
         "code in one line", "code in a list", "code in a numbered list"],
)  # fmt: skip
def test_the_cost_of_a_chunk_does_not_grow_for_ever(begin: str, unit: str):
    watched = Watched(100)
    watched.write(begin)

    def count_calls(characters: int) -> int:
        """How many functions are called for so many characters: work, whatever the machine."""
        calls = 0

        def note(_frame: object, event: str, _argument: object) -> None:
            nonlocal calls
            calls += event in ("call", "c_call")

        sys.setprofile(note)
        try:
            for at in range(characters // 40):
                watched.write((unit * 20)[at * 40 % len(unit) :][:40])
                watched.layout.sync(watched.store.blocks)
                watched.layout.reveal_end(30)
                assert watched.layout.total
        finally:
            sys.setprofile(None)
        return calls

    def fill(size: int) -> None:
        watched.write(unit * ((size - len(watched.written)) // len(unit)))

    fill(20_000)
    count_calls(1_000)
    early = min(count_calls(3_000), count_calls(3_000))
    fill(170_000)
    count_calls(1_000)
    late = min(count_calls(3_000), count_calls(3_000))
    assert len(watched.written) < MOST_TEXT  # else nothing of it is drawn
    assert late < 1.5 * early


@pytest.mark.parametrize(
    ("item", "indent"), [("- so:\n\n", 2), ("1. so:\n\n", 3)], ids=["bullets", "numbers"]
)
def test_long_code_in_a_list_stays_where_it_is_drawn(item: str, indent: int):
    watched = Watched(70)
    spaces = " " * indent
    code = [f"value_{at} = compute({at}, two)  # some words" for at in range(120)]
    code[60] = ""
    watched.write(f"{item}{spaces}```python\n")
    ended: list[str] = []
    for line in code:
        for part in (f"{spaces}{line[:9]}" if line else "", f"{line[9:]}\n"):
            watched.write(part)
            assert watched.text()[: len(ended)] == ended
        ended = watched.text()
    watched.write(f"{spaces}```\n")
    next_item = "1. next" if indent == 3 else "- next"
    watched.write(f"{next_item} with **words**\n\nThe end.")
    last = watched.text()
    watched.end()
    shown = [line for line in watched.text() if line]
    assert watched.text()[: len(last)] == last
    assert shown[1] == f"{spaces}python"
    assert shown[2:121] == [f"{spaces}  {line}".rstrip() for line in code if line]
    assert [line.split()[-2:] for line in shown[121:123]] == [["with", "words"], ["The", "end."]]
    roles = {role for line in watched.lines()[90:100] for _, role in line}
    assert "code-number" in roles and "code-comment" in roles


@settings(deadline=None, max_examples=80)
@given(st.text(alphabet="ab *_`~[]()|-\n#>1.\\:", max_size=120), st.integers(8, 40))
def test_any_text_that_is_being_written_fits(source: str, width: int):
    for line in open_lines(source, width):
        assert width_of(line) <= max(width, 10)
        assert "\n" not in text_of(line)
