// @ts-check
// What all views are made of.

import { h, Component } from "./vendor/preact.mjs";
import { useEffect, useRef, useState } from "./vendor/preact-hooks.mjs";
import htm from "./vendor/htm.mjs";
import { store } from "./connection.js";

export const html = htm.bind(h);
export { Component, useEffect, useRef, useState };

export const SIGNS = {
  "needs you": ["?", "asking", "needs you"],
  running: ["●", "running", "running"],
  waiting: ["●", "running", "running"],
  starting: ["◌", "faint", "starting"],
  idle: ["○", "faint", "idle"],
  done: ["✓", "good", "done"],
  failed: ["✗", "bad", "failed"],
  interrupted: ["⊘", "faint", "stopped"],
  killed: ["⊘", "faint", "stopped"],
};

export const stateOf = (agent) => SIGNS[agent.needs_person ? "needs you" : agent.state] ?? ["·", "faint", agent.state];

/** The sign and the word of an agent's state. */
export const State = ({ agent, isShort }) => {
  const [sign, role, word] = stateOf(agent);
  return html`<span class="state ${role}"><span aria-hidden="true">${sign}</span><span class=${isShort ? "unseen" : ""}> ${word}</span></span>`;
};

/** The head of a view: its name, facts, and what can be done. */
export const Head = ({ title, facts = [], children, back }) => html`
  <header class="head">
    ${back ? html`<a class="back" href=${back} aria-label="back">‹</a>` : null}
    <h1 tabindex="-1">${title}</h1>
    <span class="facts">${facts.filter(Boolean).map((fact, at) => html`${at ? " · " : ""}<span>${fact}</span>`)}</span>
    <span class="actions">${children}</span>
  </header>`;

export const Empty = ({ children }) => html`<p class="empty">${children}</p>`;

export const Problem = ({ error, retry }) => html`
  <p class="problem" role="alert"><span class="bad">✗</span> ${error.message ?? String(error)}
    ${retry ? html` <button type="button" onClick=${retry}>try again</button>` : null}</p>`;

/** A button that cannot be pressed twice while its work is done. */
export const Button = ({ onPress, children, kind = "", isOff = false, label, ...rest }) => {
  const [isBusy, setBusy] = useState(false);
  const isThere = useRef(true);
  useEffect(() => () => { isThere.current = false; }, []);
  const press = async (event) => {
    event.stopPropagation();
    setBusy(true);
    try {
      await onPress(event);
    } finally {
      if (isThere.current) setBusy(false);
    }
  };
  return html`<button type="button" class=${kind} disabled=${isBusy || isOff} aria-label=${label} aria-busy=${isBusy} onClick=${press} ...${rest}>${children}</button>`;
};

/** A button that is pressed twice: for what cannot be undone. */
export const SureButton = ({ children, onPress, kind = "", ...rest }) => {
  const [isSure, setSure] = useState(false);
  useEffect(() => {
    if (!isSure) return undefined;
    const timer = setTimeout(() => setSure(false), 4000);
    return () => clearTimeout(timer);
  }, [isSure]);
  if (!isSure) return html`<${Button} kind=${kind} onPress=${() => setSure(true)} ...${rest}>${children}<//>`;
  return html`<${Button} kind="danger" onPress=${async () => { await onPress(); setSure(false); }} ...${rest}>${children}: really?<//>`;
};

/** Something that is loaded when a view opens, and again when `keys` change. */
export const useLoaded = (load, keys) => {
  const [found, setFound] = useState({ value: null, error: null, isLoading: true });
  const [round, setRound] = useState(0);
  useEffect(() => {
    let isCurrent = true;
    setFound((old) => ({ ...old, isLoading: true }));
    load().then(
      (value) => { if (isCurrent) setFound({ value, error: null, isLoading: false }); },
      (error) => { if (isCurrent) setFound((old) => ({ value: old.value, error, isLoading: false })); },
    );
    return () => { isCurrent = false; };
  }, [...keys, round]);
  return { ...found, reload: () => setRound((old) => old + 1) };
};

/** Microseconds since the epoch by the server's clock, once a second while the page is visible. */
export const useNow = () => {
  const [, setTick] = useState(0);
  useEffect(() => {
    const timer = setInterval(() => { if (!document.hidden) setTick((old) => old + 1); }, 1000);
    return () => clearInterval(timer);
  }, []);
  return Date.now() * 1000 + store.clockOffset;
};

/** Lines of a change; `onLine` makes their numbers buttons. */
export const DiffLines = ({ lines, show, onLine, children }) => html`
  <div class="diff" role="group" aria-label="changes" tabindex="0">
    ${lines.map(([sign, text, old, now], at) => html`
      <div class="line ${{ "+": "added", "-": "removed", "…": "skipped", "@": "skipped" }[sign] ?? ""}">
        ${onLine && (old || now)
          ? html`<button type="button" class="number" aria-label=${`comment on line ${now ?? old}`} onClick=${() => onLine({ line: now ?? old, isOld: now === null })}>${now ?? old}</button>`
          : html`<span class="number">${now ?? old ?? ""}</span>`}
        <span class="sign">${sign === "-" ? "−" : sign}</span><code>${show(text) || " "}</code>
      </div>
      ${children?.([sign, text, old, now], at)}`)}
  </div>`;
