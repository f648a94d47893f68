"""A group of commands that knows their names and imports a command when it is used."""

import importlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

__all__ = ["LazyCommand", "LazyGroup"]


class LazyCommand(NamedTuple):
    """A command that is not imported yet."""

    target: str
    """``module:attribute``, where the attribute is a click command."""
    help: str
    """One line for the list of commands."""
    hidden: bool = False

    def load(self) -> click.Command:
        """Import the command."""
        module, _, attribute = self.target.partition(":")
        command: Any = getattr(importlib.import_module(module), attribute)
        assert isinstance(command, click.Command), self.target
        return command


class LazyGroup(click.Group):
    """A group whose help and suggestions need no import of its commands."""

    def __init__(self, *args: Any, later: Mapping[str, LazyCommand], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.later = later

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names in the order in which they were given."""
        return list(self.later)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the command of that name, or None if there is none."""
        later = self.later.get(cmd_name)
        return later.load() if later else None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command to run; the error for a wrong name lists the nearest right ones."""
        name = args[0]
        if name not in self.later and not name.startswith("-") and not ctx.resilient_parsing:
            raise click.UsageError(f"No such command {name!r}.{self._near(name)}", ctx)
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> "list[CompletionItem[str]]":
        """Complete the names of commands, and the options of the group; imports no command."""
        from click.shell_completion import CompletionItem

        found = [
            CompletionItem(name, help=later.help)
            for name, later in self.later.items()
            if name.startswith(incomplete) and not later.hidden
        ]
        return [*found, *click.Command.shell_complete(self, ctx, incomplete)]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands from the names and lines that are known."""
        rows = [(name, later.help) for name, later in self.later.items() if not later.hidden]
        if rows:
            with formatter.section("Commands"):
                formatter.write_dl(rows)

    def _near(self, name: str) -> str:
        import difflib

        shown = [known for known, later in self.later.items() if not later.hidden]
        near = difflib.get_close_matches(name, shown, n=2)
        return f" Did you mean {' or '.join(repr(other) for other in near)}?" if near else ""
