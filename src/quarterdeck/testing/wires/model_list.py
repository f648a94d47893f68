"""What agents ask of a model server besides replies: models, token counts, signs of life."""

from typing import Any

from quarterdeck.testing.wires.openai_chat import CREATED

__all__ = ["MODELS", "list_answer"]

MODELS = ("scripted-1", "scripted-2")
"""The models that the server says it has; it answers to every other name too."""


def list_answer(method: str, path: str, size: int) -> tuple[int, dict[str, Any]]:
    """Status and body for a request that no script answers; ``size`` is that of its body."""
    if path.endswith("/count_tokens"):
        return 200, {"input_tokens": -(-size // 4)}
    if path.endswith(":countTokens"):
        return 200, {"totalTokens": -(-size // 4)}
    if path.endswith("/models"):
        return 200, _gemini_models() if "/v1beta" in path else _models()
    if path.endswith("/api/tags"):
        return 200, {"models": [{"name": f"{m}:latest", "model": f"{m}:latest"} for m in MODELS]}
    if path.endswith("/api/version"):
        return 200, {"version": "0.0.0-scripted"}
    if path in ("", "/health") or method == "HEAD":
        return 200, {"status": "ok"}
    if any(f"/models/{model}" in path for model in MODELS):
        return 200, _model(path.rpartition("/")[2])
    message = f"nothing is at {method} {path}"
    return 404, {"type": "error", "error": {"type": "not_found_error", "message": message}}


def _models() -> dict[str, Any]:
    """OpenAI's and Anthropic's list in one; ``models`` is what Codex looks for."""
    return {
        "object": "list",
        "data": [_model(name) for name in MODELS],
        "models": [],
        "has_more": False,
        "first_id": MODELS[0],
        "last_id": MODELS[-1],
    }


def _model(name: str) -> dict[str, Any]:
    return {
        "id": name,
        "type": "model",
        "object": "model",
        "display_name": name,
        "created_at": "2026-01-01T00:00:00Z",
        "created": CREATED,
        "owned_by": "quarterdeck",
    }


def _gemini_models() -> dict[str, Any]:
    methods = ["generateContent", "countTokens"]
    return {
        "models": [
            {
                "name": f"models/{name}",
                "displayName": name,
                "inputTokenLimit": 200_000,
                "outputTokenLimit": 32_000,
                "supportedGenerationMethods": methods,
            }
            for name in MODELS
        ]
    }
