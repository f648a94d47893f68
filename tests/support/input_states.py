"""The states of a screen that are about the input: lines with a sign, the finder, keys of vim."""

from quarterdeck.wire.events import CommandStarted, TerminalExited, TerminalOutput
from quarterdeck.wire.ids import TerminalId

from .agent_states import idle
from .staged_workbench import Stage, state

_COMMAND = TerminalId("term-1")


@state(idle)
async def input_that_runs_a_command(stage: Stage) -> None:
    await stage.press(*"!git status")
    await stage.until("with your rights")


@state(idle)
async def input_that_keeps_a_note(stage: Stage) -> None:
    await stage.press(*"#use tabs")
    await stage.until("keeps a note")


@state(idle)
async def command_of_the_person_that_failed(stage: Stage) -> None:
    session = next(iter(stage.fleet.infos))
    await stage.fleet.tell(
        session,
        CommandStarted(terminal=_COMMAND, command="pytest -q", cwd="/work/project"),
        TerminalOutput(terminal=_COMMAND, data="1 failed, 212 passed in 4.1s\n"),
        TerminalExited(terminal=_COMMAND, exit_code=1),
    )
    await stage.until("pytest -q", "exit 1")


@state(files=True)
async def finder_of_files_with_a_preview(stage: Stage) -> None:
    await stage.press(*"see @parser")
    await stage.until("parser.py")


@state(idle)
async def input_in_normal_mode(stage: Stage) -> None:
    stage.app.preferences.vim = True
    stage.app.main.chat.on_focus()
    await stage.press(*"fix the parser", "escape", "0")
    await stage.until("normal")
