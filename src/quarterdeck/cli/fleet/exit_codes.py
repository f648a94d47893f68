"""Exit codes of the fleet's commands; documented in docs/fleet.md."""

from collections.abc import Sequence

from quarterdeck.fleet.api import AgentInfo

__all__ = [
    "ANSWERED",
    "CONFLICTS",
    "ENDED_BADLY",
    "NEEDS_PERSON",
    "NO_HOST",
    "OK",
    "TIMED_OUT",
    "rest_code",
]

OK = 0
NO_HOST = 3
NEEDS_PERSON = 4
"""An agent waits for an answer of a person."""
ENDED_BADLY = 5
"""An agent failed, was killed or interrupted."""
ANSWERED = 6
"""The request was answered before."""
CONFLICTS = 7
"""Git cannot merge what agents changed."""
TIMED_OUT = 124

_BAD = ("failed", "killed", "interrupted")


def rest_code(agents: Sequence[AgentInfo]) -> int:
    """The code for agents that are at rest."""
    if any(agent.state in _BAD for agent in agents):
        return ENDED_BADLY
    return NEEDS_PERSON if any(agent.needs_person for agent in agents) else OK
