"""The panels of a layout that exist: made when they are first shown, kept while they are named."""

import logging
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from quarterdeck.wire.decoders import convert
from quarterdeck.wire.errors import QuarterdeckError

from ..rendering.glyphs import RUNNING
from .spec import Layout, LayoutError, Node, PanelNode, panels_of

if TYPE_CHECKING:
    from ..context import WorkbenchContext
    from ..panels.kinds import PanelKind
    from ..panels.panel import Panel

log = logging.getLogger(__name__)

_AGENTS = frozenset({"agents", "chat", "inbox", "transcript"})
"""Kinds that are about agents, which are the same in every directory."""

__all__ = ["PanelExchange", "PanelSet", "UnsavedPanelsError"]


class UnsavedPanelsError(QuarterdeckError):
    """Panels would go with something that is not saved.

    Attributes:
        lost: what would be lost, by the id of the panel.
    """

    def __init__(self, lost: Mapping[str, str]) -> None:
        words = "; ".join(f"{panel}: {what}" for panel, what in lost.items())
        super().__init__(f"unsaved changes: {words}; save them, or close with force")
        self.lost = dict(lost)


class PanelExchange(Struct, frozen=True, kw_only=True):
    """Panels to be mounted, and panels to be removed."""

    made: "list[Panel]"
    gone: "list[Panel]"


class PanelSet:
    """Panels by their id; those whose id and widget stay are the same objects as before.

    Args:
        context: given to panels.
        kinds: the widgets that there are, by name.
        states: what panels remembered in an earlier run, by id.
    """

    def __init__(
        self,
        context: "WorkbenchContext",
        kinds: "Mapping[str, PanelKind]",
        states: Mapping[str, dict[str, Any]],
    ) -> None:
        self._app_context = context
        self._kinds = kinds
        self._states = dict(states)
        self._remembered: dict[str, dict[str, Any]] = {}
        self._nodes: dict[str, PanelNode] = {}
        self.panels: dict[str, Panel] = {}

    def has(self, node: PanelNode) -> bool:
        """Whether a panel of this id and widget is there."""
        known = self._nodes.get(node.id)
        return known is not None and known.widget == node.widget

    def make(self, nodes: Iterable[PanelNode]) -> "list[Panel]":
        """Make those that are not there yet: all of them, or none.

        Raises:
            LayoutError: one cannot be made.
        """
        made: dict[str, Panel] = {}
        new = {node.id: node for node in nodes if node.id not in self.panels}
        for name, node in new.items():
            self._check_machine(node)
            try:
                panel: Panel = self._kinds[node.widget].load()(
                    self._app_context, self._options(node), id=f"panel-{name}"
                )
                if (state := self._states.get(name)) is not None:
                    panel.recall(state)
            except Exception as error:  # the code of a panel can be anybody's
                raise LayoutError("", f"cannot create panel {name!r}: {error}") from error
            made[name] = panel
        self.panels |= made
        self._nodes |= new
        for name in new:
            self._remembered[name] = self._states.pop(name, {})
        return list(made.values())

    def _check_machine(self, node: PanelNode) -> None:
        remote = self._app_context.remote
        if remote is not None and self._kinds[node.widget].is_local:
            raise LayoutError(
                "",
                f"a panel {node.widget!r} shows this machine, and the agents are on {remote!r}; "
                "use a review or a terminal",
            )

    def move(
        self,
        layout: Layout,
        shown: Iterable[PanelNode],
        states: Mapping[str, dict[str, Any]],
        *,
        force: bool,
    ) -> "PanelExchange":
        """Like ``change``, to a layout of another directory: only panels about agents stay.

        Raises:
            UnsavedPanelsError: something would be lost; nothing has changed.
            LayoutError: a panel cannot be made; nothing has changed.
        """
        own = [name for name, node in self._nodes.items() if node.widget not in _AGENTS]
        before, self._states = self._states, dict(states)
        try:
            return self.change(layout, shown, force=force, without=own)
        except QuarterdeckError:
            self._states = before
            raise

    def change(
        self,
        layout: Layout,
        shown: Iterable[PanelNode],
        *,
        force: bool = False,
        without: Collection[str] = (),
    ) -> "PanelExchange":
        """Be the panels of a layout: give options to those that stay, make those that are shown.

        Args:
            layout: checked already.
            shown: those that are needed now.
            force: drop what is not saved.
            without: those that must not stay.

        Raises:
            UnsavedPanelsError: something would be lost; nothing has changed.
            LayoutError: a panel cannot be made; nothing has changed.
        """
        wanted = {node.id: node for node in panels_of(layout)}
        gone = [
            name
            for name, old in self._nodes.items()
            if name in without or not _is_same(old, wanted.get(name))
        ]
        self._refuse_loss(gone, force)
        panels, nodes = dict(self.panels), dict(self._nodes)
        try:
            gone += self._describe_options(wanted, set(gone), force)
            for name in gone:
                del self.panels[name], self._nodes[name]
            made = self.make(shown)
        except QuarterdeckError:
            self._go_back(panels, nodes)
            raise
        for name in gone:
            self._remembered.pop(name, None)
        return PanelExchange(made=made, gone=[panels[name] for name in gone])

    def _go_back(self, panels: "dict[str, Panel]", nodes: dict[str, PanelNode]) -> None:
        for name, node in nodes.items():
            if name in self._nodes and self._nodes[name].options != node.options:
                panels[name].change(self._options(node))
        self.panels, self._nodes = panels, nodes

    def wanted(self, node: PanelNode, width: int) -> int | None:
        """How many lines a panel would fill; see ``Panel``."""
        panel = self.panels.get(node.id)
        try:
            return panel.wanted(width) if panel is not None else None
        except Exception:  # the code of a panel can be anybody's, and all others hang on this
            log.exception("cannot measure panel %r", node.id)
            return None

    def has_head(self, node: PanelNode) -> bool:
        """Whether a panel gets a line with its title."""
        panel = self.panels.get(node.id)
        return panel is not None and panel.has_head

    def title(self, node: Node) -> str:
        """What a node is called: by the layout, or by its first panel."""
        if node.title is not None:
            return node.title
        first = next(panels_of(node))
        panel = self.panels.get(first.id)
        if panel is None:
            return first.title or first.widget
        mark = "" if panel.unsaved is None else f"{RUNNING} "
        return f"{mark}{panel.title}"

    def remember(self, layout: Layout) -> dict[str, dict[str, Any]]:
        """What panels want to keep over a restart, by id.

        A panel that is being taken down, or that fails at it, has what it remembered before.
        """
        for name, panel in self.panels.items():
            if panel.is_running:
                try:
                    self._remembered[name] = dict(panel.remember())
                except Exception:  # the code of a panel can be anybody's
                    log.exception("cannot capture the state of panel %r", name)
        known = {node.id for node in panels_of(layout)}
        states = self._states | self._remembered
        return {name: state for name, state in states.items() if name in known and state}

    def _refuse_loss(self, gone: Iterable[str], force: bool) -> None:
        lost = {name: what for name in gone if (what := self.panels[name].unsaved) is not None}
        if lost and not force:
            raise UnsavedPanelsError(lost)

    def _describe_options(
        self, wanted: Mapping[str, PanelNode], gone: set[str], force: bool
    ) -> list[str]:
        """Give other options to panels that can take them; returns those that cannot."""
        others = [
            node
            for node in wanted.values()
            if node.id not in gone
            and node.id in self._nodes
            and self._nodes[node.id].options != node.options
        ]
        remade: list[str] = []
        for node in sorted(others, key=lambda node: self.panels[node.id].unsaved is None):
            unsaved = self.panels[node.id].unsaved
            if self.panels[node.id].change(self._options(node)):
                self._nodes[node.id] = node
            elif unsaved is not None and not force:
                raise UnsavedPanelsError({node.id: unsaved})
            else:
                remade.append(node.id)
        return remade

    def _options(self, node: PanelNode) -> Any:
        return convert(node.options, self._kinds[node.widget].load().options_type)


def _is_same(old: PanelNode, new: PanelNode | None) -> bool:
    return new is not None and new.widget == old.widget
