"""A session that we name can be gone on with, also when its first turn was interrupted."""

import asyncio
import sys
from pathlib import Path

from quarterdeck.drivers.agent_process import Launch
from quarterdeck.drivers.pipe.oneshot_link import OneshotLink
from quarterdeck.drivers.pipe.pi import PI
from tests.support.deadlines import SOON
from tests.support.driver_rig import Rig, drive

PROGRAM = """
import json, pathlib, sys, time
words = sys.argv[1:]
with open("calls.txt", "a") as file:
    print(" ".join(words), file=file)
prompt = sys.stdin.read()
if prompt == "wait":
    time.sleep(600)
if prompt == "fail":
    sys.exit(3)
print(json.dumps({"type": "session", "id": words[words.index("--session-id") + 1]}))
said = {"role": "assistant", "stopReason": "stop", "usage": {"input": 1, "output": 1}}
print(json.dumps({"type": "message_end", "message": said}))
"""


def rig(tmp_path: Path) -> Rig:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    words = {"session": ("--session-id", "{}"), "resume": ("--session-id", "{}")}
    launch = Launch(
        agent="pi", command=(sys.executable, str(program)), words=words, modes={"ask": ()}
    )
    return Rig(name="pi-pipe", make=lambda: OneshotLink(launch, PI))


async def calls(tmp_path: Path) -> list[str]:
    file = tmp_path / "calls.txt"
    for _ in range(int(SOON / 0.01)):
        if await asyncio.to_thread(file.exists):
            break
        await asyncio.sleep(0.01)
    return (await asyncio.to_thread(file.read_text)).splitlines()


async def test_a_session_is_known_before_its_first_turn_ends(tmp_path: Path):
    async with drive(rig(tmp_path), tmp_path) as driven:
        named = driven.session.agent_session
        assert named
        turn = asyncio.create_task(driven.say("wait"))
        assert await calls(tmp_path) == [f"--session-id {named}"]
        async with asyncio.timeout(SOON):
            while not turn.done():
                await driven.session.interrupt()
                await asyncio.sleep(0.01)
        assert turn.result().stop == "cancelled"
        assert driven.session.agent_session == named
    async with drive(rig(tmp_path), tmp_path, resume=named) as again:
        assert (await again.say("hello")).stop == "end_turn"
        assert again.session.agent_session == named
    assert await calls(tmp_path) == [f"--session-id {named}"] * 2


async def test_a_first_turn_that_fails_runs_once(tmp_path: Path):
    async with drive(rig(tmp_path), tmp_path) as driven:
        assert (await driven.say("fail")).stop == "failed"
        assert len(await calls(tmp_path)) == 1
        assert (await driven.say("hello")).stop == "end_turn"
