// @ts-check
/** The next-token distribution of one step, with temperature, top-k and top-p, computed from the recorded logits. */
import { element, printable, spaced, svg, token } from "../drawing/element.js";
import { exportButtons, quote } from "../drawing/picture.js";
import { recordCommand, vocabularyRow } from "../record/record.js";
import { exactNumber, percent, shortNumber } from "../drawing/scale.js";

/** @typedef {{temperature: number, topK: number, topP: number}} Levers */
/** @typedef {{id: number, logit: number, plain: number, share: number}} Entry */

export const PLAIN = { temperature: 1, topK: 0, topP: 1 };

/**
 * The entries in falling order: `plain` as the model has it, `share` after the levers, 0 where they cut it off.
 * @param {import("../record/record.js").PassRecord} record @param {number} step @param {Levers} levers
 * @returns {{entries: Entry[], rest: number, cut: boolean} | null}
 */
export function distribution(record, step, levers) {
  const logits = record.at("output_projection.logits");
  const probabilities = record.at("output_projection.probabilities");
  if (!logits || !probabilities) return null;
  const row = vocabularyRow(logits, step);
  const shares = vocabularyRow(probabilities, step);
  const entries = Array.from(row.values, (logit, place) => ({
    id: row.ids ? row.ids[place] : place,
    logit,
    plain: shares.values[place],
    share: 0,
  }));
  entries.sort((a, b) => b.logit - a.logit);
  const most = entries[0].logit;
  const temperature = Math.max(levers.temperature, 0.01);
  const rest = levers.temperature === 1 ? shares.rest / (entries[0].plain || 1) : 0;
  let total = rest;
  entries.forEach((entry) => {
    entry.share = Math.exp((entry.logit - most) / temperature);
    total += entry.share;
  });
  entries.forEach((entry) => {
    entry.share /= total;
  });
  cutOff(entries, levers);
  return { entries, rest: shares.rest, cut: row.ids !== null };
}

/** Keep the k most probable, then the fewest that reach p, and let the shares sum to 1 again.
 * @param {Entry[]} entries @param {Levers} levers */
function cutOff(entries, { topK, topP }) {
  if (!topK && topP >= 1) return;
  let sum = 0;
  let kept = topK ? Math.min(topK, entries.length) : entries.length;
  const before = entries.slice(0, kept).reduce((all, entry) => all + entry.share, 0);
  if (topP < 1) {
    for (let at = 0; at < kept; at += 1) {
      sum += entries[at].share / before;
      if (sum >= topP) kept = at + 1;
    }
  }
  const total = entries.slice(0, kept).reduce((all, entry) => all + entry.share, 0);
  entries.forEach((entry, at) => {
    entry.share = at < kept ? entry.share / total : 0;
  });
}

/** @param {import("../page.js").App} app @param {{most: number, levers?: boolean}} options */
export function distributionView(app, { most, levers = true }) {
  const found = distribution(app.record, app.step, app.levers);
  if (!found) return element("p.left-out", {}, "The distribution was left out of this page.");
  const before =
    app.before && app.edits.length
      ? distribution(app.before, Math.min(app.step, app.before.sentence.tgt_in_tokens.length - 1), PLAIN)
      : null;
  const was = before ? new Map(before.entries.map((entry) => [entry.id, entry.plain])) : null;
  const written = app.record.sentence.tgt_out_ids[app.step];
  const shown = found.entries.slice(0, most);
  if (!shown.some((entry) => entry.id === written))
    shown.push(...found.entries.filter((entry) => entry.id === written));
  const bars = element(
    "ol.bars",
    {},
    shown.map((entry) => bar(app, entry, entry.id === written, was?.get(entry.id))),
  );
  const sentence = app.record.sentence;
  const so_far = sentence.tgt_in_tokens.slice(0, app.step + 1).join(" ");
  return element(
    "section.distribution",
    {},
    element(
      "p.prefix",
      {},
      "After ",
      element("bdi", {}, spaced(so_far)),
      `, the model gives its ${app.config.tgt_vocab.toLocaleString("en")} tokens these shares:`,
    ),
    levers ? leverRow(app) : null,
    element("p.bar-axis", { "aria-hidden": "true" }, element("span", {}, "0"), element("span", {}, "100 %")),
    bars,
    levers
      ? exportButtons(
          `next-token-${app.step}`,
          () => barPicture(app, shown),
          () => csv(app, found.entries),
        )
      : null,
    found.cut
      ? element(
          "p.note",
          {},
          `Only the ${found.entries.length} most probable tokens are in this page; the rest have ${percent(found.rest)} together.`,
          levers
            ? [
                " This records all: ",
                element("code.record", {}, recordCommand(app.about, app.record.sentence, "output_projection.*")),
              ]
            : null,
        )
      : null,
  );
}

/** The bars as one picture. @param {import("../page.js").App} app @param {Entry[]} entries */
function barPicture(app, entries) {
  const fill = getComputedStyle(/** @type {Element} */ (app.root.querySelector(".track .fill"))).backgroundColor;
  const picture = svg("svg", {
    width: 480,
    height: 24 * entries.length,
    viewBox: `0 0 480 ${24 * entries.length}`,
    "font-family": "sans-serif",
    "font-size": 14,
    fill: getComputedStyle(document.body).color,
  });
  entries.forEach((entry, at) =>
    picture.append(
      svg(
        "text",
        { x: 110, y: 24 * at + 17, "text-anchor": "end" },
        printable(app.record.vocab[entry.id] ?? String(entry.id)),
      ),
      svg("rect", { x: 120, y: 24 * at + 5, width: Math.max(1, 280 * entry.share), height: 14, fill }),
      svg("text", { x: 410, y: 24 * at + 17 }, percent(entry.share)),
    ),
  );
  return picture;
}

/** @param {import("../page.js").App} app @param {Entry[]} entries */
function csv(app, entries) {
  const lines = entries.map(({ id, logit, plain, share }) =>
    [id, quote(app.record.vocab[id] ?? ""), exactNumber(logit), exactNumber(plain), share].join(","),
  );
  return `${["id,token,logit,probability,with_levers", ...lines].join("\n")}\n`;
}

/** @param {import("../page.js").App} app @param {Entry} entry @param {boolean} written @param {number} [was] */
function bar(app, entry, written, was) {
  const text = app.record.vocab[entry.id] ?? String(entry.id);
  const moved =
    Math.abs(entry.share - entry.plain) > 1e-6 || (was !== undefined && Math.abs(was - entry.plain) > 5e-4);
  return element(
    `li${written ? ".written" : ""}${moved ? ".moved" : ""}${entry.share === 0 ? ".off" : ""}`,
    {},
    element(
      "a",
      {
        href: `#output_projection.probabilities[tgt=${app.step},vocab=${entry.id}]`,
        title: `logit ${shortNumber(entry.logit)}: open the softmax`,
      },
      element("span.name", {}, token(text), written ? element("small", {}, " written") : null),
      element(
        "span.track",
        {},
        element("span.fill", { style: { width: `${100 * entry.share}%` } }),
        element("span.was", { style: { left: `${100 * (was ?? entry.plain)}%` } }),
      ),
      element("span.share", {}, percent(entry.share)),
    ),
  );
}

/** @param {import("../page.js").App} app */
function leverRow(app) {
  const changed = JSON.stringify(app.levers) !== JSON.stringify(PLAIN);
  const lever = (
    /** @type {keyof Levers} */ name,
    /** @type {string} */ label,
    /** @type {any} */ range,
    /** @type {(value: number) => string} */ says,
  ) =>
    element(
      "label.lever",
      {},
      element("span", {}, label, " ", element("output", {}, says(app.levers[name]))),
      element("input", {
        type: "range",
        "data-lever": name,
        ...range,
        value: app.levers[name],
        oninput: (/** @type {any} */ event) => app.setLevers({ ...app.levers, [name]: Number(event.target.value) }),
      }),
    );
  return element(
    "div.levers",
    {},
    lever("temperature", "temperature", { min: 0.1, max: 3, step: 0.05 }, (value) => value.toFixed(2)),
    lever("topK", "top-k", { min: 0, max: 20, step: 1 }, (value) => (value ? String(value) : "off")),
    lever("topP", "top-p", { min: 0.05, max: 1, step: 0.05 }, (value) => (value < 1 ? value.toFixed(2) : "off")),
    element("button", { disabled: !changed, onclick: () => app.setLevers({ ...PLAIN }) }, "Reset"),
  );
}
