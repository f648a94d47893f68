import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quarterdeck.models.errors import StreamBrokenError
from quarterdeck.models.http_client import ServerEvent, VendorEventDecoder


def decoded(*pieces: bytes) -> list[ServerEvent]:
    decoder = VendorEventDecoder()
    events = [event for piece in pieces for event in decoder.feed(piece)]
    return events + decoder.end()


def test_event_name_and_data_are_given():
    assert decoded(b"event: ping\ndata: {}\n\n") == [ServerEvent("ping", "{}")]


def test_data_lines_of_one_event_are_joined():
    assert decoded(b"data: a\ndata:b\ndata:  c\n\n") == [ServerEvent("", "a\nb\n c")]


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_every_line_ending_is_one(end: bytes):
    stream = end.join([b"data: a", b"", b"data: b", b"", b""])
    assert decoded(stream) == [ServerEvent("", "a"), ServerEvent("", "b")]


def test_comments_unknown_fields_and_a_byte_order_mark_are_skipped():
    stream = b"\xef\xbb\xbf: hello\nid: 7\nretry: 3\nnonsense\ndata: a\n\n: bye\n\n"
    assert decoded(stream) == [ServerEvent("", "a", "7", 3)]


def test_last_event_counts_without_its_blank_line():
    assert decoded(b"data: [DONE]") == [ServerEvent("", "[DONE]")]


def test_bytes_that_are_no_text_harm_only_their_own_character():
    assert decoded(b"data: a\xffb\n\n") == [ServerEvent("", "a�b")]


def test_an_endless_event_is_refused():
    decoder = VendorEventDecoder(limit=100)
    with pytest.raises(StreamBrokenError, match="larger than 100"):
        for _ in range(20):
            decoder.feed(b"data: 0123456789\n")


def test_an_endless_line_is_refused():
    decoder = VendorEventDecoder(limit=100)
    with pytest.raises(StreamBrokenError, match="larger than 100"):
        for _ in range(20):
            decoder.feed(b"0123456789")


@settings(deadline=None, max_examples=150)
@given(
    st.lists(st.text(st.characters(exclude_characters="\r\n", exclude_categories=["Cs"]))),
    st.sampled_from(["\n", "\r\n", "\r"]),
    st.data(),
)
def test_any_cut_of_the_bytes_gives_the_same_events(
    texts: list[str], end: str, data: st.DataObject
):
    stream = "".join(f"event: e{end}data: {text}{end}{end}" for text in texts).encode()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=8)))
    pieces = [stream[a:b] for a, b in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    assert decoded(*pieces) == [ServerEvent("e", text) for text in texts]


def test_the_last_id_and_the_wish_when_to_come_back_are_told_with_each_event() -> None:
    stream = b"id: 7\ndata:\n\ndata: a\n\nretry: 250\nid: x\0y\ndata: b\n\nretry: soon\ndata: c\n\n"
    assert decoded(stream) == [
        ServerEvent("", "", "7"),
        ServerEvent("", "a", "7"),
        ServerEvent("", "b", "7", 250),
        ServerEvent("", "c", "7", 250),
    ]
