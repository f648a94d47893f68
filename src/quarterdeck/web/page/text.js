// @ts-check
// Text of agents, made safe to show: it is only ever text, and what a browser would hide is written out.

import { html } from "./parts.js";

// Control characters, direction marks, invisible and tag characters: each could hide or reorder what is shown.
const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\u2800\u3164\ufeff\uffa0\ufff9-\ufffb]|[\u{e0000}-\u{e01ef}]/gu;
// Joiners are parts of emoji and of some scripts; in a command they would hide something.
const JOINERS = /[\u200c\u200d\ufe00-\ufe0f]/gu;

const escapeLetter = (letter) => {
  const code = letter.codePointAt(0);
  return code < 256 ? `\\x${code.toString(16).padStart(2, "0")}` : `\\u{${code.toString(16)}}`;
};

/** Text for reading: what cannot be seen is written as an escape. */
export const literal = (text) => String(text ?? "").replaceAll("\r\n", "\n").replace(HIDDEN, escapeLetter);

/** Text that is decided about: joiners are written out too. */
export const exact = (text) => literal(text).replace(JOINERS, escapeLetter);

/** One line of at most so many characters. */
export const oneLine = (text, most = 200) => {
  const line = literal(String(text ?? "").slice(0, most * 4).replace(/\s+/g, " ").trim());
  if (line.length <= most) return line;
  const letters = [...line];
  return letters.length > most ? `${letters.slice(0, most).join("")}…` : line;
};

/** What a terminal would show of output: no colours, no cursor movement. */
export const plainOutput = (text) =>
  literal(String(text ?? "").replace(/\u001b\[[0-9;?]*[ -/]*[@-~]|\u001b\][^\u0007\u001b]*(?:\u0007|\u001b\\)/g, ""));

export const formatCount = (value) => {
  if (value === null || value === undefined) return "–";
  if (value < 1000) return String(value);
  return value < 1e6 ? `${(value / 1000).toFixed(1)}k` : `${(value / 1e6).toFixed(1)}M`;
};

export const formatCost = (cost) => {
  if (!cost) return "–";
  return `${cost.amount.toFixed(2)} ${cost.currency === "USD" ? "$" : oneLine(cost.currency, 5)}`;
};

/** Microseconds as `8s`, `4m`, `2h`, `3d`. */
export const formatSpan = (microseconds) => {
  const seconds = Math.max(0, microseconds / 1e6);
  if (seconds < 60) return `${Math.floor(seconds)}s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)}m`;
  return seconds < 86400 ? `${Math.floor(seconds / 3600)}h` : `${Math.floor(seconds / 86400)}d`;
};

/** How long ago; after six days the date. */
export const formatAge = (moment, now) => {
  if (!moment) return "–";
  const span = now - moment;
  if (span < 7 * 86400e6) return formatSpan(span);
  return new Date(moment / 1000).toLocaleDateString(undefined, { day: "numeric", month: "short" });
};

// Made once: it costs as much as drawing a whole block.
const CLOCK = new Intl.DateTimeFormat([], { hour: "2-digit", minute: "2-digit" });

export const formatTime = (moment) => CLOCK.format(moment / 1000);

export const formatChanges = (counts) => (counts ? `+${counts.added ?? 0} −${counts.removed ?? 0}` : "–");

// Markdown, as elements: never as HTML.

const INLINE = /(`+)([^`]|[^`][\s\S]*?[^`])\1(?!`)|\*\*([^*\n]+)\*\*|(?<![\w*])\*([^*\n]+)\*(?![\w*])|\[([^\]\n]{1,300})\]\((https?:\/\/[^\s)]{1,2000})\)|(https?:\/\/[^\s<>()"'`]{1,2000})/gu;

const link = (label, address) =>
  html`<a href=${address} target="_blank" rel="noopener noreferrer" title=${literal(address)}>${literal(label)}</a>`;

const parseInline = (text) => {
  const found = [];
  let last = 0;
  for (const match of text.matchAll(INLINE)) {
    if (match.index > last) found.push(literal(text.slice(last, match.index)));
    const [whole, , code, strong, light, label, address, bare] = match;
    if (code !== undefined) found.push(html`<code>${literal(code)}</code>`);
    else if (strong !== undefined) found.push(html`<strong>${parseInline(strong)}</strong>`);
    else if (light !== undefined) found.push(html`<em>${literal(light)}</em>`);
    else if (address !== undefined) found.push(link(label, address), label === address ? "" : html`<span class="faint"> (${literal(new URL(address).host)})</span>`);
    else found.push(link(bare, bare));
    last = match.index + whole.length;
  }
  if (last < text.length) found.push(literal(text.slice(last)));
  return found;
};

const ITEM = /^(\s*)([-*+]|\d{1,6}[.)])\s+(.*)$/;

/** The blocks of a Markdown text. Long texts stay fast: each line is looked at once. */
export const renderMarkdown = (text) => {
  const lines = String(text ?? "").replaceAll("\r\n", "\n").split("\n");
  const blocks = [];
  let paragraph = [];
  let list = null;
  const endParagraph = () => {
    if (paragraph.length) blocks.push(html`<p dir="auto">${parseInline(paragraph.join("\n"))}</p>`);
    paragraph = [];
  };
  const endList = () => {
    if (list) blocks.push(list.isOrdered ? html`<ol start=${list.start}>${list.items}</ol>` : html`<ul>${list.items}</ul>`);
    list = null;
  };
  for (let at = 0; at < lines.length; at += 1) {
    const line = lines[at];
    const fence = /^\s*(```+|~~~+)\s*([\w+#.-]*)/.exec(line);
    if (fence) {
      endParagraph(); endList();
      const code = [];
      for (at += 1; at < lines.length && !lines[at].trimStart().startsWith(fence[1]); at += 1) code.push(lines[at]);
      blocks.push(html`<pre class="code" tabindex="0" aria-label=${fence[2] ? `code, ${fence[2]}` : "code"}><code>${literal(code.join("\n"))}</code></pre>`);
      continue;
    }
    const heading = /^(#{1,6})\s+(.*)$/.exec(line);
    const item = ITEM.exec(line);
    if (heading) {
      endParagraph(); endList();
      blocks.push(html`<p class="heading" dir="auto" role="heading" aria-level="4">${parseInline(heading[2])}</p>`);
    } else if (item) {
      endParagraph();
      const isOrdered = /\d/.test(item[2]);
      if (list && list.isOrdered !== isOrdered) endList();
      list ??= { isOrdered, start: Number.parseInt(item[2], 10) || 1, items: /** @type {any[]} */ ([]) };
      list.items.push(html`<li dir="auto" class=${item[1].length > 1 ? "nested" : ""}>${parseInline(item[3])}</li>`);
    } else if (/^\s*\|.*\|\s*$/.test(line)) {
      endParagraph(); endList();
      const rows = [line];
      while (at + 1 < lines.length && /^\s*\|.*\|\s*$/.test(lines[at + 1])) rows.push(lines[(at += 1)]);
      blocks.push(renderTable(rows));
    } else if (!line.trim()) {
      endParagraph(); endList();
    } else if (/^\s*>/.test(line)) {
      endParagraph(); endList();
      blocks.push(html`<blockquote dir="auto">${parseInline(line.replace(/^\s*>\s?/, ""))}</blockquote>`);
    } else {
      endList();
      paragraph.push(line);
    }
  }
  endParagraph(); endList();
  return blocks;
};

/** Where a text can be cut so that its parts mean the same: after the last empty line outside of code. */
const findEnd = (text, from) => {
  let end = from;
  let fence = "";
  for (let at = from; at < text.length;) {
    const stop = text.indexOf("\n", at);
    if (stop < 0) break;
    const line = text.slice(at, stop).trim();
    if (fence) {
      if (line.startsWith(fence)) fence = "";
    } else fence = /^(```+|~~~+)/.exec(line)?.[1] ?? "";
    if (!fence && !line) end = stop + 1;
    at = stop + 1;
  }
  return end;
};

/** The blocks of a text that grows: those that cannot change any more are kept in `kept`, and not drawn again. */
export const renderGrowing = (text, kept) => {
  if (!text.startsWith(kept.text ?? "")) Object.assign(kept, { text: "", blocks: [] });
  const from = kept.text?.length ?? 0;
  const end = findEnd(text, from);
  if (end > from) {
    kept.blocks = [...(kept.blocks ?? []), ...renderMarkdown(text.slice(from, end))];
    kept.text = text.slice(0, end);
  }
  return [...(kept.blocks ?? []), ...renderMarkdown(text.slice(end))];
};

const renderTable = (rows) => {
  const cells = rows.map((row) => row.trim().slice(1, -1).split("|").map((cell) => cell.trim()));
  const isHead = cells.length > 1 && cells[1].every((cell) => /^:?-+:?$/.test(cell));
  const body = isHead ? cells.slice(2) : cells;
  const head = isHead ? html`<thead><tr>${cells[0].map((cell) => html`<th>${parseInline(cell)}</th>`)}</tr></thead>` : null;
  return html`<div class="scroll" tabindex="0" role="group" aria-label="table"><table>${head}<tbody>${body.map((row) => html`<tr>${row.map((cell) => html`<td>${parseInline(cell)}</td>`)}</tr>`)}</tbody></table></div>`;
};

// Differences of two texts, line by line.

const MOST_CELLS = 1_000_000;

/** The lines of a text; the newline at its end begins no line. */
const splitLines = (text) => {
  if (text === null || text === undefined || text === "") return [];
  const lines = String(text).split("\n");
  if (lines.at(-1) === "") lines.pop();
  return lines;
};

/** Lines as [sign, text, old number, new number]; far from a change they are left out, and counted. */
export const compareTexts = (before, after, context = 3) => {
  const old = splitLines(before);
  const now = splitLines(after);
  let start = 0;
  while (start < old.length && start < now.length && old[start] === now[start]) start += 1;
  let end = 0;
  while (end < old.length - start && end < now.length - start && old[old.length - 1 - end] === now[now.length - 1 - end]) end += 1;
  const lines = old.slice(0, start).map((text, at) => [" ", text, at + 1, at + 1]);
  lines.push(...compareMiddle(old.slice(start, old.length - end), now.slice(start, now.length - end), start));
  for (let at = 0; at < end; at += 1) {
    lines.push([" ", old[old.length - end + at], old.length - end + at + 1, now.length - end + at + 1]);
  }
  const shown = withContext(lines, context);
  if (old.length && now.length && String(before).endsWith("\n") !== String(after).endsWith("\n")) {
    shown.push(["…", `the ${String(after).endsWith("\n") ? "old" : "new"} text has no newline at its end`, null, null]);
  }
  return shown;
};

const compareMiddle = (old, now, start) => {
  const removed = (from, to) => old.slice(from, to).map((text, at) => ["-", text, start + from + at + 1, null]);
  const added = (from, to) => now.slice(from, to).map((text, at) => ["+", text, null, start + from + at + 1]);
  if (old.length * now.length > MOST_CELLS) return [...removed(0, old.length), ...added(0, now.length)];
  const width = now.length + 1;
  const common = new Uint32Array((old.length + 1) * width);
  for (let row = old.length - 1; row >= 0; row -= 1) {
    for (let column = now.length - 1; column >= 0; column -= 1) {
      common[row * width + column] = old[row] === now[column]
        ? common[(row + 1) * width + column + 1] + 1
        : Math.max(common[(row + 1) * width + column], common[row * width + column + 1]);
    }
  }
  const lines = [];
  let row = 0;
  let column = 0;
  while (row < old.length || column < now.length) {
    if (row < old.length && column < now.length && old[row] === now[column]) {
      lines.push([" ", old[row], start + row + 1, start + column + 1]);
      row += 1; column += 1;
    } else if (column >= now.length || (row < old.length && common[(row + 1) * width + column] >= common[row * width + column + 1])) {
      lines.push(...removed(row, row + 1));
      row += 1;
    } else {
      lines.push(...added(column, column + 1));
      column += 1;
    }
  }
  return lines;
};

const withContext = (lines, context) => {
  const isNear = new Uint8Array(lines.length);
  lines.forEach(([sign], at) => {
    if (sign === " ") return;
    for (let near = Math.max(0, at - context); near <= Math.min(lines.length - 1, at + context); near += 1) isNear[near] = 1;
  });
  const kept = [];
  let skipped = 0;
  lines.forEach((line, at) => {
    if (isNear[at]) {
      if (skipped) kept.push(["…", `${skipped} lines without changes`, null, null]);
      skipped = 0;
      kept.push(line);
    } else skipped += 1;
  });
  if (skipped && kept.length) kept.push(["…", `${skipped} lines without changes`, null, null]);
  return kept;
};
