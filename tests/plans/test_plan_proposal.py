"""Plans of agents are read once; runs go on by themselves unless a person stopped them."""

import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from quarterdeck.cli.completion.names import read_names
from quarterdeck.config.places import Places
from quarterdeck.config.trust import TrustStore
from quarterdeck.fleet.host.lock import log_file
from quarterdeck.plans import engine
from quarterdeck.plans.errors import InvalidPlanError, PlanError, PlanInputError
from quarterdeck.plans.plan import load_plan
from quarterdeck.plans.progress import ProgressLog
from quarterdeck.plans.proposal import PlanProposals, load_runnable_plan
from quarterdeck.plans.run import PlanRun, create_run, find_run, list_runs
from quarterdeck.plans.runner import resume_runs

PLAN = """[inputs.x]
[tasks.fix]
agent = "codex"
prompt_file = "fix.md"
gate = true
"""


@pytest.fixture
def places(home: Path) -> Places:
    return Places.find()


@pytest.fixture
def file(tmp_path: Path, places: Places) -> Path:
    path = tmp_path.resolve() / "work.toml"
    path.write_text(PLAN)
    (path.parent / "fix.md").write_text("Fix {{inputs.x}}.\n")
    TrustStore(places.trust_file).trust(path.parent)
    return path


def test_a_proposal_shows_the_graph_the_file_the_prompts_and_the_inputs(
    file: Path, places: Places, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(engine, "check_engine", lambda: None)
    draft = PlanProposals(places, {}).draft(file, {"x": "tides.py"})
    assert (draft.name, draft.tasks) == ("work", 1)
    for words in ("└─ fix  codex · gate", PLAN.strip(), "Fix {{inputs.x}}.", "tides.py"):
        assert words in draft.text
    with pytest.raises(PlanInputError, match="x"):
        PlanProposals(places, {}).draft(file, {})
    file.write_text(PLAN.replace("codex", "codec"))
    with pytest.raises(InvalidPlanError, match=r"work.toml:3: .*codec"):
        PlanProposals(places, {}).draft(file, {"x": ""})
    TrustStore(places.trust_file).revoke(file.parent)
    file.write_text(PLAN)
    with pytest.raises(PlanError, match="config trust"):
        PlanProposals(places, {}).draft(file, {"x": ""})


def test_a_change_of_the_file_does_not_count_for_a_plan_that_a_person_approved(
    file: Path, places: Places
):
    plan = load_runnable_plan(file, places)
    own = create_run(places, plan, {"x": "1"}, "own")
    proposed = create_run(places, plan, {"x": "1"}, "proposed", approved_by="req_1")
    (file.parent / "fix.md").write_text("Delete {{inputs.x}}.\n")
    assert "was changed" in own.take_change()
    assert own.load_kept_plan().prompts["fix"].startswith("Delete")
    assert proposed.take_change() == ""
    assert find_run(places, "proposed").load_kept_plan().prompts["fix"].startswith("Fix")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("gate = true", "gate = false"),
        ("gate = true", 'gate = true\nend = "land"'),
        ("gate = true", 'gate = true\noptions = {mode = "full-auto"}'),
        ("gate = true", 'gate = true\nchecks = [{run = "curl evil"}]'),
        ("gate = true", "gate = true\nworktree = false"),
        ('prompt_file = "fix.md"', 'prompt_file = "other.md"'),
        ("codex", "claude"),
    ],
)
def test_an_agent_that_can_write_the_file_cannot_change_what_tasks_may_do(
    file: Path, places: Places, old: str, new: str
):
    run = create_run(places, load_runnable_plan(file, places), {"x": "1"}, "own")
    before = run.load_kept_plan()
    (file.parent / "other.md").write_text("Fix {{inputs.x}}.\n")
    assert old in PLAN
    file.write_text(PLAN.replace(old, new))
    load_runnable_plan(file, places)  # it would run
    assert "the old one counts" in run.take_change()
    assert run.load_kept_plan() == before


def test_runs_that_were_stopped_or_are_over_do_not_go_on_by_themselves(
    file: Path, places: Places, monkeypatch: pytest.MonkeyPatch
):
    launched: list[str] = []

    def launch(run: PlanRun, environ: Mapping[str, str]) -> int:
        launched.append(run.info.name)
        return 1

    monkeypatch.setattr("quarterdeck.plans.runner.launch_runner", launch)
    plan = load_plan(file)
    for name in ("killed", "stopped", "again", "over", "held"):
        run = create_run(places, plan, {"x": "1"}, name)
        with ProgressLog(run.progress_file) as log:
            log.note("run_started", "run", text="fix")
            if name in ("stopped", "again"):
                log.note("run_stopped", "stopped-0")
            if name == "again":
                log.note("run_resumed", "resumed-1")
            if name == "over":
                log.note("run_ended", "run-end")
    (places.state / "plans" / "damaged").mkdir()
    (places.state / "plans" / "damaged" / "run.json").write_text("{")
    with find_run(places, "held").hold():
        started, skipped = resume_runs(places, {})
    assert sorted(started) == sorted(launched) == ["again", "killed"]
    assert skipped == {}
    assert "damaged" not in [one.info.name for one in list_runs(places)]
    TrustStore(places.trust_file).revoke(file.parent)
    started, skipped = resume_runs(places, {})
    assert started == [] and "config trust" in skipped["killed"]


def test_names_of_runs_are_completed(file: Path, places: Places):
    create_run(places, load_plan(file), {"x": "1"}, "one")
    assert read_names("run") == [("one", "work.toml")]


def test_a_host_goes_on_with_runs_by_setting(file: Path, places: Places):
    create_run(places, load_plan(file), {"x": "1"}, "killed")
    TrustStore(places.trust_file).revoke(file.parent)
    places.config.mkdir(exist_ok=True)
    places.config_file.write_text("[host]\nresume_plans = true\n")
    words = [sys.executable, "-m", "quarterdeck", "host", "run"]
    environ = {name: os.environ[name] for name in ("PATH", "HOME", "QUARTERDECK_HOME")}
    with subprocess.Popen(words, env=environ, stderr=subprocess.DEVNULL) as host:
        try:
            log = log_file(places)
            while not (log.exists() and "the run killed does not go on" in log.read_text()):
                assert host.poll() is None
                time.sleep(0.05)
        finally:
            host.terminate()
            host.wait()
    assert "config trust" in log.read_text()
