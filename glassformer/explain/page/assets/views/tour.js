// @ts-check
/** The tour: ten stops from text to the next token, each one sentence and one thing to do. A link carries the
 * stop. */
import { element, hasPointer } from "../drawing/element.js";

/**
 * A stop: `todo` is for every page, `living` for one that computes; `shows` are what it asks to look at and its
 * levers, which must be on the screen together.
 * @typedef {{place: string, title: string, sentence: string, todo: string, living?: string, shows: string[]}} Stop
 */

const MATRIX = "#view svg.matrix";
const MARGIN = 8; // px

/** The stop of a decoder without self-attention. @type {Stop} */
const RECURRENCE = {
  place: "decoder.layers.0.ssru.forget_gate",
  title: "A memory of one vector",
  sentence:
    "This decoder does not look at what it has written: at each position its forget gate says which share of one vector, the cell, is kept.",
  todo: "Find a dark column: that number of the cell is handed on from word to word.",
  shows: [MATRIX],
};

/** @param {import("../page.js").App} app @returns {Stop[]} */
export function stopsOf(app) {
  const { config } = app;
  const last = config.n_decoder_layers - 1;
  const order = app.record.has("src_embedding.position_vectors");
  const click = hasPointer() ? "Click" : "Touch";
  return [
    {
      place: "text",
      title: "Text into pieces",
      sentence: "A tokenizer cuts the text into pieces of a fixed vocabulary and gives each a number.",
      todo: "Unfold a word to see the merges that made it.",
      living: "Unfold a word to see the merges that made it, or type another word at the top.",
      shows: ["#text", "#view .words"],
    },
    {
      place: "src_embedding.embedded",
      title: "Ids into vectors",
      sentence: `Each id picks one row of a learned table: ${config.d_model} numbers that stand for the token.`,
      todo: `${click} a cell: the chain ends at the id in the text.`,
      shows: [MATRIX],
    },
    {
      place: order ? "src_embedding.position_vectors" : "encoder.layers.0.self_attention.scores",
      title: "Positions",
      sentence: order
        ? "Attention itself knows no order, so each position adds a vector of its own."
        : `Attention itself knows no order; in this model (${config.positions}) it enters inside self-attention.`,
      todo: "Compare two rows: neighbours are alike, distant ones are not.",
      living: order
        ? "Swap two words in the sentence at the top: the words move, the positions' vectors stay."
        : "Swap two words in the sentence at the top and see what changes.",
      shows: ["#text", MATRIX],
    },
    {
      place: "encoder.layers.0.self_attention.scores[heads=0]",
      title: "One query asks all keys",
      sentence: "Each position compares its query with the key of every position: a dot product, divided by √d_k.",
      todo: hasPointer()
        ? "Move the pointer along a row, then click a cell to see the query and the key."
        : "Touch a cell to see the query and the key.",
      shows: [MATRIX],
    },
    {
      place: "encoder.layers.0.self_attention.weights[heads=0]",
      title: "Softmax makes shares",
      sentence: "The softmax turns each row of scores into shares that sum to 1.",
      todo: `${click} a cell to see the exponentials that it divides.`,
      shows: [MATRIX],
    },
    {
      place: "attention",
      title: "Heads see differently",
      sentence: `${config.n_heads} heads of each layer look at the same sentence in ${config.n_heads} ways.`,
      todo: "Open a head that looks at one neighbour, then one that spreads out.",
      living: "Switch one off and see whether the translation changes.",
      shows: [".translation", "#view .head-cell", "#view .switch"],
    },
    {
      place: "encoder.layers.0.feed_forward_add_norm.residual",
      title: "Add, norm, feed-forward",
      sentence: "What attention gathered is added to the stream; then every position is worked on alone.",
      todo: `This is the sum. ${click} a cell to see what came in and what feed-forward added.`,
      shows: [MATRIX],
    },
    config.autoregressive_sublayer === "ssru"
      ? RECURRENCE
      : {
          place: "decoder.layers.0.self_attention.weights[heads=0]",
          title: "The mask: no peeking",
          sentence:
            "While it writes, the decoder may look at what it has written and at nothing later: the upper triangle is 0.",
          todo: `${click} a cell above the diagonal to see why it is 0.`,
          living: "Lift the mask with the button above the picture, then put it back.",
          shows: ["#view .mask-lever", MATRIX],
        },
    {
      place: `decoder.layers.${last}.cross_attention.weights`,
      title: "Back to the source",
      sentence:
        "In cross-attention the queries come from the target, keys and values from the encoder: for each word that it writes, the decoder looks up where in the source it is.",
      todo: "Find the row of a word and see which source word is dark.",
      living: "Hide a source word with the dot beside it and see the translation lose it.",
      shows: [".translation", ".chip.src .eye", MATRIX],
    },
    {
      place: "next",
      title: "The next word",
      sentence: "The last vector is compared with every token of the vocabulary, and the softmax makes shares of it.",
      todo: "Raise the temperature, then cut the tail with top-k.",
      living: "Raise the temperature, look at the runner-up, and open the beam's other ideas.",
      shows: ["#view .further", "[data-lever=temperature]", "#view .bars li:nth-child(2)"],
    },
  ];
}

/** The card of the stop where the tour stands.
 * @param {import("../page.js").App} app @param {(stop: number) => void} goTo 0 ends the tour */
export function tourCard(app, goTo) {
  const stops = stopsOf(app);
  const at = Math.min(app.tour, stops.length);
  const stop = stops[at - 1];
  if (!stop) return null;
  const last = at === stops.length;
  return element(
    "section.tour",
    { "aria-label": "Tour" },
    element("p.tour-place", {}, `${at} / ${stops.length}`),
    element(
      "div.tour-words",
      {},
      element("h2", {}, stop.title),
      element(
        "p",
        {},
        stop.sentence,
        " ",
        element("b", {}, app.living?.ready && stop.living ? stop.living : stop.todo),
      ),
    ),
    element(
      "div.tour-steps",
      {},
      element("button", { disabled: at === 1, onclick: () => goTo(at - 1) }, "Back"),
      element("button.go", { onclick: () => goTo(last ? 0 : at + 1) }, last ? "Done" : "Next"),
      element("button.quiet", { onclick: () => goTo(0) }, "Skip the tour"),
    ),
  );
}

/** Scroll so that what the stop asks for and its levers are on the screen; once, when it is reached.
 * @param {import("../page.js").App} app */
export function showStop(app) {
  const stop = stopsOf(app)[app.tour - 1];
  const key = `${app.tour} ${app.living?.ready ?? false} ${app.edits.length}`;
  if (app.shownStop === key || (stop && app.place.address !== stop.place.replace(/\[.*/s, ""))) return;
  app.shownStop = key;
  const boxes = (stop?.shows ?? []).flatMap((one) => {
    const found = document.querySelector(one);
    return found ? [found.getBoundingClientRect()] : [];
  });
  if (!boxes.length) return;
  const top = Math.min(...boxes.map((box) => box.top));
  const bottom = Math.max(...boxes.map((box) => box.bottom));
  const floor = app.root.querySelector(".tour")?.getBoundingClientRect().top ?? innerHeight;
  if (top < MARGIN || bottom > floor - MARGIN) window.scrollBy(0, Math.min(bottom - floor + MARGIN, top - MARGIN));
}
