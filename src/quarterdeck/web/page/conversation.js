// @ts-check
// One agent: its conversation over the log, and what can be said to it.

import { attempt, live, mayAct, notify, read, store } from "./connection.js";
import { RequestCard } from "./inbox.js";
import { Button, Component, DiffLines, Empty, Head, Problem, State, SureButton, html, useRef, useState } from "./parts.js";
import { Transcript, textOfAll } from "./transcript.js";
import { compareTexts, exact, formatChanges, formatCost, formatCount, formatSpan, formatTime, literal, oneLine, plainOutput, renderGrowing } from "./text.js";

const PAGE = 400;
const MOST = 4_000;
const NEAR = 120;
/** The most milliseconds that records wait so that a page which draws slowly does not draw all the time. */
const LONGEST_WAIT = 120;

/** A part of the log that moves: it grows at its end while that is in view, and at its start on request. */
export class Conversation extends Component {
  state = { error: null, isLoading: true, round: 0 };

  records = [];

  transcript = new Transcript();

  hasEarlier = false;

  isAtEnd = true;

  isDetached = false;

  frame = 0;

  timer = 0;

  // Milliseconds: when it was drawn last, and how long that took.
  drawn = 0;

  cost = 0;

  async componentDidMount() {
    await this.load();
  }

  componentWillUnmount() {
    this.isGone = true;
    this.sizes?.disconnect();
    this.stop?.();
    cancelAnimationFrame(this.frame);
    clearTimeout(this.timer);
  }

  // News of other agents change nothing here.
  shouldComponentUpdate(props, state) {
    const shown = [props.id, state.error, state.isLoading, state.round, this.transcript, this.transcript.version, store.agents.get(props.id), store.inbox, store.device];
    const isSame = this.shown?.every((one, at) => one === shown[at]);
    this.shown = shown;
    return !isSame;
  }

  async load() {
    this.stop?.();
    const { id, at } = this.props;
    try {
      const from = at ? `&after=${Math.max(0, at - 30)}` : "&before=900000000000000";
      const page = await read(`/records?agent=${encodeURIComponent(id)}&limit=${PAGE}${from}`);
      if (this.isGone) return;
      this.records = page.records;
      this.transcript = Transcript.of(this.records);
      this.hasEarlier = this.records.length > 0 && (at ? true : this.records.length === PAGE);
      this.isDetached = Boolean(at) && this.records.length === PAGE;
      this.isAtEnd = !at;
      this.setState({ error: null, isLoading: false });
      if (!this.isDetached) this.follow();
    } catch (error) {
      this.setState({ error, isLoading: false });
    }
  }

  follow() {
    const last = this.records.at(-1)?.seq ?? 0;
    this.stop = live.watch(this.props.id, last, (records) => this.append(records));
  }

  append(records) {
    if (this.isDetached) return;
    if (this.records.length + records.length > MOST) {
      if (!this.isAtEnd) {
        // What is being read stays; the end is loaded again on request.
        this.isDetached = true;
        this.stop?.();
        this.schedule();
        return;
      }
      this.records = [...this.records, ...records].slice(-MOST / 2);
      this.hasEarlier = true;
      this.transcript = Transcript.of(this.records);
    } else {
      this.records.push(...records);
      for (const record of records) this.transcript.take(record);
    }
    this.schedule();
  }

  // Many records, one frame; drawing takes at most half of the time.
  schedule() {
    // Who cannot be seen draws nothing; the page is drawn when it is seen again.
    if (this.frame || this.timer || document.hidden) return;
    const wait = this.drawn + Math.min(this.cost, LONGEST_WAIT) - performance.now();
    if (wait > 1) this.timer = setTimeout(() => { this.timer = 0; this.schedule(); }, wait);
    else this.frame = requestAnimationFrame(() => this.draw());
  }

  draw() {
    this.frame = 0;
    if (this.isGone) return;
    const begun = performance.now();
    this.setState((old) => ({ round: old.round + 1 }));
    // After the frame that shows it.
    setTimeout(() => {
      this.drawn = performance.now();
      this.cost = this.drawn - begun;
    });
  }

  loadEarlier = async () => {
    if (this.isLoadingEarlier || !this.hasEarlier) return;
    this.isLoadingEarlier = true;
    try {
      const first = this.records[0]?.seq ?? 0;
      const page = await read(`/records?agent=${encodeURIComponent(this.props.id)}&before=${first}&limit=${PAGE}`);
      if (this.isGone) return;
      this.hasEarlier = page.records.length === PAGE;
      this.records = [...page.records, ...this.records];
      if (this.records.length > MOST) {
        this.records = this.records.slice(0, MOST);
        this.isDetached = true;
        this.stop?.();
      }
      this.transcript = Transcript.of(this.records);
      this.isAtEnd = false;
      const { box } = this;
      const fromEnd = box ? box.scrollHeight - box.scrollTop : 0;
      this.setState((old) => ({ round: old.round + 1 }), () => { if (box) box.scrollTop = box.scrollHeight - fromEnd; });
    } catch (error) {
      notify(error.message, "bad");
    } finally {
      this.isLoadingEarlier = false;
    }
  };

  toEnd = async () => {
    this.isAtEnd = true;
    if (this.isDetached) {
      if (this.props.at) location.hash = `#/agent/${this.props.id}`;
      this.isDetached = false;
      await this.load();
    }
    this.setState((old) => ({ round: old.round + 1 }), () => this.stick());
  };

  // Blocks that come into view get their real height: only a person who scrolls up is no longer at the end.
  scrolled = () => {
    const { box } = this;
    if (!box) return; // the view is being taken away
    const isNear = box.scrollHeight - box.scrollTop - box.clientHeight < NEAR;
    const isUp = box.scrollTop < (this.lastTop ?? 0) - 1;
    this.lastTop = box.scrollTop;
    const isAtEnd = !this.isDetached && (isNear || (this.isAtEnd && !isUp));
    if (isAtEnd !== this.isAtEnd) {
      this.isAtEnd = isAtEnd;
      this.schedule();
    }
    if (box.scrollTop < NEAR && this.hasEarlier && !this.state.isLoading) this.loadEarlier();
  };

  // Called when something has got another size: its layout is known then, and costs nothing more.
  stick() {
    if (this.box && this.isAtEnd) this.box.scrollTop = this.box.scrollHeight;
  }

  hold = (inner) => {
    this.sizes?.disconnect();
    this.sizes = null;
    if (!inner) return;
    this.sizes = new ResizeObserver(() => this.stick());
    this.sizes.observe(inner);
    this.sizes.observe(inner.parentElement);
  };

  componentDidUpdate() {
    if (this.isAtEnd) return;
    if (this.props.at && this.box && !this.hasJumped) {
      this.hasJumped = true;
      this.box.querySelector(`[data-seq="${this.props.at}"]`)?.scrollIntoView({ block: "center" });
    }
  }

  render({ id }, { error, isLoading }) {
    const agent = store.agents.get(id);
    const name = agent?.name ?? id;
    const requests = store.inbox.filter((item) => item.session === id);
    const { blocks, plan } = this.transcript;
    return html`
      <section class="view talk" aria-label=${`conversation with ${literal(name)}`}>
        <${AgentHead} agent=${agent} id=${id} plan=${plan} isLoading=${isLoading} />
        ${error ? html`<${Problem} error=${error} retry=${() => this.load()} />` : null}
        <div class="blocks" ref=${(box) => { this.box = box; }} onScroll=${this.scrolled} tabindex="0" role="log" aria-label="conversation"><div ref=${this.hold}>
          ${this.hasEarlier ? html`<p class="more"><${Button} onPress=${this.loadEarlier}>earlier<//></p>` : null}
          ${!blocks.length && !isLoading ? html`<${Empty}>Nothing was said yet. Write a prompt below.<//>` : null}
          ${blocks.map((block) => html`<${Block} key=${block.key} block=${block} version=${block.version} />`)}
        </div></div>
        ${!this.isAtEnd ? html`<button type="button" class="to-end" onClick=${this.toEnd}>${this.isDetached ? "to the newest" : "new below"} ↓</button>` : null}
        <div class="below">
          ${requests.length ? html`<div class="asked">${requests.map((item) => html`<${RequestCard} key=${item.request} item=${item} isInTalk=${true} />`)}</div>` : null}
          ${agent && mayAct("operator") ? html`<${Composer} agent=${agent} />` : null}
        </div>
      </section>`;
  }
}

const AgentHead = ({ agent, id, plan, isLoading }) => {
  if (!agent) return html`<${Head} title=${id} back="#/agents" facts=${[isLoading ? "loading …" : "archived, or not of this fleet"]} />`;
  const done = plan?.filter((entry) => entry.status === "completed").length;
  const facts = [
    html`<${State} agent=${agent} />`, oneLine(agent.agent, 20), agent.model && oneLine(agent.model, 30),
    plan?.length ? `plan ${done}/${plan.length}` : null, agent.cost ? formatCost(agent.cost) : null,
    agent.context ? `${Math.round((100 * agent.context.used) / agent.context.size)} %` : null, oneLine(agent.cwd, 60),
  ];
  return html`
    <${Head} title=${literal(agent.name)} back="#/agents" facts=${facts}>
      <a class="button" href=${`#/review/${agent.session}`}>review ${agent.changes ? formatChanges(agent.changes) : ""}</a>
      ${mayAct("operator") ? html`<${AgentActions} agent=${agent} />` : null}
    <//>`;
};

/** What can be done with an agent now. */
export const AgentActions = ({ agent }) => {
  const body = { agent: agent.session };
  const isBusy = agent.is_live && ["running", "waiting", "starting"].includes(agent.state);
  return html`
    ${isBusy ? html`<${Button} onPress=${() => attempt("interrupt", body, "interrupted")}>interrupt<//>` : null}
    ${!agent.is_live && agent.can_resume ? html`<${Button} onPress=${() => attempt("resume", body, "resumed")}>resume<//>` : null}
    ${agent.is_live ? html`<${SureButton} onPress=${() => attempt("kill", body, "stopped")}>stop<//>` : null}
    ${!agent.is_live ? html`<${SureButton} onPress=${() => attempt("archive", body, "archived")}>archive<//>` : null}`;
};

/** A block is drawn again only when it has changed. */
class Block extends Component {
  shouldComponentUpdate(next) {
    return next.block !== this.props.block || next.version !== this.version;
  }

  render({ block }) {
    this.version = block.version;
    const draw = BLOCKS[block.kind];
    return html`<article class="block ${block.kind} ${block.parent ? "nested" : ""}" data-seq=${block.key}>
      ${draw(block)}
      ${block.isCut ? html`<a class="whole" href=${`/api/v1/records/${block.key}`} target="_blank" rel="noopener">the whole record</a>` : null}
    </article>`;
  }
}

const ORIGINS = { person: "you", agent: "an agent", schedule: "schedule", goal: "goal", hook: "hook" };
const CALL_SIGNS = { pending: ["◌", "faint"], in_progress: ["●", "running"], completed: ["✓", "good"], failed: ["✗", "bad"], cancelled: ["⊘", "faint"] };
const PLAN_SIGNS = { pending: "☐", in_progress: "◐", completed: "☑" };
const NOTICE_SIGNS = { info: ["·", "faint"], warning: ["!", "asking"], error: ["✗", "bad"] };

const BLOCKS = {
  prompt: (block) => html`
    <p class="who"><span class="running" aria-hidden="true">❯</span> ${ORIGINS[block.origin] ?? "you"}${block.steers ? " · during the turn" : ""} <time>${formatTime(block.time)}</time></p>
    <div class="said" dir="auto">${literal(block.text)}</div>`,
  message: (block) => html`<div class="prose">${renderGrowing(block.text, (block.drawn ??= {}))}</div>`,
  thought: (block) => html`<details class="thinking"><summary><span aria-hidden="true">✻</span> thinking: ${oneLine(block.text, 90)}</summary><div class="said" dir="auto">${literal(block.text)}</div></details>`,
  call: (block) => drawCall(block),
  plan: (block) => html`<ul class="plan" aria-label="plan">${block.entries.map((entry) => html`
    <li class=${entry.status === "completed" ? "faint" : ""}><span aria-hidden="true">${PLAN_SIGNS[entry.status] ?? "☐"}</span><span class="unseen">${entry.status}: </span> ${oneLine(entry.content, 300)}</li>`)}</ul>`,
  request: (block) => html`<p class=${block.answer ? "faint" : "asking"}>? ${oneLine(block.title, 200)}
    ${block.answer ? html` → ${oneLine(block.answer.words, 200)}${block.answer.by ? ` · ${oneLine(block.answer.by, 80)}` : ""}` : " · needs you"}</p>`,
  turn: (block) => {
    const failed = block.stop === "failed";
    const facts = [
      failed ? "failed" : block.stop === "cancelled" ? "stopped" : null, block.reason && literal(block.reason),
      block.usage ? `${formatCount((block.usage.input ?? 0) + (block.usage.output ?? 0))} tokens` : null, block.cost ? formatCost(block.cost) : null,
    ].filter(Boolean);
    return html`<p class="turn-end ${failed ? "bad" : "faint"}"><span>${failed ? "✗ " : ""}${facts.join(" · ") || "turn ended"}</span> <time>${formatTime(block.time)}</time></p>`;
  },
  notice: (block) => {
    const [sign, role] = NOTICE_SIGNS[block.severity] ?? NOTICE_SIGNS.info;
    return html`<p class=${role}><span aria-hidden="true">${sign}</span> ${literal(block.text)}${block.detail ? html` <span class="faint">${literal(block.detail)}</span>` : null}</p>`;
  },
  fact: (block) => html`<p class="faint">· ${oneLine(block.text, 300)}</p>`,
};

const drawCall = (block) => {
  const [sign, role] = CALL_SIGNS[block.status] ?? CALL_SIGNS.pending;
  const span = block.ended ? formatSpan(block.ended - block.time) : "";
  const isEdit = (block.content ?? []).some((item) => item.type === "diff");
  return html`
    <details open=${isEdit && block.status !== "completed"}>
      <summary><span class=${role} aria-hidden="true">${sign}</span><span class="unseen">${block.status}</span>${" "}${block.isPersons ? html`<span class="faint">! </span>` : null}<code>${exact(oneLine(block.title, 160))}</code>${" "}<span class="faint">${block.reason ? ` ${oneLine(block.reason, 80)}` : ""} ${block.exit !== undefined && block.exit !== 0 ? `exit ${block.exit}` : ""} ${span}</span>
      </summary>
      <${CallDetail} block=${block} />
    </details>`;
};

/** What a call was given and what came of it. */
export const CallDetail = ({ block }) => {
  const output = block.output ?? textOfOutput(block);
  return html`<div class="detail">
    ${hasInput(block) ? html`<${RawInput} value=${block.raw_input} />` : null}
    ${(block.content ?? []).map((item) => html`<${CallContent} item=${item} />`)}
    ${block.isOutputCut ? html`<p class="faint">only the end of the output is shown</p>` : null}
    ${output ? html`<pre class="output" tabindex="0" aria-label="output">${plainOutput(output)}</pre>` : null}
  </div>`;
};

const hasInput = (block) => block.raw_input !== undefined && block.raw_input !== null && JSON.stringify(block.raw_input) !== "{}";

const textOfOutput = (block) => {
  if (typeof block.raw_output === "string") return block.raw_output;
  return (block.content ?? []).length || !block.raw_output ? "" : JSON.stringify(block.raw_output, null, 2);
};

/** Arguments, each by its name; a command as it is. */
export const RawInput = ({ value }) => {
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    return html`<pre class="input" tabindex="0" aria-label="input">${exact(typeof value === "string" ? value : JSON.stringify(value, null, 2))}</pre>`;
  }
  return html`<dl class="input">${Object.entries(value).map(([name, part]) => html`
    <dt>${exact(name)}</dt><dd><pre tabindex="0" aria-label=${exact(name)}>${exact(typeof part === "string" ? part : JSON.stringify(part, null, 2))}</pre></dd>`)}</dl>`;
};

/** One item of a call's content. */
export const CallContent = ({ item }) => {
  if (item.type === "diff") {
    return html`<p class="path"><code>${exact(item.path)}</code>${item.oldText === undefined || item.oldText === null ? " · new file" : ""}</p>
      <${DiffLines} lines=${compareTexts(item.oldText, item.newText)} show=${exact} />`;
  }
  if (item.type === "content") return html`<pre class="output" tabindex="0" aria-label="content">${plainOutput(textOfAll([item.content]))}</pre>`;
  return null;
};

/** Where prompts are written; a draft stays with its agent. */
const Composer = ({ agent }) => {
  const key = `draft ${agent.session}`;
  const [draft, setDraft] = useState(sessionStorage.getItem(key) ?? "");
  const field = useRef(null);
  const write = (words) => {
    setDraft(words);
    if (words) sessionStorage.setItem(key, words);
    else sessionStorage.removeItem(key);
  };
  const isRunning = agent.state === "running" || agent.state === "waiting";
  const send = async (method) => {
    const words = draft.trim();
    if (!words) return;
    write("");
    const body = { agent: agent.session, content: [{ type: "text", text: words }] };
    const { isDone } = await attempt(method, body);
    if (!isDone) write(words);
    field.current?.focus();
  };
  const pressed = (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    if (matchMedia("(pointer: coarse)").matches && !event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    send("send");
  };
  if (!agent.is_live && !agent.can_resume) return html`<p class="faint">It has ended.</p>`;
  return html`
    ${(agent.queue ?? []).map((prompt) => html`<p class="queued"><span class="faint">waits:</span> ${oneLine(textOfAll(prompt.content), 120)}
      <${Button} onPress=${() => attempt("edit", { agent: agent.session, message: prompt.message, content: null }, "dropped")} label="drop this prompt">drop<//></p>`)}
    <form class="composer" onSubmit=${(event) => { event.preventDefault(); send("send"); }}>
      <label class="unseen" for="prompt">prompt for ${literal(agent.name)}</label>
      <textarea id="prompt" ref=${field} rows="2" placeholder=${isRunning ? "a prompt for the queue, or a message for this turn" : agent.is_live ? "a prompt" : "a prompt, which resumes it"}
        value=${draft} onInput=${(event) => write(event.target.value)} onKeyDown=${pressed} dir="auto"></textarea>
      <span class="actions">
        <button type="submit" class="main" disabled=${!draft.trim()}>${isRunning ? "queue" : "send"}</button>
        ${isRunning ? html`<${Button} isOff=${!draft.trim()} onPress=${() => send("steer")}>steer<//>` : null}
      </span>
    </form>`;
};
