"""The first frame comes before anything is connected, and imports little."""

import subprocess
import sys
from pathlib import Path

RUN = """
import sys
from pathlib import Path
from quarterdeck.config.places import Places
from quarterdeck.workbench import launch
from quarterdeck.workbench.app import Workbench

home = Path(sys.argv[1])
run = Workbench.run

def first_frame(self):
    print("\\n".join(sorted(sys.modules)))
    self.exit()

Workbench._begin = first_frame
Workbench.run = lambda self: run(self, headless=True, size=(120, 40))
places = Places(config=home / "c", state=home / "s", cache=home / "a", runtime=home / "r")
sys.exit(launch.open_workbench(places, {"HOME": str(home), "PATH": ""}, home))
"""
LATE = (
    "quarterdeck.fleet.client",
    "quarterdeck.drivers",
    "quarterdeck.agent",
    "quarterdeck.models",
    "quarterdeck.journal",
    "sqlite3",
    "markdown_it",
    "pygments",
    "textual.widgets._markdown",
    "quarterdeck.workbench.panels.editor.panel",
    "quarterdeck.workbench.panels.diff",
    "quarterdeck.workbench.panels.tree",
    "quarterdeck.workbench.panels.feed",
    "quarterdeck.workbench.remote_control.calls",
    "quarterdeck.workbench.screens.dialogs",
    "quarterdeck.workbench.screens.help",
    "quarterdeck.workbench.screens.permission",
    "quarterdeck.workbench.screens.question",
    "quarterdeck.workbench.screens.spawn",
    "quarterdeck.workbench.custom_widgets.library",
    "textual.widgets._data_table",
    "textual.widgets._radio_set",
)
MOST_OF_OURS = 140
"""Each costs about half a millisecond; a new one wants a reason."""


def test_the_first_frame_imports_neither_the_fleet_nor_what_is_not_shown(tmp_path: Path):
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", RUN, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=50,
        env={"HOME": str(tmp_path), "PATH": "", "LANG": "C.UTF-8", "TERM": "xterm"},
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    loaded = set(done.stdout.split())
    assert "quarterdeck.workbench.panels.chat" in loaded
    assert [name for name in LATE if name in loaded] == []
    assert len([name for name in loaded if name.startswith("quarterdeck.")]) <= MOST_OF_OURS
