"""An agent, measured over its own two pipes as an ACP client sees it."""

import contextlib
import re
import tempfile
import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from pathlib import Path

from .acp_process import AcpProcess, SubjectFailedError, measure_pss, started_agent
from .figures import Figure, SubjectResults, summarize
from .numbers import StreamCount, count_numbers
from .subject import Subject

__all__ = ["AgentPlan", "measure_agent"]

_PAUSE = 1.0
_SETTLE = 1.5
_NOISE = (b"this is not JSON\n", b"{}\n", b'{"jsonrpc":"2.0","method":"bench/unknown"}\n')


@dataclass(frozen=True, slots=True)
class AgentPlan:
    """How much is measured."""

    rounds: int
    words: int
    """Of the numbered stream; the model has as many."""
    settle: float = _SETTLE
    """Seconds after which an agent that was started counts as idle."""


def measure_agent(subject: Subject, url: str, plan: AgentPlan) -> SubjectResults:
    """All figures of one agent; what fails is named, and the rest measured."""
    results = SubjectResults(subject.name, "agent", " ".join(subject.command))
    with tempfile.TemporaryDirectory(prefix="fleet-bench-", ignore_cleanup_errors=True) as folder:
        rig = _Rig(subject, url, plan, Path(folder))
        measures: tuple[tuple[str, Callable[[], Sequence[Figure]]], ...] = (
            ("spawn", rig.measure_start),
            ("memory", rig.measure_memory),
            ("stream", rig.measure_stream),
            ("permission request", rig.measure_ask),
            ("faults", rig.measure_faults),
            ("recovery", rig.measure_recovery),
        )
        for what, measure in measures:
            try:
                results.figures += measure()
            except SubjectFailedError as error:
                results.missing[what] = str(error)
    return results


class _Rig:
    """Starts one agent again and again, each time in a new project, always with the same home."""

    def __init__(self, subject: Subject, url: str, plan: AgentPlan, folder: Path) -> None:
        self._subject = subject
        self._url = url
        self._plan = plan
        self._folder = folder

    @contextlib.contextmanager
    def _agent(self, project: Path | None = None) -> Generator[tuple[AcpProcess, Path]]:
        folder = self._folder
        url = f"{self._url}/agent/{re.sub(r'[^A-Za-z0-9]+', '-', self._subject.name)}"
        command, environment = self._subject.prepare(folder, url)
        project = project or Path(tempfile.mkdtemp(dir=folder))
        around = {"cwd": project, "environment": environment, "stderr": folder / "stderr"}
        with started_agent(command, **around) as agent:
            yield agent, project

    def measure_start(self) -> Sequence[Figure]:
        sessions: list[float] = []
        tokens: list[float] = []
        with self._agent() as (agent, project):  # fills caches and does not count
            agent.open_session(project)
        for _ in range(self._plan.rounds):
            with self._agent() as (agent, project):
                session = agent.open_session(project)
                sessions.append((time.perf_counter() - agent.begun) * 1000)
                agent.prompt(session, "scene:text")
                said = [one for one in agent.updates if one.text]
                if not said:
                    raise SubjectFailedError("it said nothing to 'scene:text'")
                tokens.append((said[0].at - agent.begun) * 1000)
        return [
            summarize("spawn → session/new", "ms", sessions),
            summarize("spawn → first token", "ms", tokens),
        ]

    def measure_memory(self) -> Sequence[Figure]:
        taken: list[float] = []
        for _ in range(min(3, self._plan.rounds)):
            with self._agent() as (agent, project):
                agent.open_session(project)
                time.sleep(self._plan.settle)
                taken.append(measure_pss(agent.process.pid) / 1e6)
        return [summarize("memory of an idle agent (PSS)", "MB", taken)]

    def measure_stream(self) -> Sequence[Figure]:
        with self._agent() as (agent, project):
            agent.prompt(agent.open_session(project), "scene:stream", 300)
            said = [one for one in agent.updates if one.text]
            count = self._count(agent)
        seconds = said[-1].at - said[0].at if len(said) > 1 else 0.0
        rate = len(said) / seconds if seconds else 0.0
        note = f"{len(said):,} updates for {self._plan.words:,} pieces"
        return [
            Figure("updates a second over ACP", "1/s", rate, (rate,), note),
            *_report("in a stream", count),
        ]

    def measure_ask(self) -> Sequence[Figure]:
        taken: list[float] = []
        for _ in range(self._plan.rounds):
            with self._agent() as (agent, project):
                session = agent.open_session(project)
                begun = time.perf_counter()
                agent.prompt(session, "scene:ask")
                name = "session/request_permission"
                asked = [one.at for one in agent.updates if one.method == name]
                if not asked:
                    raise SubjectFailedError("it ran a command without asking for permission")
                taken.append((asked[0] - begun) * 1000)
        return [summarize("prompt → permission request", "ms", taken)]

    def measure_faults(self) -> Sequence[Figure]:
        """A client that sends noise and then does not read for a second."""
        with self._agent() as (agent, project):
            session = agent.open_session(project)
            for noise in _NOISE:
                agent.write_bytes(noise)
            agent.pause_reading(_PAUSE)
            agent.prompt(session, "scene:stream", 300)
            count = self._count(agent)
        return _report("after noise and a pause", count)

    def measure_recovery(self) -> Sequence[Figure]:
        """SIGKILL in the middle of a stream; a new process loads the session."""
        with self._agent() as (agent, project):
            session = agent.open_session(project)
            if not agent.capabilities.get("loadSession"):
                raise SubjectFailedError("it does not offer session/load")
            agent.prompt(session, "scene:text")
            content = [{"type": "text", "text": "scene:stream"}]
            params = {"sessionId": session, "prompt": content}
            agent.write({"id": "cut", "method": "session/prompt", "params": params})
            self._wait_for_speech(agent)
            agent.kill()
        with self._agent(project) as (agent, _):
            agent.initialize()
            where = {"cwd": str(project), "mcpServers": []}
            agent.call("session/load", {"sessionId": session, **where})
            taken = (time.perf_counter() - agent.begun) * 1000
            replayed = str([one.params for one in agent.updates])
        kept = "Hello from the scripted model" in replayed
        note = "history kept" if kept else "history not replayed"
        return [Figure("kill −9 → session loaded again", "ms", taken, (taken,), note)]

    def _wait_for_speech(self, agent: AcpProcess) -> None:
        before = len(agent.updates)
        deadline = time.perf_counter() + 60
        while not any(one.text for one in agent.updates[before:]):
            if time.perf_counter() > deadline or agent.process.poll() is not None:
                raise SubjectFailedError("it did not begin to stream")
            time.sleep(0.002)

    def _count(self, agent: AcpProcess) -> StreamCount:
        text = "".join(one.text for one in agent.updates)
        return count_numbers(text, self._plan.words)


def _report(when: str, count: StreamCount) -> list[Figure]:
    note = f"of {count.expected:,}"
    return [
        Figure(f"lost {when}", "words", count.lost, (count.lost,), note),
        Figure(f"doubled or out of order {when}", "words", count.doubled + count.out_of_order),
    ]
