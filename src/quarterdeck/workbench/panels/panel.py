"""What a panel is: a widget that a layout names, makes, keeps and gives back its state.

A panel knows the context and its options, never another panel or the layout. What it wants from the
rest of the workbench it posts as a message; what it shows comes from a store or from files. It is
mountable alone: ``SomePanel(context, options, id="x")`` in any Textual application.
"""

from typing import TYPE_CHECKING, Any, ClassVar, Literal

from msgspec import Struct
from textual.message import Message
from textual.widget import Widget

if TYPE_CHECKING:
    from quarterdeck.wire.ids import SessionId

    from ..context import WorkbenchContext

__all__ = ["NoOptions", "Panel", "PanelOptions"]


class PanelOptions(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of every panel's options; what a layout says is decoded into a subclass."""


class NoOptions(PanelOptions, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A panel that takes no options."""


class Panel(Widget):
    """Base of every panel.

    Args:
        context: the fleet, the stores, and where the person is.
        options: of ``options_type``; checked already.
        id: the panel's id in the layout, as a widget's id.
    """

    options_type: ClassVar[type[PanelOptions]] = NoOptions
    has_head: ClassVar[bool] = True
    """Whether a line with its title is put above it; False: its first line says what it is."""

    class AgentWanted(Message):
        """Show an agent, and go to a record of it if one is named."""

        def __init__(self, session: "SessionId", seq: int | None = None) -> None:
            super().__init__()
            self.session = session
            self.seq = seq

    class FileWanted(Message):
        """Show a file; the path is absolute."""

        def __init__(
            self,
            path: str,
            line: int | None = None,
            how: Literal["view", "edit", "diff", "tail"] = "view",
        ) -> None:
            super().__init__()
            self.path = path
            self.line = line
            self.how: Literal["view", "edit", "diff", "tail"] = how

    class CommandWanted(Message):
        """Run a command of the workbench, with the words after its name."""

        def __init__(self, command: str, words: str = "") -> None:
            super().__init__()
            self.command = command
            self.words = words

    class Renamed(Message):
        """The panel's title is another now."""

        def __init__(self, panel: "Panel") -> None:
            super().__init__()
            self.panel = panel

    class Altered(Message):
        """What it remembers is another now: kept over a restart from here on."""

    def __init__(self, context: "WorkbenchContext", options: Any, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.context = context
        self.options = options

    @property
    def desk(self) -> "WorkbenchContext":
        """The old name of ``context``; widgets that people wrote use it."""
        return self.context

    @property
    def title(self) -> str:
        """What a tab or a border calls it; literal text, as it may come from a file's name."""
        return type(self).__name__.removesuffix("Panel").lower()

    @property
    def unsaved(self) -> str | None:
        """What would be lost if it were closed now, in words; None: nothing."""
        return None

    @property
    def session(self) -> "SessionId | None":
        """The agent that it is about: keys and commands are for that one while it has the focus."""
        return None

    def wanted(self, width: int) -> int | None:
        """How many lines it would fill; 0: it has nothing to show; None: as many as it gets.

        Counts where a layout gives it the size ``auto``; ``refresh(layout=True)`` when it changes.
        """
        return None

    def enter(self) -> None:
        """Take the focus: itself if it can, else the first widget inside that can."""
        for widget in (self, *self.query("*").results(Widget)):
            if widget.focusable:
                self.screen.set_focus(widget)
                return

    def opened(self) -> None:
        """A person has opened it by name, with these options; no layout has."""

    async def leave(self) -> bool:
        """A person wants to close it; False: it stays. May ask them, and end what it runs."""
        return True

    def change(self, options: Any) -> bool:
        """Take other options and stay; False: it cannot, and is made anew."""
        return options == self.options

    def remember(self) -> dict[str, Any]:
        """What to keep over a restart, as JSON; small."""
        return {}

    def recall(self, state: dict[str, Any]) -> None:
        """Take what ``remember`` gave in an earlier run; ignores what it does not understand."""
