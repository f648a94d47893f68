// @ts-check
// Search, terminals and settings.

import { attempt, call, live, mayAct, notify, post, read, store } from "./connection.js";
import { Button, Empty, Head, Problem, SureButton, html, useEffect, useLoaded, useNow, useRef, useState } from "./parts.js";
import { formatAge, literal, oneLine } from "./text.js";

export const Search = () => {
  const [words, setWords] = useState("");
  const [asked, setAsked] = useState("");
  const { value: hits, error, isLoading } = useLoaded(() => (asked ? call("search", { words: asked }) : Promise.resolve(null)), [asked]);
  return html`
    <section class="view" aria-label="search">
      <${Head} title="Search" facts=${[hits ? `${hits.length} found` : null, isLoading && asked ? "loading …" : null]} />
      <form class="filter" role="search" onSubmit=${(event) => { event.preventDefault(); setAsked(words.trim()); }}>
        <label class="unseen" for="words">words</label><input id="words" type="search" autofocus placeholder="words that were said" value=${words} onInput=${(event) => setWords(event.target.value)} /> <button type="submit">search</button></form>
      ${error ? html`<${Problem} error=${error} />` : null}
      <ul class="rows" aria-label="found">
        ${hits && !hits.length ? html`<li><${Empty}>Nothing was found.<//></li>` : null}
        ${(hits ?? []).map((hit) => html`<li class="row" key=${`${hit.session} ${hit.seq}`}><a class="main-link" href=${`#/agent/${hit.session}/${hit.seq}`}>
          <span class="line-one"><strong><bdi>${oneLine(store.agents.get(hit.session)?.name ?? hit.session, 60)}</bdi></strong></span><span class="said">${markHits(hit)}</span></a></li>`)}
      </ul>
    </section>`;
};

const markHits = (hit) => {
  const letters = [...hit.snippet];
  const parts = [];
  let last = 0;
  for (const [from, to] of hit.marks ?? []) {
    parts.push(literal(letters.slice(last, from).join("")), html`<mark>${literal(letters.slice(from, to).join(""))}</mark>`);
    last = to;
  }
  return [...parts, literal(letters.slice(last).join(""))];
};

export const Settings = () => {
  const now = useNow();
  const { value: devices, error, reload } = useLoaded(() => read("/devices"), []);
  const [link, setLink] = useState(null);
  const [theme, setTheme] = useState(localStorage.getItem("theme") ?? "system");
  const [isNotified, setNotified] = useState(localStorage.getItem("notifications") === "yes");
  const choose = (value) => {
    localStorage.setItem("theme", value);
    document.documentElement.dataset.theme = value;
    setTheme(value);
  };
  const invite = (role) => async () => {
    try {
      setLink({ role, address: (await post("/devices/pair", { role })).link });
    } catch (problem) {
      notify(problem.message, "bad");
    }
  };
  const revoke = (device) => async () => {
    try {
      await post("/devices/revoke", { device });
      reload();
    } catch (problem) {
      notify(problem.message, "bad");
    }
  };
  const toggleNotifications = async () => {
    try {
      const isWanted = !isNotified;
      if (isWanted) await subscribe();
      else await unsubscribe();
      localStorage.setItem("notifications", isWanted ? "yes" : "no");
      setNotified(isWanted);
    } catch (problem) {
      notify(problem.message, "bad");
    }
  };
  return html`
    <section class="view" aria-label="settings">
      <${Head} title="Settings" facts=${[`quarterdeck ${store.version ?? ""}`]} />
      <div class="form page">
        <h2>This device</h2>
        <p><strong><bdi>${oneLine(store.device.name, 60)}</bdi></strong> <span class="faint">of <bdi>${oneLine(store.device.person, 60)}</bdi> · ${store.device.role}</span></p>
        <p class="actions"><${SureButton} onPress=${async () => { await post("/sign-out"); store.change({ signIn: "no", device: null }); }}>sign out<//></p>
        <div class="field"><label for="theme">colours</label><select id="theme" value=${theme} onChange=${(event) => choose(event.target.value)}>
          <option value="system">as the system</option><option value="dark">dark</option><option value="light">light</option></select></div>
        <p><label><input type="checkbox" checked=${isNotified} onChange=${toggleNotifications} /> notify me on this device</label></p>
        <h2>Devices</h2>
        ${error ? html`<${Problem} error=${error} retry=${reload} />` : null}
        <ul class="rows" aria-label="devices">${(devices ?? []).map((one) => html`<li class="row" key=${one.id}><span class="main-link"><span class="line-one"><strong><bdi>${oneLine(one.name, 60)}</bdi></strong>${one.id === store.device.id ? html` <span class="faint">this one</span>` : null}</span><span class="line-two faint">${one.role} · <bdi>${oneLine(one.person, 40)}</bdi> · seen ${formatAge(one.seen || one.paired, now)}${one.tabs ? ` · ${one.tabs} open` : ""}</span></span>
          ${mayAct("operator") && one.id !== store.device.id ? html`<${SureButton} onPress=${revoke(one.id)}>revoke<//>` : null}</li>`)}</ul>
        ${mayAct("operator") ? html`<p class="actions">${["viewer", "approver", "operator"].map((role) => html`<${Button} onPress=${invite(role)}>pair ${role === "viewer" ? "a" : "an"} ${role}<//>`)}</p>` : null}
        ${link ? html`<p>Open this once, within ten minutes, on the ${link.role}’s device:<br /><code class="link">${link.address}</code></p>` : null}
        <p class="faint">Programs: <a href="/api/v1/openapi.json">the document of the API</a></p>
      </div>
    </section>`;
};

/** Let the server notify this device, also while the page is closed; without a push service, while it is open. */
const subscribe = async () => {
  if (!globalThis.Notification || (await Notification.requestPermission()) !== "granted") {
    throw new Error("the browser does not allow notifications here");
  }
  const registration = await navigator.serviceWorker?.ready;
  if (!registration?.pushManager) return;
  const { key } = await read("/push");
  try {
    const options = { userVisibleOnly: true, applicationServerKey: decode(key.replaceAll("-", "+").replaceAll("_", "/")) };
    const { endpoint, keys } = (await registration.pushManager.subscribe(options)).toJSON();
    await post("/push", { endpoint, keys });
  } catch (problem) {
    if (problem.name !== "AbortError" && problem.name !== "NotAllowedError") throw problem;
    notify("no push service: you are notified while the page is open", "bad");
  }
};

const unsubscribe = async () => {
  const registration = await navigator.serviceWorker?.getRegistration();
  await (await registration?.pushManager?.getSubscription())?.unsubscribe();
  await post("/push/remove");
};

const decode = (data) => Uint8Array.from(atob(data), (letter) => letter.charCodeAt(0));
const encode = (bytes) => btoa(String.fromCharCode(...bytes));

export const Terminals = ({ id }) => {
  const { value: terminals, error, isLoading, reload } = useLoaded(() => call("terminals"), [id]);
  const [cwd, setCwd] = useState(localStorage.getItem("directory") ?? "");
  const open = async (event) => {
    event.preventDefault();
    const { isDone, result } = await attempt("open_terminal", { options: { cwd, columns: 100, rows: 30 } });
    if (isDone) location.hash = `#/terminal/${result.id}`;
  };
  if (id) return html`<${TerminalView} key=${id} id=${id} info=${terminals?.find((one) => one.id === id)} />`;
  return html`
    <section class="view" aria-label="terminals">
      <${Head} title="Terminals" facts=${[terminals && `${terminals.length}`, isLoading ? "loading …" : null]} />
      ${error ? html`<${Problem} error=${error} retry=${reload} />` : null}
      ${mayAct("operator") ? html`<form class="filter" onSubmit=${open}><label class="unseen" for="terminal-cwd">directory</label><input id="terminal-cwd" required placeholder="directory" value=${cwd} onInput=${(event) => setCwd(event.target.value)} /> <button type="submit">open a shell</button></form>` : null}
      <ul class="rows" aria-label="terminals">
        ${terminals && !terminals.length ? html`<li><${Empty}>No terminal is open.<//></li>` : null}
        ${(terminals ?? []).map((one) => html`<li class="row" key=${one.id}><a class="main-link" href=${`#/terminal/${one.id}`}><span class="line-one"><strong>${oneLine(one.name, 60)}</strong> <span class="faint">${one.ended ? oneLine(one.ended, 40) : `${one.columns}×${one.rows}`}</span></span><span class="line-two faint">${oneLine(one.cwd, 100)}</span></a>
          ${mayAct("operator") && !one.session ? html`<${SureButton} onPress=${async () => { await attempt("close_terminal", { terminal: one.id }); reload(); }}>close<//>` : null}</li>`)}
      </ul>
    </section>`;
};

/** A document for xterm.js: its style elements, which the content policy forbids, become sheets of the page. */
const makeTerminalDocument = (sheets) => {
  const makeElement = document.createElement.bind(document);
  const adoptStyle = () => {
    const sheet = new CSSStyleSheet();
    sheets.push(sheet);
    document.adoptedStyleSheets = [...document.adoptedStyleSheets, sheet];
    const element = makeElement("span");
    element.hidden = true;
    Object.defineProperty(element, "textContent", { set: (text) => sheet.replaceSync(text), get: () => "" });
    return element;
  };
  const createElement = (name, ...rest) => (name.toLowerCase() === "style" ? adoptStyle() : makeElement(name, ...rest));
  return new Proxy(document, {
    get(target, key) {
      if (key === "createElement") return createElement;
      const value = Reflect.get(target, key);
      return typeof value === "function" ? value.bind(target) : value;
    },
    set: (target, key, value) => Reflect.set(target, key, value),
  });
};

const TerminalView = ({ id, info }) => {
  const place = useRef(null);
  const [end, setEnd] = useState(null);
  const [error, setError] = useState(null);
  useEffect(() => {
    let stop = () => {};
    let terminal = null;
    let isThere = true;
    const sheets = [];
    const open = async () => {
      const { Terminal } = await import("./vendor/xterm.mjs");
      if (!isThere) return;
      const documentOverride = makeTerminalDocument(sheets);
      terminal = new Terminal({ cursorBlink: false, screenReaderMode: true, scrollback: 5000, fontSize: 13, documentOverride });
      // One of its parts asks the page's own document.
      document.createElement = documentOverride.createElement;
      try {
        terminal.open(place.current);
      } finally {
        Reflect.deleteProperty(document, "createElement");
      }
      if (mayAct("operator")) {
        terminal.onData((data) => live.send({ type: "keys", data: encode(new TextEncoder().encode(data)) }));
      }
      stop = live.show(id, (event) => {
        if (event.type === "drawn") {
          terminal.reset();
          terminal.resize(event.columns, event.rows);
          terminal.write(decode(event.data));
        } else if (event.type === "written") terminal.write(decode(event.data));
        else if (event.type === "resized") terminal.resize(event.columns, event.rows);
        else if (event.type === "left") setEnd(event.reason);
      });
      terminal.focus();
    };
    open().catch(setError);
    return () => {
      isThere = false;
      stop();
      terminal?.dispose();
      document.adoptedStyleSheets = document.adoptedStyleSheets.filter((sheet) => !sheets.includes(sheet));
    };
  }, [id]);
  return html`
    <section class="view terminal-view" aria-label="terminal">
      <link rel="stylesheet" href="/vendor/xterm.css" />
      <${Head} title=${info ? oneLine(info.name, 60) : "Terminal"} back="#/terminals" facts=${[info && oneLine(info.cwd, 60), end ? `ended: ${oneLine(end, 60)}` : null]} />
      ${error ? html`<${Problem} error=${error} />` : null}
      <div class="terminal" ref=${place}></div>
    </section>`;
};
