"""A host of agents that run their prompts as shell commands, for tests of plans, as a process."""

import asyncio
import json
import os
import re
import sys
import uuid
from pathlib import Path

from quarterdeck.config.places import Places
from quarterdeck.drivers.driver import DriverSessionOptions
from quarterdeck.drivers.link import LinkHost, StartedAgent, TurnOutcome
from quarterdeck.fleet.host.process import run_host
from quarterdeck.fleet.local import LocalFleet
from quarterdeck.wire.content import ContentBlock, TextContent
from quarterdeck.wire.errors import LinkBrokenError
from quarterdeck.wire.usage import Cost, TokenUsage
from tests.support.scripted_fleet import Casting, PlayedLink

__all__ = ["CommandLink", "main"]


class CommandLink(PlayedLink):
    """Runs the lines of a prompt that begin with ``$`` in its directory; says what they print.

    ``ask X`` asks for permission, ``die`` ends the agent, ``wait`` waits to be interrupted, and
    ``unless NAME`` too, except for the agent of that name; ``at NAME`` too, except in the home of
    that name. In the environment of the commands are AGENT and SESSION. With VENDOR_FILES in its
    own environment the agent keeps its session in a file as its vendor does, and resumes nothing
    that is not there; ``recall`` says all that it was ever sent.
    """

    file: Path | None = None

    async def start(self, host: LinkHost) -> StartedAgent:
        if "VENDOR_FILES" not in os.environ:
            return await super().start(host)
        await super().start(host)
        given = host.opening.options.resume
        id_ = given or str(uuid.uuid4())
        self.file = _find_vendor_file(self.start_.spawn.options.agent, id_, host.opening)
        if given and not self.file.exists():
            raise LinkBrokenError(f"no session {given}")
        if not given:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            cwd = str(host.opening.options.cwd)
            meta = {"type": "session_meta", "payload": {"id": id_, "cwd": cwd}, "cwd": cwd}
            self._write({**meta, "sessionId": id_, "timestamp": "2026-01-02T03:04:05Z"})
        return StartedAgent(agent_session=id_, agent_version="1")

    def _write(self, entry: dict[str, object]) -> None:
        assert self.file is not None
        with self.file.open("a") as file:
            file.write(json.dumps(entry) + "\n")

    async def prompt(self, content: tuple[ContentBlock, ...]) -> TurnOutcome:
        last = content[-1]
        assert isinstance(last, TextContent)
        said: list[str] = []
        if self.file is not None:
            self._write({"type": "user", "sent": last.text})
        for line in last.text.splitlines():
            word, _, rest = line.partition(" ")
            if word == "$":
                said.append(await self._run(rest))
            elif word == "ask":
                await self._ask(rest)
            elif word == "die":
                return await self._crash("")
            elif word == "recall" and self.file is not None:
                said.append(self.file.read_text())
            elif (
                word == "wait"
                or (word == "unless" and rest != self.start_.spawn.options.agent)
                or (word == "at" and rest != Path.home().name)
            ):
                return await self._wait("")
        if self.interrupted.is_set():
            return TurnOutcome(stop="cancelled")
        await self._say("".join(said) or "nothing to do")
        usage = TokenUsage(input=100, output=10)
        return TurnOutcome(stop="end_turn", usage=usage, cost=Cost(amount=0.25, currency="USD"))

    async def _run(self, command: str) -> str:
        options = self.start_.spawn.options
        child = await asyncio.create_subprocess_exec(
            *("/bin/sh", "-c", command),
            cwd=options.cwd,
            env={**os.environ, "AGENT": options.agent, "SESSION": self.start_.session},
            stdout=asyncio.subprocess.PIPE,
        )
        output, _ = await child.communicate()
        return output.decode()


def _find_vendor_file(agent: str, id_: str, opening: DriverSessionOptions) -> Path:
    if agent == "claude":
        folder = re.sub("[^A-Za-z0-9]", "-", str(opening.options.cwd))
        return Path.home() / ".claude/projects" / folder / f"{id_}.jsonl"
    name = f"rollout-2026-01-02T03-04-05-{id_}.jsonl"
    return Path.home() / ".codex/sessions/2026/01/02" / name


def main() -> None:
    casting = Casting()
    casting.make = CommandLink

    def open_fleet(places: Places, environment: dict[str, str]) -> object:
        return LocalFleet.open(places, environment, open_session=casting)

    work = run_host(
        Places.find(),
        dict(os.environ),
        open_fleet=open_fleet,
        ready=lambda: print("ready", flush=True),
    )
    asyncio.run(work)


if __name__ == "__main__":
    sys.exit(main())
