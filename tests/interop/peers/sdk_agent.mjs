// The agent of the play on the official TypeScript SDK; a program of its own.
import { Readable, Writable } from "node:stream";
import { agent, methods, ndJsonStream } from "@agentclientprotocol/sdk";

const block = (text) => ({ type: "text", text });
const config = (model) => [
  {
    id: "model", name: "Model", type: "select", currentValue: model,
    options: [{ value: "small", name: "Small" }, { value: "big", name: "Big" }],
  },
];
const modes = [{ id: "ask", name: "Ask" }, { id: "plan", name: "Plan" }];
let cancel = () => {};

const tell = (client, update) => client.notify(methods.client.session.update, { sessionId: "s1", update });

async function stream(client) {
  await tell(client, { sessionUpdate: "agent_thought_chunk", content: block("hm") });
  await tell(client, { sessionUpdate: "plan", entries: [{ content: "Look", priority: "high", status: "pending" }] });
  for (const word of ["one", " two", " three"]) {
    await tell(client, { sessionUpdate: "agent_message_chunk", content: block(word) });
  }
  await tell(client, { sessionUpdate: "usage_update", used: 10, size: 100 });
}

async function tool(client) {
  await tell(client, { sessionUpdate: "tool_call", toolCallId: "c1", title: "Edit", kind: "edit" });
  const { outcome } = await client.request(methods.client.session.requestPermission, {
    sessionId: "s1",
    toolCall: { toolCallId: "c1", title: "Edit" },
    options: [
      { optionId: "yes", name: "Yes", kind: "allow_once" },
      { optionId: "no", name: "No", kind: "reject_once" },
    ],
  });
  if (outcome.optionId !== "yes") {
    await tell(client, { sessionUpdate: "tool_call_update", toolCallId: "c1", status: "failed" });
    return;
  }
  const sessionId = "s1";
  const { content } = await client.request(methods.client.fs.readTextFile, { sessionId, path: "/in.txt" });
  await client.request(methods.client.fs.writeTextFile, { sessionId, path: "/out.txt", content: content.toUpperCase() });
  const { terminalId } = await client.request(methods.client.terminal.create, { sessionId, command: "echo", args: ["hello"] });
  await client.request(methods.client.terminal.kill, { sessionId, terminalId });
  const ended = await client.request(methods.client.terminal.waitForExit, { sessionId, terminalId });
  const shown = await client.request(methods.client.terminal.output, { sessionId, terminalId });
  await client.request(methods.client.terminal.release, { sessionId, terminalId });
  await tell(client, {
    sessionUpdate: "tool_call_update", toolCallId: "c1", status: "completed",
    content: [{ type: "diff", path: "/out.txt", oldText: content, newText: content.toUpperCase() }],
    rawOutput: { output: shown.output, exitCode: ended.exitCode },
  });
}

const app = agent({ name: "typescript-sdk" })
  .onRequest(methods.agent.initialize, () => ({
    protocolVersion: 1,
    agentCapabilities: { loadSession: true, sessionCapabilities: { list: {} } },
    agentInfo: { name: "typescript-sdk", version: "0" },
  }))
  .onRequest(methods.agent.session.new, () => ({
    sessionId: "s1", modes: { currentModeId: "ask", availableModes: modes }, configOptions: config("small"),
  }))
  .onRequest(methods.agent.session.load, async ({ client }) => {
    await tell(client, { sessionUpdate: "user_message_chunk", content: block("stream") });
    await tell(client, { sessionUpdate: "agent_message_chunk", content: block("one two three") });
    return {};
  })
  .onRequest(methods.agent.session.list, () => ({ sessions: [{ sessionId: "s1", cwd: "/" }] }))
  .onRequest(methods.agent.session.setMode, async ({ client, params }) => {
    await tell(client, { sessionUpdate: "current_mode_update", currentModeId: params.modeId });
  })
  .onRequest(methods.agent.session.setConfigOption, ({ params }) => ({ configOptions: config(params.value) }))
  .onNotification(methods.agent.session.cancel, () => cancel())
  .onRequest(methods.agent.session.prompt, async ({ client, params }) => {
    const command = params.prompt[0].text;
    if (command === "wait") {
      const cancelled = new Promise((resolve) => (cancel = resolve));
      await tell(client, { sessionUpdate: "agent_message_chunk", content: block("waiting") });
      await cancelled;
      return { stopReason: "cancelled" };
    }
    await (command === "stream" ? stream(client) : tool(client));
    return { stopReason: "end_turn" };
  });

app.connect(ndJsonStream(Writable.toWeb(process.stdout), Readable.toWeb(process.stdin)));
