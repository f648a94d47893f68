// @ts-check
// A part of an agent's log as the blocks of a conversation. Pure: records in, blocks out.

const textOf = (content) => {
  switch (content?.type) {
    case "text": return content.text;
    case "image": return `[image, ${content.mimeType}]`;
    case "audio": return `[audio, ${content.mimeType}]`;
    case "resource_link": return `[${content.name}: ${content.uri}]`;
    case "resource": return content.resource?.text ?? `[${content.resource?.uri}]`;
    default: return content ? JSON.stringify(content) : "";
  }
};

export const textOfAll = (contents) => (contents ?? []).map(textOf).join("\n");

/** Keeps the last so many characters of output. */
const MOST_OUTPUT = 40_000;

export class Transcript {
  constructor() {
    this.blocks = [];
    this.version = 0;
    this.plan = null;
    this.calls = new Map();
    this.terminals = new Map();
    this.requests = new Map();
    this.isRunning = false;
  }

  static of(records) {
    const made = new Transcript();
    for (const record of records) made.take(record);
    return made;
  }

  add(kind, record, fields = {}) {
    const block = { kind, key: record.seq, time: record.time, version: 0, parent: record.parent, isCut: record.is_cut, ...fields };
    this.blocks.push(block);
    return block;
  }

  touch(block) {
    block.version += 1;
  }

  take(record) {
    this.version += 1;
    const { event } = record;
    const handler = HANDLERS[event.type];
    if (handler) handler(this, event, record);
    else if (!SILENT.has(event.type)) this.add("fact", record, { text: describe(event) });
  }

  stream(kind, record, event) {
    const last = this.blocks.at(-1);
    const id = event.message ?? null;
    if (last?.kind === kind && last.parent === record.parent && (id === null || last.message === null || last.message === id)) {
      last.text += textOf(event.content);
      last.message ??= id;
      last.isCut ||= record.is_cut;
      this.touch(last);
    } else this.add(kind, record, { text: textOf(event.content), message: id });
  }

  call(event, record) {
    let block = this.calls.get(event.call);
    if (!block) {
      // Its start is before the part that is loaded.
      block = this.add("call", record, { call: event.call, title: event.call, content: [], status: "pending", outputs: [] });
      this.calls.set(event.call, block);
    }
    return block;
  }

  updateCall(event, record) {
    const block = this.call(event, record);
    for (const field of ["title", "name", "status", "content", "locations", "raw_input", "raw_output", "reason"]) {
      if (event[field] !== undefined) block[field] = event[field];
    }
    if (event.kind !== undefined) block.tool = event.kind;
    block.isCut ||= record.is_cut;
    for (const item of block.content ?? []) {
      if (item.type === "terminal") this.terminals.set(item.terminalId, block);
    }
    this.touch(block);
    return block;
  }
}

const HANDLERS = {
  prompted: (into, event, record) => into.add("prompt", record, {
    text: textOfAll(event.content), origin: event.origin ?? "person", steers: event.steers ?? false,
  }),
  message_chunk: (into, event, record) => into.stream(event.role === "user" ? "prompt" : "message", record, event),
  thought_chunk: (into, event, record) => into.stream("thought", record, event),
  tool_call_started: (into, event, record) => {
    const block = into.add("call", record, { call: event.call, content: [], status: "pending", outputs: [] });
    into.calls.set(event.call, block);
    into.updateCall(event, record);
  },
  tool_call_updated: (into, event, record) => into.updateCall(event, record),
  tool_call_ended: (into, event, record) => {
    const block = into.updateCall(event, record);
    block.ended = record.time;
  },
  command_started: (into, event, record) => {
    const block = into.add("call", record, {
      title: event.command, tool: "execute", status: "in_progress", content: [], outputs: [], isPersons: true,
    });
    into.terminals.set(event.terminal, block);
  },
  terminal_output: (into, event, record) => {
    let block = into.terminals.get(event.terminal);
    if (!block) {
      block = into.add("call", record, { title: "output", tool: "execute", status: "in_progress", content: [], outputs: [] });
      into.terminals.set(event.terminal, block);
    }
    block.output = ((block.output ?? "") + event.data).slice(-MOST_OUTPUT);
    block.isOutputCut ||= (block.output.length === MOST_OUTPUT);
    into.touch(block);
  },
  terminal_exited: (into, event) => {
    const block = into.terminals.get(event.terminal);
    if (!block) return;
    block.exit = event.signal ?? event.exit_code;
    if (block.isPersons) block.status = event.exit_code === 0 ? "completed" : "failed";
    into.touch(block);
  },
  plan_changed: (into, event, record) => {
    into.plan = event.entries;
    const last = into.blocks.at(-1);
    if (last?.kind === "plan") {
      last.entries = event.entries;
      into.touch(last);
    } else into.add("plan", record, { entries: event.entries });
  },
  permission_asked: (into, event, record) => {
    const block = into.add("request", record, { request: event.request, title: event.title, answer: null });
    into.requests.set(event.request, block);
  },
  question_asked: (into, event, record) => {
    const block = into.add("request", record, { request: event.request, title: event.text, answer: null });
    into.requests.set(event.request, block);
  },
  permission_answered: (into, event, record) => {
    const words = event.outcome.outcome === "selected" ? (event.kind ?? event.outcome.optionId) : "cancelled";
    answer(into, event, record, `${words.replaceAll("_", " ")}${event.feedback ? `: ${event.feedback}` : ""}`);
  },
  question_answered: (into, event, record) => answer(into, event, record, event.action),
  permission_violated: (into, event, record) => into.add("notice", record, {
    severity: "error", text: `Done without permission: ${event.title}`, detail: event.reason,
  }),
  turn_started: (into) => { into.isRunning = true; },
  turn_ended: (into, event, record) => {
    into.isRunning = false;
    into.add("turn", record, { stop: event.stop, reason: event.reason, usage: event.usage, cost: event.cost });
  },
  notice: (into, event, record) => into.add("notice", record, {
    severity: event.severity ?? "info", text: event.title, detail: event.description,
  }),
  rate_limited: (into, event, record) => into.add("notice", record, { severity: "warning", text: `Rate limit: ${event.reason}` }),
  session_ended: (into, event, record) => {
    into.isRunning = false;
    interrupt(into);
    into.add("fact", record, { text: `session ${event.how ?? "ended"}${event.reason ? `: ${event.reason}` : ""}` });
  },
};

/** Calls that are open when their session ends have no result, and none will come. */
const interrupt = (into) => {
  for (const block of into.calls.values()) {
    if (block.status === "pending" || block.status === "in_progress") {
      Object.assign(block, { status: "cancelled", reason: "interrupted" });
      into.touch(block);
    }
  }
};

const answer = (into, event, record, words) => {
  const by = event.by?.name ?? event.by?.kind ?? "";
  const block = into.requests.get(event.request);
  if (block) {
    block.answer = { words, by };
    into.touch(block);
  } else if (event.by?.kind === "person") into.add("fact", record, { text: `${words} · ${by}` });
};

/** Events that other parts of the screen show, or that say nothing to a person. */
const SILENT = new Set([
  "prompt_queued", "prompt_dropped", "model_call_started", "model_call_finished", "model_call_metered", "usage_reported",
  "commands_changed", "options_changed", "checkpointed", "changes_counted", "budget_reserved", "budget_settled",
  "budget_carried", "compaction_chunk", "session_changed",
]);

const describe = (event) => {
  const words = event.type.replaceAll("_", " ");
  const detail = event.reason ?? event.name ?? event.title ?? event.mode ?? event.how ?? "";
  return detail && typeof detail === "string" ? `${words}: ${detail}` : words;
};
