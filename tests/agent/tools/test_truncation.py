"""What is left out is counted exactly."""

import re

from hypothesis import given, settings
from hypothesis import strategies as st

from quarterdeck.agent.tools.truncation import keep_ends, keep_head, shorten


@given(text=st.text("aé€😀\n", max_size=200), limit=st.integers(1, 100))
@settings(deadline=None, max_examples=100)
def test_ends_and_what_is_between_are_the_whole(text: str, limit: int):
    kept = keep_ends(text, limit)
    if kept.is_whole:
        assert kept.text == text
        return
    match = re.fullmatch(r"(.*)\n\[… (\d+) bytes omitted …\]\n(.*)", kept.text, re.DOTALL)
    assert match
    head, dropped, tail = match.groups()
    assert text.startswith(head)
    assert text.endswith(tail)
    assert len((head + tail).encode()) <= limit
    assert len(text.encode()) == len((head + tail).encode()) + int(dropped)
    assert kept.dropped_bytes == int(dropped)


@given(line=st.text("aé€😀", max_size=100), limit=st.integers(4, 50))
@settings(deadline=None, max_examples=100)
def test_short_line_and_its_rest_are_the_whole(line: str, limit: int):
    told = shorten(line, limit)
    if told == line:
        assert len(line.encode()) <= limit
        return
    kept, rest = re.fullmatch(r"(.*) … \[(\d+) more bytes in this line\]", told).groups()
    assert line.startswith(kept)
    assert len(kept.encode()) + int(rest) == len(line.encode())


def test_head_says_which_limit_was_reached():
    lines = ["12345"] * 10
    assert keep_head(lines, max_lines=100).is_whole
    kept = keep_head(lines, max_lines=4)
    assert (kept.lines, kept.dropped_lines, kept.dropped_bytes, kept.limit) == (4, 6, 36, "lines")
    kept = keep_head(lines, max_lines=100, max_bytes=20)
    assert (kept.lines, kept.dropped_lines, kept.limit) == (3, 7, "bytes")
