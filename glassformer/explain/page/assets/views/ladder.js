// @ts-check
/** The views of the middle, from the architecture down to one matrix; each leads one step down. */
import { crumbs, entryOf, hueOf, inWords, layerOf, moduleOf, nameOf, writePlace } from "../record/addresses.js";
import { derivationView } from "./derivation.js";
import { distributionView } from "./distribution.js";
import { element, hasPointer } from "../drawing/element.js";
import { headSwitch, isSilent, maskLever, unseenSwitch } from "./levers.js";
import { matrixView, numberTable, thumbnail } from "../drawing/matrix.js";
import { numberView } from "./number.js";
import { csvText, exportButtons, layout, matrixSize, meanMatrix, sizeAlong, tapMatrix } from "../drawing/picture.js";
import { recordCommand } from "../record/record.js";
import { exactNumber } from "../drawing/scale.js";

// px that a row of heads with their switches, some words and the mask's switch take
const HEADS_HEIGHT = 132;
const LEAD_HEIGHT = 58;
const LEVER_HEIGHT = 34;

/** What stands in the middle for a place. @param {import("../page.js").App} app @returns {HTMLElement} */
export function viewOf(app) {
  const { address, cells } = app.place;
  if (address === "") return architectureView(app);
  if (address === "text") return titled("From text to ids", derivationView(app));
  if (address === "next")
    return titled(
      `Next token, step ${app.step}`,
      app.panels.why
        ? element(
            "p.further",
            {},
            element("a", { href: "#why" }, "Why this word?"),
            " · ",
            element("a", { href: "#beam" }, "The beam's other ideas"),
          )
        : null,
      distributionView(app, { most: 15 }),
    );
  if (address === "attention") return titled("Every head of every layer", headsOverview(app, true));
  const panel = entryOf(app.panels, address);
  if (panel) return titled(panel.title, panel.view(app));
  const tap = app.record.taps.get(address) ?? app.record.at(address);
  if (tap) return tapView(app, tap, address, cells);
  const inside = [...app.record.taps.keys()].filter((one) => one.startsWith(`${address}.`));
  if (inside.length) return groupView(app, address, inside);
  return titled(
    "Nothing is here",
    element("p", {}, `No step has the address `, element("code", {}, address), "."),
    element("p", {}, "Steps are found by a word of their name, such as attention, norm or softmax, and by head 3."),
    element("p", {}, element("a", { href: "#" }, "To the architecture")),
  );
}

/** @param {string} title @param {...(HTMLElement | null)} children */
function titled(title, ...children) {
  return element("section.view", {}, element("h2", {}, title), children);
}

/** @param {import("../page.js").App} app */
function architectureView(app) {
  const layer = app.layers.decoder;
  const address = `decoder.layers.${layer}.cross_attention.weights`;
  const mean = meanMatrix(app, address);
  const alignment = mean
    ? matrixView(mean, {
        width: app.width,
        height: app.height,
        onpick: (row, column) =>
          app.go(writePlace(address, { heads: strongest(app, address, row, column), query: row, key: column })),
      })
    : null;
  return element(
    "section.view",
    {},
    element(
      "p.lead",
      {},
      hasPointer()
        ? "Point at a word to see what it touches; click any box or cell to see what is inside, and a number to see how it was computed."
        : "Touch a word to see where it looks; touch any cell to see what is inside, and a number to see how it was computed.",
    ),
    element(
      "div.pair",
      {},
      element(
        "div",
        {},
        element("h2", {}, "Where each word looks in the source"),
        alignment ?? element("p.left-out", {}, "Cross-attention was left out of this page."),
        element("p.note", {}, `Cross-attention of decoder layer ${layer}, mean of its heads. Each row sums to 1.`),
        mean
          ? exportButtons(
              `${address}.mean`,
              () => alignment?.querySelector("svg.matrix") ?? null,
              () => csvText(mean, exactNumber),
            )
          : null,
      ),
      element(
        "div",
        {},
        element("h2", {}, `Next token, step ${app.step}`),
        distributionView(app, { most: 8, levers: false }),
        element(
          "p",
          {},
          element("a", { href: "#next" }, "Temperature, top-k, top-p"),
          app.panels.why
            ? [
                " · ",
                element("a", { href: "#why" }, "Why this word?"),
                " · ",
                element("a", { href: "#beam" }, "Beam search"),
              ]
            : null,
        ),
      ),
    ),
    element("h2", {}, "All heads at a glance"),
    headsOverview(app, false),
  );
}

/** The head with the largest weight in one cell.
 * @param {import("../page.js").App} app @param {string} address @param {number} query @param {number} key */
function strongest(app, address, query, key) {
  const tap = app.record.at(address);
  const heads = tap ? sizeAlong(tap, "heads") : 1;
  let best = 0;
  for (let head = 1; head < heads; head += 1) {
    if (
      app.record.value(address, { heads: head, query, key }) > app.record.value(address, { heads: best, query, key })
    )
      best = head;
  }
  return best;
}

/** Heads of all layers as small multiples. @param {import("../page.js").App} app @param {boolean} large */
export function headsOverview(app, large) {
  const own = ["cross_attention", app.config.autoregressive_sublayer]; // an SSRU has no heads
  /** @type {[string, string, number][]} */
  const all = [
    ["encoder", "self_attention", app.config.n_encoder_layers],
    ["decoder", "self_attention", app.config.n_decoder_layers],
    ["decoder", "cross_attention", app.config.n_decoder_layers],
  ];
  const kinds = all.filter(([stack, sublayer]) => stack === "encoder" || own.includes(sublayer));
  return element(
    `div.overview${large ? ".large" : ""}`,
    {},
    kinds.map(([stack, sublayer, layers]) =>
      element(
        `section.heads.${hueOf(`${stack}.${sublayer}`)}`,
        {},
        element("h3", {}, sublayer === "cross_attention" ? "Cross-attention" : `${inWords(stack)} self-attention`),
        element(
          "div.grid",
          {},
          Array.from({ length: layers }, (_, layer) => {
            const address = `${stack}.layers.${layer}.${sublayer}.weights`;
            return element(
              "div.layer-row",
              {},
              element("span.layer-name", {}, `layer ${layer}`),
              element("span.layer-heads", {}, headButtons(app, address, large ? 84 : 38)),
            );
          }),
        ),
      ),
    ),
  );
}

/** One small picture for each head, with its switch where the page computes.
 * @param {import("../page.js").App} app @param {string} address @param {number} size @param {number | null}
 * [chosen] */
function headButtons(app, address, size, chosen = null) {
  const tap = app.record.at(address);
  if (!tap) return [element("span.left-out", {}, "left out")];
  const { many } = layout(tap);
  return Array.from({ length: many ? sizeAlong(tap, many) : 1 }, (_, at) => {
    const label = many === "heads" ? `head ${at}` : `${many} ${at}`;
    return element(
      `span.head-cell${isSilent(app, moduleOf(address), at) ? ".silent" : ""}`,
      {},
      element(
        `a.head${at === chosen ? ".lit" : ""}`,
        {
          href: `#${writePlace(address, many ? { [many]: at } : {})}`,
          "aria-label": `${crumbs(moduleOf(address))
            .slice(1)
            .map((one) => one.label)
            .join(", ")}, ${nameOf(address)}, ${label}`,
          title: label,
          "aria-current": at === chosen ? "true" : null,
        },
        thumbnail(matrixSize(tap), () => tapMatrix(app, address, at), size),
        element("small", {}, size > 60 ? label : at),
      ),
      size > 60 ? switchOf(app, moduleOf(address), at) : null,
    );
  });
}

/** @param {import("../page.js").App} app @param {string} module @param {number} head */
function switchOf(app, module, head) {
  if (!app.carriesModel || app.living?.trouble || !/_attention$/.test(module)) return null;
  return app.living?.ready ? headSwitch(app, module, head) : unseenSwitch(`Switch head ${head} off`);
}

/** A stack, a layer or a sublayer: its steps in order, grouped. Attention opens on its weights.
 * @param {import("../page.js").App} app @param {string} address @param {string[]} inside */
function groupView(app, address, inside) {
  const way = crumbs(address);
  const layer = layerOf(address);
  const title = way
    .slice(1)
    .map((one) => one.label)
    .join(", ");
  const groups = new Map();
  for (const one of inside) {
    const rest = one.slice(address.length + 1).split(".");
    const key = rest.length === 1 ? "" : rest[0] === "layers" ? `layers.${rest[1]}` : rest[0];
    groups.set(key, [...(groups.get(key) ?? []), one]);
  }
  const parts = [...groups].map(([key, members]) => {
    const own = key ? `${address}.${key}` : address;
    const name = key.startsWith("layers.") ? `layer ${key.slice(7)}` : inWords(key);
    return element(
      `section.group.${hueOf(own)}`,
      {},
      key ? element("h3", {}, element("a", { href: `#${own}` }, name)) : null,
      element(
        "div.steps",
        {},
        landmarks(members, key !== "" && inside.length > 40).map((one) => stepCard(app, one)),
      ),
    );
  });
  const weights = /_attention$/.test(address) ? app.record.at(`${address}.weights`) : undefined;
  return element(
    "section.view",
    {},
    element("h2", {}, title),
    element("p.lead", {}, aboutGroup(app, address, layer)),
    weights
      ? [
          ...tapParts(app, weights, `${address}.weights`, {}, LEAD_HEIGHT),
          element("details.other-steps", {}, element("summary", {}, "The other steps, in order"), ...parts),
        ]
      : parts,
  );
}

/** @param {import("../page.js").App} app @param {string} address @param {ReturnType<typeof layerOf>} layer */
function aboutGroup(app, address, layer) {
  const name = nameOf(address);
  const { config } = app;
  if (/cross_attention$/.test(name))
    return `Queries come from the target, keys and values from the encoder's memory: this is where the decoder looks back at the source, with ${config.n_heads} heads.`;
  if (/self_attention$/.test(name))
    return `Every position asks every other position ${layer?.stack === "decoder" ? "before it " : ""}of the same sentence, with ${config.n_heads} heads of width ${config.d_k}.`;
  if (name === "ssru")
    return "No attention: each position keeps a share of the cell before it, as its forget gate says, and fills the rest with its own numbers.";
  if (/feed_forward$/.test(name))
    return `Each position on its own: widened to ${config.d_ff}, ${config.activation}, narrowed to ${config.d_model}.`;
  if (/add_norm$|norm$/.test(name))
    return config.norm === "pre"
      ? "The norm stands before the sublayer in this model; the sum stands after it."
      : "The sublayer's output is added to what it was given, and the sum is brought to mean 0 and variance 1.";
  if (layer) return "The steps of this layer, in the order in which they are computed.";
  if (/embedding$/.test(name)) return "Each id picks a row of a learned table; the position is added.";
  return "The steps, in the order in which they are computed.";
}

/** The steps that tell most, where all would be too many. @param {string[]} members @param {boolean} few */
function landmarks(members, few) {
  if (!few) return members;
  const told = members.filter((one) => /\.(weights|residual|output|memory)$/.test(one) && !/norm\.output$/.test(one));
  return told.length ? told : members.slice(0, 4);
}

/** @param {import("../page.js").App} app @param {string} address */
function stepCard(app, address) {
  const tap = /** @type {import("../record/record.js").Tap} */ (app.record.taps.get(address));
  const story = entryOf(app.about.stories, address);
  const vocabulary = tap.axes.includes("vocab");
  return element(
    "a.step",
    { href: `#${address}` },
    element(
      "span.picture",
      {},
      tap.data && !vocabulary
        ? thumbnail(matrixSize(tap), () => tapMatrix(app, address), 64)
        : element("span.left-out", {}, vocabulary ? "bars" : "left out"),
    ),
    element(
      "span.words",
      {},
      element("b", {}, story?.title ?? nameOf(address)),
      element("code", {}, nameOf(address)),
      element(
        "small",
        {},
        tap.axes
          .filter((axis) => axis !== "batch" && axis !== "one")
          .map((axis) => `${axis} ${sizeAlong(tap, axis)}`)
          .join(" × "),
      ),
    ),
  );
}

/** One tap: its heads, the chosen matrix, and below it the number that was picked.
 * @param {import("../page.js").App} app @param {import("../record/record.js").Tap} tap @param {string} address
 * @param {Record<string, number>} cells */
function tapView(app, tap, address, cells) {
  const story = entryOf(app.about.stories, address);
  const title = story?.title ?? nameOf(address);
  if (!tap.data) return leftOut(title, address, app);
  if (tap.axes.includes("vocab")) return vocabularyView(app, title, address, cells);
  const chosen = chosenOf(app, tap, cells);
  return element(
    "section.view",
    {},
    element(
      "h2",
      {},
      title,
      tap.axes.includes("heads")
        ? element("span.of", {}, ` head ${chosen} of 0 to ${sizeAlong(tap, "heads") - 1}`)
        : null,
    ),
    ...tapParts(app, tap, address, cells),
  );
}

/** The index along the axis that is chosen before a matrix is drawn.
 * @param {import("../page.js").App} app @param {import("../record/record.js").Tap} tap
 * @param {Record<string, number>} cells */
function chosenOf(app, tap, cells) {
  const { many } = layout(tap);
  const asked = many ? (cells[many] ?? (many === "heads" ? (app.head ?? 0) : 0)) : 0;
  return Math.min(asked, many ? sizeAlong(tap, many) - 1 : 0);
}

/** @param {import("../page.js").App} app @param {import("../record/record.js").Tap} tap @param {string} address
 * @param {Record<string, number>} cells @param {number} [above] px that something else takes */
function tapParts(app, tap, address, cells, above = 0) {
  const { many, row, column } = layout(tap);
  const chosen = chosenOf(app, tap, cells);
  const matrix = /** @type {import("../drawing/picture.js").TapMatrix} */ (
    tapMatrix(app, address, chosen, cells[row] ?? 0)
  );
  const lever = maskLever(app, address);
  const picked = (row === "one" || row in cells) && (column === "one" || column in cells);
  const selected = picked ? { row: (cells[row] ?? 0) - matrix.first, column: cells[column] ?? 0 } : null;
  const figure = matrixView(matrix, {
    width: app.width,
    height: app.height - above - (many ? HEADS_HEIGHT : 0) - (lever ? LEVER_HEIGHT : 0),
    selected,
    onpick: (r, c) => app.go(writePlace(address, matrix.cells(r, c))),
  });
  const file = `${address}${many ? `.${many}-${chosen}` : ""}`;
  return [
    many
      ? element(
          "div.multiples",
          {},
          headButtons(app, address, Math.min(72, Math.max(61, app.width / 4 - 22)), chosen),
        )
      : null,
    matrix.rows < sizeAlong(tap, row)
      ? element("p.note", {}, `Rows ${matrix.first} to ${matrix.first + matrix.rows - 1} of ${sizeAlong(tap, row)}.`)
      : null,
    lever,
    figure,
    picked
      ? numberView(
          app,
          address,
          Object.fromEntries(Object.entries(cells).filter(([axis]) => tap.axes.includes(axis))),
        )
      : element("p.note.hint", {}, `${pickHint(matrix)} to see the sum that made the number.`),
    exportButtons(
      file,
      () => figure.querySelector("svg.matrix"),
      () => csvText(matrix, exactNumber),
    ),
    numberTable(matrix),
  ];
}

/** How a number is opened. @param {{rows: number, columns: number}} matrix */
function pickHint({ rows, columns }) {
  const one = rows * columns === 1;
  if (!hasPointer()) return one ? "Touch it" : "Touch a cell";
  return one ? "Click it" : "Click a cell, or move with the arrow keys and press Enter,";
}

/** @param {string} title @param {string} address @param {import("../page.js").App} app */
function leftOut(title, address, app) {
  return titled(
    title,
    element("p.left-out", {}, "The numbers of this step were left out, to keep this page small."),
    element(
      "p",
      {},
      app.about.run_option === null ? "In Python, this records them: " : "This command records them: ",
      element("code.record", { tabindex: 0 }, recordCommand(app.about, app.record.sentence, address)),
    ),
  );
}

/** @param {import("../page.js").App} app @param {string} title @param {string} address
 * @param {Record<string, number>} cells */
function vocabularyView(app, title, address, cells) {
  const picked = "vocab" in cells;
  return element(
    "section.view",
    {},
    element("h2", {}, title, element("span.of", {}, ` step ${app.step}`)),
    picked ? numberView(app, address, { tgt: cells.tgt ?? app.step, vocab: cells.vocab }) : null,
    distributionView(app, { most: picked ? 8 : 15 }),
  );
}
