"""What agents may be called."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quarterdeck.fleet.errors import InvalidAgentNameError, NameTakenError
from quarterdeck.fleet.names import check_name, choose_free_name, normalize_name
from quarterdeck.wire.ids import SessionId


@pytest.mark.parametrize("name", ["a", "claude-1", "Zoë", "日本語", "v1.2_x", "9", "a" * 40])
def test_ordinary_names_of_any_script_are_names(name: str):
    assert check_name(name) == name


@pytest.mark.parametrize(
    "name",
    [
        *("", " ", "a b", "-rf", ".hidden", "..", "../x", "a/b", "a\\b", "a" * 41, "_x"),
        *("a\nb", "a\x00", "a\x1b[31m", "a\u202eb", "a\u2066b", "a\u200bb", "a:b", "$(x)", "~"),
        str(SessionId("ses_01m7hrth9dxd2p5eq357b92e1s")),
    ],
)
def test_what_could_lead_astray_is_no_name(name: str):
    with pytest.raises(InvalidAgentNameError):
        check_name(name)


@settings(deadline=None, max_examples=300)
@given(st.text(max_size=50))
def test_no_name_leaves_its_directory_or_hides_anything(text: str):
    try:
        name = check_name(text)
    except InvalidAgentNameError:
        return
    assert name.isprintable()
    assert not set(name) & set("/\\:\x00 ~$`'\"*?<>|")
    assert name[0].isalnum()


def test_the_same_letters_are_the_same_name():
    assert check_name("Zoe\u0308") == "Zoë"
    assert normalize_name("ANN") == normalize_name("ann")
    with pytest.raises(NameTakenError, match="'ANN'"):
        choose_free_name("ANN", "claude", {"ann"})


def test_a_name_is_made_of_the_agents_and_the_first_free_number():
    assert choose_free_name(None, "claude", set()) == "claude-1"
    assert choose_free_name(None, "claude", {"claude-1", "claude-3"}) == "claude-2"
    assert check_name(choose_free_name(None, "../" * 30, set()))
