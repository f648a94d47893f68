"""A tool server with one tool, over standard input and output; leaves a file that says it ran."""

import json
import sys
from pathlib import Path
from typing import Any

TOOL = {
    "name": "echo",
    "description": "Says what it is told.",
    "inputSchema": {
        "type": "object",
        "properties": {"text": {"type": "string"}},
        "required": ["text"],
    },
}


def answer(method: str, params: dict[str, Any]) -> dict[str, Any]:
    match method:
        case "initialize":
            return {
                "protocolVersion": params["protocolVersion"],
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "echo", "version": "1"},
            }
        case "tools/list":
            return {"tools": [TOOL]}
        case "tools/call":
            return {"content": [{"type": "text", "text": f"echo: {params['arguments']['text']}"}]}
        case _:
            return {}


def main() -> None:
    Path("mcp-started.txt").touch()
    for line in sys.stdin:
        message = json.loads(line)
        if "id" in message:
            result = answer(message["method"], message.get("params") or {})
            told = {"jsonrpc": "2.0", "id": message["id"], "result": result}
            sys.stdout.write(json.dumps(told) + "\n")
            sys.stdout.flush()


main()
