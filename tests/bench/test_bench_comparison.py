"""Two commits are compared in turns, and what got slower is named."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from bench.__main__ import compare_with
from bench.checkout import CommitNotFoundError, check_out, make_environment
from bench.comparison import Comparison, Sample, find_slower
from bench.processes import Cost
from bench.size import Size

ROOT = Path(__file__).parents[2]


def sample(*cpu: float, wall: float = 1.0) -> Sample:
    return Sample([Cost(wall=wall, cpu=seconds) for seconds in cpu])


def test_slower_is_named_when_the_least_and_the_median_grew():
    found = [
        Comparison("turn", sample(1.0, 1.1, 1.2), sample(1.1, 1.2, 1.3)),
        Comparison("start", sample(1.0, 1.1, 1.2), sample(1.0, 1.3, 1.4)),
        Comparison("step", sample(1.0, 1.0, 1.0), sample(1.04, 1.04, 1.04)),
    ]
    assert find_slower(found) == ["turn, CPU: 1.10× (least), 1.09× (median), noise ±0.02"]


def test_a_wall_clock_that_grew_is_named_too():
    found = [Comparison("turn", sample(1.0, 1.0, 1.0), sample(1.0, 1.0, 1.0, wall=2.0))]
    assert find_slower(found) == ["turn, wall: 2.00× (least), 2.00× (median), noise ±0.00"]


def test_what_is_within_the_noise_is_not_named():
    calm = Comparison("calm", sample(1.0, 1.0, 1.0, 1.0, 1.0), sample(1.1, 1.1, 1.1, 1.1, 1.1))
    wild = Comparison("wild", sample(1.0, 1.5, 1.0, 1.5, 1.0), sample(1.6, 1.1, 1.6, 1.1, 1.1))
    assert [wild.noise("CPU") > 0.1, calm.noise("CPU")] == [True, 0]
    assert min(wild.grown("CPU")) > 1.05
    assert [line.partition(",")[0] for line in find_slower([wild, calm])] == ["calm"]


def test_one_or_two_rounds_name_nothing():
    assert not find_slower([Comparison("turn", sample(1.0, 1.0), sample(9.0, 9.0))])


def test_one_slow_round_is_little_noise():
    before = sample(*[1.0] * 14, 1.01)
    after = sample(*[1.1] * 14, 9.0)
    assert Comparison("turn", before, after).noise("CPU") < 0.01


def test_a_step_is_what_the_long_turn_takes_more():
    long, short = sample(5.0, 6.0).costs, sample(1.0, 1.5).costs
    assert Sample(long, short, steps=40).figure("CPU", min) == pytest.approx(100)


def git(repository: Path, *words: str) -> None:
    name = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false")
    subprocess.run(["git", "-C", str(repository), *name, *words], check=True, capture_output=True)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository whose program says which commit it is: ``old``, then ``new``."""
    root = tmp_path / "repository"
    package = root / "src" / "quarterdeck"
    package.mkdir(parents=True)
    script = '[project.scripts]\nquarterdeck = "quarterdeck.program:main"\n'
    (root / "pyproject.toml").write_text(script)
    (package / "__init__.py").touch()
    git(root, "init", "-q")
    for word in ("old", "new"):
        (package / "program.py").write_text(f"def main():\n    print({word!r})\n")
        git(root, "add", "-A")
        git(root, "commit", "-q", "-m", word)
    return root


def test_each_side_runs_its_own_source(repository: Path, tmp_path: Path):
    now = make_environment(repository, tmp_path / "now")
    with check_out("HEAD~1", tmp_path / "before", repository) as before:
        said = [subprocess.check_output([side.program], text=True) for side in (before, now)]
    assert said == ["old\n", "new\n"]
    assert not before.root.exists()
    trees = subprocess.check_output(["git", "-C", repository, "worktree", "list"], text=True)
    assert trees.count("\n") == 1


@pytest.mark.parametrize(("fails", "status"), [(True, 1), (False, 0)])
def test_a_command_that_got_slower_is_named(
    repository: Path, capsys: pytest.CaptureFixture[str], fails: bool, status: int
):
    for seconds in (0.02, 0.06):
        (repository / "src" / "quarterdeck" / "program.py").write_text(
            "import sys, time\n"
            "def main():\n"
            f"    until = {seconds} if sys.argv[1:] == ['--version'] else 0\n"
            "    while time.process_time() < until: pass\n"
        )
        git(repository, "commit", "-q", "-a", "-m", f"{seconds}")
    arguments = ("HEAD~1", ["startup"], Size.QUICK)
    assert compare_with(*arguments, fails=fails, repository=repository) == status
    assert re.search(r"slower +quarterdeck --version, CPU", capsys.readouterr().out)


def test_other_packages_that_are_locked_are_installed(repository: Path, tmp_path: Path):
    lock = repository / "requirements" / "run.lock"
    lock.parent.mkdir()
    lock.write_text("# no packages\n")
    git(repository, "add", "-A")
    git(repository, "commit", "-q", "-m", "lock")
    lock.write_text("# none\n")
    with check_out("HEAD", tmp_path / "before", repository) as before:
        paths = subprocess.check_output([before.python, "-c", "import sys; print(sys.path)"])
        assert before.has_own_packages
    (place,) = (repository / "build" / "locked").iterdir()
    assert str(place) in paths.decode()


def test_packages_that_cannot_be_had_are_reported(repository: Path, tmp_path: Path):
    lock = repository / "requirements" / "run.lock"
    lock.parent.mkdir()
    lock.write_text("this is no requirement!\n")
    git(repository, "add", "-A")
    git(repository, "commit", "-q", "-m", "lock")
    lock.unlink()
    with check_out("HEAD", tmp_path / "before", repository) as before:
        assert not before.has_own_packages


def test_an_unknown_commit_is_named(repository: Path, tmp_path: Path):
    with (
        pytest.raises(CommitNotFoundError, match="'nonsense'"),
        check_out("nonsense", tmp_path / "before", repository),
    ):
        pass


def is_writable_repository() -> bool:
    command = ["git", "-C", str(ROOT), "rev-parse", "--path-format=absolute", "--git-common-dir"]
    done = subprocess.run(command, capture_output=True, text=True)
    return done.returncode == 0 and os.access(done.stdout.strip(), os.W_OK)


@pytest.mark.parametrize(
    ("parts", "named"),
    [
        (
            ["startup", "agents", "acp"],
            ["--version", "text reply", "read step", "shell step", "session/new"],
        ),
        pytest.param(
            ["drivers", "fleet"],
            ["through the ACP driver", "`run -a`", "host in a second", "spawn", "ps"],
            marks=pytest.mark.stress,  # a minute each
        ),
        pytest.param(
            ["workbench"],
            ["first frame", "a key", "10 entries", "workbench in a second"],
            marks=pytest.mark.stress,
        ),
    ],
    ids=lambda words: words[0],
)
def test_the_working_tree_is_compared_with_a_commit(
    tmp_path: Path, parts: list[str], named: list[str]
):
    if not is_writable_repository():
        pytest.skip("needs a git repository that may be written to")
    done = subprocess.run(
        [sys.executable, "-m", "bench", "--tiny", "--fail", "--against", "HEAD", *parts],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path), "LANG": "C.UTF-8"},
        capture_output=True,
        text=True,
        timeout=58,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    for what in named:
        assert done.stdout.count(what) >= 2
    assert "What got slower by more than 5 %" in done.stdout


@pytest.mark.parametrize("options", [["--fail", "--tiny"], ["--against", "HEAD", "undo"]])
def test_what_does_not_go_together_is_refused(options: list[str]):
    done = subprocess.run(
        [sys.executable, "-m", "bench", *options], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 2
    assert "--fail judges figures" in done.stderr or "cannot compare undo" in done.stderr
