"""The agent of the play on the official Python SDK; a program of its own."""

import asyncio

import acp
from acp import schema


def update(**fields: object) -> object:
    return schema.SessionNotification.model_validate({"sessionId": "s1", "update": fields}).update


def config(model: str) -> list[dict[str, object]]:
    options = [{"value": "small", "name": "Small"}, {"value": "big", "name": "Big"}]
    return [
        {
            "id": "model",
            "name": "Model",
            "type": "select",
            "currentValue": model,
            "options": options,
        }
    ]


def block(text: str) -> dict[str, str]:
    return {"type": "text", "text": text}


class PlayAgent:
    def __init__(self) -> None:
        self.cancelled = asyncio.Event()

    def on_connect(self, conn):
        self.conn = conn

    async def initialize(self, protocol_version, client_capabilities=None, **kwargs):
        return schema.InitializeResponse.model_validate(
            {
                "protocolVersion": 1,
                "agentCapabilities": {"loadSession": True, "sessionCapabilities": {"list": {}}},
                "agentInfo": {"name": "python-sdk", "version": "0"},
            }
        )

    async def new_session(self, cwd, mcp_servers=None, **kwargs):
        modes = [{"id": "ask", "name": "Ask"}, {"id": "plan", "name": "Plan"}]
        return schema.NewSessionResponse.model_validate(
            {
                "sessionId": "s1",
                "modes": {"currentModeId": "ask", "availableModes": modes},
                "configOptions": config("small"),
            }
        )

    async def load_session(self, cwd, session_id, mcp_servers=None, **kwargs):
        await self.tell(sessionUpdate="user_message_chunk", content=block("stream"))
        await self.tell(sessionUpdate="agent_message_chunk", content=block("one two three"))
        return schema.LoadSessionResponse()

    async def list_sessions(self, cwd=None, cursor=None, **kwargs):
        return schema.ListSessionsResponse.model_validate(
            {"sessions": [{"sessionId": "s1", "cwd": "/"}]}
        )

    async def set_session_mode(self, session_id, mode_id, **kwargs):
        await self.tell(sessionUpdate="current_mode_update", currentModeId=mode_id)

    async def set_config_option(self, config_id, session_id, value, **kwargs):
        return schema.SetSessionConfigOptionResponse.model_validate(
            {"configOptions": config(value)}
        )

    async def cancel(self, session_id, **kwargs):
        self.cancelled.set()

    async def ext_method(self, method, params):
        raise acp.RequestError.method_not_found(method)

    async def prompt(self, session_id, prompt, **kwargs):
        command = prompt[0].text
        if command == "wait":
            self.cancelled.clear()
            await self.tell(sessionUpdate="agent_message_chunk", content=block("waiting"))
            await self.cancelled.wait()
            return schema.PromptResponse(stop_reason="cancelled")
        await (self.stream() if command == "stream" else self.tool())
        return schema.PromptResponse(stop_reason="end_turn")

    async def stream(self):
        entry = {"content": "Look", "priority": "high", "status": "pending"}
        await self.tell(sessionUpdate="agent_thought_chunk", content=block("hm"))
        await self.tell(sessionUpdate="plan", entries=[entry])
        for word in ("one", " two", " three"):
            await self.tell(sessionUpdate="agent_message_chunk", content=block(word))
        await self.tell(sessionUpdate="usage_update", used=10, size=100)

    async def tool(self):
        await self.tell(sessionUpdate="tool_call", toolCallId="c1", title="Edit", kind="edit")
        options = [
            schema.PermissionOption(option_id="yes", name="Yes", kind="allow_once"),
            schema.PermissionOption(option_id="no", name="No", kind="reject_once"),
        ]
        call = schema.ToolCallUpdate(tool_call_id="c1", title="Edit")
        answer = await self.conn.request_permission("s1", call, options)
        if getattr(answer.outcome, "option_id", "") != "yes":
            await self.tell(sessionUpdate="tool_call_update", toolCallId="c1", status="failed")
            return
        before = (await self.conn.read_text_file("s1", "/in.txt")).content
        await self.conn.write_text_file("s1", "/out.txt", before.upper())
        terminal = (
            await self.conn.create_terminal(session_id="s1", command="echo", args=["hello"])
        ).terminal_id
        await self.conn.kill_terminal("s1", terminal)
        ended = await self.conn.wait_for_terminal_exit("s1", terminal)
        shown = await self.conn.terminal_output("s1", terminal)
        await self.conn.release_terminal("s1", terminal)
        diff = {"type": "diff", "path": "/out.txt", "oldText": before, "newText": before.upper()}
        await self.tell(
            sessionUpdate="tool_call_update",
            toolCallId="c1",
            status="completed",
            content=[diff],
            rawOutput={"output": shown.output, "exitCode": ended.exit_code},
        )

    async def tell(self, **fields):
        await self.conn.session_update("s1", update(**fields))


asyncio.run(acp.run_agent(PlayAgent()))
