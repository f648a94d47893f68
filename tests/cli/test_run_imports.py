"""What a turn of our own agent imports: told by names, because times depend on the machine."""

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from quarterdeck.testing.model_server import ModelServer

PROGRAM = (
    "import atexit, os, sys\n"
    "from quarterdeck.cli.main import main\n"
    "names = lambda: os.write(2, '\\n|'.join(['', *sys.modules, '']).encode())\n"
    "atexit.register(names)\n"
    "sys.exit(main())\n"
)
"""The command line; when it ends, the names of all modules are on standard error."""

NEVER = {
    "anthropic",
    "ctypes",
    "google.genai",
    "h11",
    "httpx2",
    "importlib.resources",
    "mcp",
    "openai",
    "opentelemetry",
    "quarterdeck.agent.children.children",
    "quarterdeck.agent.children.profile",
    "quarterdeck.agent.frontmatter",
    "quarterdeck.agent.goals",
    "quarterdeck.agent.hooks.runner",
    "quarterdeck.agent.mcp",
    "quarterdeck.agent.context.compaction",
    "quarterdeck.agent.context.report",
    "quarterdeck.agent.context.strategy",
    "quarterdeck.agent.tools.builtin",
    "quarterdeck.drivers",
    "quarterdeck.fleet",
    "quarterdeck.journal.check",
    "quarterdeck.journal.indexing",
    "quarterdeck.journal.salvage",
    "quarterdeck.journal.search",
    "quarterdeck.models.anthropic",
    "quarterdeck.models.google",
    "quarterdeck.models.openai_chat",
    "quarterdeck.models.script",
    "quarterdeck.models.scripted_model",
    "quarterdeck.system.sandbox",
    "quarterdeck.testing",
    "quarterdeck.workbench",
    "tempfile",
    "textual",
    "tomllib",
    "websockets",
    "zipfile",
}
FOR_CALLS = {
    "shutil",
    "quarterdeck.agent.tools.bash",
    "quarterdeck.agent.tools.edit",
    "quarterdeck.agent.tools.fetch",
    "quarterdeck.agent.tools.grep",
    "quarterdeck.agent.tools.read",
    "quarterdeck.policy.decision",
    "quarterdeck.policy.grammar",
    "quarterdeck.policy.permission_options",
    "quarterdeck.policy.call_parts",
    "quarterdeck.policy.shell",
    "quarterdeck.system.process",
    "quarterdeck.system.local_terminals",
    "tree_sitter",
}
FOR_COMMANDS = {
    "quarterdeck.policy.shell.parser",
    "quarterdeck.policy.shell.plain_grammar",
    "quarterdeck.policy.shell.readonly",
    "quarterdeck.policy.shell.readonly_table",
    "tree_sitter",
}
FOR_PEOPLE = {"click", "gettext", "quarterdeck.cli.root"}
FOR_REQUESTS = {"_ssl", "hashlib", "json", "_hashlib", "dataclasses", "quarterdeck.models.failures"}
FOR_TURNS = {
    "quarterdeck.agent.loop",
    "quarterdeck.agent.model_call",
    "quarterdeck.agent.recovery",
    "quarterdeck.agent.tool_calls",
    "quarterdeck.models.retry",
    "quarterdeck.serve.delegated_files",
    "quarterdeck.serve.delegated_system",
    "random",
}
FOR_TROUBLE = {"ast", "dis", "tokenize"}
"""What ``inspect`` and ``traceback`` import, in whose own places others stand."""
FOR_ACP = {"quarterdeck.serve", "quarterdeck.wire.acp", "quarterdeck.wire.rpc"}


def modules(home: Path, url: str, *arguments: str, stdin: str = "") -> set[str]:
    """The modules of a command that has ended well."""
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "QUARTERDECK_HOME": str(home / "q"),  # short: one that is too long needs more modules
        "OPENAI_BASE_URL": f"{url}/v1",
        "OPENAI_API_KEY": "dummy",
        "QUARTERDECK_MODEL": "openai/gpt-5.5",
    }
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments],
        capture_output=True,
        text=True,
        cwd=home,
        env=environment,
        input=stdin,
        timeout=50,
    )
    assert done.returncode == 0, done.stderr
    return {name for line in done.stderr.splitlines() if (name := line.removeprefix("|"))}


async def modules_of_run(home: Path, scene: str) -> set[str]:
    async with ModelServer() as server:
        return await asyncio.to_thread(modules, home, server.url, "run", "-q", f"scene:{scene}")


async def test_a_turn_of_words_imports_nothing_that_only_calls_need(home: Path):
    loaded = await modules_of_run(home, "text")
    assert "quarterdeck.models.openai_responses" in loaded
    assert not loaded & (NEVER | FOR_CALLS | FOR_ACP | {"_ssl", "quarterdeck.models.failures"})


async def test_a_turn_imports_the_tools_that_are_called_and_no_others(home: Path):
    (home / "README.md").write_text("hello\n")
    loaded = await modules_of_run(home, "read")
    assert {"quarterdeck.agent.tools.read", "quarterdeck.policy.decision"} <= loaded
    others = {f"quarterdeck.agent.tools.{name}" for name in ("bash", "edit", "fetch", "grep")}
    assert not loaded & (NEVER | FOR_ACP | FOR_COMMANDS | others)


@pytest.mark.parametrize("command", ["run", "acp"])
def test_help_of_a_command_imports_neither_the_agent_nor_an_event_loop(home: Path, command: str):
    loaded = modules(home, "http://127.0.0.1:1", command, "--help")
    heavy = {"asyncio", "sqlite3", "quarterdeck.agent", "quarterdeck.models", "quarterdeck.fleet"}
    needed = {"shutil"}  # with which click measures the terminal
    assert not loaded & ((NEVER | FOR_CALLS | FOR_ACP | heavy) - needed)


def test_a_new_session_for_an_editor_imports_nothing_that_only_calls_need(home: Path):
    calls = [
        ("initialize", {"protocolVersion": 1}),
        ("session/new", {"cwd": str(home), "mcpServers": []}),
    ]
    frames = [
        json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        for number, (method, params) in enumerate(calls)
    ]
    loaded = modules(home, "http://127.0.0.1:1", "acp", stdin="\n".join([*frames, ""]))
    assert "quarterdeck.agent.native" in loaded
    heavy = NEVER | FOR_CALLS | FOR_PEOPLE | FOR_REQUESTS | FOR_TURNS | FOR_TROUBLE
    assert not loaded & heavy


def test_a_list_of_agents_imports_neither_the_agent_nor_the_log(home: Path):
    try:
        loaded = modules(home, "http://127.0.0.1:1", "ps")
    finally:
        modules(home, "http://127.0.0.1:1", "host", "stop")
    assert "quarterdeck.fleet.client" in loaded
    needed = {"quarterdeck.fleet"}
    heavy = {
        "bz2",
        "quarterdeck.agent",
        "quarterdeck.config.schema",
        "quarterdeck.drivers",
        "quarterdeck.models",
        "quarterdeck.serve",
        "quarterdeck.system.api",
        "quarterdeck.wire.acp",
        "sqlite3",
    }
    assert not loaded & (((NEVER | FOR_CALLS) - needed) | heavy)
