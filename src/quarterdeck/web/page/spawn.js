// @ts-check
// A new agent: real choices from what is installed.

import { call, notify, read, store } from "./connection.js";
import { Head, Problem, html, useLoaded, useState } from "./parts.js";
import { oneLine } from "./text.js";

const MODES = ["", "ask", "accept-edits", "plan", "read-only", "full-auto", "deny-all"];
const EFFORTS = ["", "off", "low", "medium", "high"];

export const Spawn = () => {
  const { value: agents, error, isLoading, reload } = useLoaded(() => read("/agents"), []);
  const [fields, setFields] = useState({ agent: "native", cwd: localStorage.getItem("directory") ?? "" });
  const [isBusy, setBusy] = useState(false);
  const known = [...store.agents.values()];
  const set = (name) => (event) => setFields((old) => ({ ...old, [name]: event.target.type === "checkbox" ? event.target.checked : event.target.value }));
  const directories = [...new Set(known.map((agent) => agent.worktree?.repository ?? agent.cwd))];
  const models = [...new Set(known.filter((agent) => agent.agent === fields.agent && agent.model).map((agent) => agent.model))];
  const chosen = agents?.find((one) => one.name === fields.agent);
  const start = async (event) => {
    event.preventDefault();
    setBusy(true);
    try {
      const options = { agent: fields.agent, cwd: fields.cwd };
      for (const name of ["model", "mode", "effort", "agent_mode"]) if (fields[name]) options[name] = fields[name];
      if (fields.worktree) options.worktree = {};
      const request = { options };
      if (fields.name) request.name = fields.name;
      if (fields.prompt) request.prompt = fields.prompt;
      if (fields.cost) request.budget = [{ unit: "usd", amount: Number(fields.cost) }];
      const made = await call("spawn", { request });
      localStorage.setItem("directory", fields.cwd);
      location.hash = `#/agent/${made.session}`;
    } catch (problem) {
      notify(problem.message, "bad");
    } finally {
      setBusy(false);
    }
  };
  return html`
    <section class="view" aria-label="new agent">
      <${Head} title="New agent" back="#/agents" facts=${[isLoading ? "loading …" : null]} />
      ${error ? html`<${Problem} error=${error} retry=${reload} />` : null}
      <form class="form page" onSubmit=${start}>
        <div class="field"><label for="agent">agent</label><select id="agent" value=${fields.agent} onChange=${set("agent")}>
          ${(agents ?? [{ name: "native", title: "Quarterdeck" }]).map((one) => html`<option value=${one.name}>${oneLine(one.title || one.name, 40)} ${one.version ? `(${oneLine(one.version, 20)})` : ""}${one.login === "no" ? " · not logged in" : ""}</option>`)}</select></div>
        <div class="field"><label for="cwd">directory</label><input id="cwd" required list="directories" value=${fields.cwd} onInput=${set("cwd")} placeholder="/home/you/project" autocapitalize="off" spellcheck=${false} />
          <datalist id="directories">${directories.map((one) => html`<option value=${one}></option>`)}</datalist></div>
        <div class="field"><label for="first">prompt</label><textarea id="first" rows="4" value=${fields.prompt ?? ""} onInput=${set("prompt")} dir="auto"></textarea></div>
        <div class="field"><label for="name">name <span class="faint">optional</span></label><input id="name" value=${fields.name ?? ""} onInput=${set("name")} autocapitalize="off" /></div>
        <div class="field"><label><input type="checkbox" checked=${Boolean(fields.worktree)} onChange=${set("worktree")} /> a git worktree of its own</label></div>
        <details><summary>more</summary>
          <div class="field"><label for="model">model</label><input id="model" list="models" value=${fields.model ?? ""} onInput=${set("model")} placeholder="as configured" autocapitalize="off" /><datalist id="models">${models.map((one) => html`<option value=${one}></option>`)}</datalist></div>
          <div class="field"><label for="mode">mode</label><select id="mode" value=${fields.mode ?? ""} onChange=${set("mode")}>${MODES.map((one) => html`<option value=${one}>${one || "as configured"}</option>`)}</select></div>
          ${chosen?.agent_modes?.length ? html`<div class="field"><label for="agent_mode">the agent’s own mode</label><select id="agent_mode" value=${fields.agent_mode ?? ""} onChange=${set("agent_mode")}><option value="">as configured</option>${chosen.agent_modes.map((one) => html`<option value=${one}>${oneLine(one, 40)}</option>`)}</select></div>` : null}
          <div class="field"><label for="effort">effort</label><select id="effort" value=${fields.effort ?? ""} onChange=${set("effort")}>${EFFORTS.map((one) => html`<option value=${one}>${one || "as configured"}</option>`)}</select></div>
          <div class="field"><label for="cost">budget in $</label><input id="cost" type="number" min="0" step="0.01" value=${fields.cost ?? ""} onInput=${set("cost")} placeholder="none" /></div>
        </details>
        <p class="actions"><button type="submit" class="main" disabled=${isBusy || !fields.cwd}>start</button></p>
      </form>
    </section>`;
};
