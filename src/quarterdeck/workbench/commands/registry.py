"""The commands of the workbench: in the palette, as ``/name`` in the input, and for keys.

A command's code is imported when it is called.
"""

from collections.abc import Awaitable
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, TypeAlias, cast

if TYPE_CHECKING:
    from collections.abc import Callable

    from quarterdeck.fleet.api import AgentInfo, Fleet

__all__ = [
    "CHAT_COMMANDS",
    "COMMANDS",
    "FIRST_RUN_COMMANDS",
    "LAYOUT_COMMANDS",
    "PREFERENCE_ROWS",
    "TERMINAL_COMMANDS",
    "AgentAction",
    "WorkbenchCommand",
    "find_command",
]

AgentAction: TypeAlias = "Callable[[Fleet, AgentInfo, str], Awaitable[str]]"
"""Does it to an agent, with what was typed after the name; says what was done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkbenchCommand:
    """A name for something: a deed to the agent in view, an action, or a function of its own.

    One of ``action``, ``deed`` and ``target`` is set.
    """

    name: str
    help: str
    action: str | None = None
    """An action of the application."""
    deed: "AgentAction | None" = None
    target: str | None = None
    """``module:function``, below ``quarterdeck.workbench``: called with the application and the
    words after the name; what it returns is awaited if it can be. Imported when it is called."""
    asks: str | None = None
    """What has to be typed after the name; None: nothing."""

    def call(self, app: object, words: str) -> Awaitable[object] | None:
        """Do what ``target`` names; ``app`` is the workbench."""
        assert self.target is not None
        module, _, name = self.target.partition(":")
        done: object = getattr(import_module(f"quarterdeck.workbench.{module}"), name)(app, words)
        return cast("Awaitable[object]", done) if isinstance(done, Awaitable) else None


CHAT_COMMANDS = (
    WorkbenchCommand(
        name="search",
        help="search all of this transcript",
        target="commands.transcript:search_transcript",
    ),
    WorkbenchCommand(
        name="copy",
        help="copy the marked block, else the last answer",
        target="commands.transcript:copy_block",
    ),
    WorkbenchCommand(
        name="copy-answer",
        help="copy the last answer",
        target="commands.transcript:copy_last_answer",
    ),
    WorkbenchCommand(
        name="whole",
        help="put all of the marked block into a file, else of the last answer",
        target="commands.transcript:open_whole_block",
    ),
    WorkbenchCommand(
        name="earlier-prompt",
        help="go to the prompt before",
        target="commands.transcript:go_to_earlier_prompt",
    ),
    WorkbenchCommand(
        name="later-prompt",
        help="go to the next prompt",
        target="commands.transcript:go_to_later_prompt",
    ),
    WorkbenchCommand(
        name="start",
        help="go to the beginning of the transcript",
        target="commands.transcript:go_to_start",
    ),
    WorkbenchCommand(
        name="fold",
        help="fold or unfold the marked block",
        target="commands.transcript:toggle_fold",
    ),
    WorkbenchCommand(
        name="queue", help="change or drop prompts that wait", target="commands.input:show_queue"
    ),
    WorkbenchCommand(
        name="attach",
        help="name a file in the prompt; an image goes along",
        target="commands.input:attach_file",
        asks="path of a file",
    ),
    WorkbenchCommand(
        name="editor",
        help="write the prompt in your own editor",
        target="commands.input:open_external_editor",
    ),
)


FIRST_RUN_COMMANDS = (
    WorkbenchCommand(
        name="demo",
        help="two agents mend a small project, no key needed; demo keep, demo end",
        target="first_run:control_demo",
    ),
    WorkbenchCommand(
        name="doctor", help="agents and keys on this machine", target="first_run:show_doctor"
    ),
    WorkbenchCommand(
        name="trust", help="let this workspace's files count", target="first_run:ask_trust"
    ),
    WorkbenchCommand(
        name="untrust", help="let them count no longer", target="first_run:revoke_trust"
    ),
    WorkbenchCommand(
        name="retry",
        help="start an agent that failed once more",
        target="commands.agents:retry_agent",
    ),
    WorkbenchCommand(
        name="fresh",
        help="the same kind of agent in the same place, without its past",
        target="commands.agents:start_fresh_agent",
    ),
    WorkbenchCommand(
        name="install",
        help="copy the command that installs this agent",
        target="commands.agents:copy_install_command",
    ),
    WorkbenchCommand(
        name="login", help="log in to this agent", target="commands.agents:log_in_agent"
    ),
)


LAYOUT_COMMANDS = (
    WorkbenchCommand(
        name="layout",
        help="NAME loads one; list, show, save NAME, delete NAME, reset",
        target="commands.layout:control_layout",
    ),
    WorkbenchCommand(
        name="layouts", help="choose another layout", target="commands.layout:choose_layout"
    ),
    WorkbenchCommand(
        name="split",
        help="open a panel: right or down, its widget, its options",
        target="commands.layout:split_panel",
        asks="right or down, a widget, options as name=value",
    ),
    WorkbenchCommand(
        name="open",
        help="open a panel: its widget, its options",
        target="commands.layout:open_widget",
        asks="a widget, options as name=value",
    ),
    WorkbenchCommand(
        name="tab",
        help="new TITLE, close, rename TITLE, next, previous, or a number",
        target="commands.layout:control_tab",
        asks="new TITLE, close, rename TITLE, next, previous, or a number",
    ),
    WorkbenchCommand(
        name="focus",
        help="go to a panel by its id",
        target="commands.layout:focus_panel",
        asks="panel's id",
    ),
    WorkbenchCommand(
        name="close-panel",
        help="close the panel with the focus",
        target="commands.layout:close_panel",
    ),
    WorkbenchCommand(
        name="zoom", help="show one panel alone, or all again", target="commands.layout:toggle_zoom"
    ),
    WorkbenchCommand(
        name="open-file",
        help="show a file: PATH:LINE",
        target="commands.layout:open_file",
        asks="path",
    ),
    WorkbenchCommand(
        name="edit", help="edit a file", target="commands.layout:edit_file", asks="path"
    ),
    WorkbenchCommand(
        name="tail", help="follow a file", target="commands.layout:tail_file", asks="path"
    ),
    WorkbenchCommand(
        name="diff", help="what this agent changed, or AGENT", target="commands.layout:open_diff"
    ),
    WorkbenchCommand(
        name="cd",
        help="go to another directory; agents go on",
        target="commands.layout:change_directory",
        asks="directory",
    ),
)
"""In the order of the help."""


TERMINAL_COMMANDS = (
    WorkbenchCommand(
        name="terminal",
        help="open a terminal: your shell, or COMMAND",
        target="commands.terminal:open_terminal",
    ),
    WorkbenchCommand(
        name="terminals",
        help="choose among the terminals that run",
        target="commands.terminal:choose_terminal",
    ),
    WorkbenchCommand(
        name="screen",
        help="the live screen of an agent in a terminal, or its transcript again",
        target="commands.terminal:toggle_agent_terminal",
    ),
    WorkbenchCommand(
        name="leave-terminal",
        help="end typing into the terminal; bind it with @terminal",
        target="commands.terminal:leave_terminal",
    ),
)
"""In the order of the help."""


PREFERENCE_ROWS: tuple[tuple[str, str, str, str | None], ...] = (
    ("next", "show the next agent", "commands.keys:show_next_agent", None),
    ("previous", "show the previous agent", "commands.keys:show_previous_agent", None),
    (
        "stop",
        "copy what is selected, else interrupt the agent",
        "commands.keys:copy_or_interrupt",
        None,
    ),
    (
        "go",
        "move the focus to agents or transcript",
        "commands.keys:focus_place",
        "agents or transcript",
    ),
    (
        "panel",
        "go to the next panel, or the previous",
        "commands.keys:cycle_panels",
        "next or previous",
    ),
    (
        "resize",
        "move the line beside the panel",
        "commands.keys:resize_panel",
        "left, right, up or down",
    ),
    ("palette", "every command by name", "commands.keys:open_palette", None),
    ("keys", "every key, and how to bind another", "commands.keys:show_keys", None),
    ("bind", "let a key do a command", "commands.keys:bind_key", "key, command and its words"),
    ("unbind", "let a key do nothing", "commands.keys:unbind_key", "key"),
    ("rebind", "give a key back what it does by itself", "commands.keys:reset_key", "key"),
    ("themes", "choose other colours", "commands.themes:show_themes", None),
    (
        "theme",
        "put on other colours: NAME, or NAME here",
        "commands.themes:set_theme",
        "name of a theme",
    ),
    (
        "sort",
        "sort the agents: need, name, state, time, …",
        "commands.agents:sort_agents",
        "column",
    ),
    (
        "filter",
        "show only agents with these words; none: all",
        "commands.agents:filter_agents",
        None,
    ),
    (
        "columns",
        "choose the columns of the agents; none: by width",
        "commands.agents:choose_columns",
        None,
    ),
    (
        "here",
        "show only agents of this directory, or all",
        "commands.agents:toggle_directory_filter",
        None,
    ),
    (
        "feed",
        "what all agents do: audit, agents, notices or debug",
        "commands.layout:show_feed",
        None,
    ),
    (
        "widgets",
        "custom widgets and what became of them",
        "commands.custom_widgets:list_widgets",
        None,
    ),
    (
        "widget",
        "approve NAME or forget NAME",
        "commands.custom_widgets:decide_on_widget",
        "approve NAME",
    ),
)
"""Name, help, target, and what has to be typed after the name."""


async def _interrupt(fleet: "Fleet", agent: "AgentInfo", _: str) -> str:
    await fleet.interrupt(agent.session)
    return f"{agent.name} is interrupted"


async def _kill(fleet: "Fleet", agent: "AgentInfo", _: str) -> str:
    await fleet.kill(agent.session)
    return f"{agent.name} is killed"


async def _close(fleet: "Fleet", agent: "AgentInfo", _: str) -> str:
    await fleet.close(agent.session)
    return f"{agent.name} is closed; /resume starts it again"


async def _archive(fleet: "Fleet", agent: "AgentInfo", _: str) -> str:
    await fleet.archive(agent.session, archived=not agent.is_archived)
    return f"{agent.name} is {'back' if agent.is_archived else 'put away'}"


async def _resume(fleet: "Fleet", agent: "AgentInfo", _: str) -> str:
    await fleet.resume(agent.session)
    return f"{agent.name} starts again"


async def _rename(fleet: "Fleet", agent: "AgentInfo", name: str) -> str:
    info = await fleet.rename(agent.session, name)
    return f"{agent.name} is now called {info.name}"


async def _fork(fleet: "Fleet", agent: "AgentInfo", _: str) -> str:
    info = await fleet.fork(agent.session)
    return f"{info.name} goes on from where {agent.name} is"


async def _mode(fleet: "Fleet", agent: "AgentInfo", mode: str) -> str:
    await fleet.set_option(agent.session, "mode", mode)
    return f"{agent.name} works in mode {mode}"


async def _model(fleet: "Fleet", agent: "AgentInfo", model: str) -> str:
    await fleet.set_option(agent.session, "model", model)
    return f"{agent.name} uses {model}"


COMMANDS = (
    WorkbenchCommand(name="spawn", help="start another agent", action="spawn"),
    WorkbenchCommand(name="answer", help="answer what waits for you", action="answer"),
    WorkbenchCommand(name="interrupt", help="end the turn of this agent", deed=_interrupt),
    WorkbenchCommand(name="close", help="end this agent in good order", deed=_close),
    WorkbenchCommand(name="kill", help="end this agent and its processes now", deed=_kill),
    WorkbenchCommand(name="resume", help="start this agent again where it ended", deed=_resume),
    WorkbenchCommand(name="fork", help="start a copy of this agent with the same past", deed=_fork),
    WorkbenchCommand(
        name="rename", help="give this agent another name", deed=_rename, asks="new name"
    ),
    WorkbenchCommand(
        name="archive", help="put this agent away, or take it out again", deed=_archive
    ),
    WorkbenchCommand(
        name="mode",
        help="what this agent may do without asking",
        deed=_mode,
        asks="mode: ask, read-only, accept-edits, plan, full-auto, deny-all",
    ),
    WorkbenchCommand(name="model", help="the model of this agent", deed=_model, asks="model"),
    WorkbenchCommand(
        name="archived", help="show or hide agents that are put away", action="archived"
    ),
    WorkbenchCommand(name="unfold", help="unfold or fold every tool call", action="unfold"),
    WorkbenchCommand(name="end", help="go to the end of the transcript", action="follow"),
    WorkbenchCommand(name="host", help="start the host if it is not there", action="start_host"),
    *CHAT_COMMANDS,
    *FIRST_RUN_COMMANDS,
    *LAYOUT_COMMANDS,
    *TERMINAL_COMMANDS,
    WorkbenchCommand(name="help", help="every key and every command", action="help"),
    WorkbenchCommand(name="quit", help="leave; the agents go on", action="quit"),
    *(WorkbenchCommand(name=n, help=h, target=t, asks=a) for n, h, t, a in PREFERENCE_ROWS),
)


def find_command(text: str) -> tuple[WorkbenchCommand, str] | None:
    """The command that a text calls, and what follows its name; None: it calls none of ours.

    A text of several lines, or with a slash that begins a path, is a prompt.
    """
    if not text.startswith("/") or "\n" in text.strip():
        return None
    name, _, rest = text[1:].partition(" ")
    for command in COMMANDS:
        if command.name == name.strip():
            return command, rest.strip()
    return None
