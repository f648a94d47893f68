"""What the tests of the tools share: a workspace, and a way to make a call."""

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from quarterdeck.agent.tools.builtin import file_tools
from quarterdeck.agent.tools.tool import PreparedCall, ToolOutcome
from quarterdeck.agent.tools.toolbox import Toolbox
from quarterdeck.agent.tools.workspace import ToolWorkspace
from quarterdeck.system.local import LocalSystem
from quarterdeck.wire.conversation import TextPart
from quarterdeck.wire.errors import QuarterdeckError
from quarterdeck.wire.events import Event, QuestionAnswered


class QuietLive:
    """A session towards which a file tool has nothing to say."""

    async def emit(self, event: Event) -> None:
        raise AssertionError(f"a file tool said {event!r}")

    async def ask(self, text: str, form: dict[str, Any]) -> QuestionAnswered:
        raise AssertionError(f"a file tool asked {text!r}")


class Calls:
    """Makes calls as the loop does: decode, prepare, run."""

    def __init__(self, workspace: ToolWorkspace, root: Path) -> None:
        self.workspace = workspace
        self.root = root
        self.toolbox = Toolbox(file_tools())

    async def prepare(self, name: str, **arguments: Any) -> PreparedCall:
        tool = self.toolbox.find(name)
        assert tool is not None
        decoded = self.toolbox.decode(tool, msgspec.json.encode(arguments).decode())
        return await tool.prepare(decoded, self.workspace)

    async def run(self, name: str, **arguments: Any) -> ToolOutcome:
        return await self.finish(await self.prepare(name, **arguments))

    async def finish(self, prepared: PreparedCall) -> ToolOutcome:
        return await prepared.run(QuietLive())

    async def __call__(self, name: str, **arguments: Any) -> str:
        """The text that the model is told; fails where the call fails."""
        return text_of(await self.run(name, **arguments))

    async def refused(self, name: str, **arguments: Any) -> str:
        """The reason that the model is told; fails where the call works."""
        with pytest.raises(QuarterdeckError) as caught:
            await self.run(name, **arguments)
        return str(caught.value)


def text_of(outcome: ToolOutcome) -> str:
    return "".join(part.text for part in outcome.result if isinstance(part, TextPart))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "work").mkdir()
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret").write_text("secret")
    return tmp_path / "work"


@pytest.fixture
async def open_calls() -> AsyncIterator[Callable[[Path], Awaitable[Calls]]]:
    systems: list[LocalSystem] = []

    async def make(root: Path) -> Calls:
        systems.append(system := LocalSystem([root]))
        return Calls(ToolWorkspace(system=system, home=str(root.parent)), root)

    yield make
    for system in systems:
        await system.close()


@pytest.fixture
async def call(open_calls: Callable[[Path], Awaitable[Calls]], root: Path) -> Calls:
    return await open_calls(root)
