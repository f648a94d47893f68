"""Our ACP driver with the log on: every chunk is decoded, recorded and followed by a subscriber."""

import asyncio
import json
import sys
import tempfile
import time
from pathlib import Path

from quarterdeck.drivers.acp.link import AcpLink
from quarterdeck.drivers.agent_process import Launch
from quarterdeck.drivers.driver import DriverSessionOptions
from quarterdeck.drivers.open_session import start_session
from quarterdeck.drivers.session import LinkSession
from quarterdeck.journal import Journal
from quarterdeck.policy.foreign_calls import CallContext
from quarterdeck.policy.gate import Gate
from quarterdeck.wire.content import text
from quarterdeck.wire.events import Event, MessageChunk, TurnEnded
from quarterdeck.wire.ids import ToolCallId, TurnId, new_session_id


async def main(command: list[str], directory: Path) -> None:
    id_ = new_session_id()
    async with Journal.open(directory / "log.db") as journal:

        async def sink(
            event: Event, *, turn: TurnId | None = None, parent: ToolCallId | None = None
        ) -> None:
            await journal.append(id_, event, turn=turn, parent=parent)

        async def follow() -> int:
            received = 0
            async for record in journal.follow(0, id_):
                received += isinstance(record.event, MessageChunk)
                if isinstance(record.event, TurnEnded):
                    return received
            return received

        opening = DriverSessionOptions.of(cwd=str(directory))
        around = CallContext(cwd=str(directory))
        session = LinkSession(id_, "raw", opening, sink, Gate(mode="ask"), around)
        launch = Launch(agent="raw", command=tuple(command))
        await start_session(session, [lambda: AcpLink(launch)])
        following = asyncio.create_task(follow())
        await asyncio.sleep(0)
        cpu, wall = time.process_time(), time.perf_counter()
        await session.prompt((text("x"),))
        received = await following
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
        await session.close()
    print(json.dumps({"cpu": cpu, "wall": wall, "received": received}))


with tempfile.TemporaryDirectory() as place:
    asyncio.run(main(sys.argv[1:], Path(place)))
