"""Reads the pages of patches that are looked at, and finds hunks on pages that are not there."""

import asyncio
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING

from quarterdeck.wire.errors import QuarterdeckError

from .document import PatchDocument, PatchPlace, PatchSlot, RowStyle, SlotChange, lay_out

if TYPE_CHECKING:
    from quarterdeck.fleet.review.api import ChangedFile

    from .model import ReviewModel
    from .view import PatchCanvas

__all__ = ["PatchPages"]


class PatchPages:
    """Fills a canvas with pages as they are wanted.

    Args:
        model: reads pages.
        canvas: shows them; its workers do the reading.
        style: how rows are laid out now.
        report: shows an error.
        reload: called when a file turns out to be another than the list says.
    """

    def __init__(
        self,
        model: "ReviewModel",
        canvas: "PatchCanvas",
        *,
        style: Callable[[], RowStyle],
        report: Callable[[str], None],
        reload: Callable[[], None],
    ) -> None:
        self._model = model
        self._canvas = canvas
        self._style = style
        self._report = report
        self._reload = reload
        self._loading: set[PatchSlot] = set()
        self._place: PatchPlace | None = None
        """Where to go when its page is there."""

    def show(self, files: "Iterable[ChangedFile]", place: PatchPlace | None) -> None:
        """Show the changes of files, at a place as soon as it is there."""
        self._loading.clear()
        self._canvas.marked.clear()
        self._canvas.show(PatchDocument(files, self._tree))
        self._place = place

    async def exchange(self, files: "Iterable[ChangedFile]") -> None:
        """Show the changes of files anew; what is on the screen changes in one step."""
        canvas, document = self._canvas, PatchDocument(files, self._tree)
        shown = {(slot.file.id, slot.after) for slot in canvas.visible_slots()}
        place = canvas.place
        for slot in [one for one in document.slots if (one.file.id, one.after) in shown]:
            if slot in document.slots:
                await self._read(document, slot)
        if any(slot.is_loaded for slot in document.slots):
            self._place = None
            canvas.exchange(document)
        else:
            self.show(document.files, place)

    @property
    def _tree(self) -> str | None:
        changes = self._model.changes
        return changes.new if changes is not None else None

    def go_to(self, place: PatchPlace) -> None:
        """Go to a place, as soon as it is there."""
        self._place = place
        self._go_to_place()

    def want(self, slots: Iterable[PatchSlot]) -> None:
        """Read the pages of slots."""
        for slot in slots:
            if slot not in self._loading:
                self._canvas.run_worker(partial(self.load, slot), group="pages")

    async def load(self, slot: PatchSlot) -> None:
        """Read the page of a slot, unless it is there or on its way."""
        document = self._canvas.document
        if slot in self._loading or slot.is_loaded or slot not in document.slots:
            return
        self._loading.add(slot)
        try:
            change = await self._read(document, slot)
        finally:
            self._loading.discard(slot)
        if change is not None and document is self._canvas.document:
            self._canvas.take(change)
            self._go_to_place()

    async def _read(self, document: PatchDocument, slot: PatchSlot) -> SlotChange | None:
        try:
            page = await self._model.read_page(document, slot)
        except QuarterdeckError as error:
            # The file is another by now, or the host is gone: the list tells when it is read again.
            self._report(str(error))
            return None
        await asyncio.to_thread(lay_out, slot, page, self._style(), document.before(slot))
        self._compare(document, slot, page.changed)
        return document.fill(slot, page)

    def paint(self) -> None:
        """Work out colours that were missing."""
        self._canvas.run_worker(self._paint, group="paint")

    async def _paint(self) -> None:
        await asyncio.to_thread(self._canvas.painter.paint)
        self._canvas.painted()

    async def find_hunk(self, step: int) -> int | None:
        """The row of the next hunk, or of the one before, reading pages on the way; None: none."""
        canvas = self._canvas
        found = canvas.document.find_slot(canvas.cursor)
        slot = found[0] if found is not None else None
        while slot is not None:
            await self.load(slot)
            document = canvas.document
            if slot not in document.slots or not slot.is_loaded:
                return None
            start = document.start_of(slot)
            rows = [start + at for at, row in enumerate(slot.rows) if row.kind == "hunk"]
            rows = [y for y in rows if (y > canvas.cursor if step > 0 else y < canvas.cursor)]
            if rows:
                return rows[0] if step > 0 else rows[-1]
            at = document.slots.index(slot) + step
            slot = document.slots[at] if 0 <= at < len(document.slots) else None
        return None

    def _compare(self, document: PatchDocument, slot: PatchSlot, file: "ChangedFile") -> None:
        """Note what a page is of; a file that changed between two pages is read anew."""
        if file.content == slot.file.content:
            return
        if not slot.is_first:
            self._reload()
            return
        for one in document.slots:
            if one.file.id == file.id:
                one.file = file

    def _go_to_place(self) -> None:
        place = self._place
        if place is None:
            return
        row = self._canvas.document.find(place)
        if row is not None and self._canvas.document.row(row) is not None:
            self._place = None
            self._canvas.move_to(row, top=place.kind == "file")
