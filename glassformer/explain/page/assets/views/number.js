// @ts-check
/** One number and the sum that made it; each factor leads on to its own origin, down to an id in the text. */
import { nameOf, writePlace } from "../record/addresses.js";
import { element, printable, spaced } from "../drawing/element.js";
import { originOf } from "../record/origin.js";
import { exactNumber, percent, shortNumber } from "../drawing/scale.js";

const MAX_TERMS = 12;

/** @param {import("../page.js").App} app @param {string} address @param {Record<string, number>} cells */
export function numberView(app, address, cells) {
  const tap = app.record.at(address);
  const value = app.record.value(address, cells);
  const before = app.before && app.edits.length ? app.before.value(address, cells) : value;
  const along = (tap?.axes ?? []).filter((axis) => axis in cells && axis !== "batch" && axis !== "one");
  const where = along
    .map((axis) =>
      axis === "heads" ? `head ${cells.heads}` : `${axis} ${printable(app.record.label(address, axis, cells[axis]))}`,
    )
    .join(" · ");
  const made = originOf(app, address, cells);
  const edited = app.edits.find((edit) => edit.address === address);
  return element(
    "section.number",
    { "aria-label": "one number and what made it" },
    element(
      "p.value",
      {},
      element("output", {}, exactNumber(value)),
      Object.is(before, value) ? null : element("small.before", {}, `before ${exactNumber(before)}`),
      element("span.where", {}, spaced(where)),
    ),
    setLever(app, address, cells, value),
    edited ? element("p.note", {}, "An edit stands on this step, so the sum below may not give it.") : null,
    sum(app, made),
    made.note ? element("p.note", {}, made.note) : null,
    made.missing ? element("p.left-out", {}, made.missing) : null,
  );
}

/** What if this number were another? Not for numbers from which nothing else is computed.
 * @param {import("../page.js").App} app @param {string} address @param {Record<string, number>} cells
 * @param {number} value */
function setLever(app, address, cells, value) {
  if (!app.living?.ready || /norm\.(mean|variance|normalised)$|probabilities$|^choice\./.test(address)) return null;
  const input = /** @type {HTMLInputElement} */ (
    element("input", {
      type: "number",
      step: "any",
      value: Number.isFinite(value) ? exactNumber(value) : "",
      "aria-label": "another value",
    })
  );
  const set = () => {
    if (input.value !== "")
      app.toggleEdit({ address, index: { ...cells }, operation: "set", value: Number(input.value) });
  };
  input.addEventListener("keydown", (event) => {
    if (event.key === "Enter") set();
  });
  return element(
    "div.what-if",
    {},
    "What if it were",
    input,
    element("button", { onclick: set }, "Set"),
    element("button", { onclick: () => app.toggleEdit({ address, index: { ...cells }, operation: "zero" }) }, "Zero"),
  );
}

/** @param {import("../page.js").App} app @param {import("../record/origin.js").Origin} made */
function sum(app, made) {
  if (made.kind === "dot" && made.terms.length) return dot(app, made);
  if (made.kind === "softmax") return softmax(app, made);
  if (made.kind === "sum") {
    return element(
      "div.origin",
      {},
      element(
        "p.formula",
        {},
        made.terms.flatMap((term, at) => [at ? element("span.op", {}, "+") : null, chip(app, term.factors[0])]),
        element("span.op", {}, "="),
        shortNumber(made.result),
      ),
    );
  }
  return element(
    "div.origin",
    {},
    element(
      "p.formula",
      {},
      made.formula && made.formula !== "=" ? element("span", {}, `= ${made.formula}`) : null,
      made.factors.length && made.kind !== "same" ? element("span.op", {}, "from") : null,
      made.kind === "same" ? element("span.op", {}, "=") : null,
      made.factors.slice(0, MAX_TERMS).map((factor) => chip(app, factor)),
      made.factors.length > MAX_TERMS ? ` … ${made.factors.length - MAX_TERMS} more` : null,
    ),
  );
}

/** One row of a sum, with a bar to the left or right of 0.
 * @param {import("../drawing/element.js").Child} name @param {number} value
 * @param {number} most @param {string} [more] @param {string} [tag] */
export function pullRow(name, value, most, more = "", tag = "li") {
  return element(
    tag,
    {},
    element("span.factors", {}, name, more ? element("small", {}, more) : null),
    element(
      "span.pull",
      { "aria-hidden": "true" },
      element("span", {
        class: value < 0 ? "less" : "more",
        style: { width: `${(50 * Math.abs(value)) / (most || 1)}%` },
      }),
    ),
    element("span.product", {}, shortNumber(value)),
  );
}

/** Products, the largest first, with bars that show which way they pull.
 * @param {import("../page.js").App} app @param {import("../record/origin.js").Origin} made */
function dot(app, made) {
  const ordered = made.terms
    .map((term, at) => ({ ...term, at }))
    .sort((a, b) => Math.abs(b.product) - Math.abs(a.product));
  const most = Math.abs(ordered[0].product) || 1;
  const total = made.terms.reduce((all, term) => all + term.product, 0);
  const named = shortLabels(app, made.terms);
  const row = (/** @type {import("../record/origin.js").Term} */ term) =>
    pullRow(
      term.factors.flatMap((factor, at) => [
        at ? element("span.op", {}, "·") : null,
        chip(app, factor, named(factor)),
      ]),
      term.product,
      most,
    );
  const rest = ordered.slice(MAX_TERMS);
  const more = rest.length
    ? element(
        "details.rest",
        {},
        element(
          "summary",
          {},
          `${rest.length} smaller terms, together ${shortNumber(rest.reduce((all, term) => all + term.product, 0))}`,
        ),
      )
    : null;
  more?.addEventListener("toggle", () => {
    if (more.childElementCount === 1) more.append(element("ol.terms", {}, rest.map(row)));
  });
  return element(
    "div.origin",
    {},
    element("p.formula", {}, `${made.formula} = sum of ${made.terms.length} terms, the largest first`),
    element("ol.terms", {}, ordered.slice(0, MAX_TERMS).map(row)),
    more,
    element("p.total", {}, "Sum: ", element("b", {}, shortNumber(total)), agreement(total, made.result)),
  );
}

/** Labels that say only what differs between the terms of one sum.
 * @param {import("../page.js").App} app @param {import("../record/origin.js").Term[]} terms */
function shortLabels(app, terms) {
  const [first, second] = terms.slice(0, 2).map((term) => term.factors[0]?.cells ?? {});
  const varying = second ? Object.keys(first).find((axis) => first[axis] !== second[axis]) : undefined;
  return (/** @type {import("../record/origin.js").Factor} */ factor) => {
    if (!varying || !factor.address || !factor.cells || !(varying in factor.cells)) return factor.label;
    return `${nameOf(factor.address) === "weight" ? factor.address.split(".").at(-2) : nameOf(factor.address)} ${app.record.label(factor.address, varying, factor.cells[varying])}`;
  };
}

/** Whether a sum in double precision gives the recorded float32. @param {number} total @param {number} result */
function agreement(total, result) {
  const off = Math.abs(total - result);
  if (!Number.isFinite(off)) return null;
  return element(
    "small",
    {},
    off <= 2e-5 * Math.max(1, Math.abs(result))
      ? ` · the recorded number, ${exactNumber(result)}, up to float32 rounding (${off.toExponential(0)})`
      : ` · recorded ${exactNumber(result)}: differs by ${off.toExponential(1)}`,
  );
}

/** @param {import("../page.js").App} app @param {import("../record/origin.js").Origin} made */
function softmax(app, made) {
  const total = made.terms.reduce((all, term) => all + term.product, 0);
  const chosen = made.factors[0];
  const named = shortLabels(app, made.terms);
  const rows = made.terms.map((term) => {
    const factor = term.factors[0];
    const share = total ? term.product / total : 0;
    const own = factor && chosen && factor.label === chosen.label;
    return element(
      `li${own ? ".own" : ""}`,
      {},
      element(
        "span.factors",
        {},
        factor ? [element("span.op", {}, "exp"), chip(app, factor, named(factor))] : term.label,
      ),
      element(
        "span.pull.share",
        { "aria-hidden": "true" },
        element("span.more", { style: { width: `${100 * share}%` } }),
      ),
      element("span.product", {}, percent(share)),
    );
  });
  const few = rows.slice(0, 40);
  return element(
    "div.origin",
    {},
    element(
      "p.formula",
      {},
      made.formula,
      ` = ${shortNumber(made.terms.find((term) => term.factors[0]?.label === chosen?.label)?.product ?? 0)} / ${shortNumber(total)}`,
    ),
    element("ol.terms", {}, few),
    rows.length > few.length ? element("p.note", {}, `… and ${rows.length - few.length} more`) : null,
  );
}

/** A factor that leads to its own origin.
 * @param {import("../page.js").App} app @param {import("../record/origin.js").Factor} factor @param {string}
 * [label] */
function chip(app, factor, label = factor.label) {
  const body = [
    element("b", {}, factor.label.startsWith("id of") ? factor.value : shortNumber(factor.value)),
    element("small", {}, spaced(label)),
  ];
  if (!factor.address) return element("span.factor", {}, body);
  const known = factor.address === "text" || app.record.at(factor.address);
  return known
    ? element(
        "a.factor",
        {
          href: `#${writePlace(factor.address, factor.cells ?? {})}`,
          title: `${factor.label} of ${factor.address}: where it comes from`,
        },
        body,
      )
    : element("span.factor", { title: `${nameOf(factor.address)}: left out of this page` }, body);
}
