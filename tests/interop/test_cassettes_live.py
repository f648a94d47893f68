"""Real agents recorded on a cassette and run again from it, without a model server."""

import asyncio
import json
import os
import sys
from pathlib import Path

import pytest

from quarterdeck.config.places import Places
from quarterdeck.fleet.cassette.file import Cassette
from quarterdeck.testing.model_server import ModelServer
from tests.interop.test_meter_live import AGENTS, OWN_PROVIDERS
from tests.support import real_agents

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]

SCENE = "scene:text hello"
KEY = "dummy-key-of-the-test-0123456789"


async def quarterdeck(variables: dict[str, str], *words: str, cwd: Path) -> tuple[int, str, str]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "quarterdeck",
        *words,
        env=variables,
        cwd=cwd,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, errors = await process.communicate()
    assert process.returncode is not None
    return process.returncode, out.decode(), errors.decode()


def prepare(case: str, folder: Path, url: str) -> dict[str, str]:
    """A machine of its own for one run: home, settings, the agent's file, an empty project."""
    name, program, _ = AGENTS[case]
    home = folder / "home"
    variables = {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "LANG": "C.UTF-8",
        **real_agents.environment(program, home, url),
        "QUARTERDECK_HOME": str(folder / "ours"),
    }
    variables = {n: KEY if one == "dummy" else one for n, one in variables.items()}
    if "PYTHONPATH" in os.environ:
        variables["PYTHONPATH"] = os.environ["PYTHONPATH"]
    if name in OWN_PROVIDERS:
        agents = Places.find(variables).agents
        agents.mkdir(parents=True)
        (agents / f"{name}.toml").write_text(OWN_PROVIDERS[name].replace("{url}", url))
    (folder / "work").mkdir()
    return variables


def agent_words(case: str) -> list[str]:
    name, program, transport = AGENTS[case]
    words = ["-a", name, "--transport", transport, "-q"]
    passed = [
        variable
        for variable in real_agents.AGENTS[program].variables
        if not variable.endswith("_HOME")
    ]
    words += [word for variable in passed for word in ("-e", variable)]
    if name in ("gemini", "opencode"):
        words += ["-m", real_agents.model_of(program)]
    return words


SHORT = ("codex-pipe", "opencode-pipe")
"""The others run where there is time."""


@pytest.mark.parametrize(
    "case",
    [one if one in SHORT else pytest.param(one, marks=pytest.mark.long) for one in AGENTS],
)
async def test_a_cassette_replays_without_a_server_to_the_same_transcript(
    case: str, tmp_path: Path
):
    real_agents.need(AGENTS[case][1])
    tape = tmp_path / "it.cassette"
    for folder in ("then", "now"):
        (tmp_path / folder).mkdir()
    async with ModelServer() as server:
        variables = prepare(case, tmp_path / "then", server.url)
        words = agent_words(case)
        code, said, errors = await quarterdeck(
            variables, "run", *words, "--record", str(tape), SCENE, cwd=tmp_path / "then/work"
        )
        assert code == 0, errors
        url = server.url
    assert "Hello from" in said
    assert KEY not in tape.read_text()
    assert "uthorization" not in tape.read_text()
    recorded = Cassette(tape)
    recorded.close()
    assert any("Hello from" in line for line in recorded.end.transcript)
    # Elsewhere, and nothing listens at the address of the server.
    variables = prepare(case, tmp_path / "now", url)
    code, again, errors = await quarterdeck(
        variables, "run", *words, "--replay", str(tape), SCENE, cwd=tmp_path / "now/work"
    )
    assert (code, again) == (0, said), errors
    assert errors.rstrip().endswith("no difference")


@pytest.mark.long
@pytest.mark.parametrize("case", SHORT)
async def test_another_prompt_is_a_difference_at_its_step(case: str, tmp_path: Path):
    real_agents.need(AGENTS[case][1])
    tape = tmp_path / "it.cassette"
    async with ModelServer() as server:
        variables = prepare(case, tmp_path, server.url)
        words, work = agent_words(case), tmp_path / "work"
        code, said, errors = await quarterdeck(
            variables, "run", *words, "--record", str(tape), SCENE, cwd=work
        )
        assert code == 0, errors
    code, again, errors = await quarterdeck(
        variables, "run", *words, "--replay", str(tape), "another question", cwd=work
    )
    assert code == 9, errors
    assert again == said  # the recorded path is taken
    assert "1. turn 1, step 1: model request:" in errors
    assert "+" in errors
    assert "another question" in errors
    code, report, errors = await quarterdeck(
        variables,
        "replay",
        str(tape),
        "--json",
        "-C",
        str(work),
        *(word for word in words if word == "-e" or word.isupper()),
        cwd=work,
    )
    assert code == 0, (report, errors)
    assert json.loads(report)["same"] is True
