"""The first frame comes before anything is connected, imports little, and is drawn once."""

import subprocess
import sys
from pathlib import Path
from typing import Any

from quarterdeck.wire.decoders import decode_json
from quarterdeck.workbench.layout.spec import Horizontal, Layout, PanelNode, Tab
from quarterdeck.workbench.workspace.snapshot import WorkspaceFiles, WorkspaceSnapshot

RUN = """
import json, sys
from pathlib import Path
from quarterdeck.cli import welcome
from quarterdeck.cli.main import main

seen = {"frames": []}

def make(*given):
    app = made(*given)
    kind = type(app)
    run, display = app.run, app._display

    def note_frame(screen, update):
        if update is not None:
            strips = screen._compositor.render_strips()
            text = "\\n".join("".join(part.text for part in strip) for strip in strips)
            seen["frames"].append((text, sorted(screen.classes)))
        display(screen, update)

    def first_frame():
        from textual.message import Message

        seen["modules"] = sorted(sys.modules)
        seen["dataclasses"] = [
            cls.__qualname__
            for cls in (*object.__subclasses__(), *Message.__subclasses__())
            if cls.__module__.startswith("quarterdeck.") and "__dataclass_fields__" in vars(cls)
        ]
        seen["styles"] = [Path(place).name for place, _ in app.stylesheet.source]
        app.exit()

    app._display, app._begin = note_frame, first_frame
    app.run = lambda: run(headless=True, size=(120, 40))
    return app

from quarterdeck.system import late_module

delay_modules = late_module.delay_modules

def delay(*names):  # what is imported before TLS is late would load it
    delay_modules(*names)
    if "ssl" not in names:
        return
    late_module.delay_modules = delay_modules
    from quarterdeck.workbench import launch

    global made
    made, launch._make_workbench = launch._make_workbench, make

late_module.delay_modules = delay
welcome.is_terminal = lambda: True
sys.argv = ["quarterdeck"]
code = main()
print(json.dumps(seen))
sys.exit(code)
"""
LATE = (
    "_ssl",
    "click",
    "quarterdeck.cli.root",
    "quarterdeck.fleet.client",
    "quarterdeck.drivers",
    "quarterdeck.agent",
    "quarterdeck.models",
    "quarterdeck.journal",
    "sqlite3",
    "markdown_it",
    "platformdirs.unix",
    "pygments",
    "quarterdeck.workbench.rendering.blocks",
    "quarterdeck.workbench.rendering.calls",
    "quarterdeck.workbench.rendering.diffs",
    "quarterdeck.workbench.rendering.markdown",
    "quarterdeck.workbench.rendering.pieces",
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
    "quarterdeck.workbench.widgets.completion_list",
    "quarterdeck.workbench.widgets.home",
    "textual.widgets._data_table",
    "textual.widgets._radio_set",
    "textual.widgets._select",
    "textual.widgets._tree",
)
DATACLASSES = set[str]()
"""Values are structs, messages plain classes: a dataclass costs 0.5 to 0.9 ms when it is made, one
of these 0.03 ms. ``config`` works without msgspec and has named tuples."""
MOST_OF_OURS = 115
"""Each costs about half a millisecond; a new one wants a reason."""


def run_to_first_frame(home: Path) -> dict[str, Any]:
    """What was there when ``quarterdeck`` had drawn its first frame, on an empty machine."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", RUN],
        capture_output=True,
        text=True,
        timeout=50,
        cwd=home,
        env={
            "HOME": str(home),
            "QUARTERDECK_HOME": str(home / "qd"),
            "PATH": "",
            "LANG": "C.UTF-8",
            "TERM": "xterm",
        },
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return decode_json(done.stdout.encode(), dict[str, Any])


def test_the_first_frame_imports_neither_the_fleet_nor_what_is_not_shown(tmp_path: Path):
    seen = run_to_first_frame(tmp_path)
    loaded = set(seen["modules"])
    assert "quarterdeck.workbench.panels.chat" in loaded
    assert set(seen["dataclasses"]) == DATACLASSES
    assert [name for name in LATE if name in loaded] == []
    assert len([name for name in loaded if name.startswith("quarterdeck.")]) <= MOST_OF_OURS
    assert "workbench.tcss" in seen["styles"] and "late.tcss" not in seen["styles"]


def test_the_first_frame_is_complete_and_not_drawn_blank_before(tmp_path: Path):
    text, classes = run_to_first_frame(tmp_path)["frames"][0]
    assert "ctrl+q quit" in text and "quarterdeck" in text
    assert classes == ["-tall", "-wide"]


def test_a_panel_that_was_left_open_has_its_looks_in_the_first_frame(tmp_path: Path):
    panels = (PanelNode(id="files", widget="tree"), PanelNode(id="talk", widget="chat"))
    layout = Layout(tabs=(Tab(title="main", root=Horizontal(children=panels)),))
    files = WorkspaceFiles(tmp_path / "qd" / "state" / "workbench" / "workspaces")
    files.save(str(tmp_path), WorkspaceSnapshot(layout=layout))
    seen = run_to_first_frame(tmp_path)
    assert seen["styles"].index("late.tcss") > seen["styles"].index("workbench.tcss")
    assert "quarterdeck.workbench.panels.tree" in seen["modules"]
