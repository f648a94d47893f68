"""The kinds of panels there are, by the name that layouts use."""

from importlib import import_module
from typing import Any

from msgspec import Struct

__all__ = ["KINDS", "PanelKind"]


class PanelKind(Struct, frozen=True, kw_only=True):
    """A kind of panel, before its code is imported."""

    name: str
    help: str
    """What it shows, in a line."""
    target: str
    """``module:class``; the module is relative to this package."""
    is_local: bool = False
    """It reads files or processes of this machine: of no use where the agents are on another."""

    def load(self) -> type[Any]:
        """Import the panel's class, a ``Panel``; not in the type, as preferences need the table."""
        module, _, name = self.target.partition(":")
        return getattr(import_module(f".{module}", __package__), name)


_ALL: tuple[PanelKind, ...] = (
    PanelKind(
        name="agents", help="all agents, those that need you first", target="agents:AgentsPanel"
    ),
    PanelKind(
        name="chat",
        help='talk to an agent; options: {"agent": NAME}, default: the selected one',
        target="chat:ChatPanel",
    ),
    PanelKind(
        name="conflicts",
        help='conflicts between agents; options: {"everywhere": true}',
        target="conflicts:ConflictsPanel",
    ),
    PanelKind(
        name="diff",
        help='changes; options: {"path"} of a file, {"cwd"} or {"agent"}, {"base"}, {"patch"}',
        target="diff:DiffPanel",
        is_local=True,
    ),
    PanelKind(
        name="editor",
        help='edit a file; options: {"path": PATH, "line": N}',
        target="editor.panel:EditorPanel",
        is_local=True,
    ),
    PanelKind(
        name="feed",
        help='events of all agents; options: {"mode": "audit", "agents", "notices" or "debug"}',
        target="feed:FeedPanel",
    ),
    PanelKind(
        name="file",
        help='view a file of any size; options: {"path": PATH, "line": N}',
        target="file.panel:FilePanel",
        is_local=True,
    ),
    PanelKind(
        name="history",
        help='sessions of other agents found on disk; options: {"everywhere": true}',
        target="history:HistoryPanel",
        is_local=True,
    ),
    PanelKind(name="inbox", help="requests that wait for your answer", target="inbox:InboxPanel"),
    PanelKind(
        name="markdown",
        help='read a Markdown file; options: {"path": PATH}',
        target="markdown:MarkdownPanel",
        is_local=True,
    ),
    PanelKind(
        name="missing",
        help="placeholder for a widget that no longer exists",
        target="components:MissingPanel",
    ),
    PanelKind(
        name="notebook",
        help='read a Jupyter notebook; options: {"path": PATH}',
        target="notebook:NotebookPanel",
        is_local=True,
    ),
    PanelKind(
        name="plan",
        help='a run of a plan, its tasks, times and costs; options: {"run": NAME}',
        target="plan:PlanPanel",
        is_local=True,
    ),
    PanelKind(
        name="review",
        help='what an agent changed; options: {"agent": NAME, "file": PATH, "turn": N}',
        target="review.panel:ReviewPanel",
    ),
    PanelKind(
        name="system",
        help="load of the machine and of the agents' processes",
        target="system:SystemPanel",
        is_local=True,
    ),
    PanelKind(
        name="tail",
        help='follow the end of a file; options: {"path": PATH, "filter": WORDS}',
        target="tail:TailPanel",
        is_local=True,
    ),
    PanelKind(
        name="terminal",
        help='a terminal; options: {"command": [..], "cwd": DIR}, {"terminal": ID} or {"agent"}',
        target="terminal.panel:TerminalPanel",
    ),
    PanelKind(
        name="transcript",
        help='transcript of an agent, read-only; options: {"agent": NAME} as for chat',
        target="transcript:TranscriptPanel",
    ),
    PanelKind(
        name="tree",
        help='files with git status; options: {"root": DIRECTORY}',
        target="tree:TreePanel",
        is_local=True,
    ),
    PanelKind(
        name="usage",
        help='what agents used, budgets; options: {"by": "agent", "day", …, "period": "month"}',
        target="usage:UsagePanel",
    ),
)

KINDS: dict[str, PanelKind] = {kind.name: kind for kind in _ALL}
"""Built in; names that custom widgets cannot take."""
