"""Tokens added up, and taken apart again."""

from quarterdeck.wire.usage import TokenUsage


def test_what_was_added_to_a_running_total():
    before = TokenUsage(input=10, output=4, cached=2, thought=1)
    more = TokenUsage(input=5, output=3, cached=1, cache_written=2)
    assert (before + more).since(before) == more


def test_a_total_that_began_anew_counts_as_it_is():
    total = TokenUsage(input=3, output=9, cached=1)
    assert total.since(TokenUsage(input=10, output=4)) == total
    assert total.since(TokenUsage(input=1, output=10)) == total


def test_a_part_that_fell_counts_as_nothing():
    total = TokenUsage(input=12, output=4, cached=1)
    assert total.since(TokenUsage(input=10, output=4, cached=8)).cached == 0
