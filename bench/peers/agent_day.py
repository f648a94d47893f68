"""An agent that works: its prompt is STEPS CHUNKS [ask], and each step has a tool call and so many
pieces of a message. With ``ask``, it needs a permission before its first step.
"""

import json
import sys

RESULTS = {
    "initialize": {"protocolVersion": 1, "agentCapabilities": {}, "authMethods": []},
    "session/new": {"sessionId": "s1"},
    "session/prompt": {"stopReason": "end_turn"},
}
STORY = "the parser drops an offset before it compares dates so read keeps it now and"
WORDS = STORY.split(" ")
OUTPUT = "".join(f"line {number}: a result of a tool\n" for number in range(12))


def say(*messages: dict[str, object]) -> None:
    lines = (json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n" for message in messages)
    sys.stdout.buffer.write(b"".join(lines))
    sys.stdout.buffer.flush()


def update(**fields: object) -> dict[str, object]:
    return {"method": "session/update", "params": {"sessionId": "s1", "update": fields}}


def text(words: str) -> dict[str, str]:
    return {"type": "text", "text": words}


def ask(number: int) -> None:
    """Ask for permission and wait for the answer."""
    options = [
        {"optionId": "yes", "name": "Allow", "kind": "allow_once"},
        {"optionId": "no", "name": "Deny", "kind": "reject_once"},
    ]
    call = {"toolCallId": f"ask-{number}", "title": "Change a file", "kind": "edit"}
    params = {"sessionId": "s1", "toolCall": call, "options": options}
    say({"id": f"ask-{number}", "method": "session/request_permission", "params": params})
    while json.loads(sys.stdin.buffer.readline()).get("id") != f"ask-{number}":
        pass


def step(number: int, chunks: int) -> None:
    call = f"call-{number}"
    title = f"Read file{number % 97}.txt"
    messages = [
        update(sessionUpdate="tool_call", toolCallId=call, title=title, kind="read"),
        update(
            sessionUpdate="tool_call_update",
            toolCallId=call,
            status="completed",
            content=[{"type": "content", "content": text(OUTPUT)}],
        ),
    ]
    for piece in range(chunks):
        words = " ".join(WORDS[(number + piece * 7 + n * 3) % len(WORDS)] for n in range(4))
        messages.append(update(sessionUpdate="agent_message_chunk", content=text(f"{words} ")))
    say(*messages)


done = 0
for line in sys.stdin.buffer:
    request = json.loads(line)
    if request.get("method") == "session/prompt":
        steps, chunks, *more = request["params"]["prompt"][0]["text"].split()
        if more == ["ask"]:
            ask(done)
        for _ in range(int(steps)):
            done += 1
            step(done, int(chunks))
    if "id" in request and "method" in request:
        say({"id": request["id"], "result": RESULTS.get(request["method"], {})})
