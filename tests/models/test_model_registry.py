import asyncio
import json

import pytest

from quarterdeck.models.errors import ModelSetupError
from quarterdeck.models.registry import (
    ModelName,
    ModelOptions,
    VendorOptions,
    choose_model_name,
    default_model_name,
    endpoint_of,
    local_models,
    make_model,
    parse_model_name,
)
from quarterdeck.models.vendors import VENDORS
from tests.support.http_server import Exchange, serving

EVERY_KEY = {
    name: f"key-of-{name}"
    for vendor in VENDORS.values()
    for name in (*vendor.key_names, *filter(None, (vendor.token_name,)))
}


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("anthropic/claude-opus-5-5", ModelName("anthropic", "claude-opus-5-5")),
        ("openrouter/anthropic/claude-x", ModelName("openrouter", "anthropic/claude-x")),
        ("ollama/qwen3:8b", ModelName("ollama", "qwen3:8b")),
        ("scripted/path/to.toml", ModelName("scripted", "path/to.toml")),
        ("pydantic-ai:groq:llama", ModelName("pydantic-ai", "groq:llama")),
        ("pydantic-ai/groq:llama", ModelName("pydantic-ai", "groq:llama")),
    ],
)
def test_name_is_split(text: str, name: ModelName):
    assert parse_model_name(text) == name


def test_the_same_id_under_two_vendors_is_two_models():
    assert parse_model_name("openai/gpt-6-sol") != parse_model_name("openai-chat/gpt-6-sol")
    models = [make_model(f"{v}/gpt-6-sol", EVERY_KEY) for v in ("openai", "openai-chat")]
    assert [model.info.name for model in models] == ["openai/gpt-6-sol", "openai-chat/gpt-6-sol"]


@pytest.mark.parametrize("text", ["", "nonsense", "anthropic/", "/x", "acme/x"])
def test_what_is_no_name_is_refused(text: str):
    with pytest.raises(ModelSetupError):
        parse_model_name(text)


def test_a_name_without_its_vendor_is_completed_in_the_message():
    with pytest.raises(ModelSetupError, match="did you mean anthropic/claude-opus-5-5"):
        parse_model_name("claude-opus-5-5")


def test_an_unknown_vendor_lists_the_known_ones():
    with pytest.raises(ModelSetupError, match=r"unknown vendor 'acme'.*anthropic.*ollama"):
        parse_model_name("acme/x")


@pytest.mark.parametrize(
    ("vendor", "variables"),
    [
        ("anthropic", "ANTHROPIC_API_KEY or ANTHROPIC_AUTH_TOKEN"),
        ("openai", "OPENAI_API_KEY"),
        ("openai-chat", "OPENAI_API_KEY"),
        ("google", "GEMINI_API_KEY or GOOGLE_API_KEY"),
        ("deepseek", "DEEPSEEK_API_KEY"),
        ("openrouter", "OPENROUTER_API_KEY"),
    ],
)
def test_a_missing_key_names_its_variable(vendor: str, variables: str):
    own = VENDORS[vendor]
    others = {k: v for k, v in EVERY_KEY.items() if k not in (*own.key_names, own.token_name)}
    with pytest.raises(ModelSetupError, match=f"set {variables}$"):
        make_model(f"{vendor}/x", others)


@pytest.mark.parametrize("vendor", VENDORS)
def test_no_vendor_gets_anothers_key(vendor: str):
    own = VENDORS[vendor]
    sent = str(endpoint_of(vendor, EVERY_KEY).headers)
    keys = {name for name, value in EVERY_KEY.items() if value in sent}
    assert keys <= {*own.key_names, own.token_name}
    assert len(keys) == 1


def test_a_vendor_of_the_users_gets_no_key_but_its_own():
    acme = ModelOptions(vendors={"acme": VendorOptions(base_url="https://acme.com/v1")})
    assert endpoint_of("acme", EVERY_KEY, acme).headers == {}
    keyed = ModelOptions(
        vendors={"acme": VendorOptions(base_url="https://acme.com", api_key_env="ACME_KEY")}
    )
    with pytest.raises(ModelSetupError, match=r"set ACME_KEY$"):
        endpoint_of("acme", EVERY_KEY, keyed)
    endpoint = endpoint_of("acme", {"ACME_KEY": "k"}, keyed)
    assert endpoint.headers == {"Authorization": "Bearer k"}


def test_a_vendor_of_the_users_speaks_the_wire_that_they_say():
    acme = ModelOptions(
        vendors={
            "acme": VendorOptions(
                base_url="https://acme.com/claude",
                wire="anthropic",
                api_key_env="ACME_KEY",
                headers={"X-Team": "7"},
            )
        }
    )
    endpoint = endpoint_of("acme", {"ACME_KEY": "k"}, acme)
    assert endpoint.base_url == "https://acme.com/claude/v1"
    assert endpoint.headers == {"anthropic-version": "2023-06-01", "x-api-key": "k", "X-Team": "7"}
    assert make_model("acme/x", {"ACME_KEY": "k"}, acme).info.name == "acme/x"


def test_a_vendor_of_the_users_without_an_address_is_refused():
    with pytest.raises(ModelSetupError, match="base_url"):
        endpoint_of("acme", {}, ModelOptions(vendors={"acme": VendorOptions()}))


def test_a_header_of_the_users_stands_for_a_key():
    given = ModelOptions(vendors={"openai": VendorOptions(headers={"Authorization": "Bearer x"})})
    assert endpoint_of("openai", {}, given).headers == {"Authorization": "Bearer x"}


@pytest.mark.parametrize(
    ("vendor", "variable", "value", "base_url"),
    [
        ("anthropic", "ANTHROPIC_BASE_URL", "http://h:1", "http://h:1/v1"),
        ("anthropic", "ANTHROPIC_BASE_URL", "http://h:1/v1/", "http://h:1/v1"),
        ("anthropic", "ANTHROPIC_BASE_URL", "http://h:1/proxy", "http://h:1/proxy/v1"),
        ("openai", "OPENAI_BASE_URL", "http://h:1/v1", "http://h:1/v1"),
        ("openai", "OPENAI_BASE_URL", "http://h:1/", "http://h:1/v1"),
        ("openai-chat", "OPENAI_BASE_URL", "http://h:1/api", "http://h:1/api"),
        ("google", "GEMINI_BASE_URL", "http://h:1", "http://h:1/v1beta"),
        ("google", "GOOGLE_GEMINI_BASE_URL", "http://h:1/v1beta", "http://h:1/v1beta"),
        ("google", "GEMINI_BASE_URL", "http://h:1/v1alpha", "http://h:1/v1alpha"),
        ("ollama", "OLLAMA_HOST", "0.0.0.0", "http://127.0.0.1:11434/v1"),
        ("ollama", "OLLAMA_HOST", "box:8888", "http://box:8888/v1"),
        ("ollama", "OLLAMA_HOST", "https://o.example.com", "https://o.example.com:443/v1"),
        ("ollama", "OLLAMA_BASE_URL", "http://h:1/v1", "http://h:1/v1"),
        ("vllm", "VLLM_BASE_URL", "http://h:1", "http://h:1/v1"),
        ("llamacpp", "LLAMACPP_BASE_URL", "http://h:1/v1", "http://h:1/v1"),
        ("lmstudio", "LMSTUDIO_BASE_URL", "http://h:1/v1", "http://h:1/v1"),
        ("litellm", "LITELLM_BASE_URL", "http://h:1", "http://h:1/v1"),
        ("deepseek", "DEEPSEEK_BASE_URL", "http://h:1", "http://h:1/v1"),
        ("openrouter", "OPENROUTER_BASE_URL", "http://h:1/api/v1", "http://h:1/api/v1"),
    ],
)
def test_address_is_the_environments(vendor: str, variable: str, value: str, base_url: str):
    assert endpoint_of(vendor, {**EVERY_KEY, variable: value}).base_url == base_url


def test_a_token_goes_where_tokens_go():
    token = {"ANTHROPIC_AUTH_TOKEN": "t"}
    assert endpoint_of("anthropic", token).headers["Authorization"] == "Bearer t"
    both = endpoint_of("anthropic", {**token, "ANTHROPIC_API_KEY": "k"}).headers
    assert both["x-api-key"] == "k"
    assert "Authorization" not in both


def test_space_around_a_key_is_no_part_of_it():
    assert endpoint_of("openai", {"OPENAI_API_KEY": " k\n"}).headers == {
        "Authorization": "Bearer k"
    }


def test_local_servers_need_no_key():
    for name in ("ollama", "llamacpp", "vllm", "lmstudio", "litellm"):
        assert endpoint_of(name, {}).headers == {}


def test_default_is_flag_then_variable_then_settings_then_first_key():
    options = ModelOptions(default="openai/from-settings")
    environment = {"QUARTERDECK_MODEL": "openai/from-variable", "GEMINI_API_KEY": "k"}
    assert default_model_name(environment, options, "openai/from-flag") == "openai/from-flag"
    assert default_model_name(environment, options) == "openai/from-variable"
    assert default_model_name({"GEMINI_API_KEY": "k"}, options) == "openai/from-settings"
    assert default_model_name({"GEMINI_API_KEY": "k"}) == "google/gemini-3.8-flash"
    both = {"OPENAI_API_KEY": "k", "ANTHROPIC_API_KEY": "k"}
    assert default_model_name(both) == "anthropic/claude-opus-5-5"
    assert default_model_name({"OPENAI_API_KEY": "  "}) is None


def test_default_models_exist():
    for vendor in VENDORS.values():
        if vendor.default_model:
            assert parse_model_name(f"{vendor.name}/{vendor.default_model}")
            if vendor.name != "openrouter":
                assert make_model(f"{vendor.name}/{vendor.default_model}", EVERY_KEY).info.known


async def test_a_server_on_this_machine_is_found():
    async def handler(exchange: Exchange) -> None:
        assert exchange.request.target == "/v1/models"
        data = {"object": "list", "data": [{"id": "qwen3:8b", "object": "model"}]}
        await exchange.reply(200, json.dumps(data).encode())

    async with serving(handler) as server:
        closed = {"LLAMACPP_BASE_URL": "http://127.0.0.1:9", "VLLM_BASE_URL": "http://127.0.0.1:9"}
        environment = {
            "OLLAMA_HOST": server.url,
            "LMSTUDIO_BASE_URL": "http://127.0.0.1:9",
            **closed,
        }
        assert await local_models(environment, timeout=5) == ["ollama/qwen3:8b"]
        assert await choose_model_name(environment) == "ollama/qwen3:8b"


async def test_only_this_machine_is_searched_and_not_for_long():
    async def handler(exchange: Exchange) -> None:
        await exchange.gone()

    async with serving(handler) as server:
        environment = {
            "OLLAMA_HOST": "http://192.0.2.1:1",
            "VLLM_BASE_URL": server.url,
            "LLAMACPP_BASE_URL": "http://127.0.0.1:9",
            "LMSTUDIO_BASE_URL": "http://127.0.0.1:9",
        }
        async with asyncio.timeout(45):
            assert await local_models(environment, timeout=0.2) == []


async def test_no_model_at_all_lists_the_ways_to_one():
    nobody = "http://127.0.0.1:9"
    servers = ("OLLAMA_HOST", "VLLM_BASE_URL", "LLAMACPP_BASE_URL", "LMSTUDIO_BASE_URL")
    environment = dict.fromkeys(servers, nobody)
    with pytest.raises(ModelSetupError) as caught:
        await choose_model_name(environment)
    for way in ("ANTHROPIC_API_KEY", "ollama", "--model", "QUARTERDECK_MODEL", "scripted/"):
        assert way in str(caught.value)


def test_figures_of_the_users_reach_the_model():
    options = ModelOptions(models={"ollama/qwen3:8b": {"window": 9_000, "max_output": 900}})
    assert make_model("ollama/qwen3:8b", {}, options).info.window == 9_000


def test_a_scripted_model_is_one():
    assert make_model("scripted/default", {}).info.vendor == "scripted"
