"""Limits as people write them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quarterdeck.wire.budgets import BUDGET_UNITS, BudgetLimit, describe_limit, parse_limit


@pytest.mark.parametrize(
    ("text", "unit", "amount"),
    [
        ("5usd", "usd", 5.0),
        ("0.25 USD", "usd", 0.25),
        (".5$", "usd", 0.5),
        ("200ktok", "tokens", 200_000),
        ("1.5mtok", "tokens", 1_500_000),
        ("1_000tok", "tokens", 1_000),
        ("50calls", "calls", 50),
        ("1call", "calls", 1),
        ("30min", "seconds", 1_800),
        ("90s", "seconds", 90),
        ("2h", "seconds", 7_200),
        ("8agents", "agents", 8),
    ],
)
def test_a_limit_is_read(text: str, unit: str, amount: float):
    assert parse_limit(text) == BudgetLimit(unit=unit, amount=amount)


@pytest.mark.parametrize(
    "text",
    [
        *("", "5", "usd", "-5usd", "0usd", "nanusd", "infusd", "1e9usd", "5 eur", "1.5calls"),
        *("5usd 3", "0.0001tok", "9" * 40 + "tok", "٥usd", "5usd\n6usd"),
    ],
)
def test_what_is_no_limit_is_refused_with_an_example(text: str):
    with pytest.raises(ValueError, match="is no budget"):
        parse_limit(text)


@given(st.sampled_from(BUDGET_UNITS), st.integers(1, 10**12))
def test_a_limit_that_is_shown_can_be_typed(unit, thousandths):
    whole = unit in ("tokens", "calls", "agents")
    amount = float(thousandths if whole else thousandths / 1000)
    shown = describe_limit(unit, amount)
    again = parse_limit(shown)
    assert again.unit == unit
    assert again.amount == pytest.approx(amount, rel=0.06)
