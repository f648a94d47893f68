from hypothesis import given, settings

from quarterdeck.models.history_repair import repair_history, seal_signature
from quarterdeck.wire.conversation import (
    ImagePart,
    Message,
    OpaquePart,
    Part,
    TextPart,
    ThinkingPart,
    ToolResultPart,
    ToolUsePart,
)
from tests.support.model_histories import PIXEL, histories, said

OWNER = "anthropic/claude-opus-5-5"


def call(id_: str, name: str = "bash") -> ToolUsePart:
    return ToolUsePart(id=id_, name=name, arguments="{}")


def result(id_: str, text: str = "done") -> ToolResultPart:
    return ToolResultPart(id=id_, content=(TextPart(text=text),))


def user(*parts: Part) -> Message:
    return Message(role="user", parts=parts)


def model(*parts: Part) -> Message:
    return Message(role="assistant", parts=parts)


def repaired(*messages: Message, has_strict_ids: bool = False) -> list[Message]:
    return repair_history(messages, owner=OWNER, has_strict_ids=has_strict_ids)


def test_a_sound_history_stays_as_it_is():
    history = [
        said("go"),
        model(TextPart(text="ok"), call("a"), call("b")),
        user(result("a"), result("b")),
        model(TextPart(text="done")),
        said("thanks"),
    ]
    assert repaired(*history) == history


def test_a_call_without_a_result_gets_one_that_says_so():
    _, _, answer = repaired(said("go"), model(call("a"), call("b")), user(result("b")))
    first, second = answer.parts
    assert isinstance(first, ToolResultPart)
    assert (first.id, first.is_error) == ("a", True)
    assert second == result("b")


def test_a_call_at_the_very_end_gets_a_result():
    *_, last = repaired(said("go"), model(call("a")))
    assert last.role == "user"
    assert isinstance(last.parts[0], ToolResultPart)


def test_a_result_without_a_call_is_told_in_words():
    image = ImagePart(data=PIXEL, mime_type="image/png")
    lost = ToolResultPart(id="", content=(TextPart(text="42"), image))
    (message,) = repaired(user(lost, TextPart(text="and?")))
    *_, text, picture, said_ = message.parts
    assert (text, picture, said_) == (TextPart(text="42"), image, TextPart(text="and?"))
    assert not any(isinstance(part, ToolResultPart) for part in message.parts)


def test_results_come_first_and_in_the_order_of_the_calls():
    history = (
        said("go"),
        model(call("a"), call("b")),
        user(TextPart(text="wait"), result("b")),
        user(result("a")),
    )
    *_, last = repaired(*history)
    assert last.parts == (result("a"), result("b"), TextPart(text="wait"))


def test_equal_ids_are_told_apart_and_keep_their_results():
    history = (
        said("go"),
        model(call("a"), call("a")),
        user(result("a", "first"), result("a", "second")),
        model(call("a")),
        user(result("a", "third")),
    )
    _, first, answers, second, last = repaired(*history)
    ids = [part.id for m in (first, second) for part in m.parts if isinstance(part, ToolUsePart)]
    assert len(set(ids)) == 3
    given_ = [part for m in (answers, last) for part in m.parts if isinstance(part, ToolResultPart)]
    assert [part.id for part in given_] == ids
    texts = [part.content[0].text for part in given_ if isinstance(part.content[0], TextPart)]
    assert texts == ["first", "second", "third"]


def test_ids_and_names_are_made_of_what_vendors_allow():
    history = (
        said("go"),
        model(call("functions.bash:0", "not a name!")),
        user(result("functions.bash:0")),
    )
    _, said_, answer = repaired(*history, has_strict_ids=True)
    assert said_.parts == (call("functions_bash_0", "not_a_name_"),)
    assert answer.parts == (result("functions_bash_0"),)
    _, loose, _ = repaired(*history)
    assert loose.parts == (call("functions.bash:0", "not_a_name_"),)


def test_thinking_of_another_model_is_dropped_and_ones_own_is_kept():
    own = ThinkingPart(text="mine", vendor=OWNER, signature="s")
    foreign = ThinkingPart(text="theirs", vendor="openai/gpt-6-sol", signature="s")
    opaque = OpaquePart(vendor="openai/gpt-6-sol", raw={"type": "x"})
    _, answer, _ = repaired(said("go"), model(foreign, own, opaque, TextPart(text="so")))
    assert answer.parts == (own, TextPart(text="so"))


def test_signatures_lose_their_seal_for_their_owner_and_vanish_for_others():
    text = TextPart(text="a", signature=seal_signature(OWNER, "sig"))
    _, own, _ = repaired(said("go"), model(text))
    assert own.parts == (TextPart(text="a", signature="sig"),)
    _, other, _ = repair_history((said("go"), model(text)), owner="google/x")
    assert other.parts == (TextPart(text="a"),)


def test_empty_texts_and_messages_vanish_and_neighbours_are_joined():
    history = (said("a"), model(TextPart(text=" \n")), user(), said("b"))
    assert repaired(*history) == [user(TextPart(text="a"), TextPart(text="b"))]


def test_an_empty_result_says_so():
    history = (said("go"), model(call("a")), user(ToolResultPart(id="a", content=())))
    *_, last = repaired(*history)
    (part,) = last.parts
    assert isinstance(part, ToolResultPart)
    assert part.content


def test_a_history_begins_and_ends_with_the_user():
    roles = [m.role for m in repaired(model(TextPart(text="summary")))]
    assert roles == ["user", "assistant", "user"]
    assert [m.role for m in repaired()] == ["user"]


@settings(deadline=None, max_examples=60)
@given(histories)
def test_stored_history_is_untouched_and_the_repair_is_stable(history: tuple[Message, ...]):
    before = repr(history)
    once = repair_history(history, owner=OWNER, has_strict_ids=True)
    assert repr(history) == before
    assert once == repair_history(history, owner=OWNER, has_strict_ids=True)


@settings(deadline=None, max_examples=60)
@given(histories)
def test_every_call_has_exactly_one_result_in_the_next_message(history: tuple[Message, ...]):
    messages = repair_history(history, owner=OWNER)
    for message, following in zip(messages, [*messages[1:], None], strict=True):
        calls = [part.id for part in message.parts if isinstance(part, ToolUsePart)]
        if calls:
            assert following is not None
            results = [p.id for p in following.parts if isinstance(p, ToolResultPart)]
            assert results == calls
