import pytest

from quarterdeck.models.catalogue import known_models, profile_of
from quarterdeck.models.errors import ModelSetupError
from quarterdeck.models.model import Prices
from tools.generate_catalogue import PATH, generate


def test_every_row_is_sound():
    names = known_models()
    assert len(names) > 30
    assert len(set(names)) == len(names)
    for name in names:
        vendor, _, id_ = name.partition("/")
        profile = profile_of(vendor, id_)
        info = profile.info
        assert info.known
        assert info.name == name
        assert 0 < info.max_output < info.window
        assert info.thinking == (profile.reasoning != "none")
        if info.prices:
            assert 0 < info.prices.cached <= info.prices.input <= info.prices.output
            assert info.prices.cache_written >= info.prices.input


def test_a_known_model_has_its_figures():
    info = profile_of("anthropic", "claude-opus-5-5").info
    assert (info.window, info.max_output, info.images) == (1_000_000, 128_000, True)
    assert info.prices == Prices(input=4.0, output=20.0, cached=0.4, cache_written=5.0)


@pytest.mark.parametrize(
    ("vendor", "dated", "plain"),
    [
        ("anthropic", "claude-haiku-4-5-20251001", "claude-haiku-4-5"),
        ("openai", "gpt-5.5-2026-04-23", "gpt-5.5"),
        ("ollama", "qwen3-coder:30b", "qwen3-coder"),
    ],
)
def test_a_dated_or_tagged_id_has_the_figures_of_the_plain_one(vendor: str, dated: str, plain: str):
    found = profile_of(vendor, dated).info
    assert found.known
    assert found.id == dated
    assert found.window == profile_of(vendor, plain).info.window


def test_models_of_openai_are_known_on_both_of_its_wires():
    assert profile_of("openai-chat", "gpt-6-sol").info.window == 1_050_000


@pytest.mark.parametrize(
    ("vendor", "window"), [("anthropic", 200_000), ("acme", 128_000), ("vllm", 128_000)]
)
def test_an_unknown_model_works_with_stated_defaults(vendor: str, window: int):
    info = profile_of(vendor, "unheard-of").info
    assert (info.known, info.window, info.prices, info.tools) == (False, window, None, True)


def test_the_users_figures_win():
    given = {
        "acme/x": {
            "window": 50_000,
            "max_output": 5_000,
            "images": True,
            "thinking": True,
            "tools": False,
            "prices": {"input": 1.0, "output": 2.0},
        }
    }
    profile = profile_of("acme", "x", given)
    info = profile.info
    assert (info.window, info.max_output, info.images, info.tools) == (50_000, 5_000, True, False)
    assert info.thinking
    assert profile.reasoning == "effort"
    assert info.known
    assert info.prices == Prices(input=1.0, output=2.0, cached=1.0, cache_written=1.0)


def test_one_figure_of_the_users_leaves_the_others():
    given = {"anthropic/claude-opus-5-5": {"prices": {"input": 3.0}, "thinking": False}}
    info = profile_of("anthropic", "claude-opus-5-5", given).info
    assert info.window == 1_000_000
    assert not info.thinking
    assert info.prices == Prices(input=3.0, output=20.0, cached=0.4, cache_written=5.0)


@pytest.mark.parametrize("given", [{"widnow": 1}, {"window": "big"}, {"reasoning": "deep"}])
def test_a_wrong_figure_names_the_model(given: dict[str, object]):
    with pytest.raises(ModelSetupError, match="acme/x"):
        profile_of("acme", "x", {"acme/x": given})


def test_what_is_read_is_what_people_edit():
    assert PATH.read_bytes() == generate(), "run .venv/bin/python tools/generate_catalogue.py"
