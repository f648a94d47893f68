// @ts-check
// Keeps the files of the page, and nothing else: data is never stored on the device.
// The network comes first, so that a new version is used at once; the copy serves while there is none.

// The global of a service worker, which the types of a page do not know.
const worker = /** @type {any} */ (self);
const SHELL = "shell-1";
const FILES = [
  "/", "/app.js", "/agents.js", "/connection.js", "/conversation.js", "/inbox.js", "/parts.js", "/review.js",
  "/spawn.js", "/text.js", "/transcript.js", "/tools.js", "/usage.js", "/style.css", "/icon.svg",
  "/vendor/preact.mjs", "/vendor/preact-hooks.mjs", "/vendor/htm.mjs",
];

worker.addEventListener("install", (event) => {
  event.waitUntil(caches.open(SHELL).then((cache) => cache.addAll(FILES)).then(() => worker.skipWaiting()));
});

worker.addEventListener("activate", (event) => {
  const removeOld = async () => {
    for (const name of await caches.keys()) if (name !== SHELL) await caches.delete(name);
    await worker.clients.claim();
  };
  event.waitUntil(removeOld());
});

worker.addEventListener("fetch", (event) => {
  const { request } = event;
  const url = new URL(request.url);
  if (request.method !== "GET" || url.origin !== location.origin || url.pathname.startsWith("/api/")) return;
  event.respondWith(fromNetwork(request, url));
});

async function fromNetwork(request, url) {
  const cache = await caches.open(SHELL);
  const key = url.pathname === "/pair" ? "/" : url.pathname;
  try {
    const answer = await fetch(request);
    if (answer.ok && FILES.includes(key)) await cache.put(key, answer.clone());
    return answer;
  } catch (error) {
    const kept = await cache.match(key);
    if (kept) return kept;
    throw error;
  }
}

// A notification that the server sent, encrypted for this browser alone.
worker.addEventListener("push", (event) => {
  const note = event.data?.json() ?? { title: "Quarterdeck", body: "", route: "#/inbox" };
  const actions = note.request ? [{ action: "allow_once", title: "allow once" }, { action: "reject_once", title: "deny" }] : [];
  event.waitUntil(worker.registration.showNotification(note.title, {
    body: note.body, tag: note.tag, icon: "/icon-192.png", data: note, actions,
  }));
});

worker.addEventListener("notificationclick", (event) => {
  event.notification.close();
  const note = event.notification.data ?? {};
  const isDecision = event.action && note.request;
  event.waitUntil(isDecision ? decide(note, event.action) : open(note.route ?? "#/inbox"));
});

async function open(route) {
  for (const client of await worker.clients.matchAll({ type: "window" })) {
    client.postMessage({ type: "open", route });
    await client.focus().catch(() => {}); // a browser may refuse that; the page is right all the same
    return;
  }
  await worker.clients.openWindow(`/${route}`);
}

// The answer is sent once, or it is said that it was not. Tries of one tap have one key; another tap is another
// answer, which comes too late and says so.
async function decide(note, choice) {
  const headers = { "content-type": "application/json", "idempotency-key": crypto.randomUUID() };
  const body = JSON.stringify({ request: note.request, choice });
  let words = "not confirmed: no connection; open the inbox to look";
  for (let left = 3; left > 0; left -= 1) {
    try {
      const answer = await fetch("/api/v1/fleet/answer", { method: "POST", headers, body, credentials: "same-origin" });
      const value = await answer.json();
      if (answer.ok && value === true) return;
      words = answer.ok ? "it was already answered" : value.message;
      break;
    } catch {
      await new Promise((resolve) => { setTimeout(resolve, 1500); });
    }
  }
  await worker.registration.showNotification(note.title, { body: words, tag: note.tag, icon: "/icon-192.png", data: { route: "#/inbox" } });
}
