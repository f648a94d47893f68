"""What the model is told of our tools is known without importing them."""

import msgspec

from quarterdeck.agent.tools.builtin import all_tools
from quarterdeck.agent.tools.toolbox import Toolbox, shipped_tools
from tools.generate_tool_specs import PATH, generate


def test_the_file_is_what_the_generator_writes():
    assert PATH.read_bytes() == generate(), "run .venv/bin/python tools/generate_tool_specs.py"


def test_the_model_is_told_the_same_as_by_the_tools_themselves():
    known, made = Toolbox(shipped_tools()).specs, Toolbox(all_tools()).specs
    assert msgspec.json.encode(known) == msgspec.json.encode(made)


def test_a_tool_is_made_when_it_is_found_and_only_once():
    toolbox = Toolbox(shipped_tools())
    for tool in all_tools():
        found = toolbox.find(tool.name)
        assert type(found) is type(tool)
        assert toolbox.find(tool.name) is found
    assert toolbox.find("nothing") is None


def test_a_part_of_them_can_be_offered():
    toolbox = Toolbox(shipped_tools()).only(["read", "ls"])
    assert toolbox.names == ("read", "ls")
    assert [spec.name for spec in toolbox.specs] == ["read", "ls"]
