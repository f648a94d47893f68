"""How agents are opened: our own in this process, all others by their drivers."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from quarterdeck.config.places import Places
from quarterdeck.drivers.driver import Session, Sink
from quarterdeck.drivers.errors import Unsupported
from quarterdeck.journal import Journal

from .entry import NATIVE
from .member import Start

if TYPE_CHECKING:
    from .member import Opener

__all__ = ["AgentOpener"]


class AgentOpener:
    """Opens any agent of the catalogue. Our own over a transport runs as a process of its own."""

    def __init__(self, places: Places, environment: Mapping[str, str], journal: Journal) -> None:
        self._places = places
        self._environment = environment
        self._journal = journal

    async def __call__(self, start: Start, sink: Sink) -> Session:
        """Start the agent. Raises QuarterdeckError."""
        wish = start.wish
        if wish.agent == NATIVE and wish.transport in (None, NATIVE):
            from .native import open_native

            return await open_native(start, self._places, self._environment, self._journal)
        if wish.tools is not None:
            instead = "Deny the others by rules."
            what = "be held to some of its tools"
            raise Unsupported(wish.agent, wish.transport or "any protocol", what, instead)
        from quarterdeck.drivers.connecting import open_session

        return await open_session(
            wish.agent,
            start.opening,
            sink,
            gate=start.gate,
            session_id=start.session,
            is_known=start.is_known,
            transport=wish.transport,
            around=start.around,
            on_terminal=start.on_terminal,
            places=self._places,
        )


if TYPE_CHECKING:
    from typing import cast

    _opener: Opener = cast("AgentOpener", None)
