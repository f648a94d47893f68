"""What a server says it used is believed within reason, and never costs an answer."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quarterdeck.models.reply import UNSAID, bound_counts, read_counts
from quarterdeck.wire.usage import TokenUsage

COUNTS = st.integers(-(10**30), 10**30)


class Form(msgspec.Struct):
    tokens: int | None = None


@pytest.mark.parametrize("raw", [b'{"tokens": "many"}', b"[]", b"7", b'"x"', b'{"tokens": 1.5}'])
def test_what_is_no_count_is_unknown(raw: bytes):
    assert read_counts(msgspec.Raw(raw), Form) is None


def test_counts_are_read_where_they_are_sent():
    assert read_counts(msgspec.Raw(b'{"tokens": 3, "more": {}}'), Form) == Form(3)
    assert read_counts(UNSAID, Form) is None


def test_honest_counts_stay_as_they_are():
    usage = TokenUsage(input=10, output=5, cached=6, cache_written=4, thought=5)
    assert bound_counts(usage) == usage


@given(st.tuples(COUNTS, COUNTS, COUNTS, COUNTS, COUNTS))
@settings(deadline=None, max_examples=100)
def test_no_part_is_larger_than_its_whole_and_none_below_nought(counts: tuple[int, ...]):
    given_, output, cached, written, thought = counts
    usage = bound_counts(
        TokenUsage(
            input=given_, output=output, cached=cached, cache_written=written, thought=thought
        )
    )
    assert usage.input >= usage.cached + usage.cache_written >= usage.cached >= 0
    assert usage.output >= usage.thought >= 0
    assert usage.total < 2**63
