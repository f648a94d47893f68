"""A pool on a real Postgres, and machines that are separate homes with hosts of their own."""

import importlib.util
import itertools
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.plans.conftest import ROOT, SCRIPT, wait_until
from tests.support.deadlines import SOON
from tests.support.postgres import run_postgres
from tests.support.work_trees import git, new_repository

_numbers = itertools.count()


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    if importlib.util.find_spec("psycopg") is None:
        pytest.skip("needs psycopg")
    with run_postgres() as url:
        yield url


@pytest.fixture
def pool_url(postgres: str) -> str:
    """An empty database."""
    import psycopg

    name = f"pool_{next(_numbers)}"
    with psycopg.connect(f"{postgres}/postgres", autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())
    return f"{postgres}/{name}"


class Machine:
    """A home with a host of scripted agents, and perhaps a worker."""

    def __init__(self, home: Path, pool: str, variables: dict[str, str]) -> None:
        home.mkdir()
        self.home = home
        self.pool = pool
        self.environ = {
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": str(home),
            "LANG": "C.UTF-8",
            "QUARTERDECK_HOME": str(home / "q"),
            **variables,
        }
        self._host: subprocess.Popen[bytes] | None = None
        self.worker: subprocess.Popen[str] | None = None
        self.output = home / "worker.log"

    def start_host(self) -> None:
        words = [sys.executable, "-m", "tests.support.plan_host"]
        child = subprocess.Popen(words, cwd=ROOT, env=self.environ, stdout=subprocess.PIPE)
        assert child.stdout is not None
        assert child.stdout.readline() == b"ready\n"
        self._host = child

    def start_worker(self, *more: str, lease: float = 3.0) -> None:
        if self._host is None:
            self.start_host()
        words = [str(SCRIPT), "worker", "--pool", self.pool, "--lease", str(lease), *more]
        with self.output.open("ab") as output:
            self.worker = subprocess.Popen(
                [*words, "--name", self.home.name],
                cwd=self.home,
                env=self.environ,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                text=True,
            )

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """A command on this machine."""
        return subprocess.run(
            [str(SCRIPT), *words],
            cwd=self.home,
            env=self.environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )

    def end_worker(self, number: int = signal.SIGKILL) -> int:
        worker, self.worker = self.worker, None
        assert worker is not None
        worker.send_signal(number)
        return worker.wait()

    def end_host(self, number: int = signal.SIGTERM) -> None:
        host, self._host = self._host, None
        if host is not None:
            host.send_signal(number)
            host.wait(SOON)
            assert host.stdout is not None
            host.stdout.close()

    def end(self) -> None:
        if self.worker is not None:
            self.worker.send_signal(signal.SIGCONT)
            self.end_worker()
        self.end_host()

    def read_output(self) -> str:
        return self.output.read_text() if self.output.exists() else ""


class PoolWorld:
    """A pool, a project with a bare remote, machines, and a person somewhere else."""

    def __init__(self, folder: Path, pool: str) -> None:
        self.folder = folder
        self.pool = pool
        self.remote = folder / "remote.git"
        git(folder, "init", "-q", "--bare", "-b", "main", str(self.remote))
        self.work = new_repository(folder / "work", {"a.txt": "a\n"})
        git(self.work, "remote", "add", "origin", str(self.remote))
        git(self.work, "push", "-q", "origin", "main")
        self.count = folder / "count"
        self.machines: dict[str, Machine] = {}
        self.person = self._make("person")
        self._children: list[subprocess.Popen[str]] = []

    def _make(self, name: str) -> Machine:
        return Machine(self.folder / name, self.pool, {"COUNT": str(self.count)})

    def add(self, name: str) -> Machine:
        machine = self.machines[name] = self._make(name)
        return machine

    def start(self, *words: str) -> subprocess.Popen[str]:
        child = subprocess.Popen(
            [str(SCRIPT), *words],
            cwd=self.work,
            env=self.person.environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._children.append(child)
        return child

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(SCRIPT), *words],
            cwd=self.work,
            env=self.person.environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )

    def submit(self, text: str) -> None:
        (self.work / "work.toml").write_text(text)
        done = self.run("plan", "run", "work.toml", "--pool", self.pool, "--detach")
        assert (done.returncode, done.stdout) == (0, "work\n"), done.stderr

    def read(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        import psycopg

        with psycopg.connect(self.pool) as connection:
            return connection.execute(sql.encode(), values).fetchall()

    def has(self, sql: str, *values: Any) -> Callable[[], bool]:
        return lambda: bool(self.read(sql, *values))

    def wait_until(self, is_true: Callable[[], bool]) -> None:
        """Wait for a state; a worker that ends by itself fails the test."""

        def look() -> bool:
            for machine in self.machines.values():
                ended = machine.worker is not None and machine.worker.poll() is not None
                assert not ended, machine.read_output()
            return is_true()

        wait_until(look)

    def wait_for_end(self) -> dict[str, dict[str, Any]]:
        """The tasks of the run once it has ended."""
        self.wait_until(self.has("SELECT 1 FROM quarterdeck.runs WHERE state IN ('done','failed')"))
        shown = self.run("plan", "status", "work", "--pool", self.pool, "--json")
        assert shown.returncode == 0, shown.stderr
        return {one["key"]: one for one in json.loads(shown.stdout)["tasks"]}

    def counted(self) -> list[str]:
        return self.count.read_text().split() if self.count.exists() else []

    def end(self) -> None:
        for child in self._children:
            child.kill()
            child.wait()
            assert child.stdout is not None
            child.stdout.close()
        for machine in (*self.machines.values(), self.person):
            machine.end()


@pytest.fixture
def pool_world(home: Path, tmp_path: Path, pool_url: str) -> Iterator[PoolWorld]:
    world = PoolWorld(tmp_path.resolve(), pool_url)
    try:
        assert world.run("pool", "init", "--pool", pool_url).returncode == 0
        assert world.run("config", "trust", ".").returncode == 0
        yield world
    finally:
        world.end()
