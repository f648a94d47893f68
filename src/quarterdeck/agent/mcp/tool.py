"""A tool of a server, as the turn loop sees it."""

import asyncio
import json
import logging
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from msgspec.structs import replace

from quarterdeck.policy.call import McpTool
from quarterdeck.wire.content import text
from quarterdeck.wire.errors import LinkError, RpcError
from quarterdeck.wire.events import QuestionAnswered, ToolCallUpdated
from quarterdeck.wire.tasks import start_task
from quarterdeck.wire.tool_calls import ContentItem

from ..tools.tool import LiveCall, PreparedCall, Tool, ToolError, ToolOutcome, text_outcome
from ..tools.toolbox import ForeignArguments, ForeignTool
from ..tools.workspace import ToolWorkspace
from .protocol import McpError, Progress
from .tool_list import ServerToolSpec

if TYPE_CHECKING:
    from .client import McpClient

__all__ = ["ServerTool", "ToolOwner"]

_log = logging.getLogger(__name__)

_PAUSE = 0.25
"""Seconds between two signs of progress that people are shown."""
_SHOWN = 100


class ToolOwner(Protocol):
    """The server that a tool is of, alive or not."""

    @property
    def trusted(self) -> bool:
        """Whether its word that a tool only reads is believed."""
        ...

    @property
    def timeout(self) -> float:
        """Seconds that a call may take without a sign of progress."""
        ...

    async def client(self) -> "McpClient":
        """The connection; waits a moment for one that is being made. Raises McpError."""
        ...

    async def gone(self, error: LinkError) -> str:
        """What is known of why the connection went, for the model."""
        ...


class ServerTool(ForeignTool):
    """Calls a tool of a server."""

    def __init__(self, lent: ServerToolSpec, lender: ToolOwner) -> None:
        self._only_reads = lent.only_reads and lender.trusted
        super().__init__(lent.spec, "read" if self._only_reads else "other")
        self.lent = lent
        self._lender = lender

    async def prepare(self, arguments: ForeignArguments, workspace: ToolWorkspace) -> PreparedCall:
        """Say what would be asked of which server; nothing is sent."""
        lent = self.lent
        shown = json.dumps(arguments.values, indent=2, ensure_ascii=False)
        first = next((str(each) for each in arguments.values.values() if each), "")
        words = " ".join(first.split())[:_SHOWN]
        call = workspace.call(self.name, self.kind)
        facts: dict[str, Any] = {"mcp_server": lent.server, "mcp_tool": lent.tool}
        if lent.hints:
            facts["the_server_says"] = ", ".join(lent.hints)
        tool = McpTool(server=lent.server, tool=lent.rule_name, only_reads=self._only_reads)
        return PreparedCall(
            title=f"{lent.server}: {lent.title}" + (f" ({words})" if words else ""),
            call=replace(call, mcp=tool),
            run=partial(self._run, arguments.values, workspace),
            content=(ContentItem(content=text(shown)),),
            shows=facts,
        )

    async def _run(
        self, arguments: dict[str, Any], workspace: ToolWorkspace, live: LiveCall
    ) -> ToolOutcome:
        lender, server = self._lender, self.lent.server
        caller = _LiveCaller(live)
        telling = start_task(caller.tell(), name="progress of an MCP call")
        try:
            client = await lender.client()
            result = await client.call(self.lent.tool, arguments, caller, lender.timeout)
        except TimeoutError:
            return text_outcome(
                f"The MCP server {server!r} did not answer within {lender.timeout:g} s. The call "
                "may or may not have taken effect.",
                is_error=True,
            )
        except RpcError as error:
            return text_outcome(
                f"The MCP server {server!r} refused: {error.message}", is_error=True
            )
        except LinkError as error:
            raise ToolError(await lender.gone(error)) from error
        except McpError as error:
            raise ToolError(f"The MCP server {server!r} cannot be used: {error}.") from error
        finally:
            telling.cancel()
            await asyncio.wait([telling])
            if not telling.cancelled() and (failure := telling.exception()) is not None:
                _log.error("could not report progress", exc_info=failure)
        # Late: it brings other tools along, and many a session with servers calls none.
        from .result import outcome_of

        return await outcome_of(result, workspace)


class _LiveCaller:
    """Shows people how far a call has come, and asks them for the server."""

    def __init__(self, live: LiveCall) -> None:
        self._live = live
        self._latest: Progress | None = None
        self._news = asyncio.Event()

    async def ask(self, text: str, form: dict[str, Any]) -> QuestionAnswered:
        return await self._live.ask(text, form)

    def progressed(self, progress: Progress) -> None:
        self._latest = progress
        self._news.set()

    async def tell(self) -> None:
        """Show the latest progress, now and then."""
        while True:
            await self._news.wait()
            self._news.clear()
            assert self._latest is not None
            shown = ContentItem(content=text(_words(self._latest)))
            await self._live.emit(ToolCallUpdated(call=self._live.call, content=(shown,)))
            await asyncio.sleep(_PAUSE)


def _words(progress: Progress) -> str:
    far = f"{progress.progress:g}"
    if progress.total:
        far += f" of {progress.total:g}"
    return f"{far}: {progress.message[:500]}" if progress.message else far


if TYPE_CHECKING:
    from typing import cast

    _tool: Tool = cast("ServerTool", None)
