"""Commands for terminals."""

from .command import Command

__all__ = ["TERMINAL_COMMANDS"]

TERMINAL_COMMANDS = (
    Command(
        name="terminal",
        help="open a terminal: your shell, or COMMAND",
        target="terminals.opening:open_terminal",
    ),
    Command(
        name="terminals",
        help="choose among the terminals that run",
        target="terminals.opening:choose_terminal",
    ),
    Command(
        name="screen",
        help="the live screen of an agent in a terminal, or its transcript again",
        target="terminals.opening:toggle_screen",
    ),
    Command(
        name="leave-terminal",
        help="end typing into the terminal; bind it with @terminal",
        target="terminals.opening:leave_terminal",
    ),
)
"""In the order of the help."""
