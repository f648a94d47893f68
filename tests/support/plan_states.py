"""The states of a screen that are about runs of plans."""

import asyncio
from pathlib import Path
from typing import Any

import msgspec

from quarterdeck.config.places import Places
from quarterdeck.plans.progress import CheckOutcome, ContenderReport, ProgressEntry
from quarterdeck.plans.run import RunInfo
from quarterdeck.workbench.panels.plan import PlanPanel

from .staged_workbench import START, Stage, state

__all__ = ["write_run"]

_SECOND = 1_000_000


def _report(name: str, state: str, seconds: float, **fields: Any) -> ContenderReport:
    passed = state == "passed"
    check = CheckOutcome(name="tests", passed=passed, reason="" if passed else "2 tests failed")
    return ContenderReport(
        contender=name,
        agent=name,
        state=state,  # type: ignore[arg-type]
        seconds=seconds,
        checks=(check,),
        **fields,
    )


def _list_entries() -> list[ProgressEntry]:
    """A survey that is done, a race that is won, a gate, a failure, and what is yet to come."""
    entries: list[ProgressEntry] = []

    def add(kind: Any, key: str, at: int, **fields: Any) -> None:
        time = START + at * _SECOND
        entries.append(ProgressEntry(time=time, kind=kind, key=key, **fields))

    add("run_started", "run", 0, text="survey fix document.1 document.2 review release")
    add("plan_changed", "change", 1, text="the plan was changed; tasks that have not begun use it")
    add("task_begun", "survey/begin", 1, task="survey")
    add("turn_sent", "s1", 2, task="survey", contender="claude", attempt=1, session="ses_s")
    done = _report("claude", "passed", 41.0, costs={"USD": 0.12})
    add("contender_ended", "s2", 43, task="survey", contender="claude", report=done)
    add("task_ended", "survey/end", 44, task="survey", state="done", contender="claude")
    add("task_begun", "fix/begin", 44, task="fix")
    for name, attempt in (("claude", 1), ("codex", 2), ("opencode", 1)):
        about: dict[str, Any] = {"task": "fix", "contender": name}
        add("turn_sent", f"f/{name}", 45, attempt=attempt, session=f"ses_{name}", **about)
    changed = {"files": 2, "added": 41, "removed": 12}
    for report in (
        _report("claude", "passed", 300.0, costs={"USD": 0.84}, **changed),
        _report("codex", "failed", 210.0, reason="tests: 2 tests failed", files=1, added=9),
        _report("opencode", "withdrawn", 12.0, costs={"USD": 0.02}),
    ):
        about = {"task": "fix", "contender": report.contender}
        add("contender_ended", f"f/{report.contender}/end", 345, report=report, **about)
    add("task_ended", "fix/end", 350, task="fix", state="done", contender="claude")
    add("task_begun", "d1/begin", 351, task="document.1")
    add("turn_sent", "d1", 352, task="document.1", contender="pi", attempt=1, session="ses_d1")
    add("turn_repeated", "d1r", 380, task="document.1", contender="pi", text="killed")
    add("gate_opened", "d1g", 420, task="document.1", contender="pi", request="req_1")
    add("task_begun", "d2/begin", 351, task="document.2")
    add("turn_sent", "d2", 352, task="document.2", contender="pi", attempt=1, session="ses_d2")
    reason = "check: exit code 1 \x1b[31m"
    add("task_ended", "d2/end", 500, task="document.2", state="failed", text=reason)
    add("task_begun", "review/begin", 352, task="review")
    add("turn_sent", "r", 353, task="review", contender="codex", attempt=1, session="ses_r")
    return entries


def write_run(places: Places, name: str, *, is_over: bool = False, at: int = 0) -> Path:
    """Put a run into the state directory; its directory."""
    directory = places.state / "plans" / name
    directory.mkdir(parents=True)
    info = RunInfo(name=name, id="abc123", plan="/work/tides.toml", created=START + at)
    (directory / "run.json").write_bytes(msgspec.json.encode(info))
    entries = _list_entries()
    if is_over:
        entries.append(ProgressEntry(time=START, kind="run_ended", key="run-end"))
    lines = b"".join(msgspec.json.encode(one) + b"\n" for one in entries)
    (directory / "progress.jsonl").write_bytes(lines)
    return directory


def _find_places(stage: Stage) -> Places:
    root = stage.project.parent / "of-plans"
    return Places(config=root, state=root / "state", cache=root / "cache", runtime=root / "run")


async def _open(stage: Stage, *words: str) -> None:
    await stage.command("open", "plan")
    panel = stage.app.main.query_one(PlanPanel)
    panel.places = _find_places(stage)
    panel.look_now()
    await stage.until(*words)
    await stage.command("zoom")
    await stage.until(*words)


@state()
async def run_of_a_plan(stage: Stage) -> None:
    await asyncio.to_thread(write_run, _find_places(stage), "tides")
    await _open(stage, "survey", "needs you")


@state()
async def plan_panel_that_is_empty(stage: Stage) -> None:
    await _open(stage, "Runs of plans appear here")
