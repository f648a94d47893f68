"""Stands between a client and an agent and writes down every frame: recorder.py FOLDER COMMAND…

Each line of the file, one for each agent that was started, is a JSON list: seconds, ``in`` (to the
agent) or ``out``, and the line as it passed. Standard library only; bytes pass unchanged.
"""

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import BinaryIO


def copy(way: str, source: BinaryIO, target: BinaryIO, log: BinaryIO) -> None:
    try:
        for line in iter(source.readline, b""):
            # Before it is passed on: what the agent answers is written down later.
            log.write(json.dumps([time.monotonic(), way, line.decode()]).encode() + b"\n")
            target.write(line)
            target.flush()
        target.close()
    except OSError:
        return  # one of the two is gone; the other will notice


def main(folder: str, *command: str) -> int:
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert child.stdin is not None
    assert child.stdout is not None
    with (Path(folder) / f"{os.getpid()}.jsonl").open("ab", buffering=0) as log:
        ends = ("in", sys.stdin.buffer, child.stdin, log)
        threading.Thread(target=copy, args=ends, daemon=True).start()
        copy("out", child.stdout, sys.stdout.buffer, log)
        return child.wait()


if __name__ == "__main__":
    # No clean-up: a thread may still be reading the standard input.
    os._exit(main(*sys.argv[1:]))
