"""Objects that are written without git are those that git would write."""

import os
import subprocess
from pathlib import Path

import pytest

from quarterdeck.system.git.command import GitIdentity
from quarterdeck.system.git.object_store import ObjectStore

WHO = GitIdentity(name="Ann Ü", email="ann@example.org", date="1000000000 +0000")


def git(where: Path, *words: str) -> str:
    variables = {"PATH": os.environ["PATH"], "HOME": str(where), **WHO.variables()}
    done = subprocess.run(
        ["git", "-C", str(where), *words], check=True, capture_output=True, text=True, env=variables
    )
    return done.stdout.strip()


@pytest.mark.parametrize("kind", ["sha1", "sha256"])
def test_a_commit_has_the_name_that_git_gives_it(tmp_path: Path, kind: str):
    project = tmp_path / "project"
    project.mkdir()
    git(project, "init", "-q", f"--object-format={kind}")
    (project / "a.txt").write_text("a\n")
    git(project, "add", "-A")
    tree = git(project, "write-tree")
    store = ObjectStore(tmp_path / "store", kind)
    first = store.put_commit(tree, [], identity=WHO, message="the first")
    assert first == git(project, "commit-tree", "-m", "the first", tree)
    second = git(project, "commit-tree", "-p", first, "-m", "the second", tree)
    merge = store.put_commit(tree, [first, second], identity=WHO, message="both ☃")
    assert merge == git(project, "commit-tree", "-p", first, "-p", second, "-m", "both ☃", tree)
    objects = [str(project / ".git" / "objects")]
    said = store.ask(("cat-file", "-p", merge), alternates=objects).data.decode()
    assert said.endswith("both ☃\n") and f"parent {second}" in said
