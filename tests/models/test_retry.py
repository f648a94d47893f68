from random import Random

import pytest

from quarterdeck.models.errors import (
    CallError,
    ContextOverflow,
    ModelSetupError,
    Overloaded,
    QuotaExceeded,
    RateLimited,
    Rejected,
    StreamBroken,
    Unauthorized,
    Unreachable,
)
from quarterdeck.models.retry import CAP, FIRST, JITTER, backoff


def test_the_vendors_wait_is_kept_exactly():
    error = RateLimited("slow", retry_after=7.25)
    assert backoff(1, error, retries=3, random=Random(1)) == 7.25
    assert backoff(3, RateLimited("slow", retry_after=0.0), retries=3, random=Random(1)) == 0.0
    assert backoff(1, RateLimited("slow", retry_after=900.0), retries=3, random=Random(1)) == 900.0


@pytest.mark.parametrize("kind", [RateLimited, Overloaded, Unreachable, StreamBroken])
def test_delays_double_up_to_a_cap_and_differ(kind: type[CallError]):
    for attempt in range(1, 60):
        delays = {backoff(attempt, kind("x"), retries=99, random=Random(n)) for n in range(20)}
        middle = min(CAP, FIRST * 2 ** (attempt - 1))
        assert len(delays) > 10
        for delay in delays:
            assert delay is not None
            assert middle * (1 - JITTER) <= delay <= middle * (1 + JITTER)


@pytest.mark.parametrize("kind", [Unauthorized, Rejected, ContextOverflow, QuotaExceeded])
def test_what_cannot_succeed_is_not_tried_again(kind: type[CallError]):
    assert backoff(1, kind("x"), retries=3, random=Random(1)) is None


def test_a_missing_setup_is_not_tried_again():
    assert backoff(1, ModelSetupError("no key"), retries=3, random=Random(1)) is None


def test_retries_are_counted():
    error = Overloaded("x")
    given = [backoff(n, error, retries=2, random=Random(1)) is not None for n in (1, 2, 3)]
    assert given == [True, True, False]
    assert backoff(1, error, retries=0, random=Random(1)) is None
