"""How busy the machine is, and which agents' processes take what."""

import asyncio
from typing import Any, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from ...rendering.lines import Line
from ..components import PanelPage, PolledPanel
from ..panel import NoOptions
from .model import MachineSample, MachineSampler, system_lines

__all__ = ["SystemPanel"]


class SystemPanel(PolledPanel):
    """Looks every two seconds while it can be seen."""

    EVERY: ClassVar[float | None] = 2.0
    BINDINGS: ClassVar[list[BindingType]] = [Binding("r", "reload", "refresh")]

    def __init__(self, context: Any, options: NoOptions, *, id: str | None = None) -> None:
        super().__init__(context, options, id=id)
        self._sampler = MachineSampler()
        self.sample: MachineSample | None = None
        self.page = PanelPage(self._lines, id="page")

    def compose(self) -> ComposeResult:
        """The parts."""
        yield self.page

    def focus_target(self) -> PanelPage:
        """See ``PolledPanel``."""
        return self.page

    async def look(self) -> None:
        """Take a sample."""
        status = self.context.roster.status
        host = status.pid if status is not None else None
        self.sample = await asyncio.to_thread(self._sampler.sample, host, self.context.cwd)
        if self.is_mounted:
            self.page.update()

    def action_reload(self) -> None:
        """Look now."""
        self.look_now()

    def _lines(self, width: int) -> list[Line]:
        if self.sample is None:
            return [(("measuring …", "faint"),)]
        return system_lines(self.sample, self._agent_in, width)

    def _agent_in(self, directory: str) -> str | None:
        found = [
            one.name for one in self.context.roster.everyone if one.is_live and one.cwd == directory
        ]
        return found[0] if len(found) == 1 else None
