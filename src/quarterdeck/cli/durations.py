"""Lengths of time as people write them: ``90d``, ``12h``, ``30m``."""

import re
from typing import Any

import click

__all__ = ["DURATION", "Duration"]

_SECONDS = {"w": 604_800, "d": 86_400, "h": 3_600, "m": 60, "s": 1}
_FORM = re.compile(r"([0-9]{1,6})([wdhms])")


class Duration(click.ParamType[int]):
    """A number and a unit; the value is in microseconds."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Read it."""
        if isinstance(value, int):
            return value
        found = _FORM.fullmatch(str(value).strip())
        if found is None:
            self.fail(f"{value!r} is no length of time; write it as 90d, 12h or 30m", param, ctx)
        return int(found[1]) * _SECONDS[found[2]] * 1_000_000


DURATION = Duration()
