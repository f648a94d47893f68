"""Commands for what is open on the screen."""

from .command import Command

__all__ = ["LAYOUT_COMMANDS"]

LAYOUT_COMMANDS = (
    Command(
        name="layout",
        help="NAME loads one; list, show, save NAME, delete NAME, reset",
        target="arranging:layout",
    ),
    Command(name="layouts", help="choose another layout", target="arranging:choose_layout"),
    Command(
        name="split",
        help="open a panel: right or down, its widget, its options",
        target="arranging:split",
        asks="right or down, a widget, options as name=value",
    ),
    Command(
        name="open",
        help="open a panel: its widget, its options",
        target="arranging:open_widget",
        asks="a widget, options as name=value",
    ),
    Command(
        name="tab",
        help="new TITLE, close, rename TITLE, next, previous, or a number",
        target="arranging:tab",
        asks="new TITLE, close, rename TITLE, next, previous, or a number",
    ),
    Command(
        name="focus", help="go to a panel by its id", target="arranging:focus", asks="panel's id"
    ),
    Command(
        name="close-panel", help="close the panel with the focus", target="arranging:close_panel"
    ),
    Command(name="zoom", help="show one panel alone, or all again", target="arranging:zoom"),
    Command(
        name="open-file", help="show a file: PATH:LINE", target="arranging:open_file", asks="path"
    ),
    Command(name="edit", help="edit a file", target="arranging:edit_file", asks="path"),
    Command(name="tail", help="follow a file", target="arranging:tail_file", asks="path"),
    Command(name="diff", help="what this agent changed, or AGENT", target="arranging:diff"),
    Command(
        name="cd",
        help="go to another directory; agents go on",
        target="arranging:change_directory",
        asks="directory",
    ),
)
"""In the order of the help."""
