// @ts-check
// What the page knows, how it asks the server, and the one connection over which news arrive.

const API = "/api/v1";
const TRIES = 3;
const LONGEST_PAUSE = 10_000;

/** What the server refused, or why it could not be asked. */
export class CallError extends Error {
  constructor(name, message, status = 0) {
    super(message);
    this.name = name;
    this.status = status;
  }
}

/** Everything that views show. `change` tells those who watch. */
export const store = {
  device: /** @type {any} */ (null),
  signIn: "unknown",
  page: null,
  agents: new Map(),
  order: /** @type {string[]} */ ([]),
  inbox: /** @type {any[]} */ ([]),
  groups: /** @type {any[]} */ ([]),
  plans: /** @type {Record<string, number[]>} */ ({}),
  problem: null,
  isOutdated: false,
  version: "",
  link: "connecting",
  hasFleet: false,
  clockOffset: 0,
  notices: /** @type {{ id: number, text: string, kind: string }[]} */ ([]),
  watchers: new Set(),
  change(fields = {}) {
    Object.assign(this, fields);
    for (const watcher of this.watchers) watcher();
  },
};

let noticeNumber = 0;

/** Show a line that goes away by itself, and is read out. */
export const notify = (text, kind = "good") => {
  const notice = { id: (noticeNumber += 1), text, kind };
  store.change({ notices: [...store.notices, notice].slice(-3) });
  setTimeout(() => store.change({ notices: store.notices.filter((one) => one !== notice) }), kind === "bad" ? 9000 : 4000);
};

const pause = (milliseconds) => new Promise((resolve) => { setTimeout(resolve, milliseconds); });

const readAnswer = async (answer) => {
  const value = await answer.json().catch(() => null);
  if (answer.ok) return value;
  if (answer.status === 401) store.change({ signIn: "no", device: null });
  throw new CallError(value?.error ?? "Error", value?.message ?? `the server answered ${answer.status}`, answer.status);
};

const request = async (path, options) => {
  try {
    return await fetch(API + path, { credentials: "same-origin", cache: "no-store", ...options });
  } catch {
    return null;
  }
};

/** Read something. */
export const read = async (path) => {
  const answer = await request(path, {});
  if (answer === null) throw new CallError("NoConnection", "no connection to the server");
  return readAnswer(answer);
};

// Keys of what was sent and not confirmed: sent again, it is the same.
const KEPT = 30 * 60_000;
const unconfirmed = new Map(JSON.parse(globalThis.sessionStorage?.getItem("unconfirmed") ?? "[]"));

const keepKey = (what, key) => {
  if (key) unconfirmed.set(what, { key, time: Date.now() });
  else unconfirmed.delete(what);
  sessionStorage.setItem("unconfirmed", JSON.stringify([...unconfirmed].slice(-20)));
};

const findKey = (what) => {
  const found = unconfirmed.get(what);
  return found && Date.now() - found.time < KEPT ? found.key : crypto.randomUUID();
};

/** Send something. The same key goes with every try, so that the server does it at most once. */
export const post = async (path, body = {}) => {
  const data = JSON.stringify(body);
  const what = `${path} ${data}`;
  const key = findKey(what);
  const headers = { "content-type": "application/json", "idempotency-key": key };
  for (let left = TRIES - 1; ; left -= 1) {
    const answer = await request(path, { method: "POST", headers, body: data });
    if (answer !== null) {
      if (unconfirmed.has(what)) keepKey(what, null);
      return readAnswer(answer);
    }
    if (left === 0) {
      keepKey(what, key);
      throw new CallError("NotConfirmed", "not confirmed: the connection was lost; look again when it is back, or send the same again: it is done once");
    }
    await pause(700 * (TRIES - left));
  }
};

/** Call a method of the fleet. */
export const call = (method, body = {}) => post(`/fleet/${method}`, body);

/** Call a method for a button: an error becomes a notice. Returns whether it worked, and the result. */
export const attempt = async (method, body, done = "") => {
  try {
    const result = await call(method, body);
    if (done) notify(done);
    return { isDone: true, result };
  } catch (error) {
    notify(error.message, "bad");
    return { isDone: false, error };
  }
};

/** The live connection; it comes back by itself and goes on where it was. */
class LiveConnection {
  socket = /** @type {WebSocket | null} */ (null);
  watched = /** @type {{ agent: string, after: number, take: (records: any[]) => void } | null} */ (null);
  terminal = /** @type {{ id: string, take: (event: any) => void } | null} */ (null);
  shown = /** @type {string[] | null} */ (null);
  tries = 0;
  timer = 0;
  hiddenSince = 0;

  start() {
    if (!this.isStarted) this.listen();
    this.isStarted = true;
    this.open();
  }

  listen() {
    addEventListener("online", () => this.reconnect());
    addEventListener("offline", () => store.change({ link: "offline" }));
    document.addEventListener("visibilitychange", () => {
      if (document.hidden) this.hiddenSince = Date.now();
      else if (Date.now() - this.hiddenSince > 30_000) this.reconnect();
    });
  }

  reconnect() {
    clearTimeout(this.timer);
    this.tries = 0;
    const old = this.socket;
    this.socket = null;
    old?.close();
    this.open();
  }

  open() {
    if (store.signIn !== "yes" || this.socket) return;
    const socket = new WebSocket(`${location.origin.replace(/^http/, "ws")}${API}/live`);
    this.socket = socket;
    socket.onopen = () => {
      this.tries = 0;
      if (this.shown) this.send({ type: "show", agents: this.shown });
      if (this.watched) this.send({ type: "watch", agent: this.watched.agent, after: this.watched.after });
      if (this.terminal) this.send({ type: "terminal", terminal: this.terminal.id });
    };
    socket.onmessage = (event) => { if (socket === this.socket) this.take(JSON.parse(event.data)); };
    socket.onclose = (event) => { if (socket === this.socket) this.lost(event.code); };
  }

  lost(code) {
    this.socket = null;
    if (code === 4401) {
      store.change({ signIn: "no", device: null, link: "offline" });
      return;
    }
    store.change({ link: navigator.onLine ? "connecting" : "offline" });
    const wait = Math.min(LONGEST_PAUSE, 300 * 2 ** this.tries) * (0.7 + Math.random() * 0.6);
    this.tries += 1;
    this.timer = setTimeout(() => this.open(), wait);
  }

  send(message) {
    if (this.socket?.readyState === WebSocket.OPEN) this.socket.send(JSON.stringify(message));
  }

  take(message) {
    if (message.type === "hello") {
      // Ages are right on a device whose clock is wrong.
      store.change({ link: "live", clockOffset: message.time - Date.now() * 1000 });
      if (store.page && message.page !== store.page) reloadForNewVersion();
    } else if (message.type === "fleet") this.takeFleet(message);
    else if (message.type === "records") this.takeRecords(message);
    else if (message.type === "screen") this.terminal?.take(message.event);
    else if (message.type === "error") notify(message.message, "bad");
  }

  takeFleet(message) {
    const known = new Map(store.agents);
    for (const agent of message.agents) known.set(agent.session, agent);
    for (const id of message.gone ?? []) known.delete(id);
    // A tab that shows some agents is not sent the order of all.
    const order = message.order ?? store.order.filter((id) => known.has(id));
    const agents = message.order ? new Map(order.filter((id) => known.has(id)).map((id) => [id, known.get(id)])) : known;
    const before = store.inbox;
    const inbox = message.inbox ?? before;
    store.change({ agents, order, inbox, groups: message.groups ?? store.groups, plans: message.plans ?? store.plans, problem: message.problem, hasFleet: true });
    if (message.inbox) announce(before, inbox);
  }

  takeRecords(message) {
    const watched = this.watched;
    if (!watched || watched.agent !== message.agent) return;
    // What a connection of before already brought is not taken twice.
    const fresh = message.records.filter((record) => record.seq > watched.after);
    if (!fresh.length) return;
    watched.after = fresh.at(-1).seq;
    watched.take(fresh);
  }

  /** Be sent news of these agents and of those that ask; null: of all. */
  want(agents) {
    const isSame = agents && this.shown ? agents.join() === this.shown.join() : agents === this.shown;
    this.shown = agents;
    if (!isSame) this.send({ type: "show", agents });
  }

  /** Get the records of an agent after a number, until the returned function is called. */
  watch(agent, after, take) {
    const watched = { agent, after, take };
    this.watched = watched;
    this.send({ type: "watch", agent, after });
    return () => {
      if (this.watched !== watched) return;
      this.watched = null;
      this.send({ type: "unwatch" });
    };
  }

  /** Get what a terminal shows. */
  show(id, take) {
    const terminal = { id, take };
    this.terminal = terminal;
    this.send({ type: "terminal", terminal: id });
    return () => {
      if (this.terminal !== terminal) return;
      this.terminal = null;
      this.send({ type: "close_terminal" });
    };
  }
}

export const live = new LiveConnection();

const reloadForNewVersion = () => {
  const isWriting = [...document.querySelectorAll("textarea, input")].some((field) => {
    const { value, type } = /** @type {HTMLInputElement} */ (field);
    return value && type !== "checkbox";
  });
  if (isWriting) store.change({ isOutdated: true });
  else location.reload();
};

// Notifications while a tab is open, also in the background; once for each request.
const announced = new Set(JSON.parse(globalThis.sessionStorage?.getItem("announced") ?? "[]"));

const announce = async (before, inbox) => {
  const known = new Set(before.map((item) => item.request));
  const isWanted = localStorage.getItem("notifications") === "yes" && globalThis.Notification?.permission === "granted";
  for (const item of inbox) {
    if (known.has(item.request) || announced.has(item.request)) continue;
    announced.add(item.request);
    sessionStorage.setItem("announced", JSON.stringify([...announced].slice(-500)));
    if (!isWanted || !document.hidden) continue;
    const registration = await navigator.serviceWorker?.getRegistration();
    await registration?.showNotification(`${item.name} needs you`, {
      body: item.permission ? item.permission.title.slice(0, 120) : item.question.text.slice(0, 120),
      tag: item.request,
      icon: "/icon.svg",
      data: { route: "#/inbox" },
    });
  }
};

/** Who this is; sets `signIn`. */
export const loadSession = async () => {
  try {
    const session = await read("/session");
    store.change({ signIn: "yes", device: session.device, page: session.page, version: session.version });
  } catch (error) {
    if (error.status !== 401) store.change({ signIn: "unreachable", problem: error.message });
  }
};

/** Use a pairing code. Whether the browser has kept the key is seen by `loadSession`. */
export const pair = (code, name) => post("/pair", { code, name });

const ROLES = ["viewer", "approver", "operator"];

/** Whether this device may do what a role is needed for. */
export const mayAct = (role) => ROLES.indexOf(store.device?.role) >= ROLES.indexOf(role);
