// @ts-check
/** Why this word? What each source token, sublayer and head adds to it, the logit lens, and the runner-up. */
import { element, scrollable, spaced, token } from "../drawing/element.js";
import { exactNumber, percent, shortNumber } from "../drawing/scale.js";
import { pullRow } from "./number.js";

/** @param {import("../page.js").App} app */
export function whyView(app) {
  const { sentence } = app.record;
  const step = app.step;
  const id = sentence.tgt_out_ids[step];
  const word = sentence.tgt_out_tokens[step];
  const view = element(
    "section.why",
    {},
    element(
      "p.lead",
      {},
      "Why ",
      element("b", {}, token(word)),
      " after ",
      element("bdi", {}, spaced(sentence.tgt_in_tokens.slice(0, step + 1).join(" "))),
      "? Choose another word above.",
    ),
    element("p.note", { role: "status" }, "computing …"),
  );
  gather(app, step, id).then(
    ({ direct, runner, lens, hidden }) => {
      if (app.step !== step || !view.isConnected) return;
      const cards = [source(app, hidden), contributions(direct), rival(app, runner), lensView(app, lens, id)];
      view.replaceChildren(/** @type {Node} */ (view.firstChild), ...cards);
    },
    (error) => view.append(element("p.left-out", {}, error.message)),
  );
  return view;
}

/** @param {import("../page.js").App} app @param {number} step @param {number} id */
async function gather(app, step, id) {
  const { living } = app;
  const { sentence } = app.record;
  await living.holdShown();
  const [direct, runner, lens] = await Promise.all([
    living.call("directLogits", step, id, app.edits),
    living.call("runnerUp", step, app.edits),
    living.call("logitLens", step, { k: 3, edits: app.edits }),
  ]);
  const hidden = await living.call("occlusion", sentence.src_ids, sentence.tgt_in_ids.slice(0, step + 1), id, {
    edits: app.edits,
  });
  return { direct, runner, lens, hidden };
}

/** @param {string} title @param {string} note @param {...Node} children */
const card = (title, note, ...children) =>
  element("section.card", {}, element("h3", {}, title), element("p.note", {}, note), children);

/** Occlusion. @param {import("../page.js").App} app @param {any} hidden */
function source(app, hidden) {
  const changes = hidden.without.map((/** @type {any} */ one) => hidden.whole.log_prob - one.log_prob);
  const most = Math.max(...changes.map(Math.abs), 1e-9);
  return card(
    "What each source token adds",
    `Each token was hidden in turn and everything computed again. The word's log-probability, ${shortNumber(hidden.whole.log_prob)}, falls by the number without that token.`,
    element(
      "ol.terms.occlusion",
      {},
      app.record.sentence.src_tokens.map((text, at) =>
        pullRow(token(text, { "data-token": `src:${at}` }), changes[at], most),
      ),
    ),
  );
}

/** Direct logit attribution: parts by sublayer, the heads inside.
 * @param {any} direct */
function contributions(direct) {
  /** @type {Map<string, any[]>} */
  const groups = new Map();
  for (const part of direct.parts) groups.set(part.address, [...(groups.get(part.address) ?? []), part]);
  const sums = [...groups].map(([address, inside]) => ({
    address,
    inside,
    value: inside.reduce((sum, part) => sum + part.value, 0),
  }));
  const biases = sums.filter(({ address }) => address.endsWith(".bias"));
  const others = sums.filter(({ address }) => !address.endsWith(".bias"));
  const most = Math.max(
    ...sums.map(({ value }) => Math.abs(value)),
    ...direct.parts.map((/** @type {any} */ part) => Math.abs(part.value)),
  );
  const offset = biases.reduce((sum, { value }) => sum + value, 0);
  const off = Math.abs(direct.sum - direct.logit);
  const rows = others.map(({ address, inside, value }) =>
    inside.length === 1
      ? pullRow(placeLink(address), value, most)
      : element(
          "li.nested",
          {},
          element(
            "details",
            {},
            element(
              "summary",
              {},
              pullRow(element("span", {}, partWords(address)), value, most, `${inside.length} heads`, "div.line"),
            ),
            element(
              "ol.terms",
              {},
              inside.map((part) =>
                pullRow(
                  element("a", { href: `#${address}.heads[heads=${part.head}]` }, `head ${part.head}`),
                  part.value,
                  most,
                ),
              ),
            ),
          ),
        ),
  );
  const bias = element(
    "li.nested",
    {},
    element(
      "details",
      {},
      element("summary", {}, pullRow("biases and norm offsets", offset, most, `${biases.length}`, "div.line")),
      element(
        "ol.terms",
        {},
        biases.map(({ address, value }) => pullRow(address, value, most)),
      ),
    ),
  );
  return card(
    "What each sublayer and head adds to its logit",
    "The logit is a sum as soon as each norm's mean and variance are held as recorded. Embedding first, then layer by layer; attention unfolds into heads.",
    element("ol.terms", {}, rows, bias),
    element(
      "p.total.sum-check",
      {},
      `Sum ${shortNumber(direct.sum)} · the logit is ${exactNumber(direct.logit)}`,
      element("small", {}, ` · difference ${off.toExponential(1)}${off <= 1e-4 ? ", below 1e-4" : ""}`),
    ),
  );
}

/** @param {string} address */
const placeLink = (address) => element("a", { href: `#${address}` }, partWords(address));

/** @param {string} address */
const partWords = (address) =>
  address
    .replace(/^decoder\.layers\.(\d+)\./, "layer $1 ")
    .replace("tgt_embedding.", "target embedding ")
    .replaceAll("_", "-");

/** @param {import("../page.js").App} app @param {any} runner */
function rival(app, runner) {
  const first = app.record.vocab[runner.id];
  const second = app.record.vocab[runner.runnerUp];
  const flips = runner.parts
    .filter((/** @type {any} */ part) => part.flips)
    .sort((/** @type {any} */ a, /** @type {any} */ b) => b.value - a.value);
  const name = (/** @type {any} */ part) =>
    element("span", {}, placeLink(part.address), part.head === null ? "" : ` head ${part.head}`);
  const most = Math.max(...runner.parts.map((/** @type {any} */ part) => Math.abs(part.value)));
  return card(
    "The runner-up",
    `${first} is ahead of ${second} by ${shortNumber(runner.gap)} in logits.`,
    element(
      "p",
      {},
      flips.length
        ? `Without any one of these parts, ${second} would have won:`
        : `No single part decides it: without any one of them ${first} would still be first.`,
    ),
    element(
      "ol.terms",
      {},
      flips.slice(0, 6).map((/** @type {any} */ part) => pullRow(name(part), part.value, most)),
    ),
  );
}

/** @param {import("../page.js").App} app @param {any[]} lens @param {number} id */
function lensView(app, lens, id) {
  const rows = lens.map(({ address, probabilities, best }) =>
    element(
      "tr",
      {},
      element(
        "th",
        { scope: "row" },
        element(
          "a",
          { href: `#${address}` },
          address.startsWith("tgt") ? "embedding" : `after layer ${address.split(".")[2]}`,
        ),
      ),
      element("td", {}, percent(probabilities[id])),
      best.map((/** @type {number} */ one) =>
        element(
          "td",
          { class: one === id ? "own" : "" },
          token(app.record.vocab[one]),
          element("small", {}, ` ${percent(probabilities[one])}`),
        ),
      ),
    ),
  );
  return card(
    "Logit lens",
    "What the output projection would say if the decoder stopped after each layer.",
    scrollable(
      "logit lens",
      element(
        "table.lens",
        {},
        element(
          "thead",
          {},
          element(
            "tr",
            {},
            element("td"),
            element("th", { scope: "col" }, "this word"),
            ["first", "second", "third"].map((one) => element("th", { scope: "col" }, one)),
          ),
        ),
        element("tbody", {}, rows),
      ),
    ),
  );
}
