"""``--host``: commands and the workbench for a host on another machine."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.agent_files import write_agent_files
from tests.support.deadlines import SOON
from tests.support.leftovers import find_processes
from tests.support.real_terminals import pty_of
from tests.support.ssh_server import SshServer, missing_programs, start_sshd

SCRIPT = Path(sys.executable).parent / "quarterdeck"
Run = Callable[..., subprocess.CompletedProcess[str]]

needs_sshd = pytest.mark.skipif(
    bool(missing_programs()), reason=f"not installed: {missing_programs()}"
)


@pytest.fixture
def server(tmp_path: Path, environ: dict[str, str], home: Path) -> Iterator[SshServer]:
    with start_sshd(tmp_path / "s") as server:
        write_agent_files(server.remote_home / "qd" / "agents")
        (server.remote_home / "Straße 1").mkdir()
        environ["PATH"] = f"{server.programs}:{environ['PATH']}"
        settings = home / ".config" / "quarterdeck" / "config.toml"
        settings.parent.mkdir(parents=True)
        settings.write_text(f'[hosts.box]\nurl = "{server.url}"\n')
        yield server


@needs_sshd
def test_a_journey_on_another_machine(
    run: Run, server: SshServer, environ: dict[str, str], home: Path
):
    def done(*arguments: str) -> str:
        result = run("--host", "box", *arguments)
        assert (result.returncode, result.stderr) == (0, ""), result
        return result.stdout

    away = run("--host", "box", "host", "status")
    assert away.returncode == 3
    assert "no host is running on 'box'; `quarterdeck --host box host start`" in away.stderr
    there = str(server.remote_home)
    words = ("spawn", "-a", "fake-acp", "-n", "ann", "-C", "Straße 1", "--wait", "ask tides")
    assert run("--host", "box", *words).returncode == 4
    assert "ann" in done("inbox")
    assert f'"cwd": "{there}/Straße 1"' in done("ps", "--json")
    done("answer", "ann", "y")
    missing = run("--host", "box", "spawn", "-a", "fake-acp", "-C", "/no/such/place", "echo x")
    assert missing.returncode in (1, 5)
    assert "/no/such/place" in missing.stderr
    attached = subprocess.run(
        [SCRIPT, "--host", "box", "attach", "ann"],
        env=environ,
        input="echo over the wire\n",
        capture_output=True,
        text=True,
        timeout=SOON * 2,
    )
    assert "allowed" in attached.stdout
    assert "over the wire" in attached.stdout
    assert done("host", "stop") == "The host has ended.\n"
    assert done("host", "disconnect") == "Disconnected.\n"
    assert not [one for one in find_processes([home]).values() if "ssh" in one]
    assert not (home / ".local" / "state" / "quarterdeck" / "journal.db").exists()


@needs_sshd
def test_a_journey_over_two_hosts(run: Run, server: SshServer, environ: dict[str, str], home: Path):
    both = ("--host", "local", "--host", "box")
    settings = home / ".config" / "quarterdeck" / "config.toml"
    settings.write_text(f'workbench.hosts = ["local", "box"]\n{settings.read_text()}')
    write_agent_files(home / ".config" / "quarterdeck" / "agents")
    spawn = ("spawn", "-a", "fake-acp", "-n", "ann", "--wait")
    assert run("--host", "local", *spawn, "echo here").returncode == 0
    assert run("--host", "box", *spawn, "ask tides").returncode == 4
    unclear = run(*both, "send", "ann", "echo x")
    assert unclear.returncode == 1
    assert "2 hosts have an agent 'ann'; name one of local/ann, box/ann" in unclear.stderr
    with pty_of([SCRIPT], {**environ, "TERM": "xterm-256color"}, size=(120, 30)) as terminal:
        terminal.shows("on local, box")
        terminal.shows("local/ann")
        terminal.shows("box/ann")
        assert run(*both, "answer", "box/ann", "y").returncode == 0
        logs = run(*both, "logs", "box/ann")
        assert (logs.returncode, logs.stderr) == (0, "")
        assert "tides" in logs.stdout
        # A machine that is away stops no other.
        away = run("--host", "local", "--host", "ssh://127.0.0.1:1", "ps")
        assert away.returncode == 0
        assert "local/ann" in away.stdout
        assert "host 127.0.0.1: cannot reach 'ssh://127.0.0.1:1'" in away.stderr
        terminal.write("\x11")  # ctrl+q
        assert terminal.ends() == 0
    assert run("--host", "box", "host", "stop").returncode == 0
    run("--host", "box", "host", "disconnect")


def test_what_several_hosts_cannot_do(run: Run, home: Path):
    both = ("--host", "local", "--host", "ssh://box")
    refused = run(*both, "spawn", "echo x")
    assert refused.returncode == 2
    assert "works with one host; give --host once" in refused.stderr
    assert "--plain works with one host" in run(*both, "--plain").stderr
    settings = home / ".config" / "quarterdeck" / "config.toml"
    settings.parent.mkdir(parents=True)
    settings.write_text('[hosts.local]\nurl = "ssh://box"\n')
    unclear = run(*both, "ps")
    assert unclear.returncode == 1
    assert "it means this machine, and your settings have a host of that name" in unclear.stderr


@needs_sshd
def test_the_workbench_on_another_machine(run: Run, server: SshServer, environ: dict[str, str]):
    with pty_of(
        [SCRIPT, "--host", "box"], {**environ, "TERM": "xterm-256color"}, size=(100, 24)
    ) as terminal:
        terminal.shows("on box")
        terminal.shows(str(server.remote_home)[-12:])
        terminal.write("/open tree\r")
        terminal.shows("the agents are on 'box'")
        terminal.write("\x11")  # ctrl+q
        assert terminal.ends() == 0
        assert terminal.is_restored
    assert run("--host", "box", "host", "stop").returncode == 0
    assert run("--host", "box", "host", "disconnect").stdout == "Disconnected.\n"


def test_commands_that_work_here_alone_are_refused(run: Run):
    for words in (("config", "show"), ("host", "logs")):
        result = run("--host", "ssh://box", *words)
        assert result.returncode == 2
        assert "works with the files of the machine that it runs on" in result.stderr
    result = run("--host", "ssh://box")
    assert result.returncode == 2
    assert "the workbench needs a terminal" in result.stderr


def test_a_host_that_is_no_address(run: Run, home: Path, work: Path, environ: dict[str, str]):
    environ["PATH"] = str(work)  # no ssh, and none is looked for
    for given, words in (
        ("nowhere", "your settings have no such host; name one there, or write ssh://nowhere"),
        ("ssh://-oProxyCommand=x", "is not a host name"),
    ):
        result = run(f"--host={given}", "ps")
        assert result.returncode == 1
        assert words in result.stderr
    result = run("--host", "ssh://box", "ps")
    assert result.returncode == 1
    assert "the program 'ssh' is not installed here" in result.stderr


def test_a_project_cannot_name_hosts(run: Run, work: Path):
    (work / ".quarterdeck").mkdir()
    (work / ".quarterdeck" / "config.toml").write_text('[hosts.box]\nurl = "ssh://evil"\n')
    assert "your settings have no such host" in run("--host", "box", "ps").stderr
    run("config", "trust")
    assert "your settings have no such host" in run("--host", "box", "ps").stderr
    shown = run("config", "show")
    assert shown.returncode == 1
    assert "only your own file can name hosts" in shown.stderr


def test_settings_that_are_no_hosts(run: Run, home: Path):
    settings = home / ".config" / "quarterdeck" / "config.toml"
    settings.parent.mkdir(parents=True)
    settings.write_text('[hosts.box]\nurl = "http://box"\n')
    result = run("--host", "box", "ps")
    assert result.returncode == 1
    assert "a URL with ssh://" in result.stderr


def test_the_report_for_clients_elsewhere(run: Run, home: Path):
    result = run("host", "report")
    assert result.returncode == 0
    assert result.stdout.count("\n") == 1
    assert f'"home":"{home}"' in result.stdout
    assert '"format":1' in result.stdout
    assert '"socket":null' in result.stdout
    assert list(home.iterdir()) == []  # it only looked
