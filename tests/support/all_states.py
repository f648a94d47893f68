"""Every state that the workbench can be in, from the modules that stage them."""

from . import (
    agent_states,
    choice_states,
    home_states,
    input_states,
    panel_states,
    review_states,
    talk_states,
    terminal_states,
)
from .staged_workbench import STATES

__all__ = ["STATES"]

assert agent_states and choice_states and home_states and input_states  # they name the states
assert panel_states and review_states and talk_states and terminal_states
