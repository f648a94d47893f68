from random import Random

import pytest

from quarterdeck.models.errors import (
    CallError,
    ContextOverflowError,
    ModelSetupError,
    OverloadedError,
    QuotaExceededError,
    RateLimitedError,
    RequestRejectedError,
    StreamBrokenError,
    UnauthorizedError,
    VendorUnreachableError,
)
from quarterdeck.models.retry import CAP, FIRST, JITTER, retry_delay


def test_the_vendors_wait_is_kept_exactly():
    error = RateLimitedError("slow", retry_after=7.25)
    assert retry_delay(1, error, retries=3, draw=Random(1).random) == 7.25
    assert (
        retry_delay(3, RateLimitedError("slow", retry_after=0.0), retries=3, draw=Random(1).random)
        == 0.0
    )
    assert (
        retry_delay(
            1, RateLimitedError("slow", retry_after=900.0), retries=3, draw=Random(1).random
        )
        == 900.0
    )


@pytest.mark.parametrize(
    "kind", [RateLimitedError, OverloadedError, VendorUnreachableError, StreamBrokenError]
)
def test_delays_double_up_to_a_cap_and_differ(kind: type[CallError]):
    for attempt in range(1, 60):
        delays = {
            retry_delay(attempt, kind("x"), retries=99, draw=Random(n).random) for n in range(20)
        }
        middle = min(CAP, FIRST * 2 ** (attempt - 1))
        assert len(delays) > 10
        for delay in delays:
            assert delay is not None
            assert middle * (1 - JITTER) <= delay <= middle * (1 + JITTER)


@pytest.mark.parametrize(
    "kind", [UnauthorizedError, RequestRejectedError, ContextOverflowError, QuotaExceededError]
)
def test_what_cannot_succeed_is_not_tried_again(kind: type[CallError]):
    assert retry_delay(1, kind("x"), retries=3, draw=Random(1).random) is None


def test_a_missing_setup_is_not_tried_again():
    assert retry_delay(1, ModelSetupError("no key"), retries=3, draw=Random(1).random) is None


def test_retries_are_counted():
    error = OverloadedError("x")
    given = [retry_delay(n, error, retries=2, draw=Random(1).random) is not None for n in (1, 2, 3)]
    assert given == [True, True, False]
    assert retry_delay(1, error, retries=0, draw=Random(1).random) is None
