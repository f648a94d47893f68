"""Drives an agent with the official Python SDK: serve_client.py REPORT FOLDER MODEL COMMAND…

With ``cancels`` for the model it cancels and does nothing else.
"""

import asyncio
import json
import sys
from pathlib import Path

import acp
from acp import schema

REPORT, FOLDER, MODEL, *COMMAND = sys.argv[1:]
HELLO = Path(FOLDER) / "hello.txt"


class Client:
    def __init__(self):
        self.updates = []
        self.asked = []
        self.written = []
        self.choice = "allow_once"
        self.changed = asyncio.Event()
        self.release = asyncio.Event()

    def on_connect(self, conn):
        pass

    async def session_update(self, session_id, update, **kwargs):
        self.updates.append((session_id, json.loads(update.model_dump_json(by_alias=True))))
        self.changed.set()

    async def request_permission(self, session_id, tool_call, options, **kwargs):
        self.asked.append(tool_call.kind)
        self.changed.set()
        outcome = {"outcome": "cancelled"}
        if self.choice == "wait":
            await self.release.wait()
        else:
            chosen = next(each for each in options if each.kind == self.choice)
            outcome = {"outcome": "selected", "optionId": chosen.option_id}
        return schema.RequestPermissionResponse.model_validate({"outcome": outcome})

    async def read_text_file(self, session_id, path, **kwargs):
        content = await asyncio.to_thread(Path(path).read_text)
        return schema.ReadTextFileResponse(content=content)

    async def write_text_file(self, session_id, path, content, **kwargs):
        self.written.append(path)
        await asyncio.to_thread(Path(path).write_text, content)

    def said(self, kind="agent_message_chunk", session=None):
        return "".join(
            each["content"]["text"]
            for id_, each in self.updates
            if each["sessionUpdate"] == kind and session in (None, id_)
        )

    def states(self):
        found = [each for _, each in self.updates if each["sessionUpdate"] == "tool_call_update"]
        return [each["status"] for each in found if each.get("status")]

    def last(self, kind):
        return [each for _, each in self.updates if each["sessionUpdate"] == kind][-1]

    async def until(self, holds):
        while not holds():
            self.changed.clear()
            await asyncio.wait_for(self.changed.wait(), 10)


async def prompt(conn, session, text):
    answer = await conn.prompt(session_id=session, prompt=[acp.text_block(text)])
    return answer.stop_reason


async def cancelled(client, conn, session, text, holds):
    client.updates.clear()
    client.release.clear()
    turn = asyncio.create_task(prompt(conn, session, text))
    await client.until(holds)
    await conn.cancel(session_id=session)
    client.release.set()
    return await turn


async def tools(client, conn, session):
    report = {}
    client.choice = "reject_once"
    client.updates.clear()
    stop = await prompt(conn, session, "scene:write")
    report["rejected"] = [stop, client.states(), HELLO.exists()]
    client.choice = "allow_once"
    client.updates.clear()
    stop = await prompt(conn, session, "scene:write")
    report["allowed"] = [stop, client.states(), HELLO.exists()]
    report["asked"], report["written"] = list(client.asked), list(client.written)
    return report


async def cancels(client, conn, session):
    report = {}
    client.choice = "allow_once"
    report["cancel_stream"] = await cancelled(
        client, conn, session, "scene:slow", lambda: "tick 2" in client.said()
    )
    report["cancel_tool"] = await cancelled(
        client, conn, session, "scene:longcmd", lambda: "in_progress" in client.states()
    )
    client.choice, count = "wait", len(client.asked)
    report["cancel_permission"] = await cancelled(
        client, conn, session, "scene:shell", lambda: len(client.asked) > count
    )
    client.choice = "allow_once"
    return report


async def settings(client, conn, session):
    report = {}
    client.updates.clear()
    await conn.set_session_mode(session_id=session, mode_id="plan")
    report["set_mode"] = client.last("current_mode_update")["currentModeId"]
    answer = await conn.set_config_option(config_id="model", session_id=session, value=MODEL)
    (model,) = [each for each in answer.config_options if each.id == "model"]
    report["set_model"] = model.current_value == MODEL
    client.updates.clear()
    await prompt(conn, session, "hello")
    report["other_model"] = client.said()
    return report


async def sessions(client, conn):
    report = {}
    one = (await conn.new_session(cwd=FOLDER, mcp_servers=[])).session_id
    two = (await conn.new_session(cwd=FOLDER, mcp_servers=[])).session_id
    client.updates.clear()
    stops = await asyncio.gather(prompt(conn, one, "scene:text"), prompt(conn, two, "scene:think"))
    report["two"] = [*stops, client.said(session=one), client.said(session=two)]
    await conn.close_session(session_id=one)
    client.updates.clear()
    await conn.load_session(cwd=FOLDER, session_id=one, mcp_servers=[])
    report["replay"] = [client.said("user_message_chunk"), client.said()]
    report["listed"] = len((await conn.list_sessions()).sessions)
    try:
        await prompt(conn, "ses_unknown", "x")
    except acp.RequestError as error:
        report["unknown"] = error.code
    return report


async def drive(client, conn):
    capabilities = schema.ClientCapabilities.model_validate(
        {"fs": {"readTextFile": True, "writeTextFile": True}}
    )
    hello = await conn.initialize(protocol_version=1, client_capabilities=capabilities)
    opened = await conn.new_session(cwd=FOLDER, mcp_servers=[])
    session = opened.session_id
    if MODEL == "cancels":
        return await cancels(client, conn, session)
    report = {
        "version": hello.protocol_version,
        "name": hello.agent_info.name,
        "mode": opened.modes.current_mode_id,
        "text": [await prompt(conn, session, "scene:text"), client.said()],
    }
    report |= await tools(client, conn, session)
    report |= await cancels(client, conn, session)
    report |= await settings(client, conn, session)
    return report | await sessions(client, conn)


async def main():
    process = await asyncio.create_subprocess_exec(
        *COMMAND, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    client = Client()
    conn = acp.connect_to_agent(client, process.stdin, process.stdout)
    report = await drive(client, conn)
    await conn.close()
    process.stdin.close()
    return report, await asyncio.wait_for(process.wait(), 10)


told, code = asyncio.run(main())
Path(REPORT).write_text(json.dumps(told))
sys.exit(code)
