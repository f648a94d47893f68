"""The commands of the workbench: in the palette, as ``/name`` in the input, and for keys.

A command's code is imported when it is called.
"""

from collections.abc import Awaitable
from importlib import import_module
from typing import TYPE_CHECKING, TypeAlias, cast

from msgspec import Struct

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


class WorkbenchCommand(Struct, frozen=True, kw_only=True):
    """A name for something: a deed to the agent in view, an action, or a function of its own.

    One of ``action``, ``agent_action`` and ``target`` is set.
    """

    name: str
    help: str
    action: str | None = None
    """An action of the application."""
    agent_action: "AgentAction | None" = None
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
        help="search this transcript",
        target="commands.chat:search_transcript",
    ),
    WorkbenchCommand(
        name="copy",
        help="copy the marked block, or the last answer",
        target="commands.chat:copy_block",
    ),
    WorkbenchCommand(
        name="copy-answer",
        help="copy the last answer",
        target="commands.chat:copy_last_answer",
    ),
    WorkbenchCommand(
        name="copy-code",
        help="copy the last code of the marked or last answer; again: earlier code, N: code N",
        target="commands.chat:copy_code",
    ),
    WorkbenchCommand(
        name="whole",
        help="save the marked block or the last answer to a file",
        target="commands.chat:open_whole_block",
    ),
    WorkbenchCommand(
        name="give",
        help="quote the last command that you ran with ! in the input, for the agent",
        target="commands.shell:give_command",
    ),
    WorkbenchCommand(
        name="earlier-prompt",
        help="go to the previous prompt",
        target="commands.chat:go_to_earlier_prompt",
    ),
    WorkbenchCommand(
        name="later-prompt",
        help="go to the next prompt",
        target="commands.chat:go_to_later_prompt",
    ),
    WorkbenchCommand(
        name="jump", help="choose a prompt to go to", target="commands.chat:choose_prompt"
    ),
    WorkbenchCommand(
        name="times",
        help="show or hide when each part of the transcript came",
        target="commands.chat:toggle_times",
    ),
    WorkbenchCommand(
        name="start",
        help="go to the start of the transcript",
        target="commands.chat:go_to_start",
    ),
    WorkbenchCommand(
        name="fold",
        help="expand or collapse the marked block",
        target="commands.chat:toggle_fold",
    ),
    WorkbenchCommand(
        name="queue", help="edit or remove queued prompts", target="commands.chat:show_queue"
    ),
    WorkbenchCommand(
        name="attach",
        help="mention a file in the prompt; images are attached",
        target="commands.chat:attach_file",
        asks="path of a file",
    ),
    WorkbenchCommand(
        name="editor",
        help="write the prompt in $EDITOR",
        target="commands.chat:open_external_editor",
    ),
)


FIRST_RUN_COMMANDS = (
    WorkbenchCommand(
        name="demo",
        help="two agents fix a small project, no API key needed; demo keep, demo end",
        target="commands.first_run:control_demo",
    ),
    WorkbenchCommand(
        name="home",
        help="show the home screen: recent sessions, agents here, what to start with",
        target="commands.first_run:show_home",
    ),
    WorkbenchCommand(
        name="default-mode",
        help="set the mode of new agents in your settings",
        target="commands.first_run:choose_default_mode",
        asks="mode: ask, read-only, accept-edits, plan, full-auto, deny-all",
    ),
    WorkbenchCommand(
        name="doctor",
        help="show agents and API keys on this machine",
        target="commands.first_run:show_doctor",
    ),
    WorkbenchCommand(
        name="trust",
        help="trust this workspace's settings and instructions",
        target="commands.first_run:ask_trust",
    ),
    WorkbenchCommand(
        name="untrust",
        help="stop trusting this workspace",
        target="commands.first_run:revoke_trust",
    ),
    WorkbenchCommand(
        name="retry",
        help="retry an agent that failed",
        target="commands.agents:retry_agent",
    ),
    WorkbenchCommand(
        name="fresh",
        help="start a new session of the same agent in the same directory",
        target="commands.agents:start_fresh_agent",
    ),
    WorkbenchCommand(
        name="install",
        help="copy the install command of this agent",
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
        name="layouts", help="choose a layout", target="commands.layout:choose_layout"
    ),
    WorkbenchCommand(
        name="split",
        help="split the panel: right or down, WIDGET, options",
        target="commands.layout:split_panel",
        asks="right or down, a widget, options as name=value",
    ),
    WorkbenchCommand(
        name="open",
        help="open a panel: WIDGET, options",
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
        help="focus a panel by its id",
        target="commands.layout:focus_panel",
        asks="panel's id",
    ),
    WorkbenchCommand(
        name="close-panel",
        help="close the focused panel",
        target="commands.layout:close_panel",
    ),
    WorkbenchCommand(
        name="zoom",
        help="show only the focused panel, or all panels again",
        target="commands.layout:toggle_zoom",
    ),
    WorkbenchCommand(
        name="open-file",
        help="view a file: PATH:LINE",
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
        name="diff",
        help="show what this agent changed, or AGENT",
        target="commands.layout:open_diff",
    ),
    WorkbenchCommand(
        name="review",
        help="review what this agent changed, or AGENT; a FILE may follow",
        target="commands.review:open_review",
    ),
    WorkbenchCommand(
        name="review-do",
        help="do something in the focused review: accept, reject, comment, send, …",
        target="commands.review:act_in_review",
        asks="accept, reject, undo, mark, comment, send, resolve, …",
    ),
    WorkbenchCommand(
        name="merge",
        help="merge the work of this agent, or of AGENT",
        target="commands.review:merge_agent",
    ),
    WorkbenchCommand(
        name="land",
        help="land AGENTS one after the other; without names, all here, fewest conflicts first",
        target="commands.review:land_agents",
    ),
    WorkbenchCommand(
        name="conflicts",
        help="show conflicts between agents; all: in every repository",
        target="commands.review:open_conflicts",
    ),
    WorkbenchCommand(
        name="plan-run",
        help="show a run of a plan: its tasks, times and costs; NAME, else the latest",
        target="commands.layout:open_plan",
    ),
    WorkbenchCommand(
        name="cd",
        help="change the directory; agents keep running",
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
        help="choose a running terminal",
        target="commands.terminal:choose_terminal",
    ),
    WorkbenchCommand(
        name="web",
        help="pair a browser or a phone: show a QR code and the paired devices",
        target="commands.terminal:show_web_pairing",
    ),
    WorkbenchCommand(
        name="screen",
        help="switch between an agent's live terminal and its transcript",
        target="commands.terminal:toggle_agent_terminal",
    ),
    WorkbenchCommand(
        name="leave-terminal",
        help="stop typing into the terminal; bind it with @terminal",
        target="commands.terminal:leave_terminal",
    ),
)
"""In the order of the help."""


PREFERENCE_ROWS: tuple[tuple[str, str, str, str | None], ...] = (
    ("next", "show the next agent", "commands.preferences:show_next_agent", None),
    ("previous", "show the previous agent", "commands.preferences:show_previous_agent", None),
    (
        "agent",
        "go to agent N of the list, or to the one with a name",
        "commands.agents:go_to_agent",
        "number in the list, or name",
    ),
    (
        "stop",
        "copy the selection, or interrupt the agent",
        "commands.preferences:copy_or_interrupt",
        None,
    ),
    (
        "go",
        "focus the agents or the transcript",
        "commands.preferences:focus_place",
        "agents or transcript",
    ),
    (
        "panel",
        "focus the next or previous panel",
        "commands.preferences:cycle_panels",
        "next or previous",
    ),
    (
        "resize",
        "resize the focused panel",
        "commands.preferences:resize_panel",
        "left, right, up or down",
    ),
    ("notices", "show the last notices again", "commands.preferences:show_notices", None),
    ("palette", "search all commands", "commands.preferences:open_palette", None),
    ("keys", "list all keys and how to rebind them", "commands.preferences:show_keys", None),
    ("bind", "bind a key to a command", "commands.preferences:bind_key", "KEY COMMAND [ARGUMENTS]"),
    ("unbind", "unbind a key", "commands.preferences:unbind_key", "key"),
    ("rebind", "restore the default of a key", "commands.preferences:reset_key", "key"),
    ("settings", "show and change settings", "commands.preferences:show_settings", None),
    (
        "permissions",
        "show rules, grants and who has to allow requests; revoke grants",
        "commands.preferences:show_permissions",
        None,
    ),
    ("themes", "choose a theme", "commands.preferences:show_themes", None),
    (
        "theme",
        "set the theme: NAME, or NAME here for this directory",
        "commands.preferences:set_theme",
        "name of a theme",
    ),
    (
        "sort",
        "sort agents by need, name, state, time, …",
        "commands.agents:sort_agents",
        "column",
    ),
    (
        "group",
        "group agents by state, lead, project or none; no words: by the next",
        "commands.agents:group_agents",
        None,
    ),
    (
        "filter",
        "filter agents by words; no words: show all",
        "commands.agents:filter_agents",
        None,
    ),
    (
        "columns",
        "choose the table columns; none: automatic",
        "commands.agents:choose_columns",
        None,
    ),
    (
        "here",
        "show agents of this directory only, or all",
        "commands.agents:toggle_directory_filter",
        None,
    ),
    (
        "feed",
        "show the feed: audit, agents, notices or debug",
        "commands.layout:show_feed",
        None,
    ),
    (
        "widgets",
        "list custom widgets and their status",
        "commands.layout:list_widgets",
        None,
    ),
    (
        "widget",
        "approve NAME or forget NAME",
        "commands.layout:decide_on_widget",
        "approve NAME",
    ),
)
"""Name, help, target, and what has to be typed after the name."""


async def _interrupt(fleet: "Fleet", agent: "AgentInfo", _: str) -> str:
    await fleet.interrupt(agent.session)
    return f"interrupted {agent.name}"


async def _steer(fleet: "Fleet", agent: "AgentInfo", words: str) -> str:
    from quarterdeck.wire.content import text

    sent = await fleet.steer(agent.session, (text(words),))
    if sent.steered:
        return f"{agent.name} reads this at its next step"
    return f"{agent.name} has no running turn; sent as a prompt"


async def _kill(fleet: "Fleet", agent: "AgentInfo", _: str) -> str:
    await fleet.kill(agent.session)
    return f"killed {agent.name}"


async def _close(fleet: "Fleet", agent: "AgentInfo", _: str) -> str:
    await fleet.close(agent.session)
    return f"closed {agent.name}; /resume restarts it"


async def _archive(fleet: "Fleet", agent: "AgentInfo", _: str) -> str:
    await fleet.archive(agent.session, archived=not agent.is_archived)
    return f"{'restored' if agent.is_archived else 'archived'} {agent.name}"


async def _resume(fleet: "Fleet", agent: "AgentInfo", _: str) -> str:
    await fleet.resume(agent.session)
    return f"restarting {agent.name}"


async def _rename(fleet: "Fleet", agent: "AgentInfo", name: str) -> str:
    info = await fleet.rename(agent.session, name)
    return f"renamed {agent.name} to {info.name}"


async def _fork(fleet: "Fleet", agent: "AgentInfo", _: str) -> str:
    info = await fleet.fork(agent.session)
    return f"{info.name} continues from a copy of {agent.name}"


async def _hand_over(fleet: "Fleet", agent: "AgentInfo", words: str) -> str:
    from quarterdeck.fleet.api import HandoverOptions

    to, _, prompt = words.strip().partition(" ")
    request = HandoverOptions(to=to, prompt=prompt.strip() or None)
    info = await fleet.hand_over(agent.session, request)
    return f"{info.name} ({info.agent}) continues the work of {agent.name}"


async def _mode(fleet: "Fleet", agent: "AgentInfo", mode: str) -> str:
    await fleet.set_option(agent.session, "mode", mode)
    return f"{agent.name} is in mode {mode}"


async def _model(fleet: "Fleet", agent: "AgentInfo", model: str) -> str:
    await fleet.set_option(agent.session, "model", model)
    return f"{agent.name} now uses {model}"


COMMANDS = (
    WorkbenchCommand(name="spawn", help="start an agent", action="spawn"),
    WorkbenchCommand(name="answer", help="answer the next pending request", action="answer"),
    WorkbenchCommand(
        name="decide",
        help="answer the permission request that has the focus: once, session, project, deny, …",
        target="commands.chat:decide_request",
        asks="once, session, project, all, deny, words, rule, more or later",
    ),
    WorkbenchCommand(
        name="interrupt", help="interrupt the turn of this agent", agent_action=_interrupt
    ),
    WorkbenchCommand(
        name="steer",
        help="send a message to the running turn of this agent",
        agent_action=_steer,
        asks="message",
    ),
    WorkbenchCommand(name="close", help="close this agent", agent_action=_close),
    WorkbenchCommand(name="kill", help="kill this agent and its processes", agent_action=_kill),
    WorkbenchCommand(
        name="resume", help="resume this agent where it stopped", agent_action=_resume
    ),
    WorkbenchCommand(
        name="fork", help="start a copy of this agent with its history", agent_action=_fork
    ),
    WorkbenchCommand(
        name="hand-over",
        help="let another agent continue the work of this one, in the same directory",
        agent_action=_hand_over,
        asks="agent that takes over, and a task if it is not to continue",
    ),
    WorkbenchCommand(
        name="rename", help="rename this agent", agent_action=_rename, asks="new name"
    ),
    WorkbenchCommand(name="archive", help="archive or unarchive this agent", agent_action=_archive),
    WorkbenchCommand(
        name="mode",
        help="set the permission mode of this agent",
        agent_action=_mode,
        asks="mode: ask, read-only, accept-edits, plan, full-auto, deny-all",
    ),
    WorkbenchCommand(
        name="model", help="set the model of this agent", agent_action=_model, asks="model"
    ),
    WorkbenchCommand(
        name="undo",
        help="undo the last turn of this agent, or turn N; files or conversation, force",
        target="commands.undo:undo_agent",
    ),
    WorkbenchCommand(
        name="redo",
        help="revert the last undo or rewind of this agent",
        target="commands.undo:redo_agent",
    ),
    WorkbenchCommand(
        name="rewind",
        help="take this agent back to the start of turn N; without N: list the turns",
        target="commands.undo:rewind_agent",
    ),
    WorkbenchCommand(
        name="changes",
        help="show what the turns of this agent, or turn N, did to files",
        target="commands.undo:show_changes",
    ),
    WorkbenchCommand(
        name="budgets",
        help="show what agents may use; day 10usd, AGENT 5usd, raise …, remove … change it",
        target="commands.budgets:control_budgets",
    ),
    WorkbenchCommand(name="archived", help="show or hide archived agents", action="archived"),
    WorkbenchCommand(name="unfold", help="expand or collapse all tool calls", action="unfold"),
    WorkbenchCommand(name="end", help="go to the end of the transcript", action="follow"),
    WorkbenchCommand(name="host", help="start the host if it is not running", action="start_host"),
    *CHAT_COMMANDS,
    *FIRST_RUN_COMMANDS,
    *LAYOUT_COMMANDS,
    *TERMINAL_COMMANDS,
    WorkbenchCommand(name="help", help="list all keys and commands", action="help"),
    WorkbenchCommand(name="quit", help="quit; agents keep running", action="quit"),
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
