"""A minimal agent on the official Python SDK."""

import asyncio
from typing import Any

from acp import InitializeResponse, NewSessionResponse, run_agent


class Agent:
    def on_connect(self, conn: Any) -> None:
        pass

    async def initialize(self, protocol_version: int, **_: Any) -> InitializeResponse:
        return InitializeResponse(protocol_version=1)

    async def new_session(self, cwd: str, **_: Any) -> NewSessionResponse:
        return NewSessionResponse(session_id="s1")


asyncio.run(run_agent(Agent()))
