"""``quarterdeck testing``: the fakes that ship, as programs. For tests and for trying things."""

import click

from .lazy import Later, LazyGroup

__all__ = ["FAKES", "testing"]

FAKES: dict[str, Later] = {}
"""One line for each fake."""


@click.group(cls=LazyGroup, later=FAKES)
def testing() -> None:
    """Run the fakes that tests use."""
