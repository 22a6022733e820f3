// @ts-check
/**
 * Why this word? The computations of `glassformer/explain/attribution.py`, from a record and the model.
 *
 * A logit is a sum of parts as soon as each norm's standard deviation is held as recorded: then a norm is a linear
 * map and an offset. Going backwards from the logit, `direction` is what a part of the residual stream is multiplied
 * with. A norm takes the mean of each part from that part, so the parts' means add up to the recorded mean.
 */

import { softmaxRows, Tensor } from "./model.js";
import { topK } from "./search.js";

/** @typedef {import("./model.js").Transformer} Model */
/** @typedef {import("./model.js").Recording} Recorded */
/** @typedef {import("./model.js").Edit} ModelEdit */
/** @typedef {{address: string, head: number | null, value: number}} Part */

/** The last target position of a record, and its vectors there.
 * @param {Recorded} record @param {string} address @param {number} position @returns {Float32Array} */
function vectorAt(record, address, position) {
  const tap = record.taps.get(address);
  if (!tap) throw new Error(`${address}: is not in the record.`);
  const width = tap.shape[tap.shape.length - 1];
  return tap.data.subarray(position * width, (position + 1) * width);
}

/** @param {ArrayLike<number>} a @param {ArrayLike<number>} b */
function dot(a, b) {
  let sum = 0;
  for (let at = 0; at < a.length; at++) sum += a[at] * b[at];
  return sum;
}

/** v W, so that direction · (W x) = (direction W) · x.
 * @param {Float64Array} v @param {{shape: number[], data: Float32Array}} weight @returns {Float64Array} */
function timesMatrix(v, { shape: [out, into], data }) {
  const result = new Float64Array(into);
  for (let o = 0; o < out; o++) for (let i = 0; i < into; i++) result[i] += v[o] * data[o * into + i];
  return result;
}

/** Direct logit attribution: the parts of the logit of `id` at a target position, in the order of computation, and
 * their sum.
 * @param {Model} model @param {Recorded} record @param {number} position @param {number} id
 * @param {ModelEdit[]} [edits] @returns {{parts: Part[], sum: number, logit: number}} */
export function directLogits(model, record, position, id, edits = []) {
  const { config } = model;
  const weight = (/** @type {string} */ name) => model.weight(name, edits);
  const at = (/** @type {string} */ address) => vectorAt(record, address, position);
  /** @type {Part[]} */
  const parts = []; // last first
  const add = (
    /** @type {string} */ address,
    /** @type {number} */ value,
    /** @type {number | null} */ head = null,
  ) => parts.push({ address, head, value });
  const width = config.d_model;
  const matrix = weight("output_projection.linear.weight");
  let direction = Float64Array.from(matrix.data.subarray(id * width, (id + 1) * width));
  if (config.output_bias) add("output_projection.linear.bias", weight("output_projection.linear.bias").data[id]);
  const throughNorm = (/** @type {string} */ path) => {
    add(`${path}.bias`, dot(direction, weight(`${path}.bias`).data));
    const tap = /** @type {any} */ (record.taps.get(`${path}.variance`));
    const deviation = Math.sqrt(tap.data[position] + config.norm_eps);
    const gain = weight(`${path}.gain`).data;
    const scaled = direction.map((one, i) => (one * gain[i]) / deviation);
    const mean = scaled.reduce((sum, one) => sum + one, 0) / width;
    direction = scaled.map((one) => one - mean);
  };
  if (config.norm === "pre") throughNorm("decoder.final_norm");
  for (let layer = config.n_decoder_layers - 1; layer >= 0; layer--) {
    for (const sublayer of ["feed_forward", "cross_attention", config.autoregressive_sublayer]) {
      const path = `decoder.layers.${layer}.${sublayer}`;
      if (config.norm === "post") throughNorm(`${path}_add_norm.norm`);
      if (sublayer === "feed_forward") {
        add(`${path}.w_2.bias`, dot(direction, weight(`${path}.w_2.bias`).data));
        add(path, dot(timesMatrix(direction, weight(`${path}.w_2.weight`)), at(`${path}.activated`)));
        continue;
      }
      if (sublayer === "ssru") {
        add(path, dot(direction, at(`${path}.output`)));
        continue;
      }
      if (config.attention_bias) add(`${path}.w_o.bias`, dot(direction, weight(`${path}.w_o.bias`).data));
      const merged = at(`${path}.heads_merged`);
      const toHeads = timesMatrix(direction, weight(`${path}.w_o.weight`));
      const d = config.d_v;
      for (let head = config.n_heads - 1; head >= 0; head--) {
        add(path, dot(toHeads.subarray(head * d, (head + 1) * d), merged.subarray(head * d, (head + 1) * d)), head);
      }
    }
  }
  if (record.taps.has("tgt_embedding.position_vectors"))
    add("tgt_embedding.position_vectors", dot(direction, at("tgt_embedding.position_vectors")));
  add("tgt_embedding.scaled", dot(direction, at("tgt_embedding.scaled")));
  parts.reverse();
  return { parts, sum: parts.reduce((sum, part) => sum + part.value, 0), logit: at("output_projection.logits")[id] };
}

/** The two most probable ids at a position, and what each part adds to the first logit over the second; `flips` says
 * of a part that the second would win without it.
 * @param {Model} model @param {Recorded} record @param {number} position @param {ModelEdit[]} [edits]
 * @returns {{id: number, runnerUp: number, gap: number, parts: (Part & {flips: boolean})[]}} */
export function runnerUp(model, record, position, edits = []) {
  const logits = vectorAt(record, "output_projection.logits", position);
  const [id, second] = topK(logits, 2);
  const gap = logits[id] - logits[second];
  const mine = directLogits(model, record, position, id, edits).parts;
  const others = directLogits(model, record, position, second, edits).parts;
  const parts = mine.map((part, at) => {
    const value = part.value - others[at].value;
    return { ...part, value, flips: value > gap };
  });
  return { id, runnerUp: second, gap, parts };
}

/** The logit lens: what the output projection makes of the residual stream after each layer; with `norm = "pre"`
 * through the final norm.
 * @param {Model} model @param {Recorded} record @param {number} position
 * @param {{k?: number, edits?: ModelEdit[]}} [options]
 * @returns {{address: string, logits: Float32Array, probabilities: Float32Array, best: number[]}[]} */
export function logitLens(model, record, position, { k = 5, edits = [] } = {}) {
  const first = record.taps.has("tgt_embedding.with_positions")
    ? "tgt_embedding.with_positions"
    : "tgt_embedding.scaled";
  const layers = Array.from(
    { length: model.config.n_decoder_layers },
    (_, layer) => `decoder.layers.${layer}.output`,
  );
  return [first, ...layers].map((address) => {
    const logits = model.project(vectorAt(record, address, position), edits);
    const probabilities = softmaxRows(new Tensor([logits.length], logits)).data;
    return { address, logits, probabilities, best: topK(logits, k) };
  });
}

/** Occlusion: the logit and log-probability of `id` at the last target position, as they are and with each source
 * position hidden from encoder and decoder.
 * @param {Model} model @param {number[]} srcIds @param {number[]} tgtInIds @param {number} id
 * @param {{edits?: ModelEdit[], srcMask?: ArrayLike<boolean | number>}} [options]
 * @returns {{whole: {logit: number, log_prob: number}, without: {logit: number, log_prob: number}[]}} */
export function occlusion(model, srcIds, tgtInIds, id, { edits = [], srcMask } = {}) {
  const seen = srcIds.map((_, at) => Boolean(srcMask ? srcMask[at] : true));
  const measure = (/** @type {boolean[]} */ mask) => {
    const logits = model.next(tgtInIds, model.encode(srcIds, { edits, srcMask: mask }), edits);
    const most = logits.reduce((a, b) => Math.max(a, b));
    const sum = logits.reduce((before, one) => before + Math.exp(one - most), 0);
    return { logit: logits[id], log_prob: logits[id] - most - Math.log(sum) };
  };
  return {
    whole: measure(seen),
    without: srcIds.map((_, hidden) => measure(seen.map((one, at) => one && at !== hidden))),
  };
}
