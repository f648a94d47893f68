"""Whether a process runs, on any system."""

import subprocess

__all__ = ["is_running"]


def is_running(pid: int) -> bool:
    """Whether it does; one that nobody has asked about after its end does not."""
    words = ["ps", "-o", "stat=", "-p", str(pid)]
    told = subprocess.run(words, capture_output=True, text=True, check=False).stdout.strip()
    return bool(told) and not told.startswith("Z")
