"""Files and terminals that an agent uses through us."""

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from quarterdeck.drivers.acp.terminals import ContainedTerminals
from quarterdeck.policy.gate import Gate
from quarterdeck.policy.grammar import parse_rule
from quarterdeck.wire.acp import schema as acp
from quarterdeck.wire.events import MessageChunk, TerminalExited, TerminalOutput, TurnEnded
from tests.drivers.rigs.acp import acp_rig
from tests.support.driver_rig import Driven, drive


def free() -> Gate:
    """A gate that lets everything pass."""
    return Gate(mode="accept-edits", rules=(parse_rule("allow bash"),))


async def failure(driven: Driven, prompt: str) -> str:
    ended: TurnEnded = await driven.say(prompt)
    assert ended.stop == "failed"
    return ended.reason or ""


async def test_a_file_is_read_whole_or_by_lines(tmp_path: Path):
    file = tmp_path / "a.txt"
    file.write_bytes("one\r\ntwo 🐢\nthree\nfour".encode())
    async with drive(acp_rig(), tmp_path) as driven:
        for window, expected in [
            ("", "one\r\ntwo 🐢\nthree\nfour"),
            (" 2 1", "two 🐢\n"),
            (" 3", "three\nfour"),
            (" 9 2", ""),
            (" 1 0", ""),
        ]:
            driven.heard.clear()
            await driven.say(f"read {file}{window}")
            assert driven.text == expected


async def test_a_file_is_written_with_its_directories(tmp_path: Path):
    async with drive(acp_rig(), tmp_path, gate=free()) as driven:
        await driven.say(f"write {tmp_path}/deep/er/b.txt hello there")
        assert (tmp_path / "deep/er/b.txt").read_text() == "hello there"


async def test_a_missing_file_is_an_error_unless_the_agent_needs_none(tmp_path: Path):
    async with drive(acp_rig(), tmp_path) as driven:
        assert "does not exist" in await failure(driven, f"read {tmp_path}/none")
    rig = acp_rig(quirks=frozenset({"empty-for-missing"}))
    async with drive(rig, tmp_path) as driven:
        assert (await driven.say(f"read {tmp_path}/none")).stop == "end_turn"


async def test_paths_outside_of_the_roots_are_refused(tmp_path: Path):
    work = tmp_path / "work"
    work.mkdir()
    secret = tmp_path / "secret"
    secret.write_text("hidden")
    (work / "link").symlink_to(secret)
    (work / "out").symlink_to(tmp_path)
    async with drive(acp_rig(), work, gate=free()) as driven:
        for path in (secret, work / "../secret", work / "link", work / "out/secret", "/etc/passwd"):
            assert "outside" in await failure(driven, f"read {path}")
            assert "outside" in await failure(driven, f"write {path} x")
        assert "outside" in await failure(driven, f"write {work}/out/new x")
    assert secret.read_text() == "hidden" and not (tmp_path / "new").exists()


async def test_special_files_and_other_data_are_refused(tmp_path: Path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "data").write_bytes(b"\xff\xfe\x00")
    async with drive(acp_rig(), tmp_path) as driven:
        assert "pipe" in await failure(driven, f"read {tmp_path}/pipe")
        assert "not UTF-8" in await failure(driven, f"read {tmp_path}/data")
        assert await failure(driven, f"read {tmp_path}")


async def test_a_file_too_large_for_an_answer_is_read_in_parts(tmp_path: Path):
    (tmp_path / "big").write_bytes(b"x" * 99 + b"\n" + b"y" * 17_000_000)
    async with drive(acp_rig(), tmp_path) as driven:
        assert "larger" in await failure(driven, f"read {tmp_path}/big")
        assert (await driven.say(f"read {tmp_path}/big 1 1")).stop == "end_turn"


@pytest.mark.parametrize("mode", ["read-only", "plan"])
async def test_what_the_mode_denies_is_not_done_for_the_agent(mode: str, tmp_path: Path):
    (tmp_path / "a").write_text("there")
    async with drive(acp_rig(), tmp_path, gate=Gate(mode=mode)) as driven:  # type: ignore[arg-type]
        assert "not allowed" in await failure(driven, f"write {tmp_path}/b x")
        assert (await driven.say(f"read {tmp_path}/a")).stop == "end_turn"
        if mode == "read-only":
            assert "not allowed" in await failure(driven, "terminal touch c")
    assert not (tmp_path / "b").exists() and not (tmp_path / "c").exists()


# Terminals


async def test_a_command_runs_and_its_output_is_told(tmp_path: Path):
    async with drive(acp_rig(), tmp_path, gate=free()) as driven:
        await driven.say('terminal echo "in $PWD $LC_FAKE"; echo err >&2; exit 3')
        said = "".join(event.data for event in driven.all(TerminalOutput))
        assert said == f"in {tmp_path} 1\nerr\n"
        assert driven.all(TerminalExited)[0].exit_code == 3
        assert driven.text == f"in {tmp_path} 1\nerr\n[exit 3 None]"


async def test_our_own_variables_do_not_reach_a_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("SECRET_KEY", "do not tell")
    keys = {"AGENT_KEY": "nor this"}
    async with drive(acp_rig(), tmp_path, environment=keys, gate=free()) as driven:
        await driven.say("terminal env")
        assert "do not tell" not in driven.text and "nor this" not in driven.text


async def test_output_is_cut_between_characters(tmp_path: Path):
    async with drive(acp_rig(), tmp_path, gate=free()) as driven:
        await driven.say("terminal i=0; while [ $i -lt 30000 ]; do echo 🐢🐢; i=$((i+1)); done")
        shown = driven.text.partition("[exit")[0]
        assert len(shown.encode()) <= 100_000 and "�" not in shown
        assert len(shown.encode()) > 99_000


async def test_a_whole_command_line_in_place_of_a_program_is_run(tmp_path: Path):
    from quarterdeck.drivers.acp.terminals import ServedTerminals
    from quarterdeck.system.local import LocalSystem
    from quarterdeck.wire.errors import RpcError
    from quarterdeck.wire.events import Event

    class Anything:
        async def carry_out(self, deed: object, act: Any) -> Any:
            return await act("none")

        def shows(self, terminal: str) -> None:
            return

    events: list[Event] = []

    async def emit(event: Event) -> None:
        events.append(event)

    async with LocalSystem([tmp_path]) as system:
        held = ContainedTerminals(system)
        served = ServedTerminals(held, Anything(), emit)  # type: ignore[arg-type]
        line = acp.CreateTerminalRequest(session_id="s", command="echo one two | tr a-z A-Z")
        made = await served.create(line)
        wait = acp.WaitForTerminalExitRequest(session_id="s", terminal_id=made.terminal_id)
        assert (await served.wait(wait)).exit_code == 0
        served.show(made.terminal_id)
        again = await served.wait(wait)
        assert again.exit_code == 0
        assert [type(event).__name__ for event in events] == ["TerminalOutput", "TerminalExited"]
        assert isinstance(events[0], TerminalOutput) and events[0].data == "ONE TWO\n"
        sleeping = await served.create(
            acp.CreateTerminalRequest(session_id="s", command="sleep", args=("600",))
        )
        kill = acp.KillTerminalRequest(session_id="s", terminal_id=sleeping.terminal_id)
        await served.kill(kill)
        output = acp.TerminalOutputRequest(session_id="s", terminal_id=sleeping.terminal_id)
        status = (await served.output(output)).exit_status
        assert status is not None and status.signal == "SIGTERM"
        for request in (
            acp.CreateTerminalRequest(session_id="s", command="no-such-program"),
            acp.CreateTerminalRequest(session_id="s", command="ls", cwd="/"),
        ):
            with pytest.raises(RpcError):
                await served.create(request)
        release = acp.ReleaseTerminalRequest(session_id="s", terminal_id=made.terminal_id)
        await served.release(release)
        with pytest.raises(RpcError, match="no terminal"):
            await served.release(release)
        await served.close(1)


async def decided(tmp_path: Path, request: Any, *rules: str) -> str:
    """What an agent's terminal comes to: ``ran``, ``refused``, or the error's text."""
    from quarterdeck.drivers.acp.terminals import ServedTerminals
    from quarterdeck.policy import CallContext, call_from_tool, decide
    from quarterdeck.system.local import LocalSystem
    from quarterdeck.wire.errors import RpcError

    around = CallContext(cwd=str(tmp_path), roots=(str(tmp_path),), agent="x")

    class Decided:
        async def carry_out(self, call: Any, act: Any) -> Any:
            asked = call_from_tool(
                call.name, call.kind, call.raw_input, title=call.title, around=around
            )
            decision = decide(asked, "ask", [parse_rule(rule) for rule in rules])
            if type(decision).__name__ != "Allow":
                raise PermissionError(call.title)
            return await act("none")

        def shows(self, terminal: str) -> None:
            return

    async def emit(event: object) -> None:
        return

    async with LocalSystem([tmp_path]) as system:
        served = ServedTerminals(ContainedTerminals(system), Decided(), emit)  # type: ignore[arg-type]
        try:
            made = await served.create(request)
            await served.wait(
                acp.WaitForTerminalExitRequest(session_id="s", terminal_id=made.terminal_id)
            )
        except PermissionError:
            return "refused"
        except RpcError as error:
            return str(error)
        finally:
            await served.close(1)
    return "ran"


def variables(**given: str) -> tuple[acp.EnvVariable, ...]:
    return tuple(acp.EnvVariable(name=name, value=value) for name, value in given.items())


@pytest.mark.parametrize(
    "name", ["ls #", "", "A B", "1A", "A-B", "A\n", "LC_A;x", "BASH_FUNC_ls%%", "LC_É", "A=B"]
)
async def test_a_variable_whose_name_no_shell_reads_is_refused(tmp_path: Path, name: str):
    request = acp.CreateTerminalRequest(
        session_id="s",
        command="/bin/sh",
        args=("-c", "touch made"),
        env=variables(**{name: "x"}),
    )
    assert "variable" in await decided(tmp_path, request, "allow bash")
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize(
    "name", ["PATH", "LD_PRELOAD", "BASH_ENV", "ENV", "GIT_EXTERNAL_DIFF", "GIT_SSH", "PYTHONPATH"]
)
@pytest.mark.parametrize("args", [(), ("-l",)])
async def test_a_variable_that_may_change_what_runs_is_decided_with_the_command(
    tmp_path: Path, name: str, args: tuple[str, ...]
):
    request = acp.CreateTerminalRequest(
        session_id="s", command="ls", args=args, env=variables(**{name: "x"})
    )
    assert await decided(tmp_path, request, "allow bash(ls:*)") == "refused"
    plain = acp.CreateTerminalRequest(
        session_id="s", command="ls", args=args, env=variables(LC_ALL="C")
    )
    assert await decided(tmp_path, plain, "allow bash(ls:*)") == "ran"


async def test_a_variable_counts_for_every_command_of_a_line(tmp_path: Path):
    request = acp.CreateTerminalRequest(
        session_id="s", command="ls; touch made", env=variables(DEBUG="1")
    )
    rules = ("allow bash(DEBUG=1 ls:*)", "allow bash(touch:*)")
    assert await decided(tmp_path, request, *rules) == "refused"
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize(
    ("command", "args"),
    [("LC_ALL=./evil", ("ls",)), ("LC_ALL=./evil", ()), ("LC_ALL=./evil", ("",))],
)
async def test_the_file_of_a_program_is_no_assignment(
    tmp_path: Path, command: str, args: tuple[str, ...]
):
    (tmp_path / "LC_ALL=.").mkdir()
    evil = tmp_path / "LC_ALL=./evil"
    evil.write_text("#!/bin/sh\ntouch made\n")
    evil.chmod(0o755)
    request = acp.CreateTerminalRequest(
        session_id="s", command=command, args=args, cwd=str(tmp_path)
    )
    outcome = await decided(tmp_path, request, "allow bash(ls:*)")
    assert not (tmp_path / "made").exists(), outcome


async def test_terminals_end_with_the_session(tmp_path: Path):
    async with drive(acp_rig(), tmp_path, gate=free()) as driven:
        turn = asyncio.create_task(driven.say("terminal echo $$ > pid; echo up; sleep 600"))
        await driven.seen(TerminalOutput)
        pid = int((tmp_path / "pid").read_text())
    assert (await turn).stop == "cancelled"
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    assert driven.all(MessageChunk) == []
