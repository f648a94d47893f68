"""Parsers of what people write: front matter and the places of a prompt."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quarterdeck.agent.frontmatter import problem_of, read_front_matter
from quarterdeck.agent.library.skills import fill_prompt, mentions

LINES = st.text(alphabet=st.sampled_from('ab:-# \n\t"[]|>$1@`é\r\ufeff'), max_size=80)


@settings(deadline=None, max_examples=200)
@given(LINES)
def test_no_file_breaks_the_reader(text: str):
    for whole in (text, f"---\n{text}", f"---\n{text}\n---\nbody"):
        problem_of(whole)
        read_front_matter(whole)


@settings(deadline=None, max_examples=100)
@given(
    st.dictionaries(
        st.from_regex(r"[a-z][a-z-]{0,8}", fullmatch=True),
        st.from_regex(r"[a-z][a-z ]{0,20}[a-z]", fullmatch=True),
    ),
    st.text(max_size=50),
)
def test_facts_that_are_well_written_are_read_as_written(facts: dict[str, str], body: str):
    whole = "\n".join(
        ["---", *(f"{key}: {value}" for key, value in facts.items()), "---", "x" + body]
    )
    assert problem_of(whole) == ""
    assert read_front_matter(whole).facts == facts


@settings(deadline=None, max_examples=200)
@given(st.text(max_size=40), st.text(max_size=40))
def test_filling_never_fails_and_puts_words_in_once(template: str, words: str):
    assert words in fill_prompt(f"{template} $ARGUMENTS", words)
    if "$" not in template:  # a numbered place takes one word only
        assert words in fill_prompt(template, words)
    assert fill_prompt(f"{template} $ARGUMENTS", words).count("$ARGUMENTS") == words.count(
        "$ARGUMENTS"
    )


@pytest.mark.parametrize(
    ("template", "words", "filled"),
    [
        ("Fix $ARGUMENTS!", "a b", "Fix a b!"),
        ("$2 before $1", "'a b' c", "c before a b"),
        ("$1 and $3", "one two", "one and "),
        ("$1", "don't stop", "don't"),
        ("costs $10 or $ARGUMENTSX", "", "costs $10 or $ARGUMENTSX"),
        ("$1", "$2 $ARGUMENTS", "$2"),
        ("no place", "words", "no place\n\nwords"),
        ("no place", "", "no place"),
    ],
)
def test_places_are_filled(template: str, words: str, filled: str):
    assert fill_prompt(template, words) == filled


def test_mentions_are_paths_after_an_at():
    text = "@a.md, @src/b.py. (@c) mail@d.e `@f` @@g @../h @~/i @a.md"
    assert mentions(text) == ("a.md", "src/b.py", "c", "../h", "~/i")
