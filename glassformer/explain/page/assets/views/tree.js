// @ts-check
/** The beam as a tree: every candidate that was considered, step after step, with the pruned ones and all scores. */
import { element, printable, scrollable, spaced, svg } from "../drawing/element.js";
import { exportButtons, quote } from "../drawing/picture.js";
import { shortNumber } from "../drawing/scale.js";

const COLUMN = 132;
const ROW = 30;
const TOP = 26;

/** @param {import("../page.js").App} app */
export function treeView(app) {
  const settings = app.living.search();
  const view = element(
    "section.beam",
    {},
    element(
      "p.lead",
      {},
      `At each step the ${2 * settings.beam} best continuations of all hypotheses are considered and ${settings.beam} stay. Grey ones were dropped; a box with a bold border ended with </s>.`,
    ),
    app.living.ignoredNote(),
    element("p.note", { role: "status" }, "searching …"),
  );
  app.living.call("beam", app.record.sentence.src_ids, { ...settings, n_best: settings.beam, edits: app.edits }).then(
    async (/** @type {any} */ found) =>
      view.replaceChildren(
        /** @type {Node} */ (view.firstChild),
        ...[app.living.ignoredNote()].filter(Boolean),
        await outcome(app, found),
        scrollable("beam search", drawTree(app, found, settings)),
        exportButtons(
          "beam",
          () => view.querySelector("svg.tree"),
          () => csv(app, found),
        ),
      ),
    (/** @type {Error} */ error) => view.append(element("p.left-out", {}, error.message)),
  );
  return view;
}

/** Every candidate that was considered, a line each. @param {import("../page.js").App} app @param {any} found */
function csv(app, found) {
  const lines = found.tree.map((/** @type {any} */ one) =>
    [
      one.node,
      one.parent ?? "",
      one.step,
      quote(app.record.vocab[one.id]),
      one.token_log_prob,
      one.log_prob,
      one.score,
      one.outcome,
    ].join(","),
  );
  return `${["node,parent,step,token,token_log_prob,log_prob,score,outcome", ...lines].join("\n")}\n`;
}

/** @param {import("../page.js").App} app @param {any} found */
async function outcome(app, found) {
  const texts = await Promise.all(
    found.candidates.map((/** @type {any} */ one) => app.living.call("decodeIds", "tgt", one.ids)),
  );
  return element(
    "ol.candidates",
    {},
    found.candidates.map((/** @type {any} */ one, /** @type {number} */ at) =>
      element(
        "li",
        {},
        element("bdi", {}, printable(texts[at].text)),
        element("small", {}, ` score ${shortNumber(one.score)} = ${shortNumber(one.log_prob)} / length penalty`),
      ),
    ),
  );
}

/** @param {import("../page.js").App} app @param {any} found @param {any} settings */
function drawTree(app, found, settings) {
  const best = new Set();
  const end = found.tree.find(
    (/** @type {any} */ node) => node.outcome === "finished" && node.ids.join() === found.best.ids.join(),
  );
  for (let node = end; node; node = node.parent === null ? undefined : found.tree[node.parent]) best.add(node.node);
  const steps = 1 + Math.max(...found.tree.map((/** @type {any} */ node) => node.step));
  const height = TOP + 2 * settings.beam * ROW + 8;
  /** @type {Map<number, {x: number, y: number}>} */
  const places = new Map();
  const rank = new Map();
  for (const node of found.tree) {
    const at = rank.get(node.step) ?? 0;
    rank.set(node.step, at + 1);
    places.set(node.node, { x: 44 + node.step * COLUMN, y: TOP + at * ROW });
  }
  const picture = svg("svg.tree", {
    width: 60 + steps * COLUMN,
    height,
    viewBox: `0 0 ${60 + steps * COLUMN} ${height}`,
    role: "img",
    "aria-label": `beam search: ${steps} steps, ${found.tree.length} candidates; the list above has the results`,
  });
  picture.append(svg("text", { x: 2, y: TOP + 14 }, "<s>"));
  const edges = svg("g");
  const boxes = svg("g");
  for (const node of found.tree) {
    const own = /** @type {{x: number, y: number}} */ (places.get(node.node));
    const from = node.parent === null ? { x: -78, y: TOP } : /** @type {any} */ (places.get(node.parent));
    const kind = `${node.outcome}${best.has(node.node) ? " best" : ""}`;
    edges.append(
      svg("path", {
        class: kind,
        d: `M ${from.x + 108} ${from.y + 11} C ${own.x - 10} ${from.y + 11}, ${own.x - 14} ${own.y + 11}, ${own.x} ${own.y + 11}`,
      }),
    );
    boxes.append(
      svg(
        "g",
        { class: kind },
        svg(
          "title",
          {},
          `${app.record.vocab[node.id]}: log-probability ${node.token_log_prob}, sum ${node.log_prob}, score ${node.score}, ${node.outcome}`,
        ),
        svg("rect", { x: own.x, y: own.y, width: 108, height: 23, rx: 5 }),
        svg("text", { x: own.x + 7, y: own.y + 15.5 }, spaced(app.record.vocab[node.id].slice(0, 9), svg)),
        svg(
          "text.sum",
          { x: own.x + 102, y: own.y + 15.5, "text-anchor": "end" },
          node.log_prob.toFixed(2).replace("-", "−"),
        ),
      ),
    );
  }
  for (let step = 0; step < steps; step += 1)
    picture.append(svg("text.step-name", { x: 44 + step * COLUMN, y: 14 }, `step ${step}`));
  picture.append(edges, boxes);
  return picture;
}
