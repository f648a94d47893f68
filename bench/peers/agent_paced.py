"""An agent that speaks at a pace. Its prompt is SECONDS RATE, and each chunk says when it was
written; or SECONDS RATE prose, and it tells a story.
"""

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


STORY = "the parser drops an offset before it compares dates so `read` keeps it now and"
WORDS = STORY.split(" ")


def words_of(number: int) -> str:
    """Some twenty characters of prose; a new paragraph now and then."""
    told = " ".join(WORDS[(number * 7 + step * 3) % len(WORDS)] for step in range(4))
    return f"{told}.\n\n" if number % 40 == 39 else f"{told} "


def speak(seconds: float, rate: float, is_prose: bool) -> None:
    begun = time.monotonic()
    for number in range(int(seconds * rate)):
        time.sleep(max(0.0, begun + number / rate - time.monotonic()))
        text = words_of(number) if is_prose else f"{time.time_ns()} "
        update = {
            "sessionUpdate": "agent_message_chunk",
            "content": {"type": "text", "text": text},
        }
        say({"method": "session/update", "params": {"sessionId": "s1", "update": update}})


for line in sys.stdin.buffer:
    request = json.loads(line)
    if request["method"] == "session/prompt":
        duration, pace, *kind = request["params"]["prompt"][0]["text"].split()
        speak(float(duration), float(pace), kind == ["prose"])
    if "id" in request:
        say({"id": request["id"], "result": RESULTS.get(request["method"], {})})
