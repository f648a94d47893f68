"""Handing a session that another program kept over to an agent of any make.

It is taken into the log first, so that nothing is lost and all can be searched; the new agent is
told a summary, the end of what was said, and where the whole of it can be read.
"""

import asyncio
import os
from collections.abc import AsyncGenerator, AsyncIterable
from contextlib import aclosing
from pathlib import Path

from quarterdeck.config.places import Places, make_private
from quarterdeck.journal.exporting import export_session
from quarterdeck.wire.ids import SessionId
from quarterdeck.wire.private_files import open_private
from quarterdeck.wire.record import Record

from .handing import hand_over
from .port import AgentInfo, Fleet
from .portable import summarise

__all__ = ["hand_past_over", "write_transcript"]

_PAGE = 500


async def hand_past_over(
    fleet: Fleet,
    places: Places,
    past: AgentInfo,
    to: str,
    *,
    name: str | None = None,
    model: str | None = None,
    prompt: str | None = None,
) -> AgentInfo:
    """Start an agent of the kind ``to`` that takes over what an imported session was at.

    Raises:
        UnknownAgent, BadName, NameTaken, BadWish: as for spawning.
        UnusablePlace: the transcript cannot be written.
    """
    path = await write_transcript(fleet, places, past.session)
    async with aclosing(_records(fleet, past.session)) as records:
        summary = await summarise(records)
    told = f"{summary}\n\nThe whole transcript is in {path} (Markdown)."
    return await hand_over(
        fleet, past.session, to, name=name, model=model, prompt=prompt, summary=told
    )


async def write_transcript(fleet: Fleet, places: Places, session: SessionId) -> Path:
    """Write a session as Markdown, secrets masked, for its owner alone; the path.

    Raises:
        UnusablePlace: the directory cannot be made.
    """
    folder = await asyncio.to_thread(make_private, places.state / "transcripts")
    path = folder / f"{session}.md"
    unfinished = path.with_suffix(".part")
    number = await asyncio.to_thread(
        open_private, unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
    )
    with os.fdopen(number, "wb") as file:
        async for piece in _exported(fleet, session):
            await asyncio.to_thread(file.write, piece.encode("utf-8", "replace"))
        await asyncio.to_thread(file.flush)
    await asyncio.to_thread(unfinished.replace, path)
    return path


def _exported(fleet: Fleet, session: SessionId) -> AsyncIterable[str]:
    records = _records(fleet, session)
    return export_session(session, records, "markdown", masked=True, environment={})


async def _records(fleet: Fleet, session: SessionId) -> AsyncGenerator[Record]:
    last = 0
    while records := await fleet.read(session, after=last, limit=_PAGE):
        for record in records:
            yield record
        last = records[-1].seq
