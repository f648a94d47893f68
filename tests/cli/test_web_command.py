"""``quarterdeck web``: the life of the server, pairing, devices."""

import json
import urllib.request
from pathlib import Path

import pytest

from tests.cli.conftest import Run

pytest.importorskip("starlette")


def test_it_starts_pairs_and_stops(run: Run):
    assert run("web", "status").returncode == 3
    assert "web start" in run("web", "pair").stderr
    started = run("web", "start", "--port", "0", "--json")
    assert started.returncode == 0, started.stderr
    try:
        url = json.loads(started.stdout)["url"]
        again = run("web", "start", "--port", "0")
        assert again.returncode == 1 and url in again.stderr
        paired = run("web", "pair", "--role", "viewer", "--person", "Ann")
        link = next(word for word in paired.stdout.split() if "/pair#" in word)
        assert "on this machine alone" in paired.stdout
        assert link.startswith(f"{url}/pair#") and "viewer" in paired.stdout
        body = json.dumps({"code": link.partition("#")[2], "name": "phone"}).encode()
        headers = {"content-type": "application/json", "origin": url}
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        asked = urllib.request.Request(f"{url}/api/v1/pair", body, headers)
        with opener.open(asked, timeout=20) as answer:
            assert json.loads(answer.read())["device"]["person"] == "Ann"
        (device,) = json.loads(run("web", "devices", "--json").stdout)
        assert (device["name"], device["role"]) == ("phone", "viewer")
        status = run("web", "status")
        assert status.returncode == 0 and url in status.stdout
        assert "phone" in run("web", "revoke", device["id"]).stdout
        assert "No device" in run("web", "devices").stdout
    finally:
        stopped = run("web", "stop")
    assert stopped.returncode == 0, stopped.stderr
    assert run("web", "stop").returncode == 3


def test_a_key_for_a_program_is_shown_once(run: Run):
    made = run("web", "pair", "--program", "script", "--role", "viewer", "--json")
    key = json.loads(made.stdout)["key"]
    assert key not in run("web", "devices", "--json").stdout
    assert run("web", "revoke", "nothing").returncode == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--address", "0.0.0.0"], "HTTPS"),
        (["--behind-proxy"], "--url"),
        (["--certificate", "c.pem"], "--key"),
    ],
)
def test_what_is_not_safe_is_refused_before_anything_starts(run: Run, words, said: str):
    refused = run("web", "start", "--port", "0", *words)
    assert refused.returncode == 1 and said in refused.stderr
    assert run("web", "status").returncode == 3


def test_without_the_extra_it_says_how_to_install_it(run: Run, tmp_path: Path):
    hook = tmp_path / "sitecustomize.py"
    hook.write_text(
        "import sys\n"
        "class Block:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.partition('.')[0] in ('starlette', 'uvicorn'):\n"
        "            raise ModuleNotFoundError(f'No module named {name!r}', name=name)\n"
        "sys.meta_path.insert(0, Block())\n"
    )
    for words in (["web", "start", "--port", "0"], ["web", "run", "--port", "0"]):
        refused = run(*words, PYTHONPATH=str(tmp_path))
        assert refused.returncode == 1
        assert "pip install" in refused.stderr and "web" in refused.stderr, refused.stderr
