"""What an agent can be given before it runs, as far as its file tells."""

from quarterdeck.drivers.description import Agent, Reach

__all__ = ["takes_system_prompt", "takes_tools"]

_WITH_TOOLS = frozenset(("claude", "qwen", "codex", "opencode"))
"""Dialects over a pipe in which tool servers can be named."""
_WITH_PROMPT = frozenset(("codex",))
"""Dialects in which a system prompt needs no words of the agent's file."""


def takes_tools(agent: Agent, transport: str | None) -> bool:
    """Whether it can be told of tool servers, over this transport or one that is tried."""
    return any(
        name == "acp" or (name == "pipe" and reach.dialect in _WITH_TOOLS)
        for name, reach in _reaches(agent, transport)
    )


def takes_system_prompt(agent: Agent, transport: str | None) -> bool:
    """Whether it takes a system prompt over this transport, or the first that is tried."""
    return any(
        "system_prompt" in reach.words or (name == "pipe" and reach.dialect in _WITH_PROMPT)
        for name, reach in _reaches(agent, transport)[:1]
    )


def _reaches(agent: Agent, transport: str | None) -> list[tuple[str, Reach]]:
    """The ways to it, in the order in which they are tried."""
    tried: tuple[str, ...] = (transport,) if transport is not None else agent.tried
    known = [(name, reach) for name, reach in agent.transports.items() if name in tried]
    return sorted(known, key=lambda pair: tried.index(pair[0]))
