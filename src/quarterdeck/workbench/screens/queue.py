"""The editor of queued prompts: change or remove them."""

from functools import partial
from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Label

from quarterdeck.wire.content import TextContent, text
from quarterdeck.wire.errors import QuarterdeckError
from quarterdeck.wire.event_text import describe_content

from ..rendering.lines import Line
from ..sanitize import sanitize_line, sanitize_text
from ..widgets.chat_input import ChatInput
from ..widgets.picker import Picker

if TYPE_CHECKING:
    from collections.abc import Callable

    from quarterdeck.fleet.api import QueuedPrompt
    from quarterdeck.wire.ids import SessionId

    from ..context import WorkbenchContext

__all__ = ["QueueScreen", "read_prompt_text"]


def read_prompt_text(queued: "QueuedPrompt") -> str:
    """What a person wrote of a prompt: all but images and the like."""
    return "\n".join(part.text for part in queued.content if isinstance(part, TextContent))


class _Waiting(Picker):
    """The prompts, the next first."""

    def __init__(self, screen: "QueueScreen") -> None:
        super().__init__(id="waiting")
        self._owner = screen

    def rows(self, width: int) -> list[tuple[str, Line]]:
        """See ``Picker``."""
        return [
            (
                one.message,
                (
                    (f"{at}. ", "faint"),
                    (sanitize_line(" ".join(map(describe_content, one.content))), "text"),
                ),
            )
            for at, one in enumerate(self._owner.queue, 1)
        ]


class QueueScreen(ModalScreen[None]):
    """Lists what waits; what is changed after its prompt went is given back, and not lost.

    Args:
        context: where the queue is looked up as it changes.
        session: whose queue it is.
        rescue: takes a text that could not be put into the queue any more.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("e", "edit", "edit"),
        Binding("d,delete", "drop", "remove it from the queue"),
        Binding("escape", "leave", "close"),
    ]

    def __init__(
        self, context: "WorkbenchContext", session: "SessionId", rescue: "Callable[[str], None]"
    ) -> None:
        super().__init__()
        self._app_context = context
        self._session = session
        self._rescue = rescue
        self._editing: QueuedPrompt | None = None
        self._stop = lambda: None

    @property
    def queue(self) -> "tuple[QueuedPrompt, ...]":
        """What waits, as the fleet last reported it."""
        agent = self._app_context.roster.find(self._session)
        return agent.queue if agent is not None else ()

    def compose(self) -> ComposeResult:
        """The parts."""
        with Vertical(id="box") as box:
            box.border_title = "queued prompts"
            box.border_subtitle = "enter edit · d remove · esc close"
            yield Label("the queue is empty", id="nothing")
            yield _Waiting(self)
            yield ChatInput(lambda: (), id="words")

    def on_mount(self) -> None:
        """Follow the queue."""
        self._stop = self._app_context.roster.watch(self._show)
        self.query_one(ChatInput).display = False
        self.query_one(_Waiting).focus()
        self.call_after_refresh(self._show)

    def on_unmount(self) -> None:
        """Let go of the store."""
        self._stop()

    def action_leave(self) -> None:
        """Back to the list, or away."""
        if self._editing is None:
            self.dismiss(None)
        else:
            self._end_editing()

    def action_edit(self) -> None:
        """Change the words of the prompt under the cursor."""
        queued = self._chosen()
        if queued is None or self._editing is not None:
            return
        self._editing = queued
        words = self.query_one(ChatInput)
        words.display = True
        words.set_text(read_prompt_text(queued))
        words.focus()

    def action_drop(self) -> None:
        """Take the prompt under the cursor out of the queue."""
        queued = self._chosen()
        if queued is not None and self._editing is None:
            self.run_worker(partial(self._drop, queued))

    @on(Picker.Chosen)
    def _wanted(self, event: Picker.Chosen) -> None:
        event.stop()
        self.action_edit()

    @on(ChatInput.Submitted)
    def _changed(self, event: ChatInput.Submitted) -> None:
        event.stop()
        if self._editing is not None:
            self.run_worker(partial(self._change, self._editing, event.text))
            self._end_editing()

    async def _change(self, queued: "QueuedPrompt", words: str) -> None:
        others = tuple(part for part in queued.content if not isinstance(part, TextContent))
        try:
            done = await self._app_context.fleet.edit(
                self._session, queued.message, (text(words), *others)
            )
        except QuarterdeckError as error:
            self._rescue(words)
            self._show_message(f"{error}; your text is in the input", bad=True)
            return
        if not done:
            self._rescue(words)
            self._show_message("that prompt was already sent; your text is in the input")

    async def _drop(self, queued: "QueuedPrompt") -> None:
        try:
            if not await self._app_context.fleet.edit(self._session, queued.message, None):
                self._show_message("that prompt was already sent")
        except QuarterdeckError as error:
            self._show_message(str(error), bad=True)

    def _chosen(self) -> "QueuedPrompt | None":
        cursor = self.query_one(_Waiting).cursor
        return next((one for one in self.queue if one.message == cursor), None)

    def _end_editing(self) -> None:
        self._editing = None
        self.query_one(ChatInput).display = False
        self.query_one(_Waiting).focus()

    def _show(self) -> None:
        if not self.query(_Waiting):  # taken down meanwhile
            return
        waiting = self.query_one(_Waiting)
        queue = self.queue
        self.query_one("#nothing").display = not queue
        waiting.styles.height = max(1, min(len(queue), 10))
        if self._chosen() is None:
            waiting.cursor = queue[0].message if queue else None
        waiting.update()

    def _show_message(self, words: str, *, bad: bool = False) -> None:
        self.notify(sanitize_text(words), severity="error" if bad else "information", markup=False)
