"""Running a tool as the turn loop does, without a loop: decode, prepare, run; keep the events."""

from dataclasses import dataclass, field
from typing import Any

import msgspec

from quarterdeck.agent.tools.tool import PreparedCall, Tool, ToolOutcome
from quarterdeck.agent.tools.toolbox import Toolbox
from quarterdeck.agent.tools.workspace import ToolWorkspace
from quarterdeck.policy.modes import Containment
from quarterdeck.wire.conversation import TextPart
from quarterdeck.wire.events import Event, QuestionAnswered
from quarterdeck.wire.ids import RequestId, ToolCallId
from quarterdeck.wire.permissions import Decider, QuestionAction


@dataclass
class FakeLive:
    """A session that remembers what it was told and gives the prepared answer."""

    call: ToolCallId = field(default_factory=lambda: ToolCallId("call-1"))
    containment: Containment = "none"
    events: list[Event] = field(default_factory=list[Event])
    asked: list[tuple[str, dict[str, Any]]] = field(
        default_factory=list[tuple[str, dict[str, Any]]]
    )
    action: QuestionAction = "accept"
    by: Decider = field(default_factory=lambda: Decider(kind="person"))
    content: dict[str, Any] | None = None

    async def emit(self, event: Event) -> None:
        self.events.append(event)

    async def ask(self, text: str, form: dict[str, Any]) -> QuestionAnswered:
        self.asked.append((text, form))
        return QuestionAnswered(
            request=RequestId("req-1"), action=self.action, by=self.by, content=self.content
        )

    def of(self, kind: type) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]


async def prepared(tool: Tool, workspace: ToolWorkspace, **arguments: Any) -> PreparedCall:
    decoded = Toolbox([tool]).decode(tool, msgspec.json.encode(arguments).decode())
    return await tool.prepare(decoded, workspace)


async def run(
    tool: Tool, workspace: ToolWorkspace, live: FakeLive | None = None, **arguments: Any
) -> ToolOutcome:
    return await (await prepared(tool, workspace, **arguments)).run(live or FakeLive())


def told(outcome: ToolOutcome) -> str:
    return "".join(part.text for part in outcome.result if isinstance(part, TextPart))
