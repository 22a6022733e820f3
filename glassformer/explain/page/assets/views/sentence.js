// @ts-check
/** The first band: the translation as a sentence, both sides in pieces, and lines for where the decoder looked. */
import { element, printable, scrollable, svg, token } from "../drawing/element.js";
import { tellingHeads } from "./levers.js";

/** The translation as a plain sentence, how sure it is, and the head to silence.
 * @param {import("../page.js").App} app */
function headline(app) {
  const shown = (app.edits.length && app.living?.written) || app.record.sentence;
  const before = app.edits.length ? app.before?.sentence.target : undefined;
  const changed = before !== undefined && before !== shown.target;
  return element(
    "div.headline",
    {},
    element(`bdi.translation${changed ? ".changed" : ""}`, {}, printable(shown.target)),
    changed ? element("s.was", {}, printable(before)) : null,
    before !== undefined && !changed ? element("small", {}, "as before") : null,
    shown.confidence ? confidence(shown.confidence) : null,
    element("span.state", { "aria-live": "polite" }, app.living?.busy ? COMPUTING : ""),
    tellingHeads(app),
  );
}

export const COMPUTING = "computing …";

/** The estimated chance that a translation is good, and why it is doubted, if it is.
 * @param {[number, string | null]} confidence */
function confidence([chance, reason]) {
  const words = `confidence ${chance.toFixed(2)}`;
  return element(
    `small.confidence${reason ? ".doubt" : ""}`,
    { title: "The estimated chance that the translation is good: chrF of at least 50" },
    reason ? `probably wrong, ${words}: ${reason}` : words,
  );
}

/** Cross-attention of one layer: of one head, or the mean. @param {import("../page.js").App} app */
function shownWeights(app) {
  const layer = app.layers.decoder;
  const tap = app.record.at(`decoder.layers.${layer}.cross_attention.weights`);
  if (!tap || !tap.data) return null;
  const [, heads, queries, keys] = tap.shape;
  const head = app.head !== null && app.head < heads ? app.head : null;
  /** @param {number} query @param {number} key */
  const value = (query, key) => {
    let sum = 0;
    for (let at = 0; at < heads; at += 1)
      if (head === null || at === head)
        sum += /** @type {Float32Array} */ (tap.data)[(at * queries + query) * keys + key];
    return head === null ? sum / heads : sum;
  };
  return { value, queries, keys, layer, head };
}

/** @param {import("../page.js").App} app */
export function sentenceBand(app) {
  if (app.living?.ready && !app.living.text.trim()) return element("div.sentence");
  const { sentence } = app.record;
  const shown = shownWeights(app);
  const src = sentence.src_tokens.map((text, at) => sourceToken(app, text, at));
  const tgt = sentence.tgt_out_tokens.map((text, at) =>
    element(
      "button.chip.tgt",
      {
        "data-token": `tgt:${at}`,
        "aria-pressed": at === app.step ? "true" : "false",
        title: `step ${at}: reads ${sentence.tgt_in_tokens[at]}, writes ${text}`,
        onclick: () => app.set({ step: at }),
      },
      token(text),
    ),
  );
  const lines = svg("svg.lines", { "aria-hidden": "true" });
  const rows = element(
    "div.rows",
    {},
    element("div.row", {}, element("span.side", {}, "source"), src),
    lines,
    element("div.row", {}, element("span.side", {}, sentence.forced ? "forced target" : "translation"), tgt),
  );
  const where = shown
    ? `Lines: cross-attention of decoder layer ${shown.layer}, ${shown.head === null ? "mean of heads" : `head ${shown.head}`}`
    : "This page holds no cross-attention weights.";
  const band = element(
    "div.sentence",
    {},
    headline(app),
    app.living?.readNote() ?? null,
    stepSlider(app),
    scrollable("Tokens", rows),
    element(
      "p.note",
      {},
      where,
      shown
        ? [" · ", element("a", { href: `#decoder.layers.${shown.layer}.cross_attention.weights` }, "open them")]
        : null,
      [...sentence.src_tokens, ...sentence.tgt_out_tokens].some((text) => text.includes("▁"))
        ? [" · ", element("span.space", {}, "▁"), " stands for a space"]
        : null,
    ),
  );
  if (shown) {
    const draw = () => drawLines(lines, rows, src, tgt, shown.value, app.step);
    requestAnimationFrame(draw);
    new ResizeObserver(draw).observe(rows);
  }
  return band;
}

/** @param {import("../page.js").App} app */
function stepSlider(app) {
  const last = app.record.sentence.tgt_out_tokens.length - 1;
  const move = (/** @type {number} */ step) => {
    app.set({ step: Math.min(Math.max(step, 0), last) });
    document.getElementById("step")?.focus();
  };
  return element(
    "div.stepper",
    {},
    element("label", { for: "step" }, `step ${app.step} of 0 to ${last}`),
    element(
      "button",
      { "aria-label": "one step back", disabled: app.step === 0, onclick: () => move(app.step - 1) },
      "‹",
    ),
    element("input#step", {
      type: "range",
      min: 0,
      max: last,
      value: app.step,
      oninput: (/** @type {any} */ event) => move(Number(event.target.value)),
    }),
    element(
      "button",
      { "aria-label": "one step on", disabled: app.step === last, onclick: () => move(app.step + 1) },
      "›",
    ),
  );
}

/** A source token, with an eye that hides it from every query where the page computes.
 * @param {import("../page.js").App} app @param {string} text @param {number} at */
function sourceToken(app, text, at) {
  const hidden = app.edits.some((edit) => edit.address === "src_mask" && edit.index?.src === at);
  const word = element(`span.chip.src${hidden ? ".hidden" : ""}`, { "data-token": `src:${at}` }, token(text));
  if (!app.living?.ready) {
    if (app.carriesModel && !app.living?.trouble)
      word.append(element("span.eye.unseen", { "aria-hidden": "true" }, "●"));
    return word;
  }
  word.append(
    element(
      "button.eye",
      {
        "aria-pressed": hidden ? "true" : "false",
        "aria-label": `${hidden ? "show" : "hide"} source token ${text}`,
        title: hidden ? "Show it again" : "Hide this token from every query",
        onclick: () => app.toggleEdit({ address: "src_mask", index: { src: at }, operation: "zero" }),
      },
      hidden ? "◌" : "●",
    ),
  );
  return word;
}

/** @param {SVGElement} lines @param {HTMLElement} rows @param {HTMLElement[]} src @param {HTMLElement[]} tgt
 * @param {(query: number, key: number) => number} value @param {number} step */
function drawLines(lines, rows, src, tgt, value, step) {
  const box = rows.getBoundingClientRect();
  const zoom = box.width / rows.offsetWidth || 1; // of large type
  const height = 40;
  lines.setAttribute("width", String(rows.scrollWidth));
  lines.setAttribute("height", String(height));
  lines.replaceChildren();
  const middle = (/** @type {HTMLElement} */ one) => {
    const own = one.getBoundingClientRect();
    return (own.left - box.left + own.width / 2) / zoom;
  };
  const xs = src.map(middle);
  const xt = tgt.map(middle);
  const many = src.length * tgt.length > 1600;
  // A head that looks at all alike has no line.
  const least = src.length > 12 ? Math.max(0.04, 1.5 / src.length) : 0.04;
  tgt.forEach((_, query) => {
    if (many && query !== step) return;
    src.forEach((__, key) => {
      const weight = value(query, key);
      if (weight < least) return;
      lines.append(
        svg("path", {
          d: `M ${xs[key]} 1 C ${xs[key]} ${height / 2}, ${xt[query]} ${height / 2}, ${xt[query]} ${height - 1}`,
          class: query === step ? "line chosen" : "line",
          "data-token": `tgt:${query}`,
          style: {
            "stroke-width": `${0.6 + 3.4 * weight}`,
            opacity: `${query === step ? 0.25 + 0.75 * weight : 0.1 + 0.5 * weight}`,
          },
        }),
      );
    });
  });
}
