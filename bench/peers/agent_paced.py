"""An agent that speaks at a pace: each chunk says when it was written. Its prompt: SECONDS RATE."""

import json
import sys
import time

RESULTS = {
    "initialize": {"protocolVersion": 1, "agentCapabilities": {}, "authMethods": []},
    "session/new": {"sessionId": "s1"},
    "session/prompt": {"stopReason": "end_turn"},
}


def say(message: dict[str, object]) -> None:
    sys.stdout.buffer.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
    sys.stdout.buffer.flush()


def speak(seconds: float, rate: float) -> None:
    begun = time.monotonic()
    for number in range(int(seconds * rate)):
        time.sleep(max(0.0, begun + number / rate - time.monotonic()))
        update = {
            "sessionUpdate": "agent_message_chunk",
            "content": {"type": "text", "text": f"{time.time_ns()} "},
        }
        say({"method": "session/update", "params": {"sessionId": "s1", "update": update}})


for line in sys.stdin.buffer:
    request = json.loads(line)
    if request["method"] == "session/prompt":
        duration, pace = request["params"]["prompt"][0]["text"].split()
        speak(float(duration), float(pace))
    if "id" in request:
        say({"id": request["id"], "result": RESULTS.get(request["method"], {})})
