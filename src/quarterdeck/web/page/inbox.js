// @ts-check
// Requests that wait for a decision, with everything that is decided about.

import { attempt, call, mayAct, notify, store } from "./connection.js";
import { CallContent, RawInput } from "./conversation.js";
import { Button, Empty, Head, html, useEffect, useNow, useRef, useState } from "./parts.js";
import { exact, formatAge, literal, oneLine } from "./text.js";

const ORDER = ["allow_once", "allow_always", "reject_once", "reject_always"];
const SWIPE = 110;

export const Inbox = () => {
  const { inbox } = store;
  const items = new Map(inbox.map((item) => [item.request, item]));
  return html`
    <section class="view" aria-label="inbox">
      <${Head} title="Inbox" facts=${[inbox.length ? `${inbox.length} open` : "nothing open"]} />
      <div class="cards">
        ${!inbox.length ? html`<${Empty}>No agent needs you. Requests appear here, whichever agent asks.<//>` : null}
        ${store.groups.map((group) => {
          const members = group.members.map((one) => items.get(one.request)).filter(Boolean);
          if (members.length > 1) return html`<${GroupCard} key=${members[0].request} group=${group} items=${members} />`;
          return members.map((item) => html`<${RequestCard} key=${item.request} item=${item} />`);
        })}
      </div>
    </section>`;
};

/** Who wants what, in a few words. */
const describeGroup = (group, count) => {
  const [first] = group.members;
  const what = oneLine(group.what, 120);
  if (group.agents === 1) return html`<bdi>${oneLine(first.name, 60)}</bdi> wants <code>${what}</code>, ${count} times`;
  return html`${group.agents} agents want <code>${what}</code>${count > group.agents ? `, ${count} times` : ""}`;
};

/** Requests that one answer may decide, as the fleet has grouped them. The answer names those that are shown. */
const GroupCard = ({ group, items }) => {
  const now = useNow();
  const [isApart, setApart] = useState(false);
  const [first] = items;
  const hasPlaces = new Set(group.members.map((one) => one.cwd)).size > 1;
  return html`
    <article class="card group" role="group" aria-label=${`${items.length} requests that are alike`}>
      <p class="who"><span class="asking" aria-hidden="true">?</span> <strong>${describeGroup(group, items.length)}</strong>
        <span class="faint">${formatAge(first.since, now)}</span></p>
      <${Asked} item=${first} hasPlace=${!hasPlaces} />
      <ul class="members" aria-label="who asks">${group.members.map((one) => html`<li key=${one.request}>
        <a href=${`#/agent/${one.session}`}><bdi>${oneLine(one.name, 60)}</bdi></a>
        ${hasPlaces ? html` <span class="faint">in <code>${exact(one.cwd)}</code></span>` : null}
        ${Object.entries(one.differences ?? {}).map(([name, value]) => html` <span><span class="faint">${exact(name)}</span> <code>${exact(value)}</code></span>`)}</li>`)}</ul>
      <${Approvals} item=${first} />
      <${Decision} items=${items} />
      <details class="apart" onToggle=${(event) => setApart(event.currentTarget.open)}><summary>one by one</summary>
        ${isApart && items.map((item) => html`<${RequestCard} key=${item.request} item=${item} />`)}</details>
    </article>`;
};

/** One request. In a conversation it stands above the input. */
export const RequestCard = ({ item, isInTalk = false }) => {
  const now = useNow();
  const agent = store.agents.get(item.session);
  const asked = item.permission ?? item.question;
  const card = useRef(null);
  const canSwipe = canBeSwiped(item);
  useSwipe(card, item, canSwipe);
  return html`
    <article class="card" ref=${card} aria-label=${`request of ${oneLine(item.name, 60)}`}>
      <p class="who">
        <span class="asking" aria-hidden="true">?</span>
        ${isInTalk ? null : html`<a href=${`#/agent/${item.session}`}><strong><bdi>${oneLine(item.name, 60)}</bdi></strong></a>`}
        <span class="faint">${[agent && oneLine(agent.agent, 20), asked.child && `for ${oneLine(asked.child.name, 40)}`, formatAge(item.since, now)].filter(Boolean).join(" · ")}</span>
      </p>
      ${item.permission ? html`<${Asked} item=${item} hasPlace=${true} /><${Approvals} item=${item} /><${Decision} items=${[item]} />` : html`<${Question} item=${item} />`}
      ${canSwipe ? html`<p class="swipe-hint faint" aria-hidden="true"><span class="to-deny">← deny</span><span class="to-allow">allow once →</span></p>` : null}
    </article>`;
};

/** What is asked for, whole. */
const Asked = ({ item, hasPlace }) => {
  const asked = item.permission;
  const input = asked.raw_input;
  const cwd = item.cwd || store.agents.get(item.session)?.cwd;
  const hasDiff = (asked.content ?? []).some((one) => one.type === "diff");
  return html`
    ${input?.command === asked.title && !hasDiff ? null : html`<p class="what">${exact(asked.title)}</p>`}
    ${input !== undefined && input !== null && !hasDiff ? html`<${RawInput} value=${input} />` : null}
    ${(asked.content ?? []).map((one) => html`<${CallContent} item=${one} />`)}
    ${hasDiff && input !== undefined && input !== null ? html`<details><summary class="faint">the call as the agent made it</summary><${RawInput} value=${input} /></details>` : null}
    ${hasPlace && cwd ? html`<p class="faint">in <code>${exact(cwd)}</code></p>` : null}
    ${asked.reason ? html`<p class="asking">! ${literal(asked.reason)}</p>` : null}
    ${(item.traits?.risks ?? []).map((risk) => html`<p class="asking">! ${literal(risk)}</p>`)}
    ${item.is_cut ? html`<p class="asking">! This request is long and cut here. <a href=${`/api/v1/records/${item.seq}`} target="_blank" rel="noopener">See all of it</a> before you decide.</p>` : null}`;
};

const approversOf = (item) => [...new Set((item.permission.approvals ?? []).flatMap((rule) => rule.people))];

/** Who has to allow a request, and who has; nothing where the first answer counts. */
const Approvals = ({ item }) => {
  const approved = item.approved ?? [];
  const rules = item.permission.approvals ?? [];
  if (!rules.length) return null;
  return html`<ul class="approvals" aria-label="people who have to allow it">${rules.map((rule) => {
    const allowed = rule.people.filter((name) => approved.includes(name));
    const left = rule.people.filter((name) => !approved.includes(name));
    const needed = rule.needed ?? 1;
    return html`<li><span class="asking" aria-hidden="true">?</span> <strong>${allowed.length} of ${needed}</strong> allowed it${allowed.length ? ": " : ""}<bdi>${literal(allowed.join(", "))}</bdi>
      ${allowed.length < needed ? html`<span class="faint"> · waits for <bdi>${literal(left.join(left.length > needed - allowed.length ? " or " : " and "))}</bdi></span>` : null}</li>`;
  })}</ul>`;
};

/** What this device can answer. */
const Decision = ({ items }) => {
  const [item] = items;
  const people = approversOf(item);
  const person = store.device.person;
  if (!mayAct("approver")) return html`<p class="faint">This device may only look.</p>`;
  if (people.length && !people.includes(person)) return html`<p class="faint">This device is <bdi>${oneLine(person, 60)}</bdi>’s: it cannot answer this.</p>`;
  const hasAllowed = people.length > 0 && items.every((one) => (one.approved ?? []).includes(person));
  return html`${hasAllowed ? html`<p class="good">✓ you allowed it</p>` : null}<${Choices} items=${items} hasAllowed=${hasAllowed} />`;
};

/** Answer requests alike; says what did not become of it. */
const answerAll = async (items, choice, feedback = null) => {
  const { isDone, result } = await attempt("answer_group", { requests: items.map((item) => item.request), choice, feedback });
  if (!isDone) return;
  const skipped = result.skipped?.length ?? 0;
  const waiting = result.waiting?.length ?? 0;
  if (skipped) notify(items.length === 1 ? "it was already answered" : `${skipped} of ${items.length} were already answered`);
  if (waiting) notify(items.length === 1 ? "others have to allow it, too" : `others have to allow ${waiting} of ${items.length}, too`);
};

const Choices = ({ items, hasAllowed }) => {
  const [item] = items;
  const [words, setWords] = useState(null);
  const [isLasting, setLasting] = useState(false);
  const ordered = [...item.permission.options].sort((one, two) => rank(one) - rank(two));
  const options = ordered.filter((option) => !(hasAllowed && option.kind.startsWith("allow")) && (items.length === 1 || isForAll(option, ordered)));
  const answer = (option, feedback = null) => answerAll(items, option.optionId, feedback);
  const lasting = options.filter((option) => option.kind.endsWith("_always"));
  const once = options.filter((option) => !option.kind.endsWith("_always"));
  const deny = options.find((option) => option.kind === "reject_once");
  const many = items.length > 1 ? ` all ${items.length}` : "";
  const label = (option) => (many ? { allow_once: `allow${many} once`, reject_once: `deny${many}` }[option.kind] : null) ?? labelOf(option);
  return html`
    <p class="actions choices">
      ${once.filter((option) => words === null || option !== deny).map((option) => html`<${Button} key=${option.optionId} kind=${option.kind.startsWith("allow") ? "main" : "deny"} onPress=${() => answer(option)}>${label(option)}<//>`)}
      ${deny && words === null ? html`<${Button} kind="deny" onPress=${() => setWords("")}>deny${many} with words<//>` : null}
    </p>
    ${words !== null ? html`
      <form class="composer" onSubmit=${(event) => { event.preventDefault(); answer(deny, words.trim() || null); }}>
        <label class="unseen" for=${`words ${item.request}`}>what the agent should do instead</label>
        <textarea id=${`words ${item.request}`} rows="2" placeholder="what it should do instead" value=${words} onInput=${(event) => setWords(event.target.value)} autofocus></textarea>
        <span class="actions"><button type="submit" class="deny">deny${many}</button><button type="button" onClick=${() => setWords(null)}>back</button></span>
      </form>` : null}
    ${lasting.length ? html`<details class="lasting" onToggle=${(event) => setLasting(event.currentTarget.open)}><summary>for longer</summary>
      ${isLasting && lasting.map((option) => html`<${LastingChoice} key=${option.optionId} option=${option} onPress=${() => answer(option)} />`)}</details>` : null}`;
};

/** Of several requests: what an agent itself would remember means nothing to others. */
const isForAll = (option, ordered) => Boolean(option._meta?.quarterdeck) || (!option.kind.endsWith("_always") && ordered.find((one) => one.kind === option.kind) === option);

const rank = (option) => { const at = ORDER.indexOf(option.kind); return at < 0 ? ORDER.length : at; };

const labelOf = (option) => {
  if (!option._meta?.quarterdeck) return exact(option.name);
  return { allow_once: "allow once", reject_once: "deny" }[option.kind] ?? exact(option.name);
};

/** A rule that would be kept, and what it would have decided so far. */
const LastingChoice = ({ option, onPress }) => {
  const [tried, setTried] = useState(null);
  const patterns = option._meta?.quarterdeck?.patterns ?? [];
  const effect = option._meta?.quarterdeck?.effect ?? "allow";
  const key = patterns.join("\n");
  useEffect(() => {
    let isThere = true;
    if (patterns.length) {
      call("back_test", { rules: patterns.map((one) => `${effect} ${one}`), limit: 1 }).then(
        (found) => { if (isThere) setTried(describeTest(found)); },
        () => {},
      );
    }
    return () => { isThere = false; };
  }, [key]);
  return html`<div class="rule"><${Button} onPress=${onPress}>${exact(option.name)}<//>
    ${tried ? html`<span class="faint"> ${tried}</span>` : null}</div>`;
};

const describeTest = (found) => {
  if (!found.requests) return "no earlier requests to try it on";
  const denied = found.allowed_denied ? `, ${found.allowed_denied} that you denied` : ", none that you denied";
  return `would have answered ${found.allowed + found.denied} of ${found.requests} requests${denied}`;
};

const Question = ({ item }) => {
  const asked = item.question;
  const [values, setValues] = useState({});
  const properties = Object.entries(asked.form?.properties ?? {});
  const required = asked.form?.required ?? [];
  const isComplete = required.every((name) => values[name] !== undefined && values[name] !== "");
  const set = (name, value) => setValues((old) => ({ ...old, [name]: value }));
  const reply = (action) => attempt("reply", { request: item.request, action, content: action === "accept" && properties.length ? values : null });
  return html`
    <p class="what" dir="auto">${literal(asked.text)}</p>
    ${asked.url ? html`<p>It asks you to open <code>${exact(asked.url)}</code></p>` : null}
    ${mayAct("approver") ? html`
      <form class="form" onSubmit=${(event) => { event.preventDefault(); reply("accept"); }}>
        ${properties.map(([name, schema]) => html`<${FormField} key=${name} name=${name} id=${`${item.request} ${name}`} schema=${schema} isRequired=${required.includes(name)} value=${values[name]} set=${(value) => set(name, value)} />`)}
        <p class="actions"><button type="submit" class="main" disabled=${!isComplete}>answer</button>
          <${Button} kind="deny" onPress=${() => reply("decline")}>decline<//></p>
      </form>` : html`<p class="faint">This device may only look.</p>`}`;
};

/** A field of a form, by its schema. */
const FormField = ({ name, id, schema, value, set, isRequired }) => {
  const label = html`<label for=${id}>${exact(schema.title ?? name)}${isRequired ? "" : html` <span class="faint">optional</span>`}</label>
    ${schema.description ? html`<span class="faint">${literal(schema.description)}</span>` : null}`;
  const choices = schema.enum ?? schema.oneOf?.map((one) => one.const);
  const many = schema.type === "array" ? (schema.items?.enum ?? []) : null;
  if (choices) {
    return html`<div class="field">${label}<select id=${id} value=${value ?? ""} onChange=${(event) => set(event.target.value || undefined)}>
      <option value=""></option>${choices.map((one) => html`<option value=${one}>${exact(String(one))}</option>`)}</select></div>`;
  }
  if (many) {
    const chosen = value ?? [];
    return html`<fieldset class="field"><legend>${exact(schema.title ?? name)}</legend>${many.map((one) => html`
      <label><input type="checkbox" checked=${chosen.includes(one)} onChange=${(event) => set(event.target.checked ? [...chosen, one] : chosen.filter((other) => other !== one))} /> ${exact(String(one))}</label>`)}</fieldset>`;
  }
  if (schema.type === "boolean") {
    return html`<div class="field"><label><input id=${id} type="checkbox" checked=${Boolean(value)} onChange=${(event) => set(event.target.checked)} /> ${exact(schema.title ?? name)}</label></div>`;
  }
  const isNumber = schema.type === "number" || schema.type === "integer";
  return html`<div class="field">${label}<input id=${id} type=${isNumber ? "number" : "text"} value=${value ?? ""}
    onInput=${(event) => set(event.target.value === "" ? undefined : isNumber ? Number(event.target.value) : event.target.value)} /></div>`;
};

/** Only what is shown whole, is not risky, and is decided by one answer, is decided by a swipe. */
const canBeSwiped = (item) => Boolean(item.permission) && !item.is_cut && !isRisky(item) && !approversOf(item).length && mayAct("approver");

const isRisky = (item) => (item.traits?.risk ?? 0) > 1 || (item.traits?.risks ?? []).length > 0;

/** Touch: to the right allows once, to the left denies; only as far as a finger really went, and only when it is lifted there. */
const useSwipe = (card, item, isOn) => {
  useEffect(() => {
    const element = card.current;
    if (!isOn || !element) return undefined;
    let start = null;
    const began = (event) => {
      const target = event.target instanceof Element ? event.target : null;
      if (event.pointerType !== "touch" || !event.isPrimary || target?.closest("button, input, textarea, select, pre, .diff, a, summary")) return;
      start = { x: event.clientX, y: event.clientY };
    };
    const moved = (event) => {
      if (!start || !event.isPrimary) return;
      const by = event.clientX - start.x;
      if (Math.abs(event.clientY - start.y) > 40) { reset(); return; }
      element.dataset.swipe = by > SWIPE ? "allow" : by < -SWIPE ? "deny" : Math.abs(by) > 25 ? "some" : "";
    };
    const reset = () => { start = null; delete element.dataset.swipe; };
    const ended = () => {
      const meant = element.dataset.swipe;
      reset();
      if (meant === "allow") answerAll([item], "allow_once");
      if (meant === "deny") answerAll([item], "reject_once");
    };
    const parts = [["pointerdown", began], ["pointermove", moved], ["pointerup", ended], ["pointercancel", reset]];
    for (const [name, handler] of parts) element.addEventListener(name, handler);
    return () => { for (const [name, handler] of parts) element.removeEventListener(name, handler); };
  }, [item.request, isOn]);
};
