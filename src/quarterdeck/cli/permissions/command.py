"""The group ``quarterdeck permissions``."""

import click

from ..lazy_group import LazyCommand, LazyGroup

__all__ = ["permissions"]

_HERE = "quarterdeck.cli.permissions"


@click.group(
    cls=LazyGroup,
    later={
        "list": LazyCommand(f"{_HERE}.rules:list_", "List rules and grants."),
        "add": LazyCommand(f"{_HERE}.grants:add", "Add a grant."),
        "revoke": LazyCommand(f"{_HERE}.grants:revoke", "Revoke grants."),
        "explain": LazyCommand(f"{_HERE}.rules:explain", "Explain a decision."),
    },
)
def permissions() -> None:
    """Show and change what agents may do without asking.

    The same rules apply to every agent, whatever its vendor.
    """
