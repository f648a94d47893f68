"""The words of an agent's command line, from what its file says about each option."""

from collections.abc import Mapping

from .agent_process import Launch
from .errors import UnsupportedError

__all__ = ["LONGEST_WORD", "check_argument", "render_agent_mode", "render_mode", "render_option"]

LONGEST_WORD = 128 * 1024 - 1
"""Bytes that one word of a command line may have on Linux; elsewhere the limit is higher."""


def render_option(
    launch: Launch, transport: str, option: str, value: str | bool | tuple[str, ...] | None
) -> tuple[str, ...]:
    """The words that give the agent this option; none for None, False or an empty tuple.

    ``{}`` in a word is replaced by the value, which is never split or quoted. A tuple gives the
    words once for each of its values.

    Raises:
        UnsupportedError: the agent has no words for the option, or a value cannot be one word.
    """
    if value is None or value is False or value == ():
        return ()
    words = launch.words.get(option)
    if words is None:
        raise UnsupportedError(launch.agent, transport, f"accept the option {option!r}")
    if value is True:
        return words
    values = value if isinstance(value, tuple) else (value,)
    return tuple(
        word.replace("{}", check_argument(launch, transport, option, one))
        for one in values
        for word in words
    )


def render_mode(launch: Launch, transport: str, mode: str) -> tuple[str, ...]:
    """The words for a mode of ours.

    Raises:
        UnsupportedError: the agent has none for it; names those that it has.
    """
    return _chosen(launch, transport, "mode", launch.modes, mode)


def render_agent_mode(launch: Launch, transport: str, mode: str | None) -> tuple[str, ...]:
    """The words for a mode of the agent's own; none for None. Raises as ``render_mode``."""
    if mode is None:
        return ()
    return _chosen(launch, transport, "agent_mode", launch.agent_modes, mode)


def check_argument(launch: Launch, transport: str, option: str, value: str) -> str:
    """The value, once it is known that it can be a word of a command line.

    Raises:
        UnsupportedError: it has a NUL, or is too long.
    """
    if "\0" in value:
        raise UnsupportedError(launch.agent, transport, f"accept a NUL character in {option!r}")
    if len(value.encode("utf-8", "surrogatepass")) > LONGEST_WORD:
        raise UnsupportedError(
            launch.agent, transport, f"accept more than {LONGEST_WORD} bytes in {option!r}"
        )
    return value


def _chosen(
    launch: Launch,
    transport: str,
    option: str,
    table: Mapping[str, tuple[str, ...]],
    value: str,
) -> tuple[str, ...]:
    words = table.get(value)
    if words is None:
        known = ", ".join(table)
        instead = f"It has {known}." if known else ""
        raise UnsupportedError(launch.agent, transport, f"accept the {option} {value!r}", instead)
    return words
