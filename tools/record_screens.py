"""Record what agents draw, for the tests of ``drivers/pty/screens``: raw bytes and what they mean.

``python -m tools.record_screens claude codex:trust …`` runs each against the scripted model in a
home of its own and writes ``tests/fixtures/screens/<agent>/<name>.bin.gz`` and ``<name>.json``: a
whole ``session``, a ``copy`` of a dialog that a model says, and the dialogs of ``SETUPS``.
"""

import asyncio
import gzip
import json
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from quarterdeck.drivers.agent_description import make_launch
from quarterdeck.drivers.catalogue import find_agent
from quarterdeck.drivers.pty.events import TurnTextFinder
from quarterdeck.drivers.pty.patterns import load_patterns
from quarterdeck.drivers.pty.reader import TerminalReader, TerminalReading, TerminalWatcher
from quarterdeck.system.api import CommandSpec
from quarterdeck.terminal.emulator import open_emulator
from quarterdeck.terminal.headless_terminal import HeadlessTerminal
from quarterdeck.terminal.viewer_events import TerminalWritten, ViewerEvent
from quarterdeck.testing.model_server import ModelServer
from tests.support import real_agents

FOLDER = Path(__file__).parents[1] / "tests" / "fixtures" / "screens"
PROSE = (
    "please say: Do you want to create hello.txt? 1. Yes 2. No; esc to interrupt; "
    "Would you like to run the following command? Press enter to confirm or esc to cancel; "
    "Run shell command? (Y)es/(N)o/(D)on't ask again [Yes]: "
    "Allow execution of [Shell]? Permission required; Allow once   Allow always   Reject"
)
"""Words of every agent's dialogs; the scripted model says them again."""
DIALOGS = ("trust", "update", "login", "notice")
ASKS = {"codex": "scene:escalate go", "aider": "scene:suggest go"}
"""What makes an agent ask for leave to run a command."""


@dataclass(frozen=True, kw_only=True)
class Setup:
    """How a dialog is provoked that a session does not show."""

    agent: str
    name: str
    state: str
    without: tuple[str, ...] = ()
    """Variables that are not given, and files of the home that are not there."""
    files: dict[str, str] = field(default_factory=dict[str, str])
    """Below the directory of the recording, which has ``home`` and ``project``."""
    words: tuple[str, ...] = ()
    """The whole command line, where it is another."""
    command: str = ""
    """What is typed at the prompt to get there."""

    def prepare(self, place: Path, environment: dict[str, str]) -> None:
        """Change what the agent finds."""
        for name in self.without:
            environment.pop(name, None)
            (place / "home" / name).unlink(missing_ok=True)
        for name, text in self.files.items():
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            (place / name).write_text(text)


_CODEX = """
model = "gpt-5.5"
model_provider = "lab"
check_for_update_on_startup = {updates}
[features]
daemon_auto_start = false
[model_providers.lab]
name = "lab"
base_url = "http://127.0.0.1:1/v1"
wire_api = "responses"
env_key = "LAB_KEY"
"""
_VERSION = {"latest_version": "0.999.0", "last_checked_at": "2099-01-01T00:00:00Z"}
_GEMINI = {
    "security": {"folderTrust": {"enabled": False}},
    "general": {"enableAutoUpdate": False, "enableAutoUpdateNotification": False},
    "privacy": {"usageStatisticsEnabled": False},
}
_OPENCODE = {"autoupdate": False, "share": "disabled", "enabled_providers": ["anthropic"]}
SETUPS = [
    Setup(
        agent="claude",
        name="login",
        state="login",
        without=("ANTHROPIC_API_KEY",),
        command="/login",
    ),
    Setup(
        agent="claude",
        name="key",
        state="login",
        files={"home/.claude.json": json.dumps({"hasCompletedOnboarding": True, "projects": {}})},
    ),
    Setup(
        agent="codex",
        name="login",
        state="login",
        without=("LAB_KEY", "OPENAI_API_KEY", ".codex/config.toml"),
    ),
    Setup(
        agent="codex",
        name="trust",
        state="trust",
        files={
            "home/.codex/config.toml": _CODEX.replace("{updates}", "false"),
            "project/.codex/config.toml": 'model = "x"\n',
        },
    ),
    Setup(
        agent="codex",
        name="update",
        state="update",
        files={
            "home/.codex/config.toml": _CODEX.replace("{updates}", "true"),
            "home/.codex/version.json": json.dumps(_VERSION),
        },
    ),
    Setup(
        agent="gemini",
        name="login",
        state="login",
        without=("GEMINI_API_KEY",),
        files={"home/.gemini/settings.json": json.dumps(_GEMINI)},
    ),
    Setup(
        agent="gemini",
        name="trust",
        state="trust",
        files={
            "home/.gemini/settings.json": json.dumps(
                {**_GEMINI, "security": {"auth": {"selectedType": "gemini-api-key"}}}
            )
        },
    ),
    Setup(
        agent="opencode",
        name="login",
        state="login",
        files={"home/.config/opencode/opencode.json": json.dumps(_OPENCODE)},
    ),
    Setup(agent="aider", name="notice", state="notice", without=("AIDER_GIT",)),
    Setup(
        agent="aider",
        name="update",
        state="update",
        words=("aider", "--no-pretty", "--no-check-update", "--no-show-model-warnings"),
    ),
    Setup(agent="aider", name="login", state="login", without=("OPENAI_API_KEY", "AIDER_MODEL")),
]


@dataclass
class Recording:
    """One session as it is recorded."""

    watch: TerminalWatcher
    lines: TurnTextFinder
    raw: bytearray = field(default_factory=bytearray)
    moments: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])

    async def note(self, name: str, *states: str, seconds: float = 30.0) -> TerminalReading:
        """Wait until the screen shows one of the states, calmly, and write that moment down."""
        watch = self.watch
        reading = await watch.until(lambda one: one.state in states, within=seconds)
        while reading is not None and reading.state != "busy":
            await watch.settled(1.2, within=10)
            if (reading := watch.now).state in states:
                break
            reading = await watch.until(lambda one: one.state in states, within=seconds)
        if reading is None:
            rows = "\n".join(row.text for row in watch.terminal.screen.rows() if row.text)
            raise SystemExit(f"{name}: {watch.now.state} instead of {states}\n{rows}")
        moment: dict[str, Any] = {"name": name, "at": len(self.raw), "state": reading.state}
        if reading.request is not None:
            kinds = [choice.option.kind for choice in reading.request.choices]
            moment["request"] = {"detail": reading.request.detail, "kinds": kinds}
        self.moments.append(moment)
        print(f"  {name}: {reading.state} {moment.get('request', '')}")
        return reading

    async def press(self, *keys: str) -> None:
        """Press keys, not all at once."""
        for key in keys:
            await self.watch.terminal.press(key)
            await asyncio.sleep(0.2)

    async def answer(self, reading: TerminalReading, kind: str) -> None:
        """Choose the first option of a kind."""
        assert reading.request is not None
        found = [one for one in reading.request.choices if one.option.kind == kind]
        await self.press(*found[0].keys)

    async def send(self, prompt: str) -> None:
        """Paste a prompt and send it."""
        before = self._echoes()
        await self.watch.terminal.paste(prompt)
        await self.watch.settled(0.3, within=5)
        for _ in range(3):  # some take an enter that follows a paste for a part of it
            await self.press("enter")
            begun = self.watch.until(
                lambda one: one.state in ("busy", "asking") or self._echoes() > before, within=4
            )
            if await begun is not None:
                return

    def _echoes(self) -> int:
        """How many prompts are above the one that is being written."""
        lines = self.watch.terminal.screen.text()
        while lines and not lines[-1]:
            lines.pop()
        shown = lines[: len(lines) - self.watch.now.chrome]
        return self.lines.before(shown, is_window=False).prompts


async def play(recording: Recording, agent: str) -> None:
    """Every state, one after another."""
    await begin(recording)
    await recording.send("scene:text hello")
    await recording.note("said", "ready")
    for name, wanted in (("allow", "allow_once"), ("deny", "reject_once")):
        await recording.send(ASKS.get(agent, "scene:shell go"))
        reading = await recording.note(f"{name}-asked", "asking")
        await recording.answer(reading, wanted)
        reading = await recording.note(f"{name}-done", "ready", "asking")
        while reading.state == "asking":  # what to do with the output of the command
            await recording.answer(reading, "reject_once")
            reading = await recording.note(f"{name}-done", "ready", "asking")
    await recording.send(PROSE)
    await recording.note("prose", "ready")
    await recording.send("scene:slow")
    await recording.note("slow", "busy")
    await asyncio.sleep(2.5)
    await recording.note("streaming", "busy")
    await recording.press(*load_patterns(agent).interrupt)
    await recording.note("interrupted", "ready")


async def begin(recording: Recording) -> None:
    """Go past the dialogs at the start."""
    reading = await recording.note("start", "ready", *DIALOGS, seconds=60)
    while reading.state != "ready":
        assert reading.rule is not None
        keys = reading.rule.accept if reading.state == "trust" else reading.rule.decline
        await recording.press(*keys)
        reading = await recording.note("start", "ready", *DIALOGS)


async def copy(recording: Recording, agent: str) -> None:
    """A model that says all of a dialog, lines and all, as the last thing of its answer."""
    await begin(recording)
    await recording.send("scene:copy plain")
    await recording.note("plain", "ready")
    await recording.send("scene:fenced block")
    await recording.note("fenced", "ready")


async def dialog(recording: Recording, setup: Setup) -> None:
    """A dialog at the start, or after a command; nothing is answered."""
    if setup.command:
        await begin(recording)
        await recording.watch.terminal.paste(setup.command)
        await recording.watch.settled(1.0, within=5)
        await recording.press("enter")
    reading = await recording.note(setup.name, setup.state, "trust", seconds=60)
    while reading.state != setup.state:
        assert reading.rule is not None
        await recording.press(*reading.rule.accept)
        reading = await recording.note(setup.name, setup.state, "trust")


async def record(agent: str, name: str) -> None:
    """Run one agent and write down what it draws."""
    knowledge = load_patterns(agent)
    launch = make_launch(find_agent(agent), "pty")
    setup = next((one for one in SETUPS if (one.agent, one.name) == (agent, name)), None)
    with tempfile.TemporaryDirectory() as place:
        project = Path(place) / "project"
        project.mkdir()
        script = Path(place) / "script.toml"
        script.write_text(_copying(agent) if name == "copy" else "")
        async with ModelServer(script if name == "copy" else "default") as server:
            own = real_agents.environment(agent, Path(place) / "home", server.url)
            version = await asyncio.to_thread(_version, launch.command[0], own)
            words = launch.words.get("ask", ())
            if setup is not None:
                words = ()
                setup.prepare(Path(place), own)
            command = CommandSpec(
                argv=setup.words if setup and setup.words else (*launch.command, *words),
                cwd=str(project),
                env={**launch.environment, **own},
            )
            terminal = await HeadlessTerminal.start(
                command, size=(knowledge.columns, knowledge.rows)
            )
            lines = TurnTextFinder(knowledge.answer, knowledge.columns)
            recording = Recording(TerminalWatcher(terminal, TerminalReader(knowledge)), lines)
            seen = terminal.follow()
            await anext(seen)  # the screen before anything was drawn
            following = asyncio.create_task(_follow(seen, recording))
            try:
                if setup is not None:
                    await dialog(recording, setup)
                else:
                    await (copy if name == "copy" else play)(recording, agent)
            finally:
                await terminal.close()
                await following
    del recording.raw[recording.moments[-1]["at"] :]
    # Names of places are as long as before: the screen is drawn by columns.
    raw = bytes(recording.raw).replace(place.encode(), b"/home/dev/lab".ljust(len(place), b"_"))
    folder = FOLDER / agent
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.bin.gz").write_bytes(gzip.compress(raw, mtime=0))
    meta = {
        "agent": agent,
        "version": version,
        "size": [knowledge.columns, knowledge.rows],
        "moments": recording.moments,
    }
    (folder / f"{name}.json").write_text(json.dumps(meta, indent=1, ensure_ascii=False) + "\n")
    print(f"{agent} {name} {version}: {len(raw)} bytes, {len(gzip.compress(raw))} compressed")


def _copying(agent: str) -> str:
    """A script whose model says what the recorded screen of a request shows."""
    meta = json.loads((FOLDER / agent / "session.json").read_text())
    raw = gzip.decompress((FOLDER / agent / "session.bin.gz").read_bytes())
    screen = open_emulator(*meta["size"])
    screen.feed(raw[: next(one["at"] for one in meta["moments"] if one["name"] == "allow-asked")])
    shown = TerminalReader(load_patterns(agent)).read(screen).shown
    scenes = {"copy": f"Look:\n\n{shown}", "fenced": f"Look:\n\n```\n{shown}\n```"}
    lines = ["version = 1"]
    for scene, text in scenes.items():
        # Piece by piece, with the whole of it on the screen for a while before the answer ends.
        said = json.dumps(text, ensure_ascii=False)
        lines += [f"[[scenes.{scene}.replies]]"]
        lines += [f"parts = [{{ text = {said}, chunks = 12, pause = 0.1 }}, {{ sleep = 2.5 }}]"]
    return "\n".join(lines)


def _version(program: str, environment: dict[str, str]) -> str:
    command = [program, "--version"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return done.stdout.strip()


async def _follow(seen: AsyncIterator[ViewerEvent], recording: Recording) -> None:
    async for one in seen:
        if isinstance(one, TerminalWritten):
            recording.raw += one.data


if __name__ == "__main__":
    for agent in sys.argv[1:]:
        named, _, only = agent.partition(":")
        dialogs = [one.name for one in SETUPS if one.agent == named]
        for name in [only] if only else ["session", "copy", *dialogs]:
            print(named, name)
            asyncio.run(record(named, name))
