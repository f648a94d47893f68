// @ts-check
// What was used: a graph over time, and tables.

import { call, store } from "./connection.js";
import { Empty, Head, Problem, html, useLoaded, useState } from "./parts.js";
import { formatCount, oneLine } from "./text.js";

const GROUPINGS = ["agent", "day", "model", "project", "vendor"];
const DAYS = 30;
const DAY = 86_400_000;

const countTokens = (row) => (row.tokens?.input ?? 0) + (row.tokens?.output ?? 0) + (row.tokens?.cached ?? 0) + (row.tokens?.cache_written ?? 0);

const describeCost = (row) => {
  const costs = { ...row.reported };
  if (row.computed) costs.USD = (costs.USD ?? 0) + row.computed;
  const words = Object.entries(costs).map(([currency, amount]) => `${amount.toFixed(2)} ${currency === "USD" ? "$" : oneLine(currency, 5)}`);
  return words.join(" + ") || (row.unpriced ? "–" : "0.00 $");
};

export const Usage = () => {
  const [by, setBy] = useState("agent");
  const days = useLoaded(() => call("usage", { by: "day" }), []);
  const { value: report, error, isLoading, reload } = useLoaded(() => call("usage", { by }), [by]);
  const rows = report?.rows ?? [];
  return html`
    <section class="view" aria-label="usage">
      <${Head} title="Usage" facts=${[report && `${formatCount(countTokens(report.total))} tokens`, report && describeCost(report.total), isLoading ? "loading …" : null]} />
      ${error ? html`<${Problem} error=${error} retry=${reload} />` : null}
      ${report && !rows.length ? html`<${Empty}>Nothing was used yet.<//>` : null}
      <div class="scroll page-width" tabindex="0" role="group" aria-label="usage over time and by ${by}">
        ${days.value?.rows.length ? html`<${DayGraph} rows=${days.value.rows} />` : null}
        ${rows.length ? html`
          <p role="group" aria-label="by" class="tabs">${GROUPINGS.map((one) => html`<button type="button" aria-pressed=${one === by} onClick=${() => setBy(one)}>${one}</button>`)}</p>
          <${UsageTable} by=${report.by} rows=${rows} />` : null}
      </div>
    </section>`;
};

const UsageTable = ({ by, rows }) => {
  const most = Math.max(1, ...rows.map(countTokens));
  return html`<table class="usage"><caption class="unseen">usage by ${by}</caption><thead><tr><th scope="col">${by}</th><th scope="col" class="number">tokens</th><th scope="col"><span class="unseen">share</span></th><th scope="col" class="number">cost</th></tr></thead><tbody>
    ${rows.map((row) => html`<tr><td><bdi>${oneLine(row.name, 60)}</bdi></td><td class="number">${formatCount(countTokens(row))}</td><td class="bar"><meter min="0" max=${most} value=${countTokens(row)} aria-label=${`${oneLine(row.name, 60)}: ${formatCount(countTokens(row))} tokens`}></meter></td><td class="number">${describeCost(row)}</td></tr>`)}
  </tbody></table>`;
};

/** The last days, without gaps: a day on which nothing was used is there, too. */
const listDays = (rows) => {
  const byDay = new Map(rows.map((row) => [row.name, row]));
  const now = new Date(Date.now() + store.clockOffset / 1000);
  const today = Date.UTC(now.getFullYear(), now.getMonth(), now.getDate());
  const known = rows.map((row) => Date.parse(`${row.name}T00:00:00Z`)).filter((time) => !Number.isNaN(time));
  const last = Math.max(today, ...known);
  return Array.from({ length: DAYS }, (_, at) => {
    const name = new Date(last - (DAYS - 1 - at) * DAY).toISOString().slice(0, 10);
    return { name, row: byDay.get(name) };
  });
};

/** A bar for each day. What it shows is also in the table below. */
const DayGraph = ({ rows }) => {
  const days = listDays(rows);
  const most = Math.max(1, ...days.map(({ row }) => (row ? countTokens(row) : 0)));
  const used = days.filter(({ row }) => row);
  const peak = days.find(({ row }) => row && countTokens(row) === most);
  const summary = used.length ? `${used.length} of ${DAYS} days with usage; the most was ${formatCount(most)} tokens on ${peak?.name}` : `nothing in the last ${DAYS} days`;
  return html`
    <figure class="graph">
      <figcaption><span>tokens by day</span> <span class="faint">${summary}</span></figcaption>
      <svg viewBox=${`0 0 ${DAYS * 10} 100`} preserveAspectRatio="none" role="img" aria-label=${`tokens by day: ${summary}`}>
        <line class="axis" x1="0" y1="100" x2=${DAYS * 10} y2="100" />
        ${days.map(({ name, row }, at) => {
          const height = row ? Math.max(1.5, (countTokens(row) / most) * 98) : 0;
          return html`<rect class="bar" key=${name} x=${at * 10 + 1.5} y=${100 - height} width="7" height=${height}><title>${name}: ${row ? `${formatCount(countTokens(row))} tokens, ${describeCost(row)}` : "nothing"}</title></rect>`;
        })}
      </svg>
      <p class="scale faint" aria-hidden="true"><span>${days[0].name}</span><span>${days[DAYS - 1].name}</span></p>
      <details><summary>the days as a table</summary><${UsageTable} by="day" rows=${rows} /></details>
    </figure>`;
};
