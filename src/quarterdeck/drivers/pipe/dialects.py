"""Which dialect an agent's file means, for agents that run once for each turn."""

from ..child import Launch
from ..errors import BadAgentFile
from .codex import CODEX
from .cursor import CURSOR
from .dialect import Dialect
from .gemini import GEMINI
from .generic import generic
from .opencode import OPENCODE
from .pi import PI

__all__ = ["DIALECTS", "dialect_of"]

DIALECTS = {dialect.name: dialect for dialect in (CODEX, GEMINI, OPENCODE, CURSOR, PI)}
"""Those that are code; ``generic`` is made of the agent's own table."""


def dialect_of(launch: Launch) -> Dialect:
    """The dialect of an agent.

    Raises:
        BadAgentFile: there is none of that name, or the table of a generic one is wrong.
    """
    if launch.dialect == "generic":
        return generic(launch.agent, launch.events)
    dialect = DIALECTS.get(launch.dialect)
    if dialect is None:
        known = ", ".join((*DIALECTS, "generic"))
        raise BadAgentFile(f"{launch.agent}: no dialect {launch.dialect!r}; known are {known}.")
    return dialect
