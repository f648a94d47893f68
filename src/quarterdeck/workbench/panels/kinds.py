"""The kinds of panels there are, by the name that layouts use."""

from dataclasses import dataclass
from importlib import import_module
from typing import Any

__all__ = ["KINDS", "PanelKind"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PanelKind:
    """A kind of panel, before its code is imported."""

    name: str
    help: str
    """What it shows, in a line."""
    target: str
    """``module:class``; the module is relative to this package."""

    def load(self) -> type[Any]:
        """Import the panel's class, a ``Panel``; not in the type, as preferences need the table."""
        module, _, name = self.target.partition(":")
        return getattr(import_module(f".{module}", __package__), name)


_ALL: tuple[PanelKind, ...] = (
    PanelKind(name="agents", help="all agents, who needs you first", target="agents:AgentsPanel"),
    PanelKind(
        name="chat",
        help='talk with an agent; options: {"agent": NAME}, without it the selected one',
        target="chat:ChatPanel",
    ),
    PanelKind(
        name="diff",
        help='what changed; options: {"path"} of a file, {"cwd"} or {"agent"}, {"base"}, {"patch"}',
        target="diff.panel:DiffPanel",
    ),
    PanelKind(
        name="editor",
        help='edit a file; options: {"path": PATH, "line": N}',
        target="editor.panel:EditorPanel",
    ),
    PanelKind(
        name="feed",
        help='what all agents do; options: {"mode": "audit", "agents", "notices" or "debug"}',
        target="feed.panel:FeedPanel",
    ),
    PanelKind(
        name="file",
        help='view a file of any size; options: {"path": PATH, "line": N}',
        target="file.panel:FilePanel",
    ),
    PanelKind(
        name="history",
        help='sessions that other agents keep on disk; options: {"everywhere": true}',
        target="history:HistoryPanel",
    ),
    PanelKind(name="inbox", help="what waits for you", target="inbox:InboxPanel"),
    PanelKind(
        name="markdown",
        help='read a Markdown file; options: {"path": PATH}',
        target="markdown:MarkdownPanel",
    ),
    PanelKind(
        name="missing",
        help="stands for a widget that is not there any more",
        target="missing_panel:MissingPanel",
    ),
    PanelKind(
        name="notebook",
        help='read a Jupyter notebook; options: {"path": PATH}',
        target="notebook:NotebookPanel",
    ),
    PanelKind(
        name="system",
        help="how busy the machine is, and what the agents' processes take",
        target="system.panel:SystemPanel",
    ),
    PanelKind(
        name="tail",
        help='follow the end of a file; options: {"path": PATH, "filter": WORDS}',
        target="tail.panel:TailPanel",
    ),
    PanelKind(
        name="terminal",
        help='a terminal; options: {"command": [..], "cwd": DIR}, {"terminal": ID} or {"agent"}',
        target="terminal.panel:TerminalPanel",
    ),
    PanelKind(
        name="transcript",
        help='what an agent did, to read only; options: {"agent": NAME} as for a chat',
        target="transcript:TranscriptPanel",
    ),
    PanelKind(
        name="tree",
        help='files, with git\'s letters; options: {"root": DIRECTORY}',
        target="tree.panel:TreePanel",
    ),
    PanelKind(
        name="usage",
        help='tokens, cost and context; options: {"by": "agent", "model" or "day"}',
        target="usage.panel:UsagePanel",
    ),
)

KINDS: dict[str, PanelKind] = {kind.name: kind for kind in _ALL}
"""Built in; names that custom widgets cannot take."""
