"""The command lines of agents that run once for each turn: each option arrives or is refused."""

import json
import sys
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from quarterdeck.drivers.agent_process import Launch
from quarterdeck.drivers.driver import DriverSessionOptions
from quarterdeck.drivers.errors import UnsupportedError
from quarterdeck.drivers.pipe.generic import generic
from quarterdeck.drivers.pipe.oneshot_link import OneshotLink, plain_text
from quarterdeck.wire.content import EmbeddedResource, ResourceContents, ResourceLink, text
from quarterdeck.wire.session_options import AgentMcpServer
from tests.drivers.rigs.oneshot import LAUNCHES, dialect_of, link
from tests.support.driver_rig import Rig, drive

SPY = """
import json, os, sys
data = sys.stdin.buffer.read()
seen = {"argv": sys.argv[1:], "stdin": data.decode("utf-8", "surrogateescape"),
        "env": dict(os.environ), "cwd": os.getcwd()}
print(json.dumps({"event": "hello", "chat": {"id": "spy-1"}}))
print(json.dumps({"event": "speech", "data": {"words": json.dumps(seen)}}))
print(json.dumps({"event": "bye"}))
"""
"""A program that says how it was started."""


def rig_of(name: str, **changes: Any) -> Rig:
    return Rig(name=name, make=lambda: link(name, **changes))


def spy_on(name: str, **changes: Any) -> Rig:
    """An agent with the words of this one, that says how it was started."""
    theirs = LAUNCHES[name]
    ours = LAUNCHES["generic"]
    launch = Launch(
        agent=name,
        command=(sys.executable, "-c", SPY),
        words=changes.get("words", theirs.words),
        modes=theirs.modes,
        agent_modes=theirs.agent_modes,
        events=ours.events,
    )
    dialect = replace(generic(launch), extra=dialect_of(theirs).extra)
    return Rig(name=name, make=lambda: OneshotLink(launch, dialect))


async def started(name: str, tmp_path: Path, prompt: str = "hi", **options: Any) -> dict[str, Any]:
    changes = {"words": options.pop("words")} if "words" in options else {}
    async with drive(spy_on(name, **changes), tmp_path, **options) as driven:
        ended = await driven.say(prompt)
        assert ended.stop == "end_turn", ended.reason
        return json.loads(driven.text)


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("codex", {}, ["--sandbox", "read-only", "-"]),
        ("codex", {"mode": "plan"}, ["--sandbox", "read-only", "-"]),
        (
            "codex",
            {"mode": "accept-edits", "model": "gpt-5.5", "roots": ("/tmp", "/usr")},
            [
                *("--sandbox", "workspace-write", "--model", "gpt-5.5"),
                *("--add-dir", "/tmp", "--add-dir", "/usr", "-"),
            ],
        ),
        (
            "codex",
            {"agent_mode": "danger-full-access", "resume": "abc"},
            ["--sandbox", "danger-full-access", "resume", "abc", "-"],
        ),
        (
            "codex",
            {"resume": "abc", "fork": True, "arguments": ("--ephemeral",)},
            ["--sandbox", "read-only", "--ephemeral", "fork", "abc", "-"],
        ),
        (
            "codex",
            {"system_prompt": 'Say "yes"\n'},
            ["--sandbox", "read-only", "-c", 'developer_instructions="Say \\"yes\\"\\n"', "-"],
        ),
        ("gemini", {"model": "m"}, ["--approval-mode", "default", "--model", "m"]),
        (
            "gemini",
            {"mode": "accept-edits", "resume": "abc", "roots": ("/tmp",)},
            ["--approval-mode", "auto_edit", "--include-directories", "/tmp", "--resume", "abc"],
        ),
        ("gemini", {"agent_mode": "yolo"}, ["--approval-mode", "yolo"]),
        ("opencode", {}, []),
        ("opencode", {"title": "T"}, ["--title", "T"]),
        ("opencode", {"agent_mode": "auto"}, ["--auto"]),
        ("opencode", {"resume": "ses_1", "fork": True}, ["--session", "ses_1", "--fork"]),
        ("cursor", {"mode": "plan", "model": "m"}, ["--mode", "plan", "--model", "m"]),
        ("cursor", {"agent_mode": "force"}, ["--force"]),
        (
            "pi",
            {"system_prompt": "Be brief.", "resume": "x"},
            [
                *("--tools", "read,grep,find,ls"),
                *("--append-system-prompt", "Be brief.", "--session", "x"),
            ],
        ),
    ],
)
async def test_each_option_is_in_the_words(
    tmp_path: Path, name: str, options: dict[str, Any], words: list[str]
):
    seen = await started(name, tmp_path, **options)
    assert seen["argv"] == words
    assert seen["stdin"] == "hi" and seen["cwd"] == str(tmp_path)


@pytest.mark.parametrize(
    ("name", "options", "told"),
    [
        ("codex", {"mode": "deny-all"}, "mode 'deny-all'.*It has ask, read-only, plan"),
        ("codex", {"agent_mode": "yolo"}, "agent_mode 'yolo'.*danger-full-access"),
        ("codex", {"mcp_servers": (AgentMcpServer(name="a.b", command=("x",)),)}, "named 'a.b'"),
        ("gemini", {"mode": "full-auto"}, "mode 'full-auto'"),
        ("gemini", {"system_prompt": "x"}, "'system_prompt'"),
        ("gemini", {"resume": "x", "fork": True}, "'fork'"),
        ("gemini", {"mcp_servers": (AgentMcpServer(name="m", command=("x",)),)}, "'mcp_servers'"),
        ("opencode", {"mode": "full-auto"}, "mode 'full-auto'"),
        ("opencode", {"roots": ("/tmp",)}, "'roots'"),
        ("opencode", {"system_prompt": "x"}, "'system_prompt'"),
        ("cursor", {"roots": ("/tmp",)}, "'roots'"),
        ("pi", {"mode": "full-auto"}, "mode 'full-auto'"),
        ("generic", {"mode": "plan"}, "mode 'plan'"),
        ("codex", {"model": "a\0b"}, "NUL character in 'model'"),
    ],
)
async def test_an_option_that_cannot_be_honoured_is_refused_by_name(
    tmp_path: Path, name: str, options: dict[str, Any], told: str
):
    with pytest.raises(UnsupportedError, match=told):
        async with drive(rig_of(name), tmp_path, **options):
            pass


@pytest.mark.parametrize("name", list(LAUNCHES))
async def test_nothing_skips_permissions_unless_it_is_named(tmp_path: Path, name: str):
    seen = await started(name, tmp_path)
    loose = ("yolo", "--auto", "danger", "--force", "workspace-write", "high", "-y")
    assert not any(word in argument for argument in seen["argv"] for word in loose)


async def test_opencode_is_told_to_ask(tmp_path: Path):
    for mode, edit in [("ask", "ask"), ("accept-edits", "allow"), ("plan", "deny")]:
        seen = await started("opencode", tmp_path, mode=mode)
        rules = json.loads(seen["env"]["OPENCODE_PERMISSION"])
        assert (rules["*_*"], rules["edit"]) == ("ask", edit)
        assert rules["bash"] in ("ask", "deny")
    seen = await started("opencode", tmp_path, agent_mode="auto")
    assert "OPENCODE_PERMISSION" not in seen["env"]


async def test_mcp_servers_reach_codex_and_opencode(tmp_path: Path):
    servers = (
        AgentMcpServer(name="my-lab", command=("run", "a b", '"'), environment={"K": "v\n"}),
        AgentMcpServer(name="far", url="http://127.0.0.1:1/mcp", headers={"X-A": "1"}),
    )
    seen = await started("codex", tmp_path, mcp_servers=servers)
    settings = [word for word in seen["argv"] if word.startswith("mcp_servers.")]
    told = tomllib.loads("\n".join(settings))["mcp_servers"]
    assert told == {
        "my-lab": {"command": "run", "args": ["a b", '"'], "env_vars": ["K"]},
        "far": {
            "url": "http://127.0.0.1:1/mcp",
            "env_http_headers": {"X-A": "QUARTERDECK_MCP_FAR_X_A"},
        },
    }
    # Everybody can read a command line; a server's variables and headers may be secret.
    assert (seen["env"]["K"], seen["env"]["QUARTERDECK_MCP_FAR_X_A"]) == ("v\n", "1")
    ours = AgentMcpServer(name="ours", url="http://127.0.0.1:1/mcp", is_ours=True)
    seen = await started("codex", tmp_path, mcp_servers=(ours,))
    (setting,) = (word for word in seen["argv"] if word.startswith("mcp_servers."))
    assert 'default_tools_approval_mode="approve"' in setting
    seen = await started("opencode", tmp_path, mcp_servers=servers)
    told = json.loads(seen["env"]["OPENCODE_CONFIG_CONTENT"])["mcp"]
    assert told["my-lab"]["command"] == ["run", "a b", '"'] and told["far"]["type"] == "remote"


@pytest.mark.parametrize(
    "prompt",
    ["--help", "-", "- -rf /", "🦀 ünï ‮ rtl", "a\0b", "  edges \n\n", "{}", "x" * 1_048_576],
    ids=["flag", "dash", "dashes", "emoji", "nul", "edges", "braces", "megabyte"],
)
async def test_a_prompt_arrives_byte_for_byte(tmp_path: Path, prompt: str):
    assert (await started("codex", tmp_path, prompt))["stdin"] == prompt


async def test_an_agent_that_takes_words_gets_one_word(tmp_path: Path):
    words = {"prompt": ("--say", "{}")}
    for prompt in ("--help me", "🦀 ‮", "a\nb  c", "{}"):
        seen = await started("generic", tmp_path, prompt, words=words)
        assert (seen["argv"], seen["stdin"]) == (["--say", prompt], "")


@pytest.mark.parametrize(("prompt", "told"), [("a\0b", "NUL"), ("x" * 200_000, "131071 bytes")])
async def test_a_prompt_that_is_no_word_fails_and_says_why(tmp_path: Path, prompt: str, told: str):
    rig = rig_of("generic", words={"prompt": ("--say", "{}"), "resume": ("--again", "{}")})
    async with drive(rig, tmp_path) as driven:
        ended = await driven.say(prompt)
        assert ended.stop == "failed" and told in (ended.reason or "")
        assert (await driven.say("echo fine")).stop == "end_turn"


def test_resources_of_a_prompt_become_text():
    resource = ResourceContents(uri="file:///a.txt", text="inside")
    blocks = (
        text("see"),
        ResourceLink(uri="file:///b.txt", name="b"),
        EmbeddedResource(resource=resource),
    )
    assert plain_text(blocks) == "see\n\nfile:///b.txt\n\nfile:///a.txt\ninside"


def test_an_opening_has_no_field_that_is_not_looked_at():
    """A new field must be given words, refused, or put here with a reason.

    Those of ``options`` are supported by name, or refused: see ``OneshotLink.supported_options``.
    """
    looked_at = {"options", "arguments", "title"}
    elsewhere = {"login"}  # a pipe is refused before it is opened
    of_the_session = {"replay", "parent_session", "start_limit", "idle_limit", "cancel_limit"}
    fields = (
        getattr(DriverSessionOptions, "__dataclass_fields__", None)
        or DriverSessionOptions.__struct_fields__
    )
    assert set(fields) == looked_at | of_the_session | elsewhere
