// Drives an agent with the official TypeScript SDK: node serve_client.mjs REPORT FOLDER MODEL COMMAND…
// With "cancels" for the model it cancels and does nothing else.
import { spawn } from "node:child_process";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Readable, Writable } from "node:stream";
import { client, methods, ndJsonStream } from "@agentclientprotocol/sdk";

const [reportFile, folder, model, command, ...args] = process.argv.slice(2);
const started = spawn(command, args, { stdio: ["pipe", "pipe", "inherit"] });
const hello = join(folder, "hello.txt");

let updates = [];
let asked = [];
let written = [];
let choice = "allow_once";
let onAsked = () => {};
let release = () => {};
let onUpdate = () => {};

const said = (kind, session) =>
  updates
    .filter((u) => u.update.sessionUpdate === kind && (!session || u.sessionId === session))
    .map((u) => u.update.content.text)
    .join("");
const states = () => updates.map((u) => u.update).filter((u) => u.sessionUpdate === "tool_call_update" && u.status).map((u) => u.status);
const last = (kind) => updates.map((u) => u.update).filter((u) => u.sessionUpdate === kind).at(-1);
const until = (holds) => new Promise((resolve) => {
  onUpdate = () => holds() && resolve();
  onUpdate();
});

const app = client({ name: "typescript-sdk" })
  .onNotification(methods.client.session.update, ({ params }) => {
    updates.push(params);
    onUpdate();
  })
  .onRequest(methods.client.session.requestPermission, async ({ params }) => {
    asked.push(params.toolCall.kind);
    onAsked();
    if (choice === "wait") {
      await new Promise((resolve) => (release = resolve));
      return { outcome: { outcome: "cancelled" } };
    }
    return { outcome: { outcome: "selected", optionId: params.options.find((o) => o.kind === choice).optionId } };
  })
  .onRequest(methods.client.fs.readTextFile, ({ params }) => ({ content: readFileSync(params.path, "utf8") }))
  .onRequest(methods.client.fs.writeTextFile, ({ params }) => {
    written.push(params.path);
    writeFileSync(params.path, params.content);
    return {};
  });

async function drive(agent) {
  const start = async () => {
    const opened = await agent.request(methods.agent.session.new, { cwd: folder, mcpServers: [] });
    return opened;
  };
  const prompt = async (sessionId, text) => {
    const answer = await agent.request(methods.agent.session.prompt, { sessionId, prompt: [{ type: "text", text }] });
    return answer.stopReason;
  };
  const cancelled = async (sessionId, text, isThere) => {
    updates = [];
    const turn = prompt(sessionId, text);
    await isThere();
    await agent.notify(methods.agent.session.cancel, { sessionId });
    release();
    return await turn;
  };
  const report = {};
  const cancels = async (session) => {
    report.cancel_stream = await cancelled(session, "scene:slow", () => until(() => said("agent_message_chunk").includes("tick 2")));
    report.cancel_tool = await cancelled(session, "scene:longcmd", () => until(() => states().includes("in_progress")));
    choice = "wait";
    report.cancel_permission = await cancelled(session, "scene:shell", () => new Promise((resolve) => (onAsked = resolve)));
    onAsked = () => {};
    choice = "allow_once";
  };
  const introduced = await agent.request(methods.agent.initialize, {
    protocolVersion: 1,
    clientCapabilities: { fs: { readTextFile: true, writeTextFile: true } },
  });
  if (model === "cancels") {
    await cancels((await start()).sessionId);
    return report;
  }
  report.version = introduced.protocolVersion;
  report.name = introduced.agentInfo.name;
  const opened = await start();
  const session = opened.sessionId;
  report.mode = opened.modes.currentModeId;
  report.text = [await prompt(session, "scene:text"), said("agent_message_chunk")];

  choice = "reject_once";
  updates = [];
  report.rejected = [await prompt(session, "scene:write"), states(), existsSync(hello)];
  choice = "allow_once";
  updates = [];
  report.allowed = [await prompt(session, "scene:write"), states(), existsSync(hello)];
  report.asked = [...asked];
  report.written = [...written];

  await cancels(session);

  updates = [];
  await agent.request(methods.agent.session.setMode, { sessionId: session, modeId: "plan" });
  report.set_mode = last("current_mode_update").currentModeId;
  const options = await agent.request(methods.agent.session.setConfigOption, { sessionId: session, configId: "model", value: model });
  report.set_model = options.configOptions.find((o) => o.id === "model").currentValue === model;
  updates = [];
  await prompt(session, "hello");
  report.other_model = said("agent_message_chunk");

  const [one, two] = [(await start()).sessionId, (await start()).sessionId];
  updates = [];
  report.two = await Promise.all([prompt(one, "scene:text"), prompt(two, "scene:think")]);
  report.two.push(said("agent_message_chunk", one), said("agent_message_chunk", two));

  await agent.request(methods.agent.session.close, { sessionId: one });
  updates = [];
  await agent.request(methods.agent.session.load, { sessionId: one, cwd: folder, mcpServers: [] });
  report.replay = [said("user_message_chunk"), said("agent_message_chunk")];
  report.listed = (await agent.request(methods.agent.session.list, {})).sessions.length;
  report.unknown = await prompt("ses_unknown", "x").then(() => 0, (error) => error.code);
  return report;
}

await app.connectWith(
  ndJsonStream(Writable.toWeb(started.stdin), Readable.toWeb(started.stdout)),
  async (agent) => writeFileSync(reportFile, JSON.stringify(await drive(agent))),
);
started.stdin.end();
const code = await new Promise((resolve) => started.once("exit", resolve));
process.exit(code ?? 1);
