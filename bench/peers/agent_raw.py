"""An agent that costs nothing: prepared bytes, blocking writes. What clients are measured with."""

import json
import sys

COUNT = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000


def chunk(number: int) -> bytes:
    update = {
        "sessionUpdate": "agent_message_chunk",
        "content": {"type": "text", "text": f"token {number} of the answer "},
        "messageId": "msg-1",
    }
    params = {"sessionId": "s1", "update": update}
    return json.dumps({"jsonrpc": "2.0", "method": "session/update", "params": params}).encode()


FLOOD = b"".join(chunk(number) + b"\n" for number in range(COUNT))
RESULTS = {
    "initialize": {"protocolVersion": 1, "agentCapabilities": {}, "authMethods": []},
    "session/new": {"sessionId": "s1"},
    "session/prompt": {"stopReason": "end_turn"},
}

for line in sys.stdin.buffer:
    request = json.loads(line)
    if request["method"] == "session/prompt":
        sys.stdout.buffer.write(FLOOD)
    answer = {"jsonrpc": "2.0", "id": request["id"], "result": RESULTS[request["method"]]}
    sys.stdout.buffer.write(json.dumps(answer).encode() + b"\n")
    sys.stdout.buffer.flush()
