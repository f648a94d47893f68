// The official TypeScript SDK as a client.
import { spawn } from "node:child_process";
import { Readable, Writable } from "node:stream";
import * as acp from "@agentclientprotocol/sdk";

const [command, ...args] = process.argv.slice(2);
const child = spawn(command, args, { stdio: ["pipe", "pipe", "inherit"] });
const stream = acp.ndJsonStream(Writable.toWeb(child.stdin), Readable.toWeb(child.stdout));
let received = 0;

await acp
  .client({ name: "bench" })
  .onNotification(acp.methods.client.session.update, ({ params }) => {
    received += params.update.content.text.length > 0;
  })
  .connectWith(stream, async (agent) => {
    await agent.request(acp.methods.agent.initialize, { protocolVersion: 1, clientCapabilities: {} });
    const { sessionId } = await agent.request(acp.methods.agent.session.new, { cwd: "/", mcpServers: [] });
    const cpu = process.cpuUsage();
    const start = process.hrtime.bigint();
    await agent.request(acp.methods.agent.session.prompt, { sessionId, prompt: [{ type: "text", text: "x" }] });
    const used = process.cpuUsage(cpu);
    const wall = Number(process.hrtime.bigint() - start) / 1e9;
    while (received < Number(process.env.COUNT ?? 20000)) await new Promise(setImmediate);
    console.log(JSON.stringify({ cpu: (used.user + used.system) / 1e6, wall, received }));
  });
child.kill();
process.exit(0);
