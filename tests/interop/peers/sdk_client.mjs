// The client of the play on the official TypeScript SDK; its report goes to the file it is given.
import { writeFileSync } from "node:fs";
import { Readable, Writable } from "node:stream";
import { client, methods, ndJsonStream } from "@agentclientprotocol/sdk";

let choice = "yes";
let updates = [];
let asked = [];
let waiting = () => {};
const written = {};
const released = [];

const said = (kind) => updates.filter((u) => u.sessionUpdate === kind).map((u) => u.content.text).join("");
const last = (kind) => updates.filter((u) => u.sessionUpdate === kind).at(-1);

const app = client({ name: "typescript-sdk" })
  .onNotification(methods.client.session.update, ({ params }) => {
    updates.push(params.update);
    if (said("agent_message_chunk") === "waiting") waiting();
  })
  .onRequest(methods.client.session.requestPermission, ({ params }) => {
    asked = params.options.map((option) => option.kind);
    return { outcome: { outcome: "selected", optionId: choice } };
  })
  .onRequest(methods.client.fs.readTextFile, ({ params }) => ({ content: `content of ${params.path}` }))
  .onRequest(methods.client.fs.writeTextFile, ({ params }) => {
    written[params.path] = params.content;
    return {};
  })
  .onRequest(methods.client.terminal.create, () => ({ terminalId: "t1" }))
  .onRequest(methods.client.terminal.kill, () => ({}))
  .onRequest(methods.client.terminal.output, () => ({ output: "hello\n", truncated: false }))
  .onRequest(methods.client.terminal.waitForExit, () => ({ exitCode: 0 }))
  .onRequest(methods.client.terminal.release, ({ params }) => {
    released.push(params.terminalId);
    return {};
  });

async function drive(agent) {
  const sessionId = "s1";
  const prompt = async (command) => {
    updates = [];
    const answer = await agent.request(methods.agent.session.prompt, {
      sessionId, prompt: [{ type: "text", text: command }],
    });
    return answer.stopReason;
  };
  const hello = await agent.request(methods.agent.initialize, {
    protocolVersion: 1,
    clientCapabilities: { fs: { readTextFile: true, writeTextFile: true }, terminal: true },
  });
  const opened = await agent.request(methods.agent.session.new, { cwd: "/", mcpServers: [] });
  const report = {
    version: hello.protocolVersion,
    session: opened.sessionId,
    modes: opened.modes.availableModes.map((mode) => mode.id),
  };
  let stop = await prompt("stream");
  report.stream = {
    stop,
    text: said("agent_message_chunk"),
    thought: said("agent_thought_chunk"),
    plan: last("plan").entries.map((entry) => entry.content),
    used: last("usage_update").used,
  };
  stop = await prompt("tool");
  const done = last("tool_call_update");
  const [diff] = done.content;
  report.allowed = {
    stop, status: done.status, asked, written,
    diff: [diff.path, diff.oldText, diff.newText],
    output: done.rawOutput, released,
  };
  choice = "no";
  stop = await prompt("tool");
  report.rejected = { stop, status: last("tool_call_update").status };
  const isWaiting = new Promise((resolve) => (waiting = resolve));
  const turn = prompt("wait");
  await isWaiting;
  await agent.notify(methods.agent.session.cancel, { sessionId });
  report.cancelled = await turn;
  updates = [];
  await agent.request(methods.agent.session.setMode, { sessionId, modeId: "plan" });
  report.mode = last("current_mode_update").currentModeId;
  const options = await agent.request(methods.agent.session.setConfigOption, { sessionId, configId: "model", value: "big" });
  report.model = options.configOptions[0].currentValue;
  report.sessions = (await agent.request(methods.agent.session.list, {})).sessions.map((s) => s.sessionId);
  updates = [];
  await agent.request(methods.agent.session.load, { sessionId, cwd: "/", mcpServers: [] });
  report.replay = [`user: ${said("user_message_chunk")}`, `agent: ${said("agent_message_chunk")}`];
  report.unknown = await agent.request("_quarterdeck/nothing", {}).then(() => 0, (error) => error.code);
  return report;
}

await app.connectWith(
  ndJsonStream(Writable.toWeb(process.stdout), Readable.toWeb(process.stdin)),
  async (agent) => writeFileSync(process.argv[2], JSON.stringify(await drive(agent))),
);
process.exit(0);
