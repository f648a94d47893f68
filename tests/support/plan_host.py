"""A host of agents that run their prompts as shell commands, for tests of plans, as a process."""

import asyncio
import os
import sys

from quarterdeck.config.places import Places
from quarterdeck.drivers.link import TurnOutcome
from quarterdeck.fleet.host.process import run_host
from quarterdeck.fleet.local import LocalFleet
from quarterdeck.wire.content import ContentBlock, TextContent
from quarterdeck.wire.usage import Cost, TokenUsage
from tests.support.scripted_fleet import Casting, PlayedLink

__all__ = ["CommandLink", "main"]


class CommandLink(PlayedLink):
    """Runs the lines of a prompt that begin with ``$`` in its directory; says what they print.

    ``ask X`` asks for permission, ``die`` ends the agent, ``wait`` waits to be interrupted, and
    ``unless NAME`` too, except for the agent of that name. In the environment of the commands are
    AGENT and SESSION.
    """

    async def prompt(self, content: tuple[ContentBlock, ...]) -> TurnOutcome:
        last = content[-1]
        assert isinstance(last, TextContent)
        said: list[str] = []
        for line in last.text.splitlines():
            word, _, rest = line.partition(" ")
            if word == "$":
                said.append(await self._run(rest))
            elif word == "ask":
                await self._ask(rest)
            elif word == "die":
                return await self._crash("")
            elif word == "wait" or (word == "unless" and rest != self.start_.spawn.options.agent):
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
