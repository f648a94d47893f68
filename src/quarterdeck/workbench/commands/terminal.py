"""What a person says about terminals: open one, show one that runs, look at an agent's screen."""

import sys
from typing import TYPE_CHECKING, Any

from ..remote_control import RefusedCallError
from ..terminal.command_line import format_command_line, parse_command_line

if TYPE_CHECKING:
    from quarterdeck.fleet.terminals.api import TerminalInfo

    from ..app import Workbench

__all__ = [
    "choose_terminal",
    "leave_terminal",
    "open_terminal",
    "show_web_pairing",
    "toggle_agent_terminal",
]


async def open_terminal(app: "Workbench", words: str) -> None:
    """Open a terminal with the person's shell, or with a command. Raises QuarterdeckError."""
    options: dict[str, Any] = {"cwd": app.context.cwd}
    if argv := parse_command_line(words):
        options["command"] = list(argv)
    await app.screen_controller.call("open_panel", {"widget": "terminal", "options": options})


async def show_web_pairing(app: "Workbench", words: str) -> None:
    """Show the QR code that pairs a browser, and the paired devices; ``words``: more options.

    In a terminal, because the browser interface is a program of its own. Raises QuarterdeckError.
    """
    command = [sys.executable, "-P", "-m", "quarterdeck", "web", "pair", "--start"]
    options = {"cwd": app.context.cwd, "command": [*command, *parse_command_line(words)]}
    await app.screen_controller.call("open_panel", {"widget": "terminal", "options": options})


async def choose_terminal(app: "Workbench", _: str) -> None:
    """Let the person choose one of those that run, to see it or to end it.

    Raises QuarterdeckError.
    """
    from ..screens.pickers import TerminalsScreen

    terminals = await app.context.fleet.terminals()
    if not terminals:
        app.show_message("no running terminals; /terminal opens one")
        return
    chosen = await app.push_screen_wait(TerminalsScreen(terminals))
    if chosen is None:
        return
    found = next(one for one in terminals if one.id == chosen[0])
    await (_end if chosen[1] else _show)(app, found)


async def _show(app: "Workbench", terminal: "TerminalInfo") -> None:
    from ..panels.terminal.panel import TerminalPanel

    panels = app.main.view.panels
    for name, panel in panels.items():
        if not isinstance(panel, TerminalPanel):
            continue
        if panel.terminal == terminal.id or (
            terminal.session and panel.session == terminal.session
        ):
            await app.screen_controller.call("focus", {"panel": name})
            return
    options: dict[str, Any] = {"agent": terminal.session}
    if terminal.session is None:
        options = {"terminal": terminal.id, "cwd": terminal.cwd, "command": terminal.command}
    await app.screen_controller.call("open_panel", {"widget": "terminal", "options": options})


async def _end(app: "Workbench", terminal: "TerminalInfo") -> None:
    from ..screens.dialogs import ConfirmScreen

    if terminal.session is not None:
        raise RefusedCallError(f"{terminal.name!r} is an agent; use /close to end it")
    if terminal.ended is None:
        words = f"{format_command_line(terminal.command)}\nin {terminal.cwd}"
        asked = ConfirmScreen(f"end {terminal.name} and its child processes?", words, "end")
        if not await app.push_screen_wait(asked):
            return
    await app.context.fleet.close_terminal(terminal.id)
    app.show_message(f"ended {terminal.name}")


def toggle_agent_terminal(app: "Workbench", _: str) -> None:
    """Show the live screen of the agent in view, or its transcript. Raises RefusedCallError."""
    from ..panels.transcript import TranscriptPanel

    current = app.main.view.panels.get(app.main.view.current or "")
    (current if isinstance(current, TranscriptPanel) else app.main.panel).toggle_screen()


def leave_terminal(app: "Workbench", _: str) -> None:
    """Let keys be the workbench's again."""
    from ..widgets.terminal import TerminalView

    if isinstance(app.focused, TerminalView):
        app.focused.end_typing()
