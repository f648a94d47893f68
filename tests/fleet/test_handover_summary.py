"""What an agent is told of another's session is whole, whether its pieces have ids or not."""

from quarterdeck.fleet.sessions.handover import HandoverSummary
from quarterdeck.wire.content import text
from quarterdeck.wire.events import (
    MessageChunk,
    NoticePosted,
    Prompted,
    ThoughtChunk,
    ToolCallEnded,
    ToolCallStarted,
)


def summary(*events) -> str:
    portable = HandoverSummary()
    for event in events:
        portable.take(event)
    return portable.text()


def say(words: str, message: str | None = None, role: str = "agent") -> MessageChunk:
    return MessageChunk(content=text(words), message=message, role=role)


def test_pieces_without_ids_are_one_answer():
    told = summary(
        Prompted(message="m0", content=(text("go"),)), say("I fixed "), say("the "), say("bug.")
    )
    assert told.endswith("The last answer:\nI fixed the bug.")


def test_what_comes_between_begins_another_answer():
    call = ToolCallStarted(call="c1", title="Edit", kind="edit")
    ended = ToolCallEnded(call="c1", status="completed")
    told = summary(say("Let me "), say("see."), call, ended, say("Done "), say("now."))
    assert told.endswith("The last answer:\nDone now.")
    told = summary(say("First."), ThoughtChunk(content=text("hm")), say("Sec"), say("ond."))
    assert told.endswith("The last answer:\nSecond.")


def test_what_is_not_said_does_not_part_an_answer():
    told = summary(say("Do"), NoticePosted(title="slow"), say("echo", role="user"), say("ne."))
    assert told.endswith("The last answer:\nDone.")


def test_an_answer_whose_first_piece_alone_has_an_id_is_one():
    assert summary(say("Do", "m1"), say("ne.")).endswith("The last answer:\nDone.")
    assert summary(say("Do"), say("ne.", "m1")).endswith("The last answer:\nDone.")


def test_ids_that_differ_part_answers():
    assert summary(say("One.", "m1"), say("Two.", "m2")).endswith("The last answer:\nTwo.")
