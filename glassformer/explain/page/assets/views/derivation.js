// @ts-check
/** The text side: characters to tokens by the tokenizer's own steps, ids, masks, and the shifted target. */
import { element, printable, token } from "../drawing/element.js";

/** @param {import("../page.js").App} app */
export function derivationView(app) {
  const { sentence } = app.record;
  const { derivation } = sentence;
  return element(
    "section.text-side",
    {},
    element("h3", {}, "1  The text"),
    element("blockquote", { dir: "auto" }, sentence.source),
    derivation.normalised !== sentence.source
      ? element("p", {}, "In normal form: ", element("bdi", {}, printable(derivation.normalised)))
      : null,
    element("h3", {}, "2  Pieces, cut by the tokenizer"),
    element("p.note", {}, "Each word is cut on its own. A word that was merged from smaller pieces unfolds."),
    element("div.words", {}, derivation.pre_tokens.slice(0, 400).map(word)),
    derivation.pre_tokens.length > 400
      ? element("p.note", {}, `… and ${derivation.pre_tokens.length - 400} more words.`)
      : null,
    element("h3", {}, "3  Ids: the rows of the embedding that are looked up"),
    idTable("source", sentence.src_tokens, sentence.src_ids, app.config),
    element("h3", {}, "4  The target, shifted right by one"),
    element(
      "p.note",
      {},
      `${sentence.forced ? "This target was given" : "The model wrote this target itself"}. At each position the decoder reads one token and writes the next; the first it reads is <s>.`,
    ),
    shifted(app),
  );
}

/** @param {any} part */
function word(part) {
  const pieces = part.tokens.map((/** @type {string} */ piece, /** @type {number} */ at) =>
    element("span.piece", {}, token(piece), element("small", {}, part.ids[at])),
  );
  if (!part.steps.length) return element("div.word", {}, pieces);
  const states = part.states.map((/** @type {string[]} */ state, /** @type {number} */ at) =>
    element(
      "li",
      {},
      element(
        "span.symbols",
        {},
        state.map((symbol) => element("kbd", {}, printable(symbol))),
      ),
      at ? element("small", {}, printable(part.steps[at - 1] ?? "")) : element("small", {}, "characters"),
    ),
  );
  const steps =
    part.states.length === part.steps.length + 1
      ? states
      : part.steps.map((/** @type {string} */ step) => element("li", {}, printable(step)));
  return element("details.word", {}, element("summary", {}, pieces), element("ol.merges", {}, steps));
}

/** @param {string} side @param {string[]} tokens @param {number[]} ids @param {any} config */
function idTable(side, tokens, ids, config) {
  return element(
    "div.scroll",
    { tabindex: 0, role: "region", "aria-label": `${side} ids` },
    element(
      "table.ids",
      {},
      element(
        "tbody",
        {},
        element(
          "tr",
          {},
          element("th", { scope: "row" }, "token"),
          tokens.map((text, at) => element("td", { "data-token": `src:${at}` }, token(text))),
        ),
        element(
          "tr",
          {},
          element("th", { scope: "row" }, "id"),
          ids.map((id) => element("td", {}, id)),
        ),
        element(
          "tr",
          {},
          element("th", { scope: "row" }, "mask"),
          ids.map((id) => element("td", {}, id === config.pad_id ? "0 hidden" : "1")),
        ),
      ),
    ),
  );
}

/** @param {import("../page.js").App} app */
function shifted(app) {
  const { sentence } = app.record;
  return element(
    "div.scroll",
    { tabindex: 0, role: "region", "aria-label": "target tokens" },
    element(
      "table.ids",
      {},
      element(
        "tbody",
        {},
        element(
          "tr",
          {},
          element("th", { scope: "row" }, "reads"),
          sentence.tgt_in_tokens.map((text, at) => element("td", { "data-token": `tgt:${at}` }, token(text))),
        ),
        element(
          "tr",
          {},
          element("th", { scope: "row" }, "id"),
          sentence.tgt_in_ids.map((id) => element("td", {}, id)),
        ),
        element(
          "tr",
          {},
          element("th", { scope: "row" }, "writes"),
          sentence.tgt_out_tokens.map((text, at) => element("td", { "data-token": `tgt:${at}` }, token(text))),
        ),
        element(
          "tr",
          {},
          element("th", { scope: "row" }, "id"),
          sentence.tgt_out_ids.map((id) => element("td", {}, id)),
        ),
      ),
    ),
  );
}
