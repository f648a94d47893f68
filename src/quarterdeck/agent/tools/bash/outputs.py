"""Where the whole output of commands is kept: a directory for each session, outside its roots."""

import asyncio
import shutil
import tempfile
from pathlib import Path

__all__ = ["Outputs"]


class Outputs:
    """Names for output files in a directory that we alone can read; ``close`` removes it."""

    def __init__(self) -> None:
        self._making: asyncio.Lock = asyncio.Lock()
        self._directory: str | None = None
        self._count = 0

    async def new_file(self) -> str:
        """The path of a file that does not exist yet."""
        async with self._making:
            if self._directory is None:
                self._directory = await asyncio.to_thread(tempfile.mkdtemp, "", "quarterdeck-")
        self._count += 1
        return f"{self._directory}/output-{self._count}.txt"

    async def drop(self, file: str) -> None:
        """Remove a file that nobody was told about."""
        await asyncio.to_thread(Path(file).unlink, missing_ok=True)

    async def close(self) -> None:
        """Remove every output; may be called again."""
        directory, self._directory = self._directory, None
        if directory is not None:
            await asyncio.to_thread(shutil.rmtree, directory, ignore_errors=True)
