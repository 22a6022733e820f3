// @ts-check
/** Figure 1 of the paper, drawn for this model: its boxes lead to the steps, its arrows carry live shapes and
 * tokens. */
import { hueOf } from "../record/addresses.js";
import { element, spaced, svg } from "../drawing/element.js";

const WIDTH = 362;
const BOX = 128;
const HEIGHT = 20;
const GAP = 10.5;
const LEFT = 38;
const RIGHT = 196;

/** The boxes of one layer from below, in this model's order of norms.
 * @param {string} layer @param {any} config @param {boolean} decoder */
function layerBoxes(layer, config, decoder) {
  const pre = config.norm === "pre";
  const sublayers = decoder
    ? [config.autoregressive_sublayer, "cross_attention", "feed_forward"]
    : ["self_attention", "feed_forward"];
  /** @type {Record<string, string>} */
  const words = {
    self_attention: decoder ? "Masked self-attention" : "Self-attention",
    ssru: "SSRU",
    cross_attention: "Cross-attention",
    feed_forward: "Feed-forward",
  };
  return sublayers.flatMap((name) => {
    const core = { label: words[name], address: `${layer}.${name}`, kind: "core", name };
    const add = `${layer}.${name}_add_norm`;
    return pre
      ? [
          { label: "Norm", address: `${add}.norm`, kind: "norm", name },
          core,
          { label: "Add", address: `${add}.residual`, kind: "add", name },
        ]
      : [core, { label: "Add & Norm", address: add, kind: "add", name }];
  });
}

/** @param {import("../page.js").App} app */
export function figureOne(app) {
  const { layers } = app;
  const pre = app.config.norm === "pre";
  const left = layerBoxes(`encoder.layers.${layers.encoder}`, app.config, false);
  const right = layerBoxes(`decoder.layers.${layers.decoder}`, app.config, true);
  const base = 98 + height(right) + (pre ? 30 : 0) + 118;
  const picture = svg("svg.figure", {
    viewBox: `0 0 ${WIDTH} ${base}`,
    role: "group",
    "aria-label": "Figure 1 of the paper, with the shapes of this model",
  });
  picture.append(arrowTip("arrow-tip", "tip"), arrowTip("memory-tip", "tip memory-tip"));
  const { src_tokens, tgt_in_tokens } = app.record.sentence;
  const state = { app, picture, place: app.place.address };
  const ground = base - 22;
  drawFoot(state, LEFT, ground, "Inputs", "src_embedding", src_tokens.length);
  drawFoot(state, RIGHT, ground, "Outputs, shifted right", "tgt_embedding", tgt_in_tokens.length);
  const floor = ground - 88;
  const encoderTop = drawStack(state, left, LEFT, floor, "encoder", src_tokens.length);
  const decoderTop = drawStack(state, right, RIGHT, floor, "decoder", tgt_in_tokens.length);
  let tops = [encoderTop, decoderTop];
  if (pre) {
    tops = [
      drawBox(state, LEFT, encoderTop - 30, { label: "Final norm", address: "encoder.final_norm", hue: "norm" }),
      drawBox(state, RIGHT, decoderTop - 30, { label: "Final norm", address: "decoder.final_norm", hue: "norm" }),
    ];
    picture.append(
      arrow(LEFT + BOX / 2, encoderTop, encoderTop - 30 + HEIGHT),
      arrow(RIGHT + BOX / 2, decoderTop, decoderTop - 30 + HEIGHT),
    );
  }
  const cross = right.find((box) => box.name === "cross_attention" && box.kind === "core");
  drawMemory(state, tops[0], /** @type {any} */ (cross).y, `${src_tokens.length} × ${app.config.d_model}`);
  drawHead(state, tops[1]);
  return picture;
}

/** @param {{kind: string}} box */
const tall = (box) => (box.kind === "core" ? 27 : 18);

/** Of a layer's boxes and the gaps around them. @param {any[]} boxes */
const height = (boxes) => boxes.reduce((sum, box) => sum + tall(box) + GAP, GAP);

/** An arrow upwards; without a head it goes on. @param {number} x @param {number} from @param {number} to
 * @param {boolean} [head] */
const arrow = (x, from, to, head = true) =>
  svg("line.arrow", { x1: x, y1: from, x2: x, y2: to, "marker-end": head ? "url(#arrow-tip)" : null });

/** The head of an arrow. @param {string} id @param {string} kind */
const arrowTip = (id, kind) =>
  svg(
    "marker",
    {
      id,
      viewBox: "0 0 6 6",
      refX: 6,
      refY: 3,
      markerWidth: 5.5,
      markerHeight: 5.5,
      markerUnits: "userSpaceOnUse",
      orient: "auto",
    },
    svg("path", { d: "M 0 0 L 6 3 L 0 6 z", class: kind }),
  );

/** What a figure is drawn with: the app, the picture, and the address that is shown.
 * @typedef {{app: import("../page.js").App, picture: SVGElement, place: string}} State */

/** One box, which is a link.
 * @param {State} state @param {number} x @param {number} y @param {any} box @param {number} [height]
 * @returns {number} its top */
function drawBox(state, x, y, box, height = HEIGHT) {
  const lit = state.place === box.address || state.place.startsWith(`${box.address}.`);
  state.picture.append(
    svg(
      "a",
      {
        class: `box ${box.hue ?? hueOf(box.address)}${lit ? " lit" : ""}`,
        href: `#${box.address}`,
        "aria-current": lit ? "true" : null,
        "aria-label": box.says ?? box.label,
      },
      svg("rect", { x, y, width: BOX, height, rx: 5 }),
      svg(
        "text",
        {
          x: x + BOX / 2,
          y: y + height / 2 + 4,
          "text-anchor": "middle",
          style: box.label.length > 18 ? { "font-size": "11px" } : null,
        },
        box.label,
      ),
    ),
  );
  return y;
}

/** Embedding and positions.
 * @param {State} state @param {number} x @param {number} ground @param {string} words @param {string} address
 * @param {number} n tokens of the sentence */
function drawFoot({ app, picture, place }, x, ground, words, address, n) {
  const middle = x + BOX / 2;
  picture.append(
    svg("a.foot", { href: "#text" }, svg("text", { x: middle, y: ground + 15, "text-anchor": "middle" }, words)),
    arrow(middle, ground, ground - 15),
    shape(middle + 6, ground - 3, `${n} ids`),
  );
  const vectors = `${address}.position_vectors`;
  picture.append(arrow(middle, ground - 37, ground - 52), flow(middle, ground, ground - 88));
  drawBox({ app, picture, place }, x, ground - 37, { label: "Embedding", address }, 22);
  if (app.record.has(vectors)) {
    picture.append(
      svg(
        "a",
        {
          class: `plus ${place === vectors ? "lit" : ""}`,
          href: `#${vectors}`,
          "aria-label": `Position encoding, ${app.config.positions}`,
        },
        svg("circle", { cx: middle, cy: ground - 61, r: 9 }),
        svg("text", { x: middle, y: ground - 57, "text-anchor": "middle" }, "+"),
        svg("circle", { cx: middle - 42, cy: ground - 61, r: 9 }),
        svg("path.wave", { d: `M ${middle - 49} ${ground - 61} q 3.5 -9 7 0 t 7 0` }),
        svg("line.arrow", {
          x1: middle - 33,
          x2: middle - 9,
          y1: ground - 61,
          y2: ground - 61,
          "marker-end": "url(#arrow-tip)",
        }),
      ),
    );
    picture.append(arrow(middle, ground - 70, ground - 88));
  } else picture.append(arrow(middle, ground - 52, ground - 88));
  picture.append(shape(middle + 14, ground - 75, `${n} × ${app.config.d_model}`));
}

/** @param {State} state @param {any[]} boxes @param {number} x @param {number} floor
 * @param {"encoder" | "decoder"} stack @param {number} n tokens of the sentence */
function drawStack(state, boxes, x, floor, stack, n) {
  const { app, picture } = state;
  const middle = x + BOX / 2;
  const total = height(boxes);
  const top = floor - total;
  picture.append(svg(`rect.stack.${stack}`, { x: x - 11, y: top, width: BOX + 22, height: total, rx: 9 }));
  picture.append(flow(middle, floor, top)); // below the boxes, so that it passes behind their words
  let y = floor;
  let from = floor;
  for (const box of boxes) {
    y -= GAP + tall(box);
    box.y = y + tall(box) / 2;
    picture.append(arrow(middle, from, y + tall(box)));
    const hue = box.kind === "core" ? hueOf(box.address) : "norm";
    drawBox(state, x, y, { ...box, hue, says: `${box.label}, ${stack} layer ${app.layers[stack]}` }, tall(box));
    if (box.kind === "core" || box.kind === "norm") box.below = from;
    from = y;
  }
  const size = shape(middle + 6, from - 4, `${n} × ${app.config.d_model}`);
  picture.append(arrow(middle, from, top, false), size);
  residuals(picture, boxes, x, floor);
  layerPicker(state, stack, stack === "encoder" ? 12 : WIDTH - 13, top, total);
  return top;
}

/** The ways round the sublayers.
 * @param {SVGElement} picture @param {any[]} boxes @param {number} x @param {number} floor */
function residuals(picture, boxes, x, floor) {
  let start = floor - 6;
  for (const box of boxes) {
    if (box.kind !== "add") continue;
    picture.append(
      svg("path.residual", {
        d: `M ${x + BOX / 2} ${start} H ${x - 7} V ${box.y} H ${x}`,
        "marker-end": "url(#arrow-tip)",
      }),
    );
    start = box.y - tall(box) / 2 - 5;
  }
}

/** One dot a layer.
 * @param {State} state @param {"encoder" | "decoder"} stack @param {number} x @param {number} top
 * @param {number} total */
function layerPicker({ app, picture }, stack, x, top, total) {
  const count = app.config[`n_${stack}_layers`];
  const room = Math.min(24, (total - 30) / count);
  const start = top + total / 2 + ((count - 1) * room) / 2 + 8;
  picture.append(svg("text.count", { x, y: start - count * room - 2, "text-anchor": "middle" }, `${count}×`));
  for (let layer = 0; layer < count; layer += 1) {
    const y = start - layer * room;
    const chosen = layer === app.layers[stack];
    picture.append(
      svg(
        "a",
        {
          class: `layer ${stack}${chosen ? " lit" : ""}`,
          href: `#${stack}.layers.${layer}`,
          "aria-label": `${stack} layer ${layer}`,
          "aria-current": chosen ? "true" : null,
        },
        svg("circle", { cx: x, cy: y, r: Math.min(9.5, room / 2 - 0.5) }),
        room > 14 ? svg("text", { x, y: y + 4, "text-anchor": "middle" }, layer) : null,
      ),
    );
  }
}

/** The way of the memory from the encoder into cross-attention.
 * @param {State} state @param {number} top @param {number} to @param {string} size */
function drawMemory(state, top, to, size) {
  const x = LEFT + BOX / 2;
  const turn = (LEFT + BOX + RIGHT) / 2;
  const roof = top - 16;
  const lit = state.place === "encoder.memory";
  state.picture.append(
    svg(
      "a",
      {
        class: `memory${lit ? " lit" : ""}`,
        href: "#encoder.memory",
        "aria-label": "The encoder's memory",
      },
      svg("path", {
        d: `M ${x} ${top} V ${roof} H ${turn} V ${to} H ${RIGHT}`,
        "marker-end": "url(#memory-tip)",
      }),
      svg("text", { x: x - 4, y: roof - 6, "text-anchor": "middle" }, "memory M"),
    ),
    shape(LEFT - 4, roof + 12, size),
  );
}

/** Linear, softmax and the next token. @param {State} state @param {number} top */
function drawHead(state, top) {
  const middle = RIGHT + BOX / 2;
  const { app, picture } = state;
  const { tgt_in_tokens, tgt_out_tokens } = app.record.sentence;
  picture.append(flow(middle, top, top - 72));
  drawBox(state, RIGHT, top - 32, { label: "Linear", address: "output_projection.logits", hue: "neutral" });
  drawBox(state, RIGHT, top - 62, { label: "Softmax", address: "output_projection.probabilities", hue: "neutral" });
  picture.append(
    arrow(middle, top, top - 12),
    arrow(middle, top - 32, top - 42),
    arrow(middle, top - 62, top - 76),
    shape(middle + 6, top - 66, `${tgt_in_tokens.length} × ${app.config.tgt_vocab.toLocaleString("en")}`),
    svg(
      "a.foot.next",
      { href: "#next" },
      svg(
        "text",
        { x: middle, y: top - 82, "text-anchor": "middle" },
        "next: ",
        spaced(tgt_out_tokens[app.step] ?? "", svg),
      ),
    ),
  );
}

/** @param {number} x @param {number} y @param {string} text */
const shape = (x, y, text) => svg("text.shape", { x, y }, text);

/** Tokens on their way up: dots that run once when something changed.
 * @param {number} x @param {number} from @param {number} to */
const flow = (x, from, to) => svg("circle.flow", { cx: x, cy: from, r: 3.2, style: { "--way": `${to - from}px` } });

/** Figure 1 as a row of chips, for narrow screens. @param {import("../page.js").App} app */
export function figureChips({ place, layers }) {
  const encoder = `encoder.layers.${layers.encoder}`;
  const decoder = `decoder.layers.${layers.decoder}`;
  const chips = [
    ["text", "Text"],
    ["src_embedding", "Embedding"],
    [encoder, `Encoder layer ${layers.encoder}`],
    ["encoder.memory", "Memory"],
    [decoder, `Decoder layer ${layers.decoder}`],
    [`${decoder}.cross_attention`, "Cross-attention"],
    ["next", "Next word"],
  ];
  return element(
    "nav.chips",
    { "aria-label": "The model" },
    chips.map(([address, label]) =>
      element(`a.chip.${hueOf(address)}${place.address === address ? ".lit" : ""}`, { href: `#${address}` }, label),
    ),
  );
}
