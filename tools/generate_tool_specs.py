"""Write ``agent/tools/shipped.json``: what the model is told of the tools that come with us.

Run it after a change of a tool's text, arguments or name: ``.venv/bin/python
tools/generate_tool_specs.py``. A test fails until then.
"""

from pathlib import Path

import msgspec

from quarterdeck.agent.tools import toolbox
from quarterdeck.agent.tools.builtin import all_tools
from quarterdeck.agent.tools.toolbox import Toolbox

__all__ = ["PATH", "generate"]

PATH = Path(toolbox.__file__).with_name("shipped.json")


def generate() -> bytes:
    """The file as it should be."""
    made = all_tools()
    tools = [
        toolbox.LazyTool(name=tool.name, target=_target(type(tool)), spec=spec)
        for tool, spec in zip(made, Toolbox(made).specs, strict=True)
    ]
    return msgspec.json.format(msgspec.json.encode(tools)) + b"\n"


def _target(made: type) -> str:
    module = made.__module__.removeprefix(f"{toolbox.__package__}.")
    return f"{module}:{made.__name__}"


if __name__ == "__main__":
    PATH.write_bytes(generate())
