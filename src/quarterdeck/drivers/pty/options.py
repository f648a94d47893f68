"""The words that an agent in a terminal is started with, for every field of an opening."""

from ..child import Launch
from ..driver import Opening
from ..errors import Unsupported
from ..words import render, render_agent_mode

__all__ = ["TRANSPORT", "words_of"]

TRANSPORT = "pty"


def words_of(launch: Launch, opening: Opening, session: str | None) -> tuple[str, ...]:
    """The words; ``session`` is an id for a new session where the agent takes one.

    ``title`` is ours to keep, ``replay`` may be declined, ``mode`` is our gate's.

    Raises:
        Unsupported: the agent has no words for an option.
    """
    if opening.mcp_servers:
        raise Unsupported(launch.agent, TRANSPORT, "take the option 'mcp_servers'")
    words: list[str] = []
    if opening.agent_mode is not None:
        words += render_agent_mode(launch, TRANSPORT, opening.agent_mode)
    else:
        words += launch.words.get("ask", ())
    words += render(launch, TRANSPORT, "model", opening.model)
    words += render(launch, TRANSPORT, "roots", opening.roots)
    words += render(launch, TRANSPORT, "system_prompt", opening.system_prompt)
    if opening.resume is not None:
        words += render(launch, TRANSPORT, "fork" if opening.fork else "resume", opening.resume)
    elif session is not None:
        words += render(launch, TRANSPORT, "session", session)
    return (*words, *opening.arguments)
