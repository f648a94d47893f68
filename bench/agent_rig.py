"""A coding agent on the scripted model: one new session or one turn, and what it cost.

The rig gives the agent a home and a project of its own and a clean environment. The model answers
at once, so that what is left is the agent itself. Scenes are ``text`` (one reply), ``read-N`` and
``shell-N`` (N steps that each read a file, or each run a command, and one reply).
"""

import json
import re
import subprocess
import sys
import threading
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from .processes import Cost, Started, started

__all__ = ["AgentFailedError", "AgentRig", "MeasuredAgent", "ScriptedModel", "SeenTurn", "scripted"]

_MODEL = Path(__file__).parent / "peers" / "model.py"
_LONGEST = 180.0
"""Seconds after which a run is given up."""
_CLIENT: dict[str, Any] = {"protocolVersion": 1, "clientCapabilities": {}}


class AgentFailedError(Exception):
    """An agent did not do what was measured; says what it did."""


class MeasuredAgent(Protocol):
    """How one agent is started."""

    @property
    def name(self) -> str: ...

    def turn_command(self, prompt: str) -> list[str]:
        """The program and its arguments for a turn without a screen."""
        ...

    def acp_command(self) -> list[str] | None:
        """The program that speaks ACP for it; None: there is none."""
        ...

    def environment(self, home: Path, url: str, *, acp: bool = False) -> Mapping[str, str]:
        """Its variables; writes the files that it wants into ``home``."""
        ...


@dataclass(frozen=True, slots=True)
class SeenTurn:
    """What the model saw of a turn."""

    times: list[float]
    """When it was asked, in seconds."""
    size: int
    """Bytes of the last request."""
    cpu: float
    """Seconds that the server took for all of them."""


class ScriptedModel:
    """The scripted model's process."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.url: str = json.loads(self._line())["url"]

    def take_requests(self, scene: str = "") -> SeenTurn:
        """What it was asked since the last time, for one scene; see ``peers/model.py``."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        answer = json.loads(self._line())
        asked = [(time, size) for name, time, size in answer["asked"] if name == scene]
        return SeenTurn([time for time, _ in asked], asked[-1][1] if asked else 0, answer["cpu"])

    def _line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline()


@contextmanager
def scripted(*counts: int) -> Generator[ScriptedModel, None, None]:
    """Run the model; it has a scene of each kind for each of these numbers of steps."""
    with subprocess.Popen(
        [sys.executable, str(_MODEL), *map(str, counts)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield ScriptedModel(process)
        finally:
            process.kill()


class AgentRig:
    """Runs one agent in a home and a project of its own, which has ``files`` to be read."""

    def __init__(
        self, agent: MeasuredAgent, folder: Path, model: ScriptedModel, files: int
    ) -> None:
        self._agent = agent
        self._model = model
        name = re.sub(r"\W+", "-", agent.name)
        self._url = f"{model.url}/agent/{name}"
        self._home = folder / f"{name}-home"
        self._project = folder / f"{name}-project"
        self._stderr = folder / f"{name}.stderr"
        self._project.mkdir()
        for number in range(1, files + 1):
            lines = (f"line {line} of file {number}\n" for line in range(40))
            (self._project / f"file{number}.txt").write_text("".join(lines))

    def open_session(self) -> Cost | None:
        """Measure spawn → ``initialize`` → ``session/new``; None if it does not speak ACP."""
        command = self._agent.acp_command()
        if command is None:
            return None
        with self._started(command, talks=True) as agent:
            self._call(agent, 0, "initialize", _CLIENT)
            self._call(agent, 1, "session/new", {"cwd": str(self._project), "mcpServers": []})
        return agent.cost

    def run_turn(self, scene: str, *, watch_memory: bool = False) -> tuple[Cost, SeenTurn]:
        """Measure a turn without a screen, from spawn to the end."""
        self._model.take_requests()
        command = self._agent.turn_command(f"scene:{scene}")
        with self._started(command, watch_memory=watch_memory) as agent:
            output = agent.stdout.read()
            agent.wait()
        seen = self._model.take_requests(scene)
        if agent.cost.code or len(seen.times) != _count_requests(scene):
            raise AgentFailedError(
                f"scene {scene!r} ended with code {agent.cost.code} after {len(seen.times)} "
                f"requests: {self._errors()} {output[-300:]!r}"
            )
        return agent.cost, seen

    def run_command(self, command: Sequence[str]) -> Cost:
        """Measure any command in the agent's environment, from spawn to the end."""
        with self._started(list(command)) as program:
            output = program.stdout.read()
            program.wait()
        if program.cost.code:
            raise AgentFailedError(
                f"{command} ended with code {program.cost.code}: {self._errors()} {output[-300:]!r}"
            )
        return program.cost

    def _call(self, agent: Started, number: int, method: str, params: Mapping[str, Any]) -> None:
        frame = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        agent.stdin.write(json.dumps(frame).encode() + b"\n")
        agent.stdin.flush()
        for line in agent.stdout:
            answer = json.loads(line)
            if answer.get("id") == number and "method" not in answer:
                if "result" not in answer:
                    raise AgentFailedError(f"{method} was answered with {line[:300]!r}")
                return
        raise AgentFailedError(f"{method} was not answered: {self._errors()}")

    @contextmanager
    def _started(
        self, command: list[str], *, watch_memory: bool = False, talks: bool = False
    ) -> Generator[Started, None, None]:
        environment = self._agent.environment(self._home, self._url, acp=talks)
        with started(
            command,
            cwd=self._project,
            environment=environment,
            stderr=self._stderr,
            talks=talks,
            watch_memory=watch_memory,
        ) as agent:
            patience = threading.Timer(_LONGEST, agent.kill)
            patience.start()
            try:
                yield agent
            finally:
                patience.cancel()

    def _errors(self) -> str:
        return self._stderr.read_text(errors="replace")[-300:]


def _count_requests(scene: str) -> int:
    """One for each step and one for the last reply."""
    _, _, steps = scene.partition("-")
    return int(steps or 0) + 1
