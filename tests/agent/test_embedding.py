"""The example of how to embed the agent runs as it is printed."""

import os
import re
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs/embedding.md"


def run(code: str, folder: Path) -> subprocess.CompletedProcess[str]:
    home = {"HOME": str(folder), "QUARTERDECK_HOME": str(folder / "home")}
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        cwd=folder,
        env={"PATH": os.environ["PATH"], **home},
        capture_output=True,
        text=True,
        timeout=50,
    )


def test_the_example_runs(tmp_path: Path):
    examples = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    (example,) = (each for each in examples if "asyncio.run" in each)
    work = tmp_path / "work"
    work.mkdir()
    done = run(example, work)
    assert (done.returncode, done.stderr) == (0, "")
    assert "\n? " in done.stdout
    assert "! completed" in done.stdout
    assert done.stdout.endswith("end_turn\n")
    written = [path for path in work.iterdir() if path.is_file()]
    assert len(written) == 1


def test_the_names_for_embedding_exist_and_cost_nothing_until_used(tmp_path: Path):
    code = """
import sys
import quarterdeck.agent as agent
assert "quarterdeck.agent.native" not in sys.modules and "msgspec" not in sys.modules
for name in agent.__all__:
    getattr(agent, name)
try:
    agent.nothing
except AttributeError:
    print("fine")
"""
    done = run(code, tmp_path)
    assert (done.stdout, done.stderr) == ("fine\n", "")
