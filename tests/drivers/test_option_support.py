"""What an agent can be started with is known before it is started."""

from pathlib import Path

import pytest

from quarterdeck.drivers.catalogue import find_agent, load_catalogue
from quarterdeck.drivers.option_support import find_option_support
from quarterdeck.policy.modes import MODES


@pytest.mark.parametrize("name", ["codex", "gemini", "pi", "claude"])
def test_an_agent_takes_what_its_links_take(name: str):
    support = find_option_support(find_agent(name), "/none")
    assert {"model", "mode", "limits.seconds"} <= support.options
    assert not {"effort", "limits.cost", "tools"} & support.options
    assert not support.problem and set(support.modes) < set(MODES)


def test_a_mode_that_an_agent_cannot_be_held_to_has_a_reason():
    assert find_option_support(find_agent("codex"), "/none").modes == {
        "deny-all": "it reads files without asking"
    }
    assert find_option_support(find_agent("claude"), "/none").modes == {}
    assert "no such mode" in find_option_support(find_agent("pi"), "/none").modes["full-auto"]


def test_only_the_transports_that_are_here_count(tmp_path: Path):
    program = tmp_path / "codex"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    agent = find_agent("codex")
    over_pipe = find_option_support(agent, str(tmp_path))
    assert "accept-edits" not in find_option_support(agent, "/none").modes
    # The daemon is the same program; without it the sandbox of the pipe holds other modes.
    assert over_pipe.options and not over_pipe.problem


def test_an_agent_without_a_transport_says_so():
    assert "Use it in a terminal" in find_option_support(find_agent("aider"), "/none").problem
    for agent in load_catalogue().agents.values():
        support = find_option_support(agent, "/none")
        assert bool(support.problem) != bool(support.options)
