"""What a workspace would do once it is trusted."""

from pathlib import Path

from quarterdeck.agent import instructions
from quarterdeck.agent.library.folders import library_folders, profile_folders
from quarterdeck.config.places import Places
from quarterdeck.config.trust import TrustStore
from quarterdeck.fleet.permissions.workspace_trust import (
    INSTRUCTION_FILES,
    TRUSTED_FOLDERS,
    inspect_workspace_trust,
)


def places(tmp_path: Path) -> Places:
    return Places.find({"QUARTERDECK_HOME": str(tmp_path / "home")})


def project(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    (root / ".git").mkdir(parents=True)
    (root / "src").mkdir()
    return root


def test_every_file_of_instructions_is_told():
    assert INSTRUCTION_FILES == instructions.INSTRUCTIONS_FILES


def test_every_folder_that_counts_is_told():
    own, project = Path("/own"), Path("/project")
    read = (*library_folders(own, project), *profile_folders(own, project))
    counted = {
        str(shelf.path.relative_to("/project")) for shelf in read if own not in shelf.path.parents
    }
    assert counted == set(TRUSTED_FOLDERS)


def test_commands_skills_and_profiles_are_named(tmp_path: Path):
    root = project(tmp_path)
    for name in TRUSTED_FOLDERS:
        (root / name).mkdir(parents=True)
        (root / name / "deploy.md").write_text("Do it.")
    found = inspect_workspace_trust(places(tmp_path), {}, root)
    assert found.state == "untrusted"
    assert [act.path for act in found.acts] == list(TRUSTED_FOLDERS)
    assert all(act.what.startswith("deploy.md are ") for act in found.acts)


def test_a_workspace_without_files_that_act_is_plain(tmp_path: Path):
    root = project(tmp_path)
    found = inspect_workspace_trust(places(tmp_path), {}, root)
    assert (found.state, found.root, found.acts) == ("plain", str(root.resolve()), ())


def test_settings_and_instructions_are_named_with_what_they_do(tmp_path: Path):
    root = project(tmp_path)
    (root / "AGENTS.md").write_text("Be quick.")
    (root / ".quarterdeck").mkdir()
    (root / ".quarterdeck" / "config.toml").write_text(
        'mode = "full-auto"\nmodel = "openai/x"\n[permissions]\ndeny = ["bash(rm:*)"]\n'
    )
    found = inspect_workspace_trust(places(tmp_path), {}, root / "src")
    assert found.state == "untrusted"
    assert [act.path for act in found.acts] == ["AGENTS.md", ".quarterdeck/config.toml"]
    assert found.acts[1].what == "sets mode, model"  # a denial counts in any case


def test_a_broken_file_is_told_and_nothing_fails(tmp_path: Path):
    root = project(tmp_path)
    (root / ".quarterdeck").mkdir()
    (root / ".quarterdeck" / "config.toml").write_text("mode = \n")
    (act,) = inspect_workspace_trust(places(tmp_path), {}, root).acts
    assert "cannot be read" in act.what


def test_a_broken_file_of_the_persons_own_is_no_matter_of_trust(tmp_path: Path):
    root = project(tmp_path)
    own = places(tmp_path).config_file
    own.parent.mkdir(parents=True)
    own.write_text("mode = \n")
    assert inspect_workspace_trust(places(tmp_path), {}, root).state == "plain"


def test_what_the_person_decided_is_known(tmp_path: Path):
    root = project(tmp_path)
    (root / "AGENTS.md").write_text("Be quick.")
    store = TrustStore(places(tmp_path).trust_file)
    store.leave_unasked(root)
    assert inspect_workspace_trust(places(tmp_path), {}, root).is_unasked
    store.trust(root)
    found = inspect_workspace_trust(places(tmp_path), {}, root)
    assert (found.state, found.is_unasked) == ("trusted", False)
    assert found.acts


def test_tool_servers_are_named(tmp_path: Path):
    root = project(tmp_path)
    (root / ".mcp.json").write_text('{"mcpServers": {"files": {"command": "x"}, "web": {}}}')
    (act,) = inspect_workspace_trust(places(tmp_path), {}, root).acts
    assert (act.path, act.what) == (".mcp.json", "starts or reaches tool servers: files, web")
    for broken in ("", "[]", '{"mcpServers": 1}', "\x00"):
        (root / ".mcp.json").write_text(broken)
        assert inspect_workspace_trust(places(tmp_path), {}, root).state == "untrusted"
