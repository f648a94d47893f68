// @ts-check
// The page: who you are, which view, and what all views share.

import { live, loadSession, pair, store } from "./connection.js";
import { Agents } from "./agents.js";
import { Conversation } from "./conversation.js";
import { Inbox } from "./inbox.js";
import { Button, Component, html, useState } from "./parts.js";
import { Review } from "./review.js";
import { Spawn } from "./spawn.js";
import { literal } from "./text.js";
import { Search, Settings, Terminals } from "./tools.js";
import { Usage } from "./usage.js";
import { render } from "./vendor/preact.mjs";

const PLACES = [
  ["inbox", "Inbox", "?"], ["agents", "Agents", "●"], ["search", "Search", "⌕"], ["usage", "Usage", "▆"],
  ["terminals", "Terminals", "❯"], ["settings", "Settings", "⋯"],
];

const readRoute = () => {
  const [view = "", id = "", at = ""] = location.hash.replace(/^#\/?/, "").split("/").map(decodeURIComponent);
  return { view: view || "inbox", id, at: Number(at) || 0 };
};

/** The agents that a view shows; null: all. One that cannot be seen shows those that ask. */
const agentsOf = ({ view, id }) => {
  if (document.hidden) return [];
  if (["agents", "search", "spawn"].includes(view)) return null;
  return ["agent", "review"].includes(view) ? [id] : [];
};

class App extends Component {
  state = { route: readRoute() };

  // A page that cannot be seen draws nothing but its title.
  draw = () => {
    const waiting = store.inbox.length;
    document.title = waiting ? `(${waiting}) Quarterdeck` : "Quarterdeck";
    if (!document.hidden) this.forceUpdate();
  };

  componentDidMount() {
    store.watchers.add(this.draw);
    live.want(agentsOf(this.state.route));
    document.addEventListener("visibilitychange", () => {
      live.want(agentsOf(this.state.route));
      this.draw();
    });
    addEventListener("hashchange", () => {
      const route = readRoute();
      live.want(agentsOf(route));
      this.setState({ route });
      const head = document.querySelector("main h1");
      if (head instanceof HTMLElement) head.focus({ preventScroll: true });
    });
    navigator.serviceWorker?.addEventListener("message", (event) => {
      if (event.data?.type === "open") location.hash = event.data.route;
    });
    addEventListener("keydown", (event) => this.pressed(event));
  }

  pressed(event) {
    const isTyping = event.target instanceof Element && event.target.closest("input, textarea, select, .terminal");
    if (isTyping || event.ctrlKey || event.metaKey || event.altKey) return;
    const place = PLACES[Number(event.key) - 1];
    if (place) location.hash = `#/${place[0]}`;
    else if (event.key === "/") {
      event.preventDefault();
      location.hash = "#/search";
    }
  }

  render(_, { route }) {
    const waiting = store.inbox.length;
    if (store.signIn === "unknown") return html`<p class="boot">loading …</p>`;
    if (store.signIn === "unreachable") return html`<main class="boot"><h1>Quarterdeck</h1><p>${store.problem}</p><${Button} kind="main" onPress=${boot}>try again<//></main>`;
    if (store.signIn === "no") return html`<${SignIn} />`;
    return html`
      <a class="skip" href="#main" onClick=${(event) => { event.preventDefault(); document.querySelector("main")?.focus(); }}>to the content</a>
      <nav aria-label="places">${PLACES.map(([place, name, sign], at) => html`
        <a href=${`#/${place}`} aria-current=${isAt(route, place) ? "page" : undefined} title=${`key ${at + 1}`}>
          <span class="sign" aria-hidden="true">${sign}</span><span>${name}</span>
          ${place === "inbox" && waiting ? html`<span class="count" aria-label=${`${waiting} open`}>${waiting}</span>` : null}</a>`)}</nav>
      <main tabindex="-1" id="main">
        <${Status} />
        ${drawView(route)}
      </main>
      <div class="notices" role="status" aria-live="polite">${store.notices.map((notice) => html`<p key=${notice.id} class=${notice.kind}>${notice.kind === "bad" ? "✗" : "✓"} ${literal(notice.text)}</p>`)}</div>`;
  }
}

const GROUPS = { agents: ["agents", "agent", "spawn", "review"], terminals: ["terminals", "terminal"] };
const isAt = (route, place) => (GROUPS[place] ?? [place]).includes(route.view);

const drawView = ({ view, id, at }) => {
  switch (view) {
    case "agents": return html`<${Agents} />`;
    case "agent": return html`<${Conversation} key=${`${id} ${at}`} id=${id} at=${at} />`;
    case "review": return html`<${Review} key=${id} id=${id} />`;
    case "spawn": return html`<${Spawn} />`;
    case "search": return html`<${Search} />`;
    case "usage": return html`<${Usage} />`;
    case "terminals": return html`<${Terminals} />`;
    case "terminal": return html`<${Terminals} id=${id} />`;
    case "settings": return html`<${Settings} />`;
    default: return html`<${Inbox} />`;
  }
};

/** One line while something is not as usual. */
const Status = () => {
  if (store.isOutdated) return html`<p class="status asking" role="status">! Quarterdeck was updated. <button type="button" onClick=${() => location.reload()}>reload</button></p>`;
  if (store.link === "offline") return html`<p class="status asking" role="status">! No network. What you see is what was known last.</p>`;
  if (store.link === "connecting") return html`<p class="status faint" role="status">connecting …</p>`;
  if (store.problem) return html`<p class="status asking" role="status">! ${literal(store.problem)}</p>`;
  return null;
};

const nameDevice = () => {
  const words = navigator.userAgent;
  const browser = ["Firefox", "Edg", "Chrome", "Safari"].find((one) => words.includes(one)) ?? "browser";
  const system = ["Android", "iPhone", "iPad", "Mac", "Windows", "Linux"].find((one) => words.includes(one)) ?? "";
  return `${browser.replace("Edg", "Edge")}${system ? ` on ${system}` : ""}`;
};

const SignIn = () => {
  const [code, setCode] = useState(takeCode());
  const [name, setName] = useState(nameDevice());
  const [error, setError] = useState(navigator.cookieEnabled ? null : { message: "cookies are disabled here; this page needs one to know the device" });
  const use = async (event) => {
    event.preventDefault();
    try {
      await pair(code.trim().replace(/^.*#/, ""), name);
      await loadSession();
      if (store.signIn === "yes") {
        history.replaceState(null, "", "/");
        live.start();
      } else setError({ message: "the browser did not keep the cookie; allow cookies for this address" });
    } catch (problem) {
      setError(problem);
      setCode("");
    }
  };
  return html`
    <main class="boot">
      <h1>Quarterdeck</h1>
      <p>Pair this device: run <code>quarterdeck web pair</code> where your agents run, and open the link or scan the code.</p>
      <form class="form" onSubmit=${use}>
        <div class="field"><label for="code">pairing code or link</label><input id="code" required autocomplete="off" autocapitalize="off" spellcheck=${false} value=${code} onInput=${(event) => setCode(event.target.value)} /></div>
        <div class="field"><label for="device">name of this device</label><input id="device" value=${name} onInput=${(event) => setName(event.target.value)} /></div>
        ${error ? html`<p class="problem" role="alert"><span class="bad">✗</span> ${error.message}</p>` : null}
        <p class="actions"><button type="submit" class="main" disabled=${!code.trim()}>pair</button></p>
      </form>
    </main>`;
};

/** The code of a pairing link, which then is in no address and no history any more. */
const takeCode = () => {
  if (location.pathname !== "/pair" || location.hash.length < 10) return "";
  const code = location.hash.slice(1);
  history.replaceState(null, "", "/pair");
  return code;
};

const boot = async () => {
  document.documentElement.dataset.theme = localStorage.getItem("theme") ?? "system";
  await loadSession();
  if (store.signIn === "yes") {
    if (location.pathname === "/pair") history.replaceState(null, "", "/");
    live.start();
  }
};

const registerWorker = async () => {
  if (!navigator.serviceWorker || !isSecureContext) return;
  // The only script address that this page may use besides its own imports.
  const policy = globalThis.trustedTypes?.createPolicy("quarterdeck", { createScriptURL: () => "/service-worker.js" });
  await navigator.serviceWorker.register(policy ? policy.createScriptURL("") : "/service-worker.js");
};

const root = document.body.querySelector("#root") ?? document.body;
root.replaceChildren();
render(html`<${App} />`, root);
await boot();
await registerWorker().catch(() => {});
