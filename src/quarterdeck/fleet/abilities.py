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
    """Whether it surely takes a system prompt over every transport that is tried."""
    reaches = _reaches(agent, transport)
    return bool(reaches) and all(
        "system_prompt" in reach.words or (name == "pipe" and reach.dialect in _WITH_PROMPT)
        for name, reach in reaches
    )


def _reaches(agent: Agent, transport: str | None) -> list[tuple[str, Reach]]:
    tried = (transport,) if transport is not None else agent.tried
    return [(name, reach) for name, reach in agent.transports.items() if name in tried]
