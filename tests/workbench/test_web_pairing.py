"""``/web``: the pairing code in a terminal of the workbench."""

import sys
from types import SimpleNamespace
from typing import Any, cast

from quarterdeck.workbench.commands.registry import find_command
from quarterdeck.workbench.commands.terminal import show_web_pairing


async def test_it_opens_a_terminal_with_the_command_that_shows_the_code():
    calls: list[tuple[str, dict[str, Any]]] = []

    async def call(name: str, arguments: dict[str, Any]) -> None:
        calls.append((name, arguments))

    app = SimpleNamespace(
        context=SimpleNamespace(cwd="/work"), screen_controller=SimpleNamespace(call=call)
    )
    found = find_command("/web --role viewer")
    assert found is not None
    command, rest = found
    done = command.call(app, rest)
    assert done is not None
    await done
    await show_web_pairing(cast("Any", app), "")
    words = [sys.executable, "-P", "-m", "quarterdeck", "web", "pair", "--start"]
    commands = [arguments["options"]["command"] for _, arguments in calls]
    assert commands == [[*words, "--role", "viewer"], words]
    assert {arguments["options"]["cwd"] for _, arguments in calls} == {"/work"}
