"""A session's gate: the configuration of its directory, and what was asked for with it."""

from pathlib import Path

import pytest

from quarterdeck.config.places import Places
from quarterdeck.fleet.permissions.session_gate import make_gate
from quarterdeck.policy.call import Call
from quarterdeck.policy.errors import RuleError


@pytest.fixture
def places(tmp_path: Path) -> Places:
    return Places.find({"QUARTERDECK_HOME": str(tmp_path / "home")})


async def test_rules_of_the_user_and_of_the_session_both_hold(
    places: Places, tmp_path: Path
) -> None:
    places.config.mkdir(parents=True)
    places.config_file.write_text('[permissions]\ndeny = ["bash(rm:*)"]\n')
    gate, around = await make_gate(
        places, {"HOME": "/home/u"}, str(tmp_path), mode=None, deny=("bash(curl:*)",)
    )

    async def why(command: str) -> str | None:
        call = Call(tool="bash", kind="execute", command=command, cwd=around.cwd)
        return await gate.forbids(call)

    assert await why("rm x") is not None
    assert await why("curl x") is not None
    assert await why("ls") is None
    assert gate.mode == "ask"
    assert around.home == "/home/u"
    assert around.roots == (str(tmp_path),)


async def test_a_given_mode_outranks_the_configured_one(places: Places, tmp_path: Path) -> None:
    places.config.mkdir(parents=True)
    places.config_file.write_text('mode = "plan"\n')

    configured, _ = await make_gate(places, {}, str(tmp_path), mode=None)
    given, _ = await make_gate(places, {}, str(tmp_path), mode="read-only")

    assert (configured.mode, given.mode) == ("plan", "read-only")


async def test_a_rule_that_cannot_be_read_is_refused(places: Places, tmp_path: Path) -> None:
    with pytest.raises(RuleError, match="bish"):
        await make_gate(places, {}, str(tmp_path), mode=None, allow=("bish(x)",))
