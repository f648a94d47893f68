import json
from pathlib import Path

import pytest


@pytest.fixture
def project(work: Path) -> Path:
    (work / ".git").mkdir()
    (work / ".quarterdeck").mkdir()
    (work / ".quarterdeck/config.toml").write_text("mode = 'full-auto'\neffort = 'low'\n")
    return work


def shown(text: str) -> dict[str, tuple[object, str]]:
    return {row["key"]: (row["value"], row["layer"]) for row in json.loads(text)["settings"]}


def test_every_setting_is_shown_with_its_layer(run, project: Path):
    done = run("config", "show", "--json", QUARTERDECK_MODEL="v/m")
    rows = shown(done.stdout)
    assert done.returncode == 0
    assert rows["model"] == ("v/m", "environment")
    assert rows["mode"] == ("ask", "default")
    assert rows["effort"] == ("low", "project")
    assert len(json.loads(done.stdout)["notices"]) == 1


def test_what_is_ignored_is_told_beside_the_output(run, project: Path):
    done = run("config", "show")
    assert "mode: ignored until you trust" in done.stderr
    assert "until you trust" not in done.stdout


def test_a_project_counts_in_full_once_it_is_trusted(run, project: Path):
    assert run("config", "trust").stdout == f"trusted: {project}\n"
    assert run("config", "trust", "--list").stdout == f"{project}\n"
    done = run("config", "show", "--json")
    assert shown(done.stdout)["mode"] == ("full-auto", "project")
    assert run("config", "trust", "--revoke").stdout == f"no longer trusted: {project}\n"
    assert run("config", "trust", "--revoke").stdout == f"was not trusted: {project}\n"
    assert shown(run("config", "show", "--json").stdout)["mode"] == ("ask", "default")


def test_check_names_the_files_that_are_fine(run, project: Path):
    done = run("config", "check")
    assert done.returncode == 0
    assert done.stdout == f"ok: {project}/.quarterdeck/config.toml (project)\n"
    (project / ".quarterdeck/config.toml").write_text("mode = [\n")
    done = run("config", "check")
    assert (done.returncode, done.stdout) == (1, "")
    assert "line 2, column 1" in done.stderr


def test_paths_are_told_in_both_forms(run, environ: dict[str, str], project: Path):
    done = run("config", "path", "--json")
    told = json.loads(done.stdout)
    assert told["user_file"] == f"{environ['HOME']}/.config/quarterdeck/config.toml"
    assert told["project_file"] == f"{project}/.quarterdeck/config.toml"
    lines = run("config", "path").stdout.splitlines()
    assert lines[0] == f"user file     {told['user_file']}  (missing)"
    assert not Path(environ["HOME"], ".config").exists()


def test_secrets_are_not_shown(run, environ: dict[str, str]):
    path = Path(environ["HOME"]) / "config.toml"
    path.write_text("[vendors.x.headers]\nAuthorization = 'Bearer sk-1'\n")
    for form in ([], ["--json"]):
        done = run("config", "show", *form, QUARTERDECK_HOME=environ["HOME"])
        assert "sk-1" not in done.stdout + done.stderr
        assert "***" in done.stdout


def test_a_setting_is_changed_and_taken_back(run, environ: dict[str, str], work: Path):
    file = f"{environ['HOME']}/.config/quarterdeck/config.toml"
    done = run("config", "set", "mode", "plan")
    assert done.stdout == (
        f'{file}: mode = "plan"\ntakes effect for agents that start from now on\n'
    )
    assert shown(run("config", "show", "--json").stdout)["mode"] == ("plan", "user")
    done = run("config", "set", "host.idle_minutes", "5")
    assert "after a restart of the host" in done.stdout
    assert run("config", "set", "mode", "ask", QUARTERDECK_MODE="plan").stdout.endswith(
        "has no effect here: QUARTERDECK_MODE sets it too\n"
    )
    assert run("config", "unset", "mode").stdout.startswith(f"{file}: mode is no longer set\n")
    assert run("config", "unset", "mode").stdout == f"{file}: mode was not set\n"
    assert shown(run("config", "show", "--json").stdout)["mode"] == ("ask", "default")


def test_a_setting_of_a_project_waits_for_trust(run, project: Path):
    done = run("config", "set", "mode", "plan", "--scope", "local")
    assert done.stdout.endswith("once you trust this workspace: quarterdeck config trust\n")
    assert (project / ".quarterdeck/config.local.toml").read_text() == 'mode = "plan"\n'
    assert "trust" not in run("config", "set", "effort", "high", "--scope", "local").stdout


def test_a_value_that_does_not_fit_is_not_written(run, environ: dict[str, str], work: Path):
    done = run("config", "set", "mode", "paln")
    assert done.returncode == 1 and "did you mean 'plan'" in done.stderr
    assert run("config", "set", "mdoe", "plan").returncode == 1
    assert not Path(f"{environ['HOME']}/.config/quarterdeck/config.toml").exists()


def test_a_list_takes_a_value_for_each_element(run, environ: dict[str, str], work: Path):
    run("config", "set", "permissions.allow", "bash(make test)", "read")
    file = Path(f"{environ['HOME']}/.config/quarterdeck/config.toml")
    assert file.read_text() == '[permissions]\nallow = ["bash(make test)", "read"]\n'
