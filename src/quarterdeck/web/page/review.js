// @ts-check
// What an agent changed: files, lines, comments, and landing it.

import { attempt, call, mayAct, notify, store } from "./connection.js";
import { Button, DiffLines, Empty, Head, Problem, SureButton, html, useEffect, useLoaded, useState } from "./parts.js";
import { exact, formatChanges, literal, oneLine } from "./text.js";

const KINDS = { changed: "", new: "new", deleted: "deleted", renamed: "renamed", copied: "copied", mode: "mode" };
const MARKS = { whole: ["◆", "accepted"], part: ["◇", "accepted in part"] };

export const Review = ({ id }) => {
  const agent = store.agents.get(id);
  const body = { agent: id };
  const { value: changes, error, isLoading, reload } = useLoaded(() => call("changes", body), [id, agent?.changes?.added, agent?.changes?.removed]);
  const comments = useLoaded(() => call("comments", body), [id, changes?.open_comments, changes?.new]);
  const [chosen, setChosen] = useState(null);
  const [isSplit, setSplit] = useState(matchMedia("(min-width: 1200px)").matches);
  const files = changes?.files ?? [];
  const file = files.find((one) => one.id === chosen) ?? null;
  useEffect(() => {
    if (!chosen && files.length && matchMedia("(min-width: 800px)").matches) setChosen(files[0].id);
  }, [changes?.new]);
  const refresh = () => { reload(); comments.reload(); };
  const name = agent ? literal(agent.name) : id;
  return html`
    <section class="view review ${file ? "with-file" : ""}" aria-label=${`review of ${name}`}>
      <${Head} title=${`Review: ${name}`} back=${file ? `#/review/${id}` : `#/agent/${id}`} facts=${[changes && `${changes.count ?? 0} ${changes.count === 1 ? "file" : "files"}`, changes && formatChanges(changes), changes && `against ${oneLine(changes.against, 60)}`, isLoading ? "loading …" : null]}>
        <button type="button" class="wide" aria-pressed=${isSplit} onClick=${() => setSplit(!isSplit)}>side by side</button>
        ${changes?.can_undo && mayAct("operator") ? html`<${Button} onPress=${async () => { await attempt("undo_review", body, "undone"); refresh(); }}>undo<//>` : null}
      <//>
      ${error ? html`<${Problem} error=${error} retry=${reload} />` : null}
      ${changes && !files.length ? html`<${Empty}>${name} has changed no file.<//>` : null}
      <div class="panes">
        <div class="files-pane">
          <ul class="files" aria-label="changed files">
            ${files.map((one) => html`<li key=${one.id}><button type="button" class="file ${one.id === chosen ? "chosen" : ""}" aria-current=${one.id === chosen} onClick=${() => setChosen(one.id)}>
              <span class="running" title=${MARKS[one.accepted]?.[1] ?? ""}>${MARKS[one.accepted]?.[0] ?? (one.mark === "viewed" ? "✓" : "·")}</span>
              <span class="path"><bdi>${exact(one.path)}</bdi></span> <span class="faint">${KINDS[one.kind] ?? one.kind}</span>
              <span class="numbers">${one.is_binary ? "binary" : formatChanges(one)}${one.comments ? ` ❝${one.comments}` : ""}</span></button></li>`)}
          </ul>
          ${mayAct("operator") ? html`<${Landing} id=${id} agent=${agent} changes=${changes} comments=${comments.value ?? []} refresh=${refresh} />` : null}
        </div>
        ${file ? html`<${FileChange} key=${`${file.id} ${file.content}`} id=${id} file=${file} tree=${changes.new} isSplit=${isSplit} comments=${(comments.value ?? []).filter((one) => one.file === file.id)} refresh=${refresh} close=${() => setChosen(null)} />` : null}
      </div>
    </section>`;
};

const FileChange = ({ id, file, tree, isSplit, comments, refresh, close }) => {
  const [after, setAfter] = useState(0);
  const [pages, setPages] = useState([]);
  const [line, setLine] = useState(null);
  const { error, isLoading, reload } = useLoaded(async () => {
    const page = await call("patch", { agent: id, file: file.id, after, tree });
    setPages((old) => (after === 0 ? [page] : [...old, page]));
  }, [id, file.id, file.content, after]);
  const selection = [{ file: file.id, content: file.content }];
  const decide = async (method, words) => {
    const { isDone } = await attempt(method, { agent: id, selections: selection }, words);
    if (isDone) refresh();
  };
  const lines = pages.flatMap((page) => (page.patch.hunks ?? []).flatMap((hunk) => numberLines(hunk)));
  const last = pages.at(-1);
  const extra = ([sign, , old, now]) => {
    const number = sign === "-" ? old : now;
    const isOld = sign === "-";
    return html`
      ${comments.filter((one) => (one.line ?? one.comment.line) === number && Boolean(one.comment.is_old) === isOld).map((one) => html`<${Comment} id=${id} placed=${one} refresh=${refresh} />`)}
      ${line && line.line === number && line.isOld === isOld ? html`<${CommentForm} id=${id} file=${file} line=${line} done=${() => { setLine(null); refresh(); }} />` : null}`;
  };
  return html`
    <div class="change" role="region" aria-label=${`change of ${exact(file.path)}`}>
      <p class="path-head"><button type="button" class="back narrow" aria-label="all files" onClick=${close}>‹</button><code>${exact(file.path)}</code>
        ${mayAct("operator") ? html`<span class="actions">
          <${Button} kind="main" onPress=${() => decide("accept_changes", "accepted")}>accept<//>
          <${SureButton} onPress=${() => decide("reject_changes", "rejected; undo brings it back")}>reject<//>
          <${Button} onPress=${async () => { await attempt("mark_files", { agent: id, files: [file.id], mark: file.mark === "viewed" ? "none" : "viewed" }); refresh(); }}>${file.mark === "viewed" ? "not viewed" : "viewed"}<//></span>` : null}</p>
      ${error ? html`<${Problem} error=${error} retry=${reload} />` : null}
      ${file.note ? html`<p class="faint">${literal(file.note)}</p>` : null}
      ${(last?.patch.notes ?? []).map((note) => html`<p class="faint">${literal(note)}</p>`)}
      ${isSplit ? html`<${SplitLines} lines=${lines} onLine=${mayAct("operator") ? setLine : null}>${extra}<//>` : html`<${DiffLines} lines=${lines} show=${exact} onLine=${mayAct("operator") ? setLine : null}>${extra}<//>`}
      ${isLoading ? html`<p class="faint">loading …</p>` : null}
      ${last?.next ? html`<p class="more"><${Button} onPress=${() => setAfter(last.next)}>more lines<//></p>` : null}
      ${last?.is_cut ? html`<p class="asking">! The patch is so large that its end is not shown.</p>` : null}
    </div>`;
};

const numberLines = (hunk) => {
  let { old } = hunk;
  let now = hunk.new;
  const lines = hunk.is_continued ? [] : [["@", `line ${now}${hunk.where ? ` · ${hunk.where}` : ""}`, null, null]];
  for (const [sign, text] of hunk.lines ?? []) {
    if (sign === "+") lines.push([sign, text, null, now]), (now += 1);
    else if (sign === "-") lines.push([sign, text, old, null]), (old += 1);
    else if (sign === "\\") lines.push(["…", "no newline at the end", null, null]);
    else lines.push([" ", text, old, now]), (old += 1), (now += 1);
  }
  return lines;
};

/** Old and new in two columns; a removed line stands beside the one that replaced it. */
const SplitLines = ({ lines, onLine, children }) => {
  const rows = [];
  for (let at = 0; at < lines.length; ) {
    if (lines[at][0] !== "-" && lines[at][0] !== "+") {
      rows.push([lines[at], lines[at]]);
      at += 1;
      continue;
    }
    const removed = [];
    const added = [];
    while (lines[at]?.[0] === "-") removed.push(lines[at]), (at += 1);
    while (lines[at]?.[0] === "+") added.push(lines[at]), (at += 1);
    for (let row = 0; row < Math.max(removed.length, added.length); row += 1) rows.push([removed[row] ?? null, added[row] ?? null]);
  }
  const side = (line, isOld) => {
    if (!line) return html`<span class="side none"></span>`;
    const number = isOld ? line[2] : line[3];
    const kind = { "+": "added", "-": "removed", "…": "skipped", "@": "skipped" }[line[0]] ?? "";
    return html`<span class="side ${kind}">${onLine && number ? html`<button type="button" class="number" aria-label=${`comment on ${isOld ? "old " : ""}line ${number}`} onClick=${() => onLine({ line: number, isOld: isOld && line[0] === "-" })}>${number}</button>` : html`<span class="number">${number ?? ""}</span>`}<code>${exact(line[1]) || " "}</code></span>`;
  };
  return html`<div class="diff split" role="group" aria-label="changes, old and new side by side" tabindex="0">${rows.map(([old, now]) => html`
    <div class="line">${side(old, true)}${side(now, false)}</div>
    ${old && old !== now ? children(old) : null}${now ? children(now) : null}`)}</div>`;
};

const Comment = ({ id, placed, refresh }) => {
  const { comment } = placed;
  const act = async (method, body, words) => { await attempt(method, { agent: id, ...body }, words); refresh(); };
  return html`<div class="comment"><span class="running" aria-hidden="true">❝</span> <span dir="auto">${literal(comment.text)}</span>
    <span class="faint">${[comment.author ? "an agent" : null, comment.state ?? "open", placed.is_changed ? "the lines have changed" : null].filter(Boolean).join(" · ")}</span>
    ${mayAct("operator") ? html`<span class="actions">
      ${comment.state !== "resolved" ? html`<${Button} onPress=${() => act("resolve_comments", { comments: [comment.id] })}>resolve<//>` : null}
      ${(comment.state ?? "open") === "open" ? html`<${Button} onPress=${() => act("drop_comment", { comment: comment.id })}>delete<//>` : null}</span>` : null}</div>`;
};

const CommentForm = ({ id, file, line, done }) => {
  const [words, setWords] = useState("");
  const save = async () => {
    const body = { agent: id, file: file.id, line: line.line, text: words.trim(), is_old: line.isOld, content: file.content };
    const { isDone } = await attempt("comment", body);
    if (isDone) done();
  };
  return html`<form class="composer comment" onSubmit=${(event) => { event.preventDefault(); save(); }}>
    <label class="unseen" for="comment">comment on line ${line.line}</label>
    <textarea id="comment" rows="2" autofocus placeholder=${`comment on line ${line.line}`} value=${words} onInput=${(event) => setWords(event.target.value)}></textarea>
    <span class="actions"><button type="submit" class="main" disabled=${!words.trim()}>comment</button><button type="button" onClick=${done}>back</button></span></form>`;
};

/** Comments that wait to be sent, and the way onto a branch. */
const Landing = ({ id, agent, changes, comments, refresh }) => {
  const [preview, setPreview] = useState(null);
  const [result, setResult] = useState(null);
  const [isUpdated, setUpdated] = useState(false);
  const open = comments.filter((one) => (one.comment.state ?? "open") === "open");
  const look = async () => {
    const { isDone, result: found } = await attempt("preview_landing", { agent: id, options: {} });
    if (!isDone) return;
    setPreview(found);
    setUpdated(false);
  };
  const land = async () => {
    const { isDone, result: found } = await attempt("land", { agent: id, options: { expected: preview.tree, checkout: isUpdated } });
    if (!isDone) return;
    setResult(found);
    setPreview(null);
    notify(found.state === "landed" ? `landed on ${found.into}` : found.reason || found.state, found.state === "landed" ? "good" : "bad");
    refresh();
  };
  const checkout = preview?.target.checkout;
  const isRefused = preview && (Boolean(preview.problem) || preview.is_empty || preview.conflicts?.length > 0 || (checkout && !isUpdated));
  return html`<div class="landing">
    ${open.length ? html`<p><${Button} kind="main" onPress=${async () => { await attempt("send_comments", { agent: id }, "comments sent"); refresh(); }}>send ${open.length} comment${open.length > 1 ? "s" : ""}<//></p>` : null}
    ${agent?.worktree && changes?.count ? html`<p><${Button} onPress=${look}>merge …<//></p>` : null}
    ${preview ? html`<div class="card" role="group" aria-label="merge">
      <p><strong>${preview.method}</strong> into <code>${exact(preview.target.branch)}</code> <span class="faint">${formatChanges(preview.counts)}</span></p>
      <pre tabindex="0" aria-label="message of the commit">${exact(preview.message)}</pre>
      ${preview.check ? html`<p class="faint">checked by <code>${exact(preview.check)}</code></p>` : null}
      ${(preview.conflicts ?? []).map((one) => html`<p class="bad">✗ ${exact(one.path)} ${literal(one.kind ?? "")}</p>`)}
      ${preview.problem ? html`<p class="bad">✗ ${literal(preview.problem)}</p>` : null}
      ${checkout ? html`<p><label><input type="checkbox" checked=${isUpdated} disabled=${Boolean(preview.target.problem)} onChange=${(event) => setUpdated(event.target.checked)} /> update my files in <code>${exact(checkout)}</code></label>
        <span class="faint"> the branch is checked out there</span></p>` : null}
      ${preview.target.problem ? html`<p class="bad">✗ ${literal(preview.target.problem)}</p>` : null}
      ${preview.note ? html`<p class="faint">${literal(preview.note)}</p>` : null}
      <p class="actions"><${Button} kind="main" isOff=${isRefused} onPress=${land}>merge<//><button type="button" onClick=${() => setPreview(null)}>back</button></p></div>` : null}
    ${result ? html`<p class=${result.state === "landed" ? "good" : "bad"}>${result.state === "landed" ? "✓" : "✗"} ${result.state} ${oneLine(result.reason ?? "", 200)}</p>
      ${result.output ? html`<pre tabindex="0" aria-label="output of the check">${exact(result.output)}</pre>` : null}` : null}
  </div>`;
};
