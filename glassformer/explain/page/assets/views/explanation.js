// @ts-check
/** What a thing is: title, sentence, equation, section, shape in words, and where it comes from and goes. */
import { crumbs, entryOf, inWords, moduleOf, nameOf, shortAddress, sideOf } from "../record/addresses.js";
import { element } from "../drawing/element.js";
import { inputsOf, linearOf } from "../record/origin.js";

/** @type {Record<string, {title: string, sentence: string}>} */
const PLACES = {
  "": {
    title: "The Transformer",
    sentence:
      "The encoder reads the whole source at once and makes a memory of it. The decoder writes the translation one token at a time: it looks at what it has written, then back at the memory, and gives every token of its vocabulary a share.",
  },
  text: {
    title: "Text",
    sentence:
      "The model knows no letters. A tokenizer cuts the text into pieces of a fixed vocabulary and gives each its number.",
  },
  next: {
    title: "The next token",
    sentence:
      "Logits become shares by the softmax. A temperature below 1 sharpens them, above 1 flattens them; top-k and top-p cut the tail before sampling.",
  },
  attention: {
    title: "Attention",
    sentence:
      "Each small picture is one head: rows are queries, columns are keys, a strong colour means much attention. In cross-attention the columns are the source. Layers and heads count from 0, as in addresses.",
  },
};

/** @param {import("../page.js").App} app */
export function explanationOf(app) {
  const { address } = app.place;
  const story = entryOf(app.about.stories, address);
  const told = entryOf(PLACES, address) ?? entryOf(app.panels, address);
  if (!story) {
    const weight =
      app.record.taps.size && app.record.at(address)
        ? "A learned parameter; each row belongs to one output, each column to one input."
        : "";
    const about = told ?? {
      title: crumbs(address)
        .slice(1)
        .slice(-2)
        .map(({ label }) => label)
        .join(", "),
      sentence: weight,
    };
    return element(
      "div.explanation",
      {},
      element("h2", {}, about.title),
      element("p", {}, about.sentence),
      address === "" ? facts(app) : null,
      address && !told ? stepsInside(app, address) : null,
    );
  }
  const tap = app.record.taps.get(address);
  const linear = linearOf(address);
  return element(
    "div.explanation",
    {},
    element("h2", {}, story.title),
    element("p", {}, story.sentence),
    equation(story),
    element("p.section", {}, /^\d/.test(story.section) ? `Section ${story.section} of the paper` : story.section),
    tap ? shape(app, address, tap) : null,
    linear ? weightNote(app, linear) : null,
    links(app, "Comes from", inputsOf(app, address)),
    links(app, "Goes into", consumers(app, address)),
    element("p.address", {}, element("code", {}, address)),
  );
}

/** @param {{mathml: string, equation: string}} story */
function equation(story) {
  const holder = element("p.equation", { role: "img", "aria-label": story.equation });
  const parsed = new DOMParser().parseFromString(story.mathml, "text/html").querySelectorAll("math");
  for (const one of parsed) holder.append(document.importNode(one, true), " ");
  return holder;
}

/** @param {import("../page.js").App} app @param {string} address @param {import("../record/record.js").Tap} tap */
function shape(app, address, tap) {
  const rows = tap.axes.map((axis, at) => {
    const side = sideOf(address, axis);
    const legend = app.about.legend[side ?? axis] ?? app.about.legend[axis];
    return element(
      "tr",
      {},
      element("td", {}, tap.shape[at]),
      element("th", { scope: "row" }, axis),
      element(
        "td",
        {},
        side && side !== axis
          ? `${app.about.legend[axis].meaning} (${side === "src" ? "source" : "target"})`
          : (legend?.meaning ?? ""),
      ),
    );
  });
  return rows.length ? element("table.shape", {}, element("caption", {}, "Shape"), element("tbody", {}, rows)) : null;
}

/** @param {import("../page.js").App} app @param {string} linear */
function weightNote(app, linear) {
  const weight = app.weights?.get(`${linear}.weight`);
  return element(
    "p.note",
    {},
    "Weights: ",
    element("code", {}, `${linear}.weight`),
    weight ? ` ${weight.shape.join(" × ")}` : "",
  );
}

/** @param {import("../page.js").App} app @param {string} title @param {string[]} addresses */
function links(app, title, addresses) {
  if (!addresses.length) return null;
  return element(
    "div.links",
    {},
    element("h3", {}, title),
    element(
      "ul",
      {},
      addresses
        .slice(0, 8)
        .map((one) =>
          element(
            "li",
            {},
            element("a", { href: `#${one}` }, app.about.stories[one]?.title ?? inWords(one)),
            element("small", {}, one === "text" ? "" : ` ${shortAddress(one)}`),
          ),
        ),
    ),
  );
}

/** @param {import("../page.js").App} app @param {string} address */
function consumers(app, address) {
  if (!app.consumers) {
    /** @type {Map<string, string[]>} */
    const found = new Map();
    for (const one of app.record.taps.keys())
      for (const from of inputsOf(app, one)) found.set(from, [...(found.get(from) ?? []), one]);
    app.consumers = found;
  }
  return app.consumers.get(address) ?? [];
}

/** The steps inside a part. @param {import("../page.js").App} app @param {string} address */
function stepsInside(app, address) {
  const inside = [...app.record.taps.keys()].filter((one) => one.startsWith(`${address}.`));
  if (!inside.length) return null;
  const told =
    inside.length <= 24
      ? inside
      : inside.filter((one) => /\.(weights|residual|memory)$/.test(one) || /layers\.\d+\.output$/.test(one));
  return element(
    "div.links",
    {},
    element(
      "p.note",
      {},
      `${inside.length} steps, in this order${told.length < inside.length ? ", of which the main ones are" : ""}:`,
    ),
    element(
      "ol",
      {},
      told.map((one) =>
        element(
          "li",
          {},
          element("a", { href: `#${one}` }, app.about.stories[one]?.title ?? nameOf(one)),
          element("small", {}, ` ${inWords(moduleOf(one.slice(address.length + 1)))}`),
        ),
      ),
    ),
  );
}

/** @param {import("../page.js").App} app */
function facts(app) {
  const { config } = app;
  /** @type {[string, string | number][]} */
  const rows = [
    ["layers", `${config.n_encoder_layers} + ${config.n_decoder_layers}`],
    ["d_model", config.d_model],
    ["heads", `${config.n_heads} of width ${config.d_k}`],
    ["d_ff", config.d_ff],
    ["vocabulary", config.tgt_vocab.toLocaleString("en")],
    ["positions", config.positions],
    ["earlier target", config.autoregressive_sublayer === "ssru" ? "SSRU, a recurrence" : "self-attention"],
    ["norm", config.norm === "pre" ? "before each sublayer" : "after each sum, as in the paper"],
    ["activation", config.activation],
  ];
  return element(
    "table.shape",
    {},
    element("caption", {}, "This model"),
    element(
      "tbody",
      {},
      rows.map(([name, value]) => element("tr", {}, element("th", { scope: "row" }, name), element("td", {}, value))),
    ),
  );
}
