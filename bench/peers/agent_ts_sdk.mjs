// A minimal agent on the official TypeScript SDK.
import { Readable, Writable } from "node:stream";
import * as acp from "@agentclientprotocol/sdk";

const stream = acp.ndJsonStream(Writable.toWeb(process.stdout), Readable.toWeb(process.stdin));
acp
  .agent({ name: "bench" })
  .onRequest(acp.methods.agent.initialize, async () => ({ protocolVersion: 1, agentCapabilities: {}, authMethods: [] }))
  .onRequest(acp.methods.agent.session.new, async () => ({ sessionId: "s1" }))
  .connect(stream);
