"""``quarterdeck lead``, whole: a host, a lead and its children."""

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "support" / "leading.toml"
Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def hosted(run: Run) -> Iterator[Run]:
    yield run
    run("host", "stop", "--force")


def test_a_lead_is_followed_until_it_rests_and_its_children_are_there(
    hosted: Run, work: Path, tmp_path: Path
):
    script = tmp_path / "script.toml"
    script.write_text(SCRIPT.read_text().replace("KIND", "native"))
    lead = ("lead", "-m", f"scripted/{script}", "-n", "boss")
    followed = hosted(*lead, "--mode", "accept-edits", "scene:lead")
    assert followed.returncode == 0, followed.stderr
    assert "RESULTS:" in followed.stdout and "WRITER: done" in followed.stdout
    assert (work / "made.txt").read_text() == "made\n"
    agents = {one["name"]: one for one in json.loads(hosted("ps", "--json").stdout)["agents"]}
    assert set(agents) == {"boss", "asker", "writer"}
    assert {agents[n]["parent"] for n in ("asker", "writer")} == {agents["boss"]["session"]}


def test_a_lead_that_is_left_alone_is_named(hosted: Run):
    named = hosted("lead", "-m", "scripted/default", "-n", "boss", "-d", "scene:text")
    assert (named.returncode, named.stdout) == (0, "boss\n"), named.stderr
    assert hosted("wait", "boss").returncode == 0


def test_an_agent_that_cannot_lead_says_so(hosted: Run):
    hosted("lead", "-a", "pi", "-n", "boss", "-d", "say x")
    hosted("wait", "boss")
    (info,) = json.loads(hosted("ps", "--json").stdout)["agents"]
    assert info["state"] == "failed" and "cannot lead" in info["reason"]
