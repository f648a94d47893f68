"""Every state that the workbench can be in, from the modules that stage them."""

from . import (
    agent_states,
    choice_states,
    group_states,
    home_states,
    input_states,
    panel_states,
    plan_states,
    review_states,
    talk_states,
    terminal_states,
    usage_states,
)
from .staged_workbench import STATES

__all__ = ["STATES"]

assert agent_states and choice_states and group_states and home_states  # they name the states
assert input_states and panel_states and plan_states and review_states and talk_states
assert terminal_states and usage_states
