"""What a workbench costs at rest: while nothing happens, a tool runs, or a request is open."""

import time
from collections.abc import Iterator

from .size import Size
from .table import Row, Table
from .terminals import HOME, on_terminal
from .workbench import OURS, PATCHFELD, home, measure_patchfeld, quarterdeck

__all__ = ["run"]


def measure_rest(what: str, seconds: float, settle: float) -> float:
    """CPU, as a part of a core, while nothing happens, a tool runs, or a request is open."""
    with home() as (project, environment):
        scripted = ("spawn", "-m", "scripted/default")
        with on_terminal([OURS], cwd=project, environment=environment) as screen:
            screen.wait_for(HOME)
            if what == "tool":
                script = project / "long.toml"
                script.write_text(
                    'default = "long"\n[[scenes.long.replies]]\n'
                    'parts = [{ tool = "shell", arguments = { command = "sleep 100" } }]\n'
                )
                model = ("spawn", "-m", f"scripted/{script}", "--mode", "ask")
                quarterdeck(environment, project, *model, "--allow", "bash", "go")
                screen.wait_for("sleep 100")
            elif what == "request":
                quarterdeck(environment, project, *scripted, "--mode", "ask", "scene:shell")
                screen.wait_for("allow once")
            time.sleep(settle)
            return screen.share(seconds)


def run(size: Size) -> Iterator[Table]:
    """Ours at each kind of rest, and patchfeld while nothing happens."""
    seconds, settle = size.choose((20.0, 3.0), (5.0, 3.0), (0.1, 0.1))
    goals = {"nothing": 0.005, "tool": 0.03, "request": 0.03}
    rows: list[Row] = []
    for what, goal in goals.items():
        share = measure_rest(what, seconds, settle)
        figure = f"{share * 100:.2f} % of a core"
        rows.append(Row(f"ours, {what}", figure, "", f"< {goal * 100:.1f} %", share < goal))
    if PATCHFELD.exists() and size is not Size.TINY:
        share = measure_patchfeld(0, seconds)[3]
        rows.append(Row("patchfeld, nothing", f"{share * 100:.2f} % of a core"))
    yield Table("CPU while nothing happens, a tool runs, a request is open", rows)
