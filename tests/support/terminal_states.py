"""The states of a screen that are about terminals."""

from pathlib import Path

from msgspec.structs import replace

from .staged_workbench import Stage, StagedFleet, state
from .workbench_app import until

__all__: list[str] = []

_LEAVE = "ctrl+backslash"
_SHOWN = (
    "printf '\\033]2;make [test]\\007"
    "\\033[1;32m✓\\033[0m 12 passed  \\033[31m✗ 1 failed\\033[0m  \\033[7m 你好 \\033[0m\\r\\n"
    "\\033[38;5;208m256\\033[0m \\033[38;2;90;140;250m24 bit\\033[0m \\033[2mfaint\\033[0m "
    "\\033[3mitalic\\033[0m \\033[4munder\\033[0m \\033[9mstruck\\033[0m\\r\\n$ '; read x"
)


async def _terminal(stage: Stage, script: str, *shown: str) -> None:
    """A terminal alone on the screen, so that its look at each size is its own."""
    await stage.command("terminal", f"{script} ;")
    await stage.until(*shown, "ctrl+\\ stop typing")
    await stage.command("zoom")
    await stage.until(*shown)


@state(files=True)
async def terminal_with_a_program(stage: Stage) -> None:
    await _terminal(stage, _SHOWN, "1 failed", "make [test]")


@state(files=True)
async def terminal_beside_a_chat(stage: Stage) -> None:
    await stage.command("split", "down terminal")
    await stage.until("ctrl+\\ stop typing")
    await stage.command("terminal", f"{_SHOWN} ;")
    await stage.until("1 failed")
    await stage.press(_LEAVE)
    await stage.until("enter type")


@state(files=True)
async def terminal_read_above(stage: Stage) -> None:
    await _terminal(stage, "seq 1 400; echo end; read x", "end")
    await stage.press("shift+pageup")
    await stage.until("lines up")
    await stage.press(_LEAVE, "slash", *"23", "enter")
    await until(stage.pilot, lambda: "23" in stage.text)


@state(files=True)
async def terminal_whose_program_ended(stage: Stage) -> None:
    await stage.command("terminal", "echo built; exit 2")
    await stage.until("exit code 2", "r restart")
    await stage.command("zoom")


_LAYOUT = {
    "version": 1,
    "tabs": [
        {
            "title": "main",
            "root": {
                "type": "vertical",
                "children": [
                    {"type": "panel", "id": "chat", "widget": "chat"},
                    {
                        "type": "panel",
                        "id": "run",
                        "widget": "terminal",
                        "options": {"command": ["npm", "run", "dev"], "cwd": "/work/project"},
                    },
                ],
            },
        }
    ],
}


@state()
async def terminal_that_a_layout_asks_for(stage: Stage) -> None:
    await stage.app.screen_controller.call("set_layout", {"layout": _LAYOUT})
    await stage.until("enter starts npm run dev")
    stage.app.main.view.enter("run")


@state(files=True)
async def terminal_to_be_closed(stage: Stage) -> None:
    await _terminal(stage, _SHOWN, "1 failed")
    await stage.press(_LEAVE, "ctrl+w")
    await stage.until("keep it running")


@state(files=True)
async def terminals_to_choose_from(stage: Stage) -> None:
    await _terminal(stage, _SHOWN, "1 failed")
    await stage.press(_LEAVE)
    await stage.command("terminals")
    await stage.until("enter show")


async def _in_terminal(fleet: StagedFleet, home: Path) -> None:
    session = await fleet.agent_at_work("ann", "Fix the parser", agent="claude")
    fleet.infos[session] = replace(fleet.infos[session], transport="pty", cwd=str(home))
    script = "printf '\\033[1mAgent\\033[0m v1\\r\\n\\033[38;1H> type here'; read x"
    await fleet.give_screen("ann", "sh", "-c", script, size=(100, 40))


@state(_in_terminal)
async def live_screen_of_an_agent(stage: Stage) -> None:
    await stage.until("Fix the parser")
    await stage.command("screen")
    await stage.until("live terminal", "type here")
