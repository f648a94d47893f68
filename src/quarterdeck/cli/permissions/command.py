"""The group ``quarterdeck permissions``."""

import click

from ..lazy_group import LazyCommand, LazyGroup

__all__ = ["permissions"]

_HERE = "quarterdeck.cli.permissions"


@click.group(
    cls=LazyGroup,
    later={
        "list": LazyCommand(f"{_HERE}.rules:list_", "List rules and standing answers."),
        "add": LazyCommand(f"{_HERE}.grants:add", "Answer a kind of call once and for all."),
        "revoke": LazyCommand(f"{_HERE}.grants:revoke", "Take standing answers back."),
        "explain": LazyCommand(f"{_HERE}.rules:explain", "Tell what would be decided, and why."),
    },
)
def permissions() -> None:
    """Show and change what agents may do without asking.

    The same rules answer for every agent, whoever made it.
    """
