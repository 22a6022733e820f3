// @ts-check
/** The text side: characters to tokens by the tokenizer's own steps, ids, masks, and the shifted target. */
import { element, printable, scrollable, token } from "../drawing/element.js";

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
    idTable("source ids", [
      ["token", tokenCells("src", sentence.src_tokens)],
      ["id", sentence.src_ids],
      ["mask", sentence.src_ids.map((id) => (id === app.config.pad_id ? "0 hidden" : "1"))],
    ]),
    element("h3", {}, "4  The target, shifted right by one"),
    element(
      "p.note",
      {},
      `${sentence.forced ? "This target was given" : "The model wrote this target itself"}. At each position the decoder reads one token and writes the next; the first it reads is <s>.`,
    ),
    idTable("target tokens", [
      ["reads", tokenCells("tgt", sentence.tgt_in_tokens)],
      ["id", sentence.tgt_in_ids],
      ["writes", tokenCells("tgt", sentence.tgt_out_tokens)],
      ["id", sentence.tgt_out_ids],
    ]),
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
      element("small", {}, at ? printable(part.steps[at - 1] ?? "") : "characters"),
    ),
  );
  const steps =
    part.states.length === part.steps.length + 1
      ? states
      : part.steps.map((/** @type {string} */ step) => element("li", {}, printable(step)));
  return element("details.word", {}, element("summary", {}, pieces), element("ol.merges", {}, steps));
}

/** @param {string} label @param {[string, (HTMLElement | number | string)[]][]} rows heading and cells of each */
function idTable(label, rows) {
  return scrollable(
    label,
    element(
      "table.ids",
      {},
      element(
        "tbody",
        {},
        rows.map(([name, cells]) =>
          element(
            "tr",
            {},
            element("th", { scope: "row" }, name),
            cells.map((cell) => (cell instanceof Node ? cell : element("td", {}, cell))),
          ),
        ),
      ),
    ),
  );
}

/** @param {"src" | "tgt"} side @param {string[]} tokens */
const tokenCells = (side, tokens) =>
  tokens.map((text, at) => element("td", { "data-token": `${side}:${at}` }, token(text)));
