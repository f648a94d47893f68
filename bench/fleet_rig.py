"""One side of a comparison with a host, agents and a workbench of its own.

Names inside the package differ from commit to commit. What is measured here is reached from
outside: by the command line, on a terminal, or by the programs in ``bench/peers`` of that commit.
"""

import contextlib
import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Generator
from pathlib import Path

from .agent_rig import AgentFailedError
from .checkout import Checkout
from .processes import Cost, started
from .terminals import Screen, on_terminal, open_first_agent

__all__ = ["FleetRig"]

_PEERS = Path(__file__).parent / "peers"
_LONGEST = 180.0
"""Seconds after which a run is given up."""
_FRAME = "ctrl+q"
"""Only a frame that takes keys shows this; what follows it differs between commits."""
_AT_WORK = ("speaker-", " running")
"""What the table or the last line shows of agents that speak."""
_SHORT, _LAST = "short-and-done", "the-last-of-all"
_RATE = 20
_SCRIPT = f"""
version = 1
default = "short"

[scenes]
short = ["{_SHORT}"]
[[scenes.long.replies]]
repeat = %d
parts = [{{ tool = "read", arguments = {{ path = "file{{{{n}}}}.txt" }} }}]
[[scenes.long.replies]]
parts = ["{_LAST}"]
"""


class FleetRig:
    """Runs the program of one side in a home of its own below ``folder``.

    Agents there: ``raw`` says ``chunks`` pieces at once, ``paced`` speaks at a pace.
    """

    def __init__(self, name: str, checkout: Checkout, folder: Path, *, chunks: int) -> None:
        self._checkout = checkout
        self._chunks = chunks
        self._home = folder / f"{name}-fleet"
        self._project = self._home / "project"
        self._stderr = folder / f"{name}-fleet.stderr"
        self._project.mkdir(parents=True)
        self._environment = {
            "PATH": os.environ["PATH"],
            "LANG": "C.UTF-8",
            "HOME": str(self._home),
            "QUARTERDECK_HOME": str(self._home / "quarterdeck"),
        }
        python = str(checkout.python)
        self._raw = [python, "-S", str(_PEERS / "agent_raw.py"), str(chunks)]
        self._write_agent("raw", self._raw)
        self._write_agent("paced", [python, "-S", str(_PEERS / "agent_paced.py")])

    # Drivers

    def run_driver(self) -> Cost:
        """Pass all chunks through the ACP driver into a log and to a reader."""
        answer = self._run_peer("client_driver.py", *self._raw)
        if answer["received"] != self._chunks:
            raise AgentFailedError(f"{answer['received']} of {self._chunks} chunks arrived")
        return Cost(wall=answer["wall"], cpu=answer["cpu"])

    def run_agent_turn(self) -> Cost:
        """Run a turn of another agent over ACP, without a host."""
        return self._measure("run", "-a", "raw", "go")

    # Fleet

    def run_clients(self, seconds: float, agents: int) -> Cost:
        """Let agents speak to two clients of a host: its CPU in a second, and the delay."""
        used = Path(self._environment["QUARTERDECK_HOME"])
        shutil.rmtree(used / "state", ignore_errors=True)  # the agents have the same names again
        answer = self._run_peer("fleet_clients.py", str(seconds), str(agents))
        return Cost(wall=answer["p50"], cpu=answer["cpu"])

    def run_spawn(self) -> Cost:
        """Start an agent in the host that runs."""
        return self._measure("spawn", "-a", "raw")

    def run_ps(self) -> Cost:
        """List the agents of the host that runs."""
        return self._measure("ps", "--json")

    # Workbench

    def draw_first_frame(self) -> Cost:
        """Open the workbench until it takes keys; its host is there already."""
        with self._on_terminal() as screen:
            wall = screen.wait_for(_FRAME) - screen.begun
            return Cost(wall=wall, cpu=screen.cpu())

    def press_keys(self, count: int) -> Cost:
        """Type characters and see each on the screen; the cost of one."""
        with self._on_terminal() as screen:
            open_first_agent(screen, _SHORT)
            _wait_for_rest(screen)
            before, wall = screen.cpu(), _press_keys(screen, count)
            return Cost(wall=wall, cpu=(screen.cpu() - before) / count)

    def open_long_session(self) -> Cost:
        """Go from a short session to the last page of the long one."""
        with self._on_terminal() as screen:
            open_first_agent(screen, _SHORT)
            _wait_for_rest(screen)
            before, at = screen.cpu(), screen.mark()
            pressed = screen.press("\x0e")
            wall = screen.wait_for(_LAST, after=at) - pressed
            _wait_for_rest(screen)
            return Cost(wall=wall, cpu=screen.cpu() - before)

    def watch_agents(self, seconds: float, agents: int) -> Cost:
        """Show agents that speak: CPU of the workbench in a second, and the delay of a key."""
        speech = seconds * 2 + 10
        names = [f"speaker-{time.monotonic_ns()}" for _ in range(agents)]
        for name in names:
            self._run("spawn", "-a", "paced", "-n", name, f"{speech} {_RATE}")
        try:
            with self._on_terminal() as screen:
                screen.wait_for(*_AT_WORK)
                time.sleep(seconds / 2)  # what starts late has started
                share = screen.share(seconds)
                return Cost(wall=_press_keys(screen, 10), cpu=share)
        finally:
            for name in names:
                self._run("kill", name)

    # Around them

    @contextlib.contextmanager
    def running(self, entries: int = 0) -> Generator[None]:
        """Run a host meanwhile; with ``entries``, one with a long and a short session."""
        self._run("host", "start")
        try:
            if entries:
                self._write_sessions(entries)
            yield
        finally:
            self._run("host", "stop")

    def _write_sessions(self, entries: int) -> None:
        script = self._home / "model.toml"
        script.write_text(_SCRIPT % (entries // 2))
        for number in range(1, entries // 2 + 1):
            (self._project / f"file{number}.txt").write_text("a line\n" * 40)
        for scene, name in (("short", "a-short"), ("long", "b-long")):
            model = ("spawn", "-m", f"scripted/{script}", "-n", name)
            self._run(*model, f"scene:{scene}")
            self._run("wait", name)
            self._run("close", name)

    def _write_agent(self, name: str, command: list[str]) -> None:
        folder = Path(self._environment["QUARTERDECK_HOME"]) / "agents"
        folder.mkdir(parents=True, exist_ok=True)
        words = f'title = "{name}"\n[transports.acp]\ncommand = {json.dumps(command)}\n'
        (folder / f"{name}.toml").write_text(words)

    def _on_terminal(self) -> contextlib.AbstractContextManager[Screen]:
        """Open the workbench in a new directory: what was open in another is not restored."""
        folder = Path(tempfile.mkdtemp(dir=self._home))
        command = [str(self._checkout.program)]
        return on_terminal(command, cwd=folder, environment=self._environment)

    def _run_peer(self, name: str, *words: str) -> dict[str, float]:
        """Run a program of that commit's bench; its answer."""
        peer = self._checkout.root / "bench" / "peers" / name
        return json.loads(self._finish([str(self._checkout.python), str(peer), *words]))

    def _run(self, *words: str) -> None:
        self._finish([str(self._checkout.program), *words])

    def _finish(self, command: list[str]) -> str:
        done = subprocess.run(
            command,
            cwd=self._project,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_LONGEST,
        )
        if done.returncode:
            raise AgentFailedError(f"{command} ended with {done.returncode}: {done.stderr[-500:]}")
        return done.stdout

    def _measure(self, *words: str) -> Cost:
        command = [str(self._checkout.program), *words]
        with started(
            command, cwd=self._project, environment=self._environment, stderr=self._stderr
        ) as program:
            output = program.stdout.read()
            program.wait()
        if program.cost.code:
            errors = self._stderr.read_text(errors="replace")[-300:]
            raise AgentFailedError(f"{words} ended with {program.cost.code}: {errors} {output!r}")
        return program.cost


def _press_keys(screen: Screen, count: int) -> float:
    """Type characters one by one; seconds from a key to its character on the screen, on average."""
    taken = 0.0
    for number in range(count):
        letter = "ЖЯЮЩЦЭФШЫЧ"[number % 10]
        at = screen.mark()
        pressed = screen.press(letter)
        taken += screen.wait_for(letter, after=at) - pressed
        time.sleep(0.03)
    return taken / count


def _wait_for_rest(screen: Screen, longest: float = 5.0) -> None:
    """Until it has used next to no CPU for a moment."""
    deadline = time.perf_counter() + longest
    while screen.share(0.2) > 0.03 and time.perf_counter() < deadline:
        pass
