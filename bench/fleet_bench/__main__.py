"""Measure agents that speak ACP, and programs that run agents; see the README beside this file."""

import argparse
import contextlib
import json
import subprocess
import sys
from collections.abc import Generator, Sequence
from dataclasses import replace
from pathlib import Path

from .agents import AgentPlan, measure_agent
from .clients import ClientPlan, ClientSubject, measure_client, measure_path
from .figures import Results
from .subject import InvalidSubjectError, Subject, parse_subject, split_command

__all__ = ["main"]

_WORDS = 2_000
_HELP = """in commands and values, {url} is the address of the model and {home} the clean home;
for --path, --client and --spawn also {agent} or {agent_json}, the agent to run, {prompt}, {name}"""


def main(words: Sequence[str] | None = None) -> int:
    """Run the command line; its status."""
    parser = _make_parser()
    options = parser.parse_args(words)
    try:
        variables = dict(_split_variable(one) for one in options.env)
        files = _read_files(options.home)
        agents = [parse_subject(one, variables) for one in options.agent]
        paths = [parse_subject(one, variables) for one in options.path]
        stop = split_command(options.stop) if options.stop else ()
        opened = [parse_subject(one, variables) for one in options.client]
        clients = [_make_client(options, replace(one, files=files, stop=stop)) for one in opened]
    except InvalidSubjectError as error:
        parser.error(str(error))
    agents = [replace(one, files=files) for one in agents]
    paths = [replace(one, files=files, stop=stop) for one in paths]
    if options.installed:
        from .installed import find_agents, find_clients, find_paths

        agents, paths = [*agents, *find_agents()], [*paths, *find_paths()]
        clients += find_clients()
    if not (agents or paths or clients):
        parser.error("name something to measure: --agent, --path, --client or --installed")
    results = Results()
    agent_plan = AgentPlan(options.rounds, options.words, options.settle)
    if agents:
        with _model(options.model_url, options.words) as url:
            for agent in agents:
                _announce(agent.name)
                results.subjects.append(measure_agent(agent, url, agent_plan))
    for path in paths:
        _announce(path.name)
        results.subjects.append(measure_path(path, options.words, options.rounds))
    client_plan = ClientPlan(
        rounds=options.rounds,
        words=options.words,
        agents=options.agents,
        entries=options.entries,
        keys=options.keys,
    )
    for client in clients:
        _announce(client.opens.name)
        results.subjects.append(measure_client(client, client_plan))
    if options.json is not None:
        options.json.write_text(results.to_json(), encoding="utf-8")
    print(results.to_markdown(), end="")
    return 1 if all(not one.figures for one in results.subjects) else 0


def _make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m bench.fleet_bench", description=__doc__, epilog=_HELP
    )
    subject = {"action": "append", "default": [], "metavar": "[NAME=]COMMAND"}
    parser.add_argument("--agent", **subject, help="an agent that speaks ACP on its two pipes")
    parser.add_argument(
        "--path", **subject, help="a command that runs {agent} and prints its words"
    )
    parser.add_argument(
        "--client", **subject, help="a client on a terminal; needs --spawn, --ready"
    )
    parser.add_argument("--spawn", metavar="COMMAND", help="starts an agent that the client shows")
    parser.add_argument("--ready", metavar="TEXT", help="what a client shows when it takes keys")
    parser.add_argument(
        "--stop", metavar="COMMAND", help="ends what a path or client leaves running"
    )
    parser.add_argument(
        "--installed", action="store_true", help="ours, and the agents below build/ of this project"
    )
    variable = {"action": "append", "default": [], "metavar": "NAME=VALUE"}
    parser.add_argument("--env", **variable, help="a variable; nothing of yours is passed on")
    parser.add_argument(
        "--home", type=Path, metavar="DIR", help="files for the clean home; places are filled in"
    )
    parser.add_argument(
        "--model-url", metavar="URL", help="another model than our scripted one on loopback"
    )
    parser.add_argument("--rounds", type=_positive, default=5, help="times (default: 5)")
    parser.add_argument(
        "--words", type=_positive, default=_WORDS, help=f"of a stream (default: {_WORDS})"
    )
    parser.add_argument("--agents", type=_positive, default=50, help="that speak (default: 50)")
    parser.add_argument(
        "--entries", type=_positive, default=100_000, help="of a long session (default: 100000)"
    )
    parser.add_argument("--keys", type=_positive, default=40, help="to press (default: 40)")
    parser.add_argument(
        "--settle", type=float, default=1.5, metavar="SECONDS", help="until idle (default: 1.5)"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything there")
    return parser


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 on")
    return int(text)


def _split_variable(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise InvalidSubjectError(f"--env {text!r} has no value; write NAME=VALUE")
    return name, value


def _read_files(folder: Path | None) -> dict[str, str]:
    if folder is None:
        return {}
    if not folder.is_dir():
        raise InvalidSubjectError(f"--home {str(folder)!r} is not a directory")
    try:
        return {
            str(file.relative_to(folder)): file.read_text(encoding="utf-8")
            for file in sorted(folder.rglob("*"))
            if file.is_file()
        }
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidSubjectError(f"--home {str(folder)!r} cannot be read: {error}") from error


def _make_client(options: argparse.Namespace, opens: Subject) -> ClientSubject:
    if not options.spawn or not options.ready:
        raise InvalidSubjectError("--client needs --spawn and --ready; see the README")
    return ClientSubject(opens, split_command(options.spawn), options.ready)


@contextlib.contextmanager
def _model(url: str | None, words: int) -> Generator[str]:
    if url is not None:
        yield url.rstrip("/")
        return
    command = [sys.executable, "-m", "bench.fleet_bench.model", str(words)]
    root = Path(__file__).parents[2]
    with subprocess.Popen(
        command, cwd=root, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            sys.exit("fleet_bench: the scripted model did not start; give --model-url")
        try:
            yield json.loads(line)["url"]
        finally:
            process.kill()


def _announce(name: str) -> None:
    print(f"measuring {name} …", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
