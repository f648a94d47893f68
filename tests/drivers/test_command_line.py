"""Words of a command line: whole values, named refusals."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quarterdeck.drivers.agent_process import Launch
from quarterdeck.drivers.command_line import (
    LONGEST_WORD,
    render_agent_mode,
    render_mode,
    render_option,
)
from quarterdeck.drivers.errors import UnsupportedError

LAUNCH = Launch(
    agent="teller",
    command=("teller",),
    words={"model": ("--model", "{}"), "effort": ("-c", "effort={}"), "fork": ("--fork",)},
    modes={"ask": ("--sandbox", "read-only")},
    agent_modes={"plan": ("--plan",)},
)


def test_a_value_is_one_word() -> None:
    assert render_option(LAUNCH, "pipe", "model", "a b; {}") == ("--model", "a b; {}")
    assert render_option(LAUNCH, "pipe", "effort", "high") == ("-c", "effort=high")


def test_several_values_repeat_the_words() -> None:
    assert render_option(LAUNCH, "pipe", "model", ("a", "b")) == ("--model", "a", "--model", "b")


def test_a_flag_takes_no_value() -> None:
    assert render_option(LAUNCH, "pipe", "fork", True) == ("--fork",)


@pytest.mark.parametrize("nothing", [None, False, ()])
def test_what_was_not_asked_for_needs_no_words(nothing: bool | tuple[()] | None) -> None:
    assert render_option(LAUNCH, "pipe", "unheard of", nothing) == ()


def test_an_option_without_words_is_refused_by_name() -> None:
    with pytest.raises(
        UnsupportedError, match="teller over pipe cannot accept the option 'resume'"
    ):
        render_option(LAUNCH, "pipe", "resume", "1")


def test_an_empty_value_is_given_on() -> None:
    assert render_option(LAUNCH, "pipe", "model", "") == ("--model", "")


@pytest.mark.parametrize("value", ["a\0b", "x" * (LONGEST_WORD + 1)])
def test_what_no_command_line_can_hold_is_refused(value: str) -> None:
    with pytest.raises(UnsupportedError, match="'model'"):
        render_option(LAUNCH, "pipe", "model", value)


def test_modes_are_chosen_by_name() -> None:
    assert render_mode(LAUNCH, "pipe", "ask") == ("--sandbox", "read-only")
    assert render_agent_mode(LAUNCH, "pipe", "plan") == ("--plan",)
    assert render_agent_mode(LAUNCH, "pipe", None) == ()


def test_an_unknown_mode_is_refused_with_the_known() -> None:
    with pytest.raises(UnsupportedError, match=r"the agent_mode 'yolo'\. It has plan\."):
        render_agent_mode(LAUNCH, "pipe", "yolo")
    with pytest.raises(UnsupportedError, match="the mode 'full'"):
        render_mode(LAUNCH, "pipe", "full")


@settings(deadline=None, max_examples=50)
@given(st.text(max_size=50).filter(lambda text: "\0" not in text))
def test_any_text_arrives_unchanged(value: str) -> None:
    assert render_option(LAUNCH, "pipe", "model", value) == ("--model", value)
