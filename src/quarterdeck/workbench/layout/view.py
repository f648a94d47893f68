"""The widget that shows a layout, and changes from one layout to another without remaking
panels.
"""

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from textual import events, on
from textual.app import ComposeResult
from textual.geometry import NULL_OFFSET, NULL_SPACING, Region, Size
from textual.layout import Layout as TextualLayout
from textual.layout import WidgetPlacement
from textual.message import Message
from textual.widget import Widget

from ..panels.panel import Panel
from . import edit
from .bars import Divider, LayoutFrame, TabStrip
from .geometry import LayoutPlan, Rect, place_nodes
from .panel_set import PanelExchange, PanelSet
from .spec import Layout, Node, PanelNode, TabsNode, children_of, panels_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ..context import WorkbenchContext
    from ..panels.kinds import PanelKind

__all__ = ["LayoutView", "PlanLayout", "list_visible_panels"]


class PlanLayout(TextualLayout):
    """Puts each child where a function says; a child without a place is not shown."""

    name = "plan"

    def __init__(self, plan: "Callable[[Size], dict[Widget, Rect]]") -> None:
        self._plan = plan

    def arrange(
        self, parent: "Widget", children: "Sequence[Widget]", size: "Size", greedy: bool = True
    ) -> list[WidgetPlacement]:
        """See Textual's ``Layout``."""
        places = self._plan(size)
        return [
            WidgetPlacement(Region(*places[child]), NULL_OFFSET, NULL_SPACING, child)
            for child in children
            if child in places
        ]


class LayoutView(Widget):
    """Shows one tab of a layout; the panels of the others stay as they are.

    Args:
        context: given to panels.
        kinds: the widgets that there are, by name.
        layout: the first; checked already.
        states: what panels remembered in an earlier run, by id.
        tab: which tab is shown first.
    """

    class Changed(Message):
        """The layout, the tab or the focus is another: something to keep over a restart."""

    class TabWanted(Message):
        """A new tab is wanted."""

    class TabClosed(Message):
        """A tab is to be closed."""

        def __init__(self, tab: int) -> None:
            super().__init__()
            self.tab = tab

    def __init__(
        self,
        context: "WorkbenchContext",
        kinds: "Mapping[str, PanelKind]",
        layout: Layout,
        *,
        states: Mapping[str, dict[str, Any]] | None = None,
        tab: int = 0,
    ) -> None:
        super().__init__(id="view")
        self._app_context = context
        self._set = PanelSet(context, kinds, states or {})
        self.spec = layout
        """What is shown; changed by ``apply`` alone."""
        self.base = layout
        """The sizes to go back to."""
        self.tab = min(tab, len(layout.tabs) - 1)
        self.zoomed: str | None = None
        self._frame = LayoutFrame()
        self._turn = asyncio.Lock()
        self._top = TabStrip(None, id="tabs")
        self._last: dict[int, str] = {}
        """The panel that had the focus last, by tab."""
        self._inside: dict[str, Widget] = {}
        """The widget that had the focus last, by panel."""
        self._placing = PlanLayout(self._places)
        self.plan = LayoutPlan()
        """Where everything of the tab stood when it was drawn last."""

    @property
    def layout(self) -> "TextualLayout":
        """See Textual's ``Widget``."""
        return self._placing

    @property
    def panels(self) -> dict[str, Panel]:
        """Those that were shown at least once, by id."""
        return self._set.panels

    @property
    def root(self) -> Node:
        """The tree of the tab that is shown."""
        return self.spec.tabs[self.tab].root

    @property
    def current(self) -> str | None:
        """The panel of this tab that has the focus, or had it last."""
        return self._last.get(self.tab)

    def compose(self) -> ComposeResult:
        """The panels of the first tab and a chat; others come when they are shown."""
        yield self._top
        yield from self._set.make(self._list_needed(self.spec, self.tab))
        shown = {node.id for node in list_visible_panels(self.root)}
        for name, panel in self.panels.items():
            panel.display = name in shown
        yield from self._frame.fit(self.root, self._has_head)[0]
        self._top.display = len(self.spec.tabs) > 1
        self._show_titles()

    def on_mount(self) -> None:
        """See to it that what is shown first knows it."""
        self.call_after_refresh(self._show_missed)

    # Changing the layout

    async def apply(
        self, layout: Layout, *, tab: int | None = None, is_base: bool = False, force: bool = False
    ) -> None:
        """Show another layout. A panel whose id and widget stay is the same widget as before.

        Args:
            layout: checked already, by ``parse``.
            tab: the tab to show; None: stays where it is.
            is_base: its sizes are those to go back to.
            force: close panels even if something in them is not saved.

        Raises:
            UnsavedPanelsError: something would be lost; nothing has changed.
            LayoutError: a panel could not be made; nothing has changed.
        """
        async with self._turn:
            shown = min(self.tab if tab is None else tab, len(layout.tabs) - 1)
            change = self._set.change(layout, self._list_needed(layout, shown), force=force)
            self._take(layout, shown, is_base)
            await self._exchange(change)
        self.settle()

    async def move(
        self, layout: Layout, *, tab: int, states: Mapping[str, dict[str, Any]], force: bool
    ) -> None:
        """Show what was open in another directory; only panels about agents are kept.

        Raises:
            UnsavedPanelsError: something would be lost; nothing has changed.
        """
        async with self._turn:
            change = self._set.move(layout, self._list_needed(layout, tab), states, force=force)
            self._take(layout, tab, is_base=True)
            await self._exchange(change)
        self.settle()

    def _list_needed(self, layout: Layout, tab: int) -> list[PanelNode]:
        """The panels of a tab that are seen, and a chat wherever it is: commands need one."""
        nodes = list(list_visible_panels(layout.tabs[tab].root))
        chats = [node for node in panels_of(layout) if node.widget == "chat"]
        if any(node in nodes or self._set.has(node) for node in chats):
            return nodes
        return [*nodes, *chats[:1]]

    def _take(self, layout: Layout, tab: int, is_base: bool) -> None:
        known = {node.id: at for at, one in enumerate(layout.tabs) for node in panels_of(one)}
        self._last = {known[panel]: panel for panel in self._last.values() if panel in known}
        self._inside = {p: w for p, w in self._inside.items() if p in self.panels}
        self.spec, self.tab = layout, tab
        self.base = layout if is_base else self.base
        self.zoomed = self.zoomed if self.zoomed in known else None

    async def _exchange(self, change: PanelExchange) -> None:
        new, old = self._frame.fit(self.root, self._has_head)
        if gone := [*change.gone, *old]:
            is_left = self._leave(gone)
            await self.remove_children(gone)
            if is_left:
                self.call_after_refresh(self._enter_if_left, self.current)
        if made := [*change.made, *new]:
            await self.mount_all(made)
            order = {f"panel-{node.id}": at for at, node in enumerate(panels_of(self.spec))}
            self.sort_children(key=lambda widget: order.get(widget.id or "", -1))

    # Moving about

    async def show_tab(self, tab: int) -> None:
        """Show another tab; its focus is where it was."""
        await self.apply(self.spec, tab=tab % len(self.spec.tabs))
        self.enter(self.current)

    async def show_panel(self, panel: str) -> None:
        """Bring a panel to the front and give it the focus.

        Raises:
            LayoutError: there is no such panel.
        """
        layout = edit.activate(self.spec, panel)
        if self.zoomed is not None:
            self.zoomed = panel
        await self.apply(layout, tab=edit.find_panel(layout, panel).tab)
        self.enter(panel)

    def enter(self, panel: str | None) -> None:
        """Give the focus to a panel of this tab, where it was in it; None: to the first chat."""
        nodes = list(list_visible_panels(self.root))
        names = [node.id for node in nodes]
        chats = [node.id for node in nodes if node.widget == "chat"]
        target = panel if panel in names else next(iter([*chats, *names]), None)
        if target is None or target not in self.panels:
            return
        self._last[self.tab] = target  # the focus itself comes with a later message
        inside = self._inside.get(target)
        if inside is not None and inside.is_attached and inside.focusable:
            self.screen.set_focus(inside)
        else:
            self.panels[target].enter()

    def _enter_if_left(self, panel: str | None) -> None:
        """Enter a panel unless the focus is somewhere meanwhile: keys follow it."""
        if self.screen.focused is None:
            self.enter(panel)

    def cycle(self, step: int) -> None:
        """Give the focus to the next panel that is on the screen."""
        shown = [node.id for node in panels_of(self.root) if node.id in self.plan.panels]
        if not shown:
            return
        at = shown.index(self.current) + step if self.current in shown else 0
        self.enter(shown[at % len(shown)])

    def zoom(self) -> None:
        """Show the panel with the focus alone, or everything again."""
        self.zoomed = None if self.zoomed is not None else self.current
        self.settle()

    async def resize_panel(self, way: edit.ResizeDirection) -> None:
        """Move a line beside the panel with the focus by a step; the nearest that there is."""
        if self.current is not None:
            await self.apply(edit.resize_beside(self.spec, self.current, self.plan.spans, way))

    async def reset_sizes(self) -> None:
        """Give everything the size that the layout had when it was loaded."""
        await self.apply(edit.reset_sizes(self.spec, self.base))

    def remember(self) -> dict[str, dict[str, Any]]:
        """What panels want to keep over a restart, by id."""
        return self._set.remember(self.spec)

    # What happens inside

    @on(Divider.Dragged)
    async def _dragged(self, event: Divider.Dragged) -> None:
        event.stop()
        path, child = event.divider.path, event.divider.child
        bar = self.plan.bars.get((path, child)) if child is not None else None
        if bar is None or child is None:
            return
        to = event.x - self.region.x if bar.axis == "across" else event.y - self.region.y
        step = to - (bar.rect.x if bar.axis == "across" else bar.rect.y)
        if step:
            span = self.plan.spans[path]
            await self.apply(edit.resize(self.spec, self.tab, path, span, child, step))

    @on(TabStrip.Chosen)
    async def _tab_chosen(self, event: TabStrip.Chosen) -> None:
        event.stop()
        if event.strip.path is not None and event.tab is not None:
            node = self.root
            for at in event.strip.path:
                node = children_of(node)[at]
            await self.show_panel(next(panels_of(children_of(node)[event.tab])).id)
        elif event.tab is None:
            self.post_message(self.TabWanted())
        elif event.closes:
            self.post_message(self.TabClosed(event.tab))
        else:
            await self.show_tab(event.tab)

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        """Note where the focus is."""
        panel = next((w for w in event.widget.ancestors_with_self if isinstance(w, Panel)), None)
        name = next((name for name, one in self.panels.items() if one is panel), None)
        if panel is None or name is None or not panel.display:
            return
        self._inside[name] = event.widget
        tab = find_tab(self.spec, name)
        has_moved_on = self.screen.focused is not event.widget
        if tab == self.tab and has_moved_on:  # the message was on its way while a panel was entered
            return
        if tab is not None:
            self._last[tab] = name
        if tab != self.tab:  # the message was on its way while another tab came to be shown
            return
        self._app_context.pin = lambda: panel.session if panel.is_attached else None
        self._show_titles()
        self.post_message(self.Changed())

    @on(Panel.Renamed)
    def _renamed(self) -> None:
        self._show_titles()

    # Showing

    def settle(self) -> None:
        """Show and hide what belongs so, and draw anew."""
        shown = (
            {self.zoomed} if self.zoomed else {node.id for node in list_visible_panels(self.root)}
        )
        hidden = [panel for name, panel in self.panels.items() if name not in shown]
        is_left = self._leave(hidden)
        for name, panel in self.panels.items():
            panel.display = name in shown
        if is_left:
            self.enter(self.current)
        self._top.display = len(self.spec.tabs) > 1
        self._show_titles()
        self._clear_arrangement_cache()
        self.refresh(layout=True)
        self.call_after_refresh(self._show_missed)
        self.post_message(self.Changed())

    def _show_missed(self) -> None:
        """Send ``Show`` to what is on the screen and has not got it.

        Textual forgets it for widgets that first appear while something is scrolled.
        """
        for name in self.plan.panels:
            if (panel := self.panels.get(name)) is None or not panel.display:
                continue
            for widget in panel.walk_children(with_self=True):
                if getattr(widget, "is_seen", None) is False and widget.display:
                    widget.post_message(events.Show())

    def _leave(self, panels: "Iterable[Widget]") -> bool:
        """Take the focus out of panels: Textual would give it to anybody when they go."""
        focused = self.screen.focused
        if focused is None or not any(panel in focused.ancestors_with_self for panel in panels):
            return False
        self.screen.set_focus(None)
        return True

    def _places(self, size: Size) -> dict[Widget, Rect]:
        top = 1 if len(self.spec.tabs) > 1 and size.height > 4 else 0
        root = self.root
        if self.zoomed is not None:
            root = edit.find_panel(self.spec, self.zoomed).node
        self.plan = plan = place_nodes(
            root,
            size.width,
            size.height - top,
            wants=self._set.wanted,
            heads=self._has_head,
            keep=self.current,
        ).moved(top)
        places = self._frame.places(plan) if self.zoomed is None else {}
        places |= {self.panels[p]: rect for p, rect in plan.panels.items() if p in self.panels}
        if top:
            places[self._top] = Rect(0, 0, size.width, 1)
        return places

    def _has_head(self, node: PanelNode) -> bool:
        return self.zoomed is None and self._set.has_head(node)

    def _show_titles(self) -> None:
        self._frame.show(self.root, self._set.title, self.current)
        self._top.show(tuple(tab.title for tab in self.spec.tabs), self.tab)


def find_tab(layout: Layout, panel: str) -> int | None:
    """Which tab a panel is in; None: in none."""
    tabs = enumerate(layout.tabs)
    return next((at for at, tab in tabs if any(n.id == panel for n in panels_of(tab))), None)


def list_visible_panels(node: Node) -> Iterator[PanelNode]:
    """The panels that are not behind another tab of a ``tabs`` node."""
    if isinstance(node, PanelNode):
        yield node
    elif isinstance(node, TabsNode):
        yield from list_visible_panels(node.children[node.active])
    else:
        for child in node.children:
            yield from list_visible_panels(child)
