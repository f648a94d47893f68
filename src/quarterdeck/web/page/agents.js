// @ts-check
// All agents: who needs you first.

import { mayAct, store } from "./connection.js";
import { AgentActions } from "./conversation.js";
import { Component, Empty, Head, State, html, useNow, useState } from "./parts.js";
import { formatAge, formatChanges, formatCost, literal, oneLine } from "./text.js";

export const Agents = () => {
  const now = useNow();
  const [words, setWords] = useState("");
  const agents = store.order.map((id) => store.agents.get(id)).filter(Boolean);
  const wanted = words.trim().toLowerCase();
  const shown = agents.filter((agent) => !wanted || [agent.name, agent.agent, agent.title, agent.cwd, agent.model].some((part) => part?.toLowerCase().includes(wanted)));
  const needed = agents.filter((agent) => agent.needs_person).length;
  const running = agents.filter((agent) => agent.state === "running").length;
  return html`
    <section class="view" aria-label="agents">
      <${Head} title="Agents" facts=${[`${agents.length}`, needed ? html`<span class="asking">${needed} ${needed === 1 ? "needs" : "need"} you</span>` : null, running ? `${running} running` : null]}>
        ${mayAct("operator") ? html`<a class="button main" href="#/spawn">new agent</a>` : null}
      <//>
      ${agents.length > 8 ? html`<p class="filter"><label class="unseen" for="filter">filter agents</label><input id="filter" type="search" placeholder="filter" value=${words} onInput=${(event) => setWords(event.target.value)} /></p>` : null}
      <ul class="rows" aria-label="agents">
        ${!agents.length ? html`<li><${Empty}>No agents yet. Start one with “new agent”, or with <code>quarterdeck spawn</code>.<//></li>` : null}
        ${shown.map((agent) => html`<${AgentRow} key=${agent.session} agent=${agent} plan=${store.plans[agent.session]?.join("/")} age=${formatAge(agent.updated, now)} role=${store.device?.role} />`)}
      </ul>
    </section>`;
};

/** A row is drawn again only when something in it has changed. */
class AgentRow extends Component {
  shouldComponentUpdate(next) {
    return Object.keys(next).some((name) => next[name] !== this.props[name]);
  }

  render(props) {
    return drawRow(props);
  }
}

const drawRow = ({ agent, plan, age }) => {
  const conflicts = (agent.conflicts ?? []).reduce((sum, one) => sum + one.files.length, 0);
  return html`
    <li class="row ${agent.needs_person ? "needed" : ""}">
      <a class="main-link" href=${`#/agent/${agent.session}`}>
        <span class="line-one"><${State} agent=${agent} /> <strong><bdi>${oneLine(agent.name, 60)}</bdi></strong>${" "}<span class="faint">${[oneLine(agent.agent, 24), agent.model && oneLine(agent.model, 28)].filter(Boolean).join(" · ")}</span></span>
        <span class="line-two faint"><bdi>${oneLine(agent.reason ?? agent.title ?? agent.cwd, 160)}</bdi></span>
        <span class="numbers">
          ${plan ? html`<span title="steps of its plan">☑ ${plan}</span>` : null}
          <span title="last change">${age}</span>
          <span title="cost">${formatCost(agent.cost)}</span>
          ${agent.changes ? html`<span title="changed lines">${formatChanges(agent.changes)}</span>` : null}
          ${conflicts ? html`<span class="asking" title="files that others change too">⚠ ${conflicts}<span class="unseen"> conflicts</span></span>` : null}
          ${agent.queue?.length ? html`<span title="prompts that wait">${agent.queue.length} queued</span>` : null}
        </span>
      </a>
      ${mayAct("operator") ? html`<details class="menu"><summary aria-label=${`actions for ${literal(agent.name)}`}>⋯</summary><span class="actions">
        <a class="button" href=${`#/review/${agent.session}`}>review</a><${AgentActions} agent=${agent} /></span></details>` : null}
    </li>`;
};
