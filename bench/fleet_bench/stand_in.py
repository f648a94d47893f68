"""The agent that clients are measured with: it does what its prompt says, and notes when.

``stream N``: N numbered words, a piece each. ``speak SECONDS RATE``: pieces at a pace.
``entries N``: N messages, each with an id of its own. ``ask WORD``: a permission request with this
title. Anything else is said back. It also plays the scenes of the scripted model, as an agent
without a model would. Arguments: a file to which moments are appended, as JSON lines with the
seconds of the monotonic clock, which all processes of a machine share (``-``: none); and the words
of ``scene:stream``.
"""

import json
import sys
import time

RESULTS = {
    "initialize": {"protocolVersion": 1, "agentCapabilities": {}, "authMethods": []},
    "session/new": {"sessionId": "s1"},
    "session/prompt": {"stopReason": "end_turn"},
}
_GATHERED = 100


def send(*messages: dict[str, object]) -> None:
    """Write messages at once."""
    lines = (json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n" for message in messages)
    sys.stdout.buffer.write(b"".join(lines))
    sys.stdout.buffer.flush()


def make_chunk(words: str, message: str = "m1") -> dict[str, object]:
    """A piece of a message."""
    content = {"type": "text", "text": words}
    update = {"sessionUpdate": "agent_message_chunk", "content": content, "messageId": message}
    return {"method": "session/update", "params": {"sessionId": "s1", "update": update}}


def note(what: str) -> None:
    """Append a moment to the file."""
    if sys.argv[1:2] not in ([], ["-"]):
        with open(sys.argv[1], "a", encoding="utf-8") as file:  # noqa: PTH123 - a slow import
            file.write(json.dumps({"what": what, "at": time.monotonic()}) + "\n")


def say_many(count: int, *, whole: bool) -> None:
    """Numbered words; with ``whole`` each is a message of its own."""
    for start in range(1, count + 1, _GATHERED):
        numbers = range(start, min(start + _GATHERED, count + 1))
        send(*(make_chunk(f"no{n} ", f"m{n}" if whole else "m1") for n in numbers))


def speak(seconds: float, rate: float) -> None:
    """Pieces at a pace."""
    begun = time.monotonic()
    for number in range(int(seconds * rate)):
        time.sleep(max(0.0, begun + number / rate - time.monotonic()))
        send(make_chunk(f"word {number} of a long story, "))


def ask(word: str) -> None:
    """Ask for permission and wait for the answer, which may never come."""
    kinds = (("yes", "Allow", "allow_once"), ("no", "Deny", "reject_once"))
    options = [{"optionId": one, "name": name, "kind": kind} for one, name, kind in kinds]
    call = {"toolCallId": "c1", "title": word, "kind": "edit"}
    params = {"sessionId": "s1", "toolCall": call, "options": options}
    note(word)
    send({"id": "ask", "method": "session/request_permission", "params": params})
    for line in sys.stdin.buffer:
        if json.loads(line).get("id") == "ask":
            return


def act(prompt: str) -> None:
    """Do what a prompt says."""
    match prompt.split():
        case ["stream", count]:
            say_many(int(count), whole=False)
        case ["entries", count]:
            say_many(int(count), whole=True)
        case ["speak", seconds, rate]:
            speak(float(seconds), float(rate))
        case ["ask", word]:
            ask(word)
        case ["scene:stream"]:
            say_many(int(sys.argv[2]), whole=False)
        case ["scene:ask"]:
            ask("touch asked.txt")
        case ["scene:text"]:
            send(make_chunk("Hello from the scripted model."))
        case _:
            send(make_chunk(prompt))


def main() -> None:
    """Answer until the input ends."""
    for line in sys.stdin.buffer:
        try:
            request = json.loads(line)
        except ValueError:
            continue
        if request.get("method") == "session/prompt":
            note("prompt")
            act(request["params"]["prompt"][0]["text"])
        if "id" in request and "method" in request:
            send({"id": request["id"], "result": RESULTS.get(request["method"], {})})


if __name__ == "__main__":
    main()
