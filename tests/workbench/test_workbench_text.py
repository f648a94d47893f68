"""Foreign text is shown literally, whole, and in lines that fit."""

import unicodedata

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from quarterdeck.workbench.rendering.lines import GrowingLines, clip, text_of, width_of, wrap
from quarterdeck.workbench.rendering.markdown import markdown_lines
from quarterdeck.workbench.sanitize import sanitize_line, sanitize_text
from tests.support.hostile_text import hostile_strings

anything = st.text(alphabet=st.characters(exclude_categories=[]), max_size=80)


@settings(deadline=None, max_examples=300)
@given(anything)
@example("\u202e\x1b[31m\u200b\ud800")
def test_nothing_with_power_or_without_a_shape_is_left(text: str):
    for character in sanitize_text(text):
        category = unicodedata.category(character)
        assert character == "\n" or category[0] != "C"
        assert category not in ("Zl", "Zp")
        assert character not in "\u200b\u200c\u200d\ufe0f\u3164\u2800\u115f"


def test_ordinary_text_stays_as_it_is():
    for text in ("plain", "naïve café", "你好, мир", "a\nb", "ﬁ → … ✓", "👍"):
        assert sanitize_text(text) == text
    assert sanitize_text("⚠\ufe0f ok") == "⚠ ok"
    assert sanitize_text("r\u200dm") == "r\\u200dm"
    assert sanitize_line("a\n\tb  c") == "a b c"


@settings(deadline=None, max_examples=200)
@given(st.text(alphabet="ab 你\n", max_size=80), st.integers(2, 14), st.integers(1, 9))
def test_a_growing_text_is_wrapped_like_a_whole_one(text: str, width: int, step: int):
    growing = GrowingLines(width)
    for at in range(0, len(text), step):
        growing.add(text[at : at + step])
        assert growing.lines
    whole = [line for part in text.split("\n") for line in wrap([(part, "text")], width)]
    assert growing.lines == whole
    assert all(width_of(line) <= width for line in whole)


@settings(deadline=None, max_examples=100)
@given(st.text(alphabet="ab 你👍", max_size=40), st.integers(1, 20))
def test_a_clipped_line_fits_and_says_that_it_is_cut(text: str, width: int):
    shown = text_of(clip(((text, "text"),), width))
    assert cell_len(shown) <= width
    assert shown == text or shown.endswith("…")


@pytest.mark.parametrize("width", [20, 60])
def test_markdown_leaves_no_word_out(width: int):
    source = (
        "# Head <b>raw</b>\n<!-- hidden -->\n![pic](http://img/)\n[ref]: http://ref/\n\n"
        "a **strong** `code` [text](http://target/) &#8238;\n\n- one\n  1. two\n\n"
        "> quoted\n\n```py secret\ndef f(): pass\n```\n\n| a | b |\n|---|---|\n| cell | other |\n"
    )
    lines = markdown_lines(source, width)
    shown = "".join(text_of(line).replace(" ", "") for line in lines)
    for word in (
        "<b>raw</b>", "<!--hidden-->", "http://img/", "[ref]:http://ref/", "strong", "code",
        "http://target/", "&#8238;", "one", "two", "quoted", "secret", "deff():pass", "cell",
    ):  # fmt: skip
        assert word in shown.replace("▌", ""), word
    assert all(width_of(line) <= width for line in lines)


def test_hostile_text_survives_markdown_at_any_width():
    for text in hostile_strings(300):
        for width in (8, 33, 100):
            for line in markdown_lines(sanitize_text(text), width):
                shown = text_of(line)
                assert sanitize_text(shown) == shown
                assert "\n" not in shown
