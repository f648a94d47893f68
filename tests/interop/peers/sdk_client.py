"""The client of the play on the official Python SDK; its report goes to the file it is given."""

import asyncio
import json
import sys
from pathlib import Path

import acp
from acp import schema


class PlayClient:
    def __init__(self) -> None:
        self.choice = "yes"
        self.updates = []
        self.asked = []
        self.written = {}
        self.released = []
        self.waiting = asyncio.Event()

    def on_connect(self, conn):
        pass

    async def session_update(self, session_id, update, **kwargs):
        self.updates.append(json.loads(update.model_dump_json(by_alias=True)))
        if self.said("agent_message_chunk") == "waiting":
            self.waiting.set()

    async def request_permission(self, session_id, tool_call, options, **kwargs):
        self.asked = [option.kind for option in options]
        return schema.RequestPermissionResponse.model_validate(
            {"outcome": {"outcome": "selected", "optionId": self.choice}}
        )

    async def read_text_file(self, session_id, path, **kwargs):
        return schema.ReadTextFileResponse(content=f"content of {path}")

    async def write_text_file(self, session_id, path, content, **kwargs):
        self.written[path] = content

    async def create_terminal(self, session_id, command, **kwargs):
        return schema.CreateTerminalResponse(terminal_id="t1")

    async def kill_terminal(self, session_id, terminal_id, **kwargs):
        pass

    async def terminal_output(self, session_id, terminal_id, **kwargs):
        return schema.TerminalOutputResponse(output="hello\n", truncated=False)

    async def wait_for_terminal_exit(self, session_id, terminal_id, **kwargs):
        return schema.WaitForTerminalExitResponse(exit_code=0)

    async def release_terminal(self, session_id, terminal_id, **kwargs):
        self.released.append(terminal_id)

    async def ext_method(self, method, params):
        raise acp.RequestError.method_not_found(method)

    def said(self, kind):
        chunks = [each for each in self.updates if each["sessionUpdate"] == kind]
        return "".join(each["content"]["text"] for each in chunks)

    def last(self, kind):
        return [each for each in self.updates if each["sessionUpdate"] == kind][-1]

    async def prompt(self, conn, command):
        self.updates.clear()
        answer = await conn.prompt(session_id="s1", prompt=[acp.text_block(command)])
        return answer.stop_reason


async def settings(client, conn):
    client.updates.clear()
    await conn.set_session_mode(session_id="s1", mode_id="plan")
    mode = client.last("current_mode_update")["currentModeId"]
    answer = await conn.set_config_option(config_id="model", session_id="s1", value="big")
    listed = await conn.list_sessions()
    client.updates.clear()
    await conn.load_session(cwd="/", session_id="s1", mcp_servers=[])
    try:
        await conn.ext_method("quarterdeck/nothing", {})
        code = 0
    except acp.RequestError as error:
        code = error.code
    return {
        "mode": mode,
        "model": answer.config_options[0].current_value,
        "sessions": [each.session_id for each in listed.sessions],
        "replay": [
            "user: " + client.said("user_message_chunk"),
            "agent: " + client.said("agent_message_chunk"),
        ],
        "unknown": code,
    }


async def drive(client, conn):
    capabilities = schema.ClientCapabilities.model_validate(
        {"fs": {"readTextFile": True, "writeTextFile": True}, "terminal": True}
    )
    hello = await conn.initialize(protocol_version=1, client_capabilities=capabilities)
    opened = await conn.new_session(cwd="/", mcp_servers=[])
    report = {
        "version": hello.protocol_version,
        "session": opened.session_id,
        "modes": [mode.id for mode in opened.modes.available_modes],
    }
    stop = await client.prompt(conn, "stream")
    report["stream"] = {
        "stop": stop,
        "text": client.said("agent_message_chunk"),
        "thought": client.said("agent_thought_chunk"),
        "plan": [entry["content"] for entry in client.last("plan")["entries"]],
        "used": client.last("usage_update")["used"],
    }
    stop = await client.prompt(conn, "tool")
    last = client.last("tool_call_update")
    diff = last["content"][0]
    report["allowed"] = {
        "stop": stop,
        "status": last["status"],
        "asked": client.asked,
        "written": client.written,
        "diff": [diff["path"], diff["oldText"], diff["newText"]],
        "output": last["rawOutput"],
        "released": client.released,
    }
    client.choice = "no"
    stop = await client.prompt(conn, "tool")
    report["rejected"] = {"stop": stop, "status": client.last("tool_call_update")["status"]}
    turn = asyncio.create_task(client.prompt(conn, "wait"))
    await client.waiting.wait()
    await conn.cancel(session_id="s1")
    report["cancelled"] = await turn
    return report | await settings(client, conn)


async def main():
    client = PlayClient()
    reader, writer = await acp.stdio_streams()
    conn = acp.connect_to_agent(client, writer, reader)
    report = await drive(client, conn)
    await conn.close()
    return report


Path(sys.argv[1]).write_text(json.dumps(asyncio.run(main())))
