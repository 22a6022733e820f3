// @ts-check
/**
 * The Transformer in JavaScript: `glassformer/model/` line for line, with its names, taps and addresses.
 *
 * Modules are classes of the same names, tensors are row-major Float32Arrays, sums are added in double precision. The
 * batch has one sentence: inside, tensors lack the batch axis, which `tap` puts in front. Knows nothing of text,
 * search
 * and the page. A setting that stands nowhere here is refused by its name.
 */

/** @typedef {{axes: string[], shape: number[], data: Float32Array}} Tap */
/** @typedef {{taps: Map<string, Tap>}} Recording */
/** @typedef {{address: string, index?: Record<string, number>, operation: "zero" | "set" | "scale", value?: number |
 *   ArrayLike<number>}} Edit */
/** @typedef {Record<string, any>} Config */
/** @typedef {{queries: number[], keys: number[]}} Positions */
/** @typedef {{tensor: Tensor, mask: Tensor}} Memory */
/** @typedef {{edits?: Edit[], record?: Recording | null, only?: string | null}} PassOptions only: the one tap that is
 * recorded */

export class Tensor {
  /** @param {number[]} shape @param {Float32Array} [data] */
  constructor(shape, data) {
    this.shape = shape;
    this.data = data ?? new Float32Array(shape.reduce((product, size) => product * size, 1));
  }
}

// ---------------------------------------------------------------------------------------------------------- config

/** What this file knows of each setting that chooses; null: any value. `config.py` has the meanings. */
export const SETTINGS = {
  src_vocab: null,
  tgt_vocab: null,
  d_model: null,
  n_heads: null,
  d_k: null,
  d_v: null,
  d_ff: null,
  n_encoder_layers: null,
  n_decoder_layers: null,
  max_length: null,
  relative_clip: null,
  norm_eps: null,
  dropout: null,
  pad_id: null,
  bos_id: null,
  eos_id: null,
  positions: ["sinusoidal", "learned", "relative", "rotary", "alibi"],
  autoregressive_sublayer: ["self_attention", "ssru"],
  norm: ["post", "pre"],
  sinusoid: ["paper", "tensor2tensor"],
  activation: ["relu", "gelu", "swish"],
  attention_bias: [false, true],
  output_bias: [false, true],
  scale_embedding: [false, true],
  tie_embeddings: ["all", "target", "none"],
};

/** Refuse a setting, or a choice of one, that this file does not know. @param {Config} config */
export function checkConfig(config) {
  const known = /** @type {Record<string, unknown[] | null>} */ (SETTINGS);
  for (const [name, value] of Object.entries(config)) {
    if (!(name in known)) {
      throw new Error(`its model has a setting that the page does not know: ${name}.`);
    }
    const choices = known[name];
    if (choices && !choices.includes(value)) {
      throw new Error(`its model has a choice that the page does not know: ${name} (${String(value).slice(0, 30)}).`);
    }
  }
  for (const name of Object.keys(known)) {
    if (!(name in config)) throw new Error(`its model says nothing of a setting that the page needs: ${name}.`);
  }
}

// ----------------------------------------------------------------------------------------------------- trace, edits

/** Whether an address matches a glob with `*`. @param {string} pattern @param {string} address */
const matches = (pattern, address) =>
  pattern === address
  || (pattern.includes("*")
    && new RegExp(
      `^${pattern
        .split("*")
        .map((part) => part.replace(/[.?+^$()[\]{}|\\]/g, "\\$&"))
        .join(".*")}$`,
      "s",
    ).test(address));

/** One pass through the model: what it records and which edits it applies. */
class Pass {
  /** @param {Transformer} model @param {PassOptions} options */
  constructor(model, { edits = [], record = null, only = null } = {}) {
    this.model = model;
    this.edits = edits;
    this.record = record;
    this.only = only;
    this.idle = edits.length === 0 && (record === null || only !== null);
    /** Where the positions of a step with a cache begin; null in a pass over all positions. @type {number | null} */
    this.start = null;
    /** @type {Set<Edit>} */
    this.used = new Set();
    /** @type {Map<string, Tensor>} */
    this.edited = new Map();
  }

  /** Name a tensor and its axes; returns it, or what the edits make of it.
   * @param {{path: string}} module @param {string} name @param {Tensor} x @param {string} axes @returns {Tensor} */
  tap(module, name, x, axes) {
    if (this.idle && this.only === null) return x;
    const address = join(module.path, name);
    if (this.idle && this.only !== address) return x;
    const words = axes.split(" ");
    const shape = words[0] === "batch" ? [1, ...x.shape] : x.shape;
    const found = this.edits.filter((edit) => matches(edit.address, address));
    if (found.length) x = new Tensor(x.shape, this.apply(address, found, words, shape, x.data));
    if (this.record) this.record.taps.set(address, { axes: words, shape, data: x.data.slice() });
    return x;
  }

  /** Name a tensor from which nothing else is computed.
   * @param {{path: string}} module @param {string} name @param {() => Tensor} compute @param {string} axes */
  show(module, name, compute, axes) {
    if (this.idle) return;
    const address = join(module.path, name);
    if (this.edits.some((edit) => edit.address === address)) {
      throw new Error(`${address}: is shown only; nothing is computed from it, so an edit would have no effect.`);
    }
    if (!this.record) return;
    const { shape, data } = compute();
    this.record.taps.set(address, { axes: axes.split(" "), shape: [1, ...shape], data });
  }

  /** A weight or table by its address, with its edits. Tied weights are edited together.
   * @param {string} name @returns {Tensor} */
  weight(name) {
    const first = this.model.tied.get(name) ?? name;
    const weight = this.model.weights.get(first);
    if (!weight) throw new Error(`${first}: there is no such weight in the file.`);
    if (this.edits.length === 0) return weight;
    const ready = this.edited.get(first);
    if (ready) return ready;
    const names = [first, ...[...this.model.tied].filter(([, to]) => to === first).map(([from]) => from)];
    const found = this.edits.filter((edit) => names.some((one) => matches(edit.address, one)));
    const axes = weight.shape.length === 2 ? ["row", "column"] : ["row"];
    const edited = found.length
      ? new Tensor(weight.shape, this.apply(name, found, axes, weight.shape, weight.data))
      : weight;
    this.edited.set(first, edited);
    return edited;
  }

  /** A copy of `data` with the edits.
   * @param {string} address @param {Edit[]} edits @param {string[]} axes @param {number[]} shape
   * @param {Float32Array} data */
  apply(address, edits, axes, shape, data) {
    const copy = data.slice();
    for (const edit of edits) {
      this.used.add(edit);
      const cells = this.cells(address, edit.index ?? {}, axes, shape);
      if (!cells) continue;
      const value = edit.value ?? 0;
      if (typeof value !== "number" && value.length !== cells.length) {
        throw new Error(`${address}: the edit gives ${value.length} numbers, expected ${cells.length}.`);
      }
      cells.forEach((cell, at) => {
        const number = typeof value === "number" ? value : value[at];
        copy[cell] = edit.operation === "zero" ? 0 : edit.operation === "scale" ? copy[cell] * number : number;
      });
    }
    return copy;
  }

  /** The places that an index selects. In a step with a cache it counts positions from the beginning, and null means
   * that the step has none of them.
   * @param {string} address @param {Record<string, number>} index @param {string[]} axes @param {number[]} shape */
  cells(address, index, axes, shape) {
    if (this.start === null) return cellsOf(address, index, axes, shape);
    const start = this.start;
    const isOwn = /self_attention\.[kv](_projected|_split|_rotated)?$/.test(address);
    const shifted = Object.fromEntries(
      Object.entries(index).map(([word, at]) => [
        word,
        ["query", "tgt", "position"].includes(word) || (word === "key" && isOwn) ? at - start : at,
      ]),
    );
    const isElsewhere = axes.some(
      (word, axis) =>
        ["query", "tgt", "position", "key"].includes(word) && (shifted[word] < 0 || shifted[word] >= shape[axis]),
    );
    return isElsewhere ? null : cellsOf(address, shifted, axes, shape);
  }
}

/** The flat places that an index selects: `{heads: 2}` all of head 2.
 * @param {string} address @param {Record<string, number>} index @param {string[]} axes @param {number[]} shape */
function cellsOf(address, index, axes, shape) {
  for (const word of Object.keys(index)) {
    if (!axes.includes(word)) throw new Error(`${address}: has no axis ${word}, only ${axes.join(", ")}.`);
  }
  let cells = [0];
  axes.forEach((word, axis) => {
    const size = shape[axis];
    const at = axes.indexOf(word) === axis ? index[word] : undefined;
    if (at !== undefined && !(Number.isInteger(at) && at >= 0 && at < size)) {
      throw new Error(`${address}: ${word} ${at} is not in the tensor, which has ${size}.`);
    }
    const chosen = at === undefined ? Array.from({ length: size }, (_, place) => place) : [at];
    cells = cells.flatMap((cell) => chosen.map((place) => cell * size + place));
  });
  return cells;
}

/** @param {string} path @param {string} name */
const join = (path, name) => (path ? `${path}.${name}` : name);

// ------------------------------------------------------------------------------------------------------- operations

/** x Wᵀ + b for each row of x.
 * @param {Tensor} x @param {Tensor} weight @param {Tensor | null} bias @returns {Tensor} */
export function linear(x, weight, bias) {
  const [out, into] = weight.shape;
  const rows = x.data.length / into;
  const y = new Float32Array(rows * out);
  const rowOf = (/** @type {number} */ row) => Float64Array.from(x.data.subarray(row * into, (row + 1) * into));
  let row = 0;
  for (; row + 1 < rows; row += 2)
    twoRows(weight, rowOf(row), rowOf(row + 1), y.subarray(row * out, (row + 2) * out));
  if (row < rows) oneRow(weight, rowOf(row), y.subarray(row * out));
  return addBias(new Tensor([...x.shape.slice(0, -1), out], y), bias);
}

/** @param {Tensor} y @param {Tensor | null} bias @returns {Tensor} */
function addBias(y, bias) {
  const width = y.shape[y.shape.length - 1];
  if (bias) for (let i = 0; i < y.data.length; i++) y.data[i] += bias.data[i % width];
  return y;
}

/** W a into y: four outputs at a time share what they read of a.
 * @param {Tensor} weight @param {Float64Array} a @param {Float32Array} y */
function oneRow({ shape: [out, into], data: w }, a, y) {
  let o = 0;
  for (; o + 3 < out; o += 4) {
    let at0 = o * into;
    let at1 = at0 + into;
    let at2 = at1 + into;
    let at3 = at2 + into;
    let s0 = 0;
    let s1 = 0;
    let s2 = 0;
    let s3 = 0;
    for (let i = 0; i < into; i++) {
      const p = a[i];
      s0 += p * w[at0++];
      s1 += p * w[at1++];
      s2 += p * w[at2++];
      s3 += p * w[at3++];
    }
    y[o] = s0;
    y[o + 1] = s1;
    y[o + 2] = s2;
    y[o + 3] = s3;
  }
  for (; o < out; o++) y[o] = dotRow(w, o * into, a);
}

/** W a and W b into y, one after the other: what is read of W serves both, which is half as fast again.
 * @param {Tensor} weight @param {Float64Array} a @param {Float64Array} b @param {Float32Array} y */
function twoRows({ shape: [out, into], data: w }, a, b, y) {
  let o = 0;
  for (; o + 3 < out; o += 4) {
    let at0 = o * into;
    let at1 = at0 + into;
    let at2 = at1 + into;
    let at3 = at2 + into;
    let s0 = 0;
    let s1 = 0;
    let s2 = 0;
    let s3 = 0;
    let t0 = 0;
    let t1 = 0;
    let t2 = 0;
    let t3 = 0;
    for (let i = 0; i < into; i++) {
      const p = a[i];
      const q = b[i];
      const w0 = w[at0++];
      const w1 = w[at1++];
      const w2 = w[at2++];
      const w3 = w[at3++];
      s0 += p * w0;
      s1 += p * w1;
      s2 += p * w2;
      s3 += p * w3;
      t0 += q * w0;
      t1 += q * w1;
      t2 += q * w2;
      t3 += q * w3;
    }
    y[o] = s0;
    y[o + 1] = s1;
    y[o + 2] = s2;
    y[o + 3] = s3;
    y[out + o] = t0;
    y[out + o + 1] = t1;
    y[out + o + 2] = t2;
    y[out + o + 3] = t3;
  }
  for (; o < out; o++) {
    y[o] = dotRow(w, o * into, a);
    y[out + o] = dotRow(w, o * into, b);
  }
}

/** @param {Float32Array} w @param {number} start @param {Float64Array} a */
function dotRow(w, start, a) {
  let sum = 0;
  for (let i = 0; i < a.length; i++) sum += a[i] * w[start + i];
  return sum;
}

/** a bᵀ in each head: (heads n d), (heads m d) to (heads n m).
 * @param {Tensor} a @param {Tensor} b @returns {Tensor} */
function productTransposed(a, b) {
  const [heads, n, d] = a.shape;
  const m = b.shape[1];
  const result = new Tensor([heads, n, m]);
  for (let h = 0, to = 0; h < heads; h++) {
    for (let i = 0; i < n; i++) {
      for (let j = 0; j < m; j++, to++) {
        let sum = 0;
        let left = (h * n + i) * d;
        let right = (h * m + j) * d;
        for (let c = 0; c < d; c++) sum += a.data[left++] * b.data[right++];
        result.data[to] = sum;
      }
    }
  }
  return result;
}

/** a b in each head: (heads n m), (heads m d) to (heads n d).
 * @param {Tensor} a @param {Tensor} b @returns {Tensor} */
function product(a, b) {
  const [heads, n, m] = a.shape;
  const d = b.shape[2];
  const result = new Tensor([heads, n, d]);
  const sums = new Float64Array(d);
  for (let h = 0; h < heads; h++) {
    for (let i = 0; i < n; i++) {
      sums.fill(0);
      for (let j = 0; j < m; j++) {
        const factor = a.data[(h * n + i) * m + j];
        for (let c = 0; c < d; c++) sums[c] += factor * b.data[(h * m + j) * d + c];
      }
      result.data.set(sums, (h * n + i) * d);
    }
  }
  return result;
}

/** @param {Tensor} a @param {Tensor} b @returns {Tensor} */
const add = (a, b) => apply(a, (value, i) => value + b.data[i]);

/** A function of each number. @param {Tensor} x @param {(value: number, i: number) => number} f @returns {Tensor} */
function apply(x, f) {
  return new Tensor(x.shape, x.data.map(f));
}

/** (a b c) to (b a c). @param {Tensor} x @returns {Tensor} */
function transpose(x) {
  const [a, b, c] = x.shape;
  const result = new Tensor([b, a, c]);
  for (let i = 0; i < a; i++) {
    for (let j = 0; j < b; j++)
      result.data.set(x.data.subarray((i * b + j) * c, (i * b + j + 1) * c), (j * a + i) * c);
  }
  return result;
}

/** Rows of a matrix, as `index_select` takes them.
 * @param {Tensor} table @param {ArrayLike<number>} rows @returns {Tensor} */
function selectRows(table, rows) {
  const width = table.shape[1];
  const result = new Tensor([rows.length, width]);
  for (let i = 0; i < rows.length; i++)
    result.data.set(table.data.subarray(rows[i] * width, (rows[i] + 1) * width), i * width);
  return result;
}

/** e^x / Σ e^x over the last axis. @param {Tensor} x @returns {Tensor} */
export function softmaxRows(x) {
  const width = x.shape[x.shape.length - 1];
  const result = new Tensor(x.shape);
  for (let start = 0; start < x.data.length; start += width) {
    let greatest = -Infinity;
    let sum = 0;
    for (let i = start; i < start + width; i++) greatest = Math.max(greatest, x.data[i]);
    for (let i = start; i < start + width; i++) sum += Math.exp(x.data[i] - greatest);
    for (let i = start; i < start + width; i++) result.data[i] = Math.exp(x.data[i] - greatest) / sum;
  }
  return result;
}

/** The error function in double precision: its series of positive terms, and beyond 3 the continued fraction of 1 -
 * erf.
 * @param {number} x */
export function erf(x) {
  const z = Math.abs(x);
  const scale = Math.exp(-z * z) / Math.sqrt(Math.PI);
  if (z < 3) {
    let term = z;
    let sum = z;
    for (let n = 1; term > 1e-17 * sum; n++) sum += term *= (2 * z * z) / (2 * n + 1);
    return Math.sign(x) * 2 * scale * sum;
  }
  let fraction = z;
  for (let n = 40; n >= 1; n--) fraction = z + n / 2 / fraction;
  return Math.sign(x) * (1 - scale / fraction);
}

// ------------------------------------------------------------------------------------------------------ embedding.py

class Linear {
  /** @param {string} path @param {boolean} bias */
  constructor(path, bias) {
    this.path = path;
    this.bias = bias;
  }

  /** @param {Pass} pass @param {Tensor} x @returns {Tensor} */
  forward(pass, x) {
    const weight = pass.weight(`${this.path}.weight`);
    const bias = this.bias ? pass.weight(`${this.path}.bias`) : null;
    const { kernel } = pass.model;
    if (!pass.idle || !kernel?.has(weight)) return linear(x, weight, bias);
    const y = kernel.linear(x.data, weight);
    return addBias(new Tensor([...x.shape.slice(0, -1), weight.shape[0]], y), bias);
  }
}

/** Look up each id's vector, scale it by √d_model, add its position's vector. */
class Embedding {
  /** @param {string} path @param {Config} config @param {number} tokens */
  constructor(path, config, tokens) {
    this.path = path;
    this.tokens = tokens;
    this.scale = config.scale_embedding ? Math.sqrt(config.d_model) : 1;
    this.positions = ["sinusoidal", "learned"].includes(config.positions)
      ? new TablePositions(`${path}.positions`)
      : null;
  }

  /** @param {Pass} pass @param {number[]} ids @param {number[]} positions @returns {Tensor} */
  forward(pass, ids, positions) {
    let x = selectRows(pass.weight(`${this.path}.tokens.weight`), ids);
    x = pass.tap(this, "embedded", x, "batch position d_model");
    x = apply(x, (value) => value * this.scale);
    x = pass.tap(this, "scaled", x, "batch position d_model");
    if (this.positions) {
      let vectors = this.positions.forward(pass, positions);
      vectors = pass.tap(this, "position_vectors", vectors, "position d_model");
      x = add(x, vectors);
      x = pass.tap(this, "with_positions", x, "batch position d_model");
    }
    return x;
  }
}

/** The linear map to one logit for each vocabulary entry. */
class OutputProjection {
  /** @param {string} path @param {Config} config */
  constructor(path, config) {
    this.path = path;
    this.linear = new Linear(`${path}.linear`, config.output_bias);
  }

  /** @param {Pass} pass @param {Tensor} x @returns {Tensor} */
  forward(pass, x) {
    let logits = this.linear.forward(pass, x);
    logits = pass.tap(this, "logits", logits, "batch tgt vocab");
    pass.show(this, "probabilities", () => softmaxRows(logits), "batch tgt vocab");
    return logits;
  }
}

// ------------------------------------------------------------------------------------------------------ positions.py

/** position / 10000^(2i / last), in radians; `last` is the width, less with the sinusoid "tensor2tensor".
 * @param {number} nPositions @param {number} width @param {(angle: number) => number} turn
 * @param {number} [last] @returns {Tensor} */
function angles(nPositions, width, turn, last = width) {
  const half = Math.ceil(width / 2);
  const result = new Tensor([nPositions, half]);
  for (let i = 0; i < half; i++) {
    const frequency = 10000 ** (-(2 * i) / last);
    for (let position = 0; position < nPositions; position++)
      result.data[position * half + i] = turn(position * frequency);
  }
  return result;
}

/** The paper's table: sine and cosine, interleaved. @param {Config} config @returns {Tensor} */
function sinusoidalTable(config) {
  const { max_length: n, d_model: width } = config;
  const table = new Tensor([n, width]);
  const last = config.sinusoid === "tensor2tensor" ? Math.max(width - 2, 1) : width;
  const sin = angles(n, width, Math.sin, last).data;
  const cos = angles(n, width, Math.cos, last).data;
  for (let i = 0; i < sin.length; i++) {
    table.data[2 * i] = sin[i];
    table.data[2 * i + 1] = cos[i];
  }
  return table;
}

/** `SinusoidalPositions` and `LearnedPositions`: one vector for each position. */
class TablePositions {
  /** @param {string} path */
  constructor(path) {
    this.path = path;
  }

  /** @param {Pass} pass @param {number[]} positions @returns {Tensor} */
  forward(pass, positions) {
    return selectRows(pass.weight(`${this.path}.table`), positions);
  }
}

/** A learned vector for each distance, clipped at ± relative_clip, added to keys and to values. */
class RelativePositions {
  /** @param {string} path @param {Config} config */
  constructor(path, config) {
    this.path = path;
    this.clip = config.relative_clip;
  }

  /** The table's row for the distance from each query to each key.
   * @param {Pass} pass @param {string} name @param {Positions} positions @returns {Tensor} */
  between(pass, name, positions) {
    const table = pass.weight(`${this.path}.${name}`);
    const { queries, keys } = positions;
    const rows = queries.flatMap((query) =>
      keys.map((key) => Math.max(-this.clip, Math.min(this.clip, key - query)) + this.clip),
    );
    return new Tensor([queries.length, keys.length, table.shape[1]], selectRows(table, rows).data);
  }

  /** q · a_K for each query and key.
   * @param {Pass} pass @param {Tensor} q @param {Positions} positions @returns {Tensor} */
  products(pass, q, positions) {
    let vectors = this.between(pass, "key_table", positions);
    vectors = pass.tap(this, "relative_keys", vectors, "query key d_k");
    const products = transpose(productTransposed(transpose(q), vectors));
    return pass.tap(this, "relative_products", products, "batch heads query key");
  }

  /** Σ weights · a_V over the keys.
   * @param {Pass} pass @param {Tensor} weights @param {Positions} positions @returns {Tensor} */
  heads(pass, weights, positions) {
    let vectors = this.between(pass, "value_table", positions);
    vectors = pass.tap(this, "relative_values", vectors, "query key d_v");
    const heads = transpose(product(transpose(weights), vectors));
    return pass.tap(this, "relative_heads", heads, "batch heads query d_v");
  }
}

/** Subtract slope · distance from each score. */
class AlibiPositions {
  /** @param {string} path */
  constructor(path) {
    this.path = path;
  }

  /** @param {Pass} pass @param {Positions} positions @returns {Tensor} */
  forward(pass, { queries, keys }) {
    const slopes = pass.weight(`${this.path}.slopes`).data;
    const biases = new Tensor([slopes.length, queries.length, keys.length]);
    let to = 0;
    for (const slope of slopes)
      for (const query of queries) for (const key of keys) biases.data[to++] = -slope * Math.abs(key - query);
    return pass.tap(this, "biases", biases, "heads query key");
  }
}

/** Turn each pair (2i, 2i + 1) of a query or key by position / 10000^(2i / d_k) radians. */
class RotaryPositions {
  /** @param {string} path */
  constructor(path) {
    this.path = path;
  }

  /** @param {Pass} pass @param {Tensor} x @param {number[]} positions @returns {Tensor} */
  forward(pass, x, positions) {
    const [heads, n, width] = x.shape;
    const result = new Tensor(x.shape);
    const cos = selectRows(pass.weight(`${this.path}.cos`), positions).data;
    const sin = selectRows(pass.weight(`${this.path}.sin`), positions).data;
    for (let h = 0, at = 0; h < heads; h++) {
      for (let turn = 0; turn < (n * width) / 2; turn++, at += 2) {
        const even = x.data[at];
        const odd = x.data[at + 1];
        result.data[at] = even * cos[turn] - odd * sin[turn];
        result.data[at + 1] = even * sin[turn] + odd * cos[turn];
      }
    }
    return result;
  }
}

// -------------------------------------------------------------------------------------------------------- masks.py

/** 1 where a position holds a token and is not hidden, else 0.
 * @param {number[]} ids @param {number} padId @param {ArrayLike<boolean | number>} [srcMask] @returns {Tensor} */
const paddingMask = (ids, padId, srcMask) =>
  new Tensor(
    [1, 1, ids.length],
    Float32Array.from(ids, (id, at) => Number(id !== padId && Boolean(srcMask ? srcMask[at] : true))),
  );

/** 1 where a query may look: at itself and before. @param {Positions} positions @returns {Tensor} */
const causalMask = ({ queries, keys }) =>
  new Tensor(
    [1, queries.length, keys.length],
    Float32Array.from(queries.flatMap((query) => keys.map((key) => Number(key <= query)))),
  );

// ---------------------------------------------------------------------------------------------------- attention.py

/** Cut the last axis into `nHeads` pieces: (position heads·d) to (position heads d).
 * @param {Tensor} x @param {number} nHeads */
const splitHeads = (x, nHeads) => new Tensor([x.shape[0], nHeads, x.shape[1] / nHeads], x.data);

/** Lay the heads side by side again. @param {Tensor} x */
const mergeHeads = (x) => new Tensor([x.shape[0], x.shape[1] * x.shape[2]], x.data);

/** Whether query i may look at key j; a mask of one row is for all queries.
 * @param {Tensor} mask @param {number} query @param {number} key */
function isVisible(mask, query, key) {
  const [, rows, keys] = mask.shape;
  return mask.data[(rows === 1 ? 0 : query) * keys + key] !== 0;
}

/** Call `visit` for each row of scores: its start, and which keys it may see.
 * @param {Tensor} scores @param {Tensor} mask @param {(start: number, visible: boolean[]) => void} visit */
function eachRow(scores, mask, visit) {
  const [heads, queries, keys] = scores.shape;
  for (let query = 0; query < queries; query++) {
    const visible = Array.from({ length: keys }, (_, key) => isVisible(mask, query, key));
    for (let h = 0; h < heads; h++) visit((h * queries + query) * keys, visible);
  }
}

/** -∞ where a query may not attend; 0 where it may attend to nothing at all.
 * @param {Tensor} scores @param {Tensor} mask @returns {Tensor} */
function maskScores(scores, mask) {
  const result = new Tensor(scores.shape, scores.data.slice());
  eachRow(scores, mask, (start, visible) => {
    const hidden = visible.includes(true) ? -Infinity : 0;
    visible.forEach((isSeen, key) => {
      if (!isSeen) result.data[start + key] = hidden;
    });
  });
  return result;
}

/** Softmax over the keys; a query that may attend to none gets zeros.
 * @param {Tensor} scores @param {Tensor} mask @returns {Tensor} */
function softmax(scores, mask) {
  const weights = softmaxRows(scores);
  eachRow(scores, mask, (start, visible) => {
    if (!visible.includes(true)) weights.data.fill(0, start, start + visible.length);
  });
  return weights;
}

/** MultiHead(Q, K, V) = Concat(head_1 ... head_h) W_O, head_i = Attention(Q W_Q_i, K W_K_i, V W_V_i). */
class MultiHeadAttention {
  /** @param {string} path @param {Config} config @param {{knowsOrder: boolean}} options */
  constructor(path, config, { knowsOrder }) {
    this.path = path;
    this.nHeads = config.n_heads;
    this.sqrtDk = Math.sqrt(config.d_k);
    const bias = config.attention_bias;
    this.w_q = new Linear(`${path}.w_q`, bias);
    this.w_k = new Linear(`${path}.w_k`, bias);
    this.w_v = new Linear(`${path}.w_v`, bias);
    this.w_o = new Linear(`${path}.w_o`, bias);
    const has = (/** @type {string} */ name) => knowsOrder && config.positions === name;
    this.relative = has("relative") ? new RelativePositions(`${path}.relative`, config) : null;
    this.rotary = has("rotary") ? new RotaryPositions(`${path}.rotary`) : null;
    this.alibi = has("alibi") ? new AlibiPositions(`${path}.alibi`) : null;
  }

  /** Let each query gather from the positions of `memory` that `mask` allows.
   * @param {Pass} pass @param {Tensor} query @param {Tensor} memory @param {Tensor} mask
   * @param {Positions | null} positions @param {AttentionCache | null} cache @returns {Tensor} */
  forward(pass, query, memory, mask, positions, cache = null) {
    const q = this.queries(pass, query, positions);
    let k, v;
    if (!cache) {
      k = this.keys(pass, memory, positions);
      v = this.values(pass, memory);
    } else {
      if (!cache.complete) cache.append(this.keys(pass, memory, positions), this.values(pass, memory));
      k = pass.tap(this, "k_cached", cache.k, "batch heads key d_k");
      v = pass.tap(this, "v_cached", cache.v, "batch heads key d_v");
    }
    let heads = this.attend(pass, q, k, v, mask, positions);
    heads = pass.tap(this, "heads", heads, "batch heads query d_v");
    return this.join(pass, heads);
  }

  /** Attention(Q, K, V) = softmax(Q Kᵀ / √d_k) V, equation 1.
   * @param {Pass} pass @param {Tensor} q @param {Tensor} k @param {Tensor} v @param {Tensor} mask
   * @param {Positions | null} positions @returns {Tensor} */
  attend(pass, q, k, v, mask, positions) {
    let products = productTransposed(q, k);
    products = pass.tap(this, "products", products, "batch heads query key");
    if (this.relative && positions) products = add(products, this.relative.products(pass, q, positions));
    const biases = this.alibi && positions ? this.alibi.forward(pass, positions) : null;
    let scores = apply(products, (one) => one / this.sqrtDk);
    if (biases) scores = add(scores, biases);
    scores = pass.tap(this, "scores", scores, "batch heads query key");
    scores = maskScores(scores, mask);
    scores = pass.tap(this, "masked_scores", scores, "batch heads query key");
    let weights = softmax(scores, mask);
    weights = pass.tap(this, "weights", weights, "batch heads query key");
    let heads = product(weights, v);
    if (this.relative && positions) {
      heads = pass.tap(this, "weighted_values", heads, "batch heads query d_v");
      heads = add(heads, this.relative.heads(pass, weights, positions));
    }
    return heads;
  }

  /** query W_Q, cut into heads.
   * @param {Pass} pass @param {Tensor} query @param {Positions | null} positions @returns {Tensor} */
  queries(pass, query, positions) {
    let q = this.w_q.forward(pass, query);
    q = pass.tap(this, "q_projected", q, "batch query heads_d_k");
    q = splitHeads(q, this.nHeads);
    q = pass.tap(this, "q_split", q, "batch query heads d_k");
    q = transpose(q);
    q = pass.tap(this, "q", q, "batch heads query d_k");
    if (this.rotary && positions) {
      q = this.rotary.forward(pass, q, positions.queries);
      q = pass.tap(this, "q_rotated", q, "batch heads query d_k");
    }
    return q;
  }

  /** memory W_K, cut into heads.
   * @param {Pass} pass @param {Tensor} memory @param {Positions | null} positions @returns {Tensor} */
  keys(pass, memory, positions) {
    let k = this.w_k.forward(pass, memory);
    k = pass.tap(this, "k_projected", k, "batch key heads_d_k");
    k = splitHeads(k, this.nHeads);
    k = pass.tap(this, "k_split", k, "batch key heads d_k");
    k = transpose(k);
    k = pass.tap(this, "k", k, "batch heads key d_k");
    if (this.rotary && positions) {
      k = this.rotary.forward(pass, k, positions.queries);
      k = pass.tap(this, "k_rotated", k, "batch heads key d_k");
    }
    return k;
  }

  /** memory W_V, cut into heads. @param {Pass} pass @param {Tensor} memory @returns {Tensor} */
  values(pass, memory) {
    let v = this.w_v.forward(pass, memory);
    v = pass.tap(this, "v_projected", v, "batch key heads_d_v");
    v = splitHeads(v, this.nHeads);
    v = pass.tap(this, "v_split", v, "batch key heads d_v");
    v = transpose(v);
    return pass.tap(this, "v", v, "batch heads key d_v");
  }

  /** Concat(head_1 ... head_h) W_O. @param {Pass} pass @param {Tensor} heads @returns {Tensor} */
  join(pass, heads) {
    let split = transpose(heads);
    split = pass.tap(this, "heads_by_position", split, "batch query heads d_v");
    let merged = mergeHeads(split);
    merged = pass.tap(this, "heads_merged", merged, "batch query heads_d_v");
    const output = this.w_o.forward(pass, merged);
    return pass.tap(this, "output", output, "batch query d_model");
  }
}

// ----------------------------------------------------------------------------------------------------------- ssru.py

/** c_t = f_t · c_{t-1} + (1 - f_t) · x_t W with f_t = σ(x_t W_f + b_f) and c_0 = 0; the output is max(0, c_t). */
class SSRU {
  /** @param {string} path */
  constructor(path) {
    this.path = path;
    this.w = new Linear(`${path}.w`, false);
    this.w_f = new Linear(`${path}.w_f`, true);
  }

  /** What each position keeps of itself and of those before it.
   * @param {Pass} pass @param {Tensor} x @param {StateCache | null} cache @returns {Tensor} */
  forward(pass, x, cache) {
    let before = new Tensor([1, x.shape[1]]);
    if (cache?.state) before = pass.tap(this, "cell_cached", cache.state, "batch tgt d_model");
    let candidate = this.w.forward(pass, x);
    candidate = pass.tap(this, "candidate", candidate, "batch tgt d_model");
    let gateScores = this.w_f.forward(pass, x);
    gateScores = pass.tap(this, "gate_scores", gateScores, "batch tgt d_model");
    let forgetGate = apply(gateScores, (score) => 1 / (1 + Math.exp(-score)));
    forgetGate = pass.tap(this, "forget_gate", forgetGate, "batch tgt d_model");
    let cell = recur(forgetGate, candidate, before);
    if (cache) cache.state = selectRows(cell, [cell.shape[0] - 1]);
    cell = pass.tap(this, "cell", cell, "batch tgt d_model");
    const output = apply(cell, ACTIVATIONS.relu);
    return pass.tap(this, "output", output, "batch tgt d_model");
  }
}

/** c = f · c_before + (1 - f) · candidate at each position, one after the other.
 * @param {Tensor} forgetGate @param {Tensor} candidate @param {Tensor} before @returns {Tensor} */
function recur(forgetGate, candidate, before) {
  const cell = new Tensor(candidate.shape);
  const width = candidate.shape[1];
  forgetGate.data.forEach((forget, i) => {
    const last = i < width ? before.data[i] : cell.data[i - width];
    cell.data[i] = forget * last + (1 - forget) * candidate.data[i];
  });
  return cell;
}

// ----------------------------------------------------------------------------------------------------------- norm.py

/** gain · (x - mean) / √(variance + ε) + bias, over d_model, with the biased variance. */
class LayerNorm {
  /** @param {string} path @param {Config} config */
  constructor(path, config) {
    this.path = path;
    this.eps = config.norm_eps;
  }

  /** @param {Pass} pass @param {Tensor} x @returns {Tensor} */
  forward(pass, x) {
    const [n, width] = x.shape;
    const gain = pass.weight(`${this.path}.gain`).data;
    const bias = pass.weight(`${this.path}.bias`).data;
    const mean = new Tensor([n]);
    const variance = new Tensor([n]);
    const normalised = new Tensor(x.shape);
    const output = new Tensor(x.shape);
    for (let row = 0; row < n; row++) {
      const start = row * width;
      let sum = 0;
      let squares = 0;
      for (let i = 0; i < width; i++) sum += x.data[start + i];
      const middle = sum / width;
      for (let i = 0; i < width; i++) squares += (x.data[start + i] - middle) ** 2;
      mean.data[row] = middle;
      variance.data[row] = squares / width;
      const deviation = Math.sqrt(squares / width + this.eps);
      for (let i = 0; i < width; i++) {
        const one = (x.data[start + i] - middle) / deviation;
        normalised.data[start + i] = one;
        output.data[start + i] = gain[i] * one + bias[i];
      }
    }
    pass.show(this, "mean", () => mean, "batch position");
    pass.show(this, "variance", () => variance, "batch position");
    pass.show(this, "normalised", () => normalised, "batch position d_model");
    return pass.tap(this, "output", output, "batch position d_model");
  }
}

/** LayerNorm(x + Sublayer(x)), or with `norm = "pre"` x + Sublayer(LayerNorm(x)). */
class AddAndNorm {
  /** @param {string} path @param {Config} config */
  constructor(path, config) {
    this.path = path;
    this.pre = config.norm === "pre";
    this.norm = new LayerNorm(`${path}.norm`, config);
  }

  /** What the sublayer is given. @param {Pass} pass @param {Tensor} x @returns {Tensor} */
  before(pass, x) {
    return this.pre ? this.norm.forward(pass, x) : x;
  }

  /** The sum of the way round the sublayer and its output.
   * @param {Pass} pass @param {Tensor} x @param {Tensor} sublayer @returns {Tensor} */
  after(pass, x, sublayer) {
    let residual = add(x, sublayer);
    residual = pass.tap(this, "residual", residual, "batch position d_model");
    return this.pre ? residual : this.norm.forward(pass, residual);
  }
}

// --------------------------------------------------------------------------------------------------------- layers.py

/** @type {Record<string, (x: number) => number>} */
const ACTIVATIONS = {
  relu: (x) => Math.max(0, x),
  gelu: (x) => 0.5 * x * (1 + erf(x / Math.SQRT2)),
  swish: (x) => x / (1 + Math.exp(-x)),
};

/** FFN(x) = max(0, x W_1 + b_1) W_2 + b_2, equation 2, at each position alone. */
class FeedForward {
  /** @param {string} path @param {Config} config */
  constructor(path, config) {
    this.path = path;
    this.w_1 = new Linear(`${path}.w_1`, true);
    this.w_2 = new Linear(`${path}.w_2`, true);
    this.activation = ACTIVATIONS[config.activation];
  }

  /** @param {Pass} pass @param {Tensor} x @returns {Tensor} */
  forward(pass, x) {
    let inner = this.w_1.forward(pass, x);
    inner = pass.tap(this, "inner", inner, "batch position d_ff");
    let activated = apply(inner, this.activation);
    activated = pass.tap(this, "activated", activated, "batch position d_ff");
    const output = this.w_2.forward(pass, activated);
    return pass.tap(this, "output", output, "batch position d_model");
  }
}

/** Self-attention, then feed-forward, each inside Add & Norm. */
class EncoderLayer {
  /** @param {string} path @param {Config} config */
  constructor(path, config) {
    this.path = path;
    this.selfAttention = new MultiHeadAttention(`${path}.self_attention`, config, { knowsOrder: true });
    this.selfAttentionAddNorm = new AddAndNorm(`${path}.self_attention_add_norm`, config);
    this.feedForward = new FeedForward(`${path}.feed_forward`, config);
    this.feedForwardAddNorm = new AddAndNorm(`${path}.feed_forward_add_norm`, config);
  }

  /** @param {Pass} pass @param {Tensor} x @param {Tensor} srcMask @param {Positions} positions @returns {Tensor} */
  forward(pass, x, srcMask, positions) {
    const query = this.selfAttentionAddNorm.before(pass, x);
    x = this.selfAttentionAddNorm.after(pass, x, this.selfAttention.forward(pass, query, query, srcMask, positions));
    const inner = this.feedForwardAddNorm.before(pass, x);
    x = this.feedForwardAddNorm.after(pass, x, this.feedForward.forward(pass, inner));
    return pass.tap(this, "output", x, "batch src d_model");
  }
}

/** Masked self-attention or SSRU, cross-attention to the encoder's memory, feed-forward, each inside Add & Norm. */
class DecoderLayer {
  /** @param {string} path @param {Config} config */
  constructor(path, config) {
    this.path = path;
    this.ssru = config.autoregressive_sublayer === "ssru" ? new SSRU(`${path}.ssru`) : null;
    this.selfAttention = new MultiHeadAttention(`${path}.self_attention`, config, { knowsOrder: true });
    this.autoregressiveAddNorm = new AddAndNorm(`${path}.${config.autoregressive_sublayer}_add_norm`, config);
    this.crossAttention = new MultiHeadAttention(`${path}.cross_attention`, config, { knowsOrder: false });
    this.crossAttentionAddNorm = new AddAndNorm(`${path}.cross_attention_add_norm`, config);
    this.feedForward = new FeedForward(`${path}.feed_forward`, config);
    this.feedForwardAddNorm = new AddAndNorm(`${path}.feed_forward_add_norm`, config);
  }

  /** @param {Pass} pass @param {Tensor} x @param {Tensor} memory @param {Tensor | null} mask
   * @param {Tensor} memoryMask @param {Positions} positions @param {LayerCache | null} cache @returns {Tensor} */
  forward(pass, x, memory, mask, memoryMask, positions, cache) {
    let query = this.autoregressiveAddNorm.before(pass, x);
    const own = /** @type {any} */ (cache && cache.autoregressive);
    let attended = mask
      ? this.selfAttention.forward(pass, query, query, mask, positions, own)
      : /** @type {SSRU} */ (this.ssru).forward(pass, query, own);
    x = this.autoregressiveAddNorm.after(pass, x, attended);
    query = this.crossAttentionAddNorm.before(pass, x);
    attended = this.crossAttention.forward(pass, query, memory, memoryMask, null, cache && cache.crossAttention);
    x = this.crossAttentionAddNorm.after(pass, x, attended);
    const inner = this.feedForwardAddNorm.before(pass, x);
    x = this.feedForwardAddNorm.after(pass, x, this.feedForward.forward(pass, inner));
    return pass.tap(this, "output", x, "batch tgt d_model");
  }
}

// ---------------------------------------------------------------------------------------------------------- cache.py

/** Keys (heads key d_k) and values (heads key d_v) of one attention; one that does not grow is complete after a
 * step. */
class AttentionCache {
  /** @param {{grows: boolean}} options */
  constructor({ grows }) {
    this.grows = grows;
    this.k = new Tensor([0, 0, 0]);
    this.v = new Tensor([0, 0, 0]);
  }

  get complete() {
    return !this.grows && this.k.shape[0] > 0;
  }

  /** @param {Tensor} k @param {Tensor} v */
  append(k, v) {
    this.k = joinPositions(this.k, k);
    this.v = joinPositions(this.v, v);
  }

  /** The same keys and values, which no later step of the other changes. @returns {AttentionCache} */
  clone() {
    return Object.assign(new AttentionCache(this), { k: this.k, v: this.v });
  }
}

/** @param {Tensor} before @param {Tensor} after @returns {Tensor} */
function joinPositions(before, after) {
  if (before.shape[0] === 0) return after;
  const [heads, old, d] = before.shape;
  const fresh = after.shape[1];
  const result = new Tensor([heads, old + fresh, d]);
  for (let h = 0; h < heads; h++) {
    result.data.set(before.data.subarray(h * old * d, (h + 1) * old * d), h * (old + fresh) * d);
    result.data.set(after.data.subarray(h * fresh * d, (h + 1) * fresh * d), (h * (old + fresh) + old) * d);
  }
  return result;
}

/** The last cell of a recurrence; null before the first step. */
class StateCache {
  constructor() {
    /** @type {Tensor | null} */
    this.state = null;
  }

  clone() {
    return Object.assign(new StateCache(), { state: this.state });
  }
}

/** @typedef {{autoregressive: AttentionCache | StateCache, crossAttention: AttentionCache}} LayerCache */

/** The caches of all decoder layers; `length` target positions are decoded. */
export class DecoderCache {
  /** @param {LayerCache[]} layers */
  constructor(layers) {
    this.layers = layers;
    this.length = 0;
  }

  /** @param {number} nLayers @param {string} sublayer */
  static empty(nLayers, sublayer) {
    return new DecoderCache(
      Array.from({ length: nLayers }, () => ({
        autoregressive: sublayer === "ssru" ? new StateCache() : new AttentionCache({ grows: true }),
        crossAttention: new AttentionCache({ grows: false }),
      })),
    );
  }

  /** Another cache with the same positions, for another hypothesis. Nothing is copied. @returns {DecoderCache} */
  clone() {
    const layers = this.layers.map((layer) => ({
      autoregressive: layer.autoregressive.clone(),
      crossAttention: layer.crossAttention.clone(),
    }));
    return Object.assign(new DecoderCache(layers), { length: this.length });
  }
}

// ---------------------------------------------------------------------------------------------------- transformer.py

/** N encoder layers, and a last norm when norms come first. */
class Encoder {
  /** @param {string} path @param {Config} config */
  constructor(path, config) {
    this.path = path;
    this.layers = Array.from(
      { length: config.n_encoder_layers },
      (_, at) => new EncoderLayer(`${path}.layers.${at}`, config),
    );
    this.finalNorm = config.norm === "pre" ? new LayerNorm(`${path}.final_norm`, config) : null;
  }

  /** @param {Pass} pass @param {Tensor} x @param {Tensor} srcMask @param {Positions} positions @returns {Tensor} */
  forward(pass, x, srcMask, positions) {
    for (const layer of this.layers) x = layer.forward(pass, x, srcMask, positions);
    if (this.finalNorm) x = this.finalNorm.forward(pass, x);
    return pass.tap(this, "memory", x, "batch src d_model");
  }
}

/** N decoder layers, and a last norm when norms come first. */
class Decoder {
  /** @param {string} path @param {Config} config */
  constructor(path, config) {
    this.path = path;
    this.layers = Array.from(
      { length: config.n_decoder_layers },
      (_, at) => new DecoderLayer(`${path}.layers.${at}`, config),
    );
    this.finalNorm = config.norm === "pre" ? new LayerNorm(`${path}.final_norm`, config) : null;
  }

  /** @param {Pass} pass @param {Tensor} x @param {Memory} memory @param {Tensor | null} mask
   * @param {Positions} positions @param {DecoderCache | null} cache @returns {Tensor} */
  forward(pass, x, memory, mask, positions, cache) {
    this.layers.forEach((layer, at) => {
      x = layer.forward(pass, x, memory.tensor, mask, memory.mask, positions, cache && cache.layers[at]);
    });
    if (this.finalNorm) x = this.finalNorm.forward(pass, x);
    return pass.tap(this, "output", x, "batch tgt d_model");
  }
}

/** Source ids and target ids in, one logit for each entry of the target vocabulary out. */
export class Transformer {
  /** @param {Config} config @param {Map<string, {shape: number[], data: Float32Array}>} weights
   * @param {import("./kernel.js").Kernel | null} kernel */
  constructor(config, weights, kernel) {
    this.path = "";
    this.config = config;
    this.kernel = kernel;
    this.computed = buffers(config);
    this.weights = new Map([...weights, ...this.computed]);
    this.tied = tie(config);
    this.srcEmbedding = new Embedding("src_embedding", config, config.src_vocab);
    this.tgtEmbedding = new Embedding("tgt_embedding", config, config.tgt_vocab);
    this.encoder = new Encoder("encoder", config);
    this.decoder = new Decoder("decoder", config);
    this.outputProjection = new OutputProjection("output_projection", config);
  }

  /** The memory of each source position; where `srcMask` is false a source position is hidden.
   * @param {number[]} srcIds @param {PassOptions & {srcMask?: ArrayLike<boolean | number>}} [options]
   * @returns {Memory} */
  encode(srcIds, options = {}) {
    return this._encode(new Pass(this, options), srcIds, options.srcMask);
  }

  /** The logits (tgt vocab) of the target positions; with a cache they follow those of the calls before.
   * @param {number[]} tgtInIds @param {Memory} memory @param {PassOptions & {cache?: DecoderCache | null}} [options]
   * @returns {Tensor} */
  decode(tgtInIds, memory, options = {}) {
    const pass = new Pass(this, options);
    return this.outputProjection.forward(pass, this._decode(pass, tgtInIds, memory, options.cache ?? null));
  }

  /** The logits of the last target position alone, of which nothing is recorded.
   * @param {number[]} tgtInIds @param {Memory} memory @param {Edit[]} [edits] @returns {Float32Array} */
  next(tgtInIds, memory, edits = []) {
    const pass = new Pass(this, { edits });
    const hidden = this._decode(pass, tgtInIds, memory, null);
    const last = selectRows(hidden, [hidden.shape[0] - 1]);
    return this.outputProjection.forward(pass, pass.edits.length ? hidden : last).data.slice(-this.config.tgt_vocab);
  }

  /** The address of the attention from which words are aligned. */
  get alignment() {
    return `decoder.layers.${this.config.n_decoder_layers - 1}.cross_attention.weights`;
  }

  /** `encode` and `decode` as one pass, which refuses an edit that meets no tap and no weight.
   * @param {number[]} srcIds @param {number[]} tgtInIds
   * @param {PassOptions & {srcMask?: ArrayLike<boolean | number>}} [options]
   * @returns {{memory: Memory, logits: Tensor}} */
  forward(srcIds, tgtInIds, options = {}) {
    const pass = new Pass(this, options);
    const memory = this._encode(pass, srcIds, options.srcMask);
    const logits = this.outputProjection.forward(pass, this._decode(pass, tgtInIds, memory, null));
    const unused = pass.edits.find((edit) => !pass.used.has(edit));
    if (unused) throw new Error(`${unused.address}: matched no tap that was passed and no weight.`);
    return { memory, logits };
  }

  /** A weight or table by its address, with the edits of it.
   * @param {string} name @param {Edit[]} [edits] @returns {Tensor} */
  weight(name, edits = []) {
    return new Pass(this, { edits }).weight(name);
  }

  /** The logits that the output projection makes of one vector; with `norm = "pre"` through the final norm.
   * @param {Float32Array} vector @param {Edit[]} [edits] @returns {Float32Array} */
  project(vector, edits = []) {
    const pass = new Pass(this, {});
    const x = new Tensor([1, vector.length], vector);
    const norm = this.decoder.finalNorm;
    pass.edits = edits.filter((edit) => !norm || !matches(edit.address, `${norm.path}.output`));
    return this.outputProjection.linear.forward(pass, norm ? norm.forward(pass, x) : x).data;
  }

  /** How many numbers were learned. */
  get parameters() {
    const learned = [...this.weights].filter(([name]) => !this.computed.has(name));
    return learned.reduce((sum, [, { data }]) => sum + data.length, 0);
  }

  /** An empty cache for one hypothesis. */
  newCache() {
    return DecoderCache.empty(this.config.n_decoder_layers, this.config.autoregressive_sublayer);
  }

  /** @param {Pass} pass @param {number[]} srcIds @param {ArrayLike<boolean | number>} [srcMask] @returns {Memory} */
  _encode(pass, srcIds, srcMask) {
    this._check("src_ids", srcIds, this.srcEmbedding.tokens, 0);
    const mask = pass.tap(this, "src_mask", paddingMask(srcIds, this.config.pad_id, srcMask), "batch one one src");
    const queries = srcIds.map((_, at) => at);
    const positions = { queries, keys: queries };
    const x = this.srcEmbedding.forward(pass, srcIds, queries);
    return { tensor: this.encoder.forward(pass, x, mask, positions), mask };
  }

  /** @param {Pass} pass @param {number[]} tgtInIds @param {Memory} memory @param {DecoderCache | null} cache
   * @returns {Tensor} */
  _decode(pass, tgtInIds, memory, cache) {
    const start = cache ? cache.length : 0;
    pass.start = cache ? start : null;
    this._check("tgt_in_ids", tgtInIds, this.tgtEmbedding.tokens, start);
    const keys = Array.from({ length: start + tgtInIds.length }, (_, at) => at);
    const positions = { queries: keys.slice(start), keys };
    let mask = null;
    if (this.config.autoregressive_sublayer === "self_attention") {
      const { shape, data } = pass.tap(this, "causal_mask", withOneAxis(causalMask(positions)), "one one query key");
      mask = new Tensor(shape.slice(1), data);
    }
    const x = this.tgtEmbedding.forward(pass, tgtInIds, positions.queries);
    const hidden = this.decoder.forward(pass, x, memory, mask, positions, cache);
    if (cache) cache.length += tgtInIds.length;
    return hidden;
  }

  /** @param {string} name @param {number[]} ids @param {number} vocab @param {number} start */
  _check(name, ids, vocab, start) {
    const wrong = ids.find((id) => !(Number.isInteger(id) && id >= 0 && id < vocab));
    if (wrong !== undefined) throw new Error(`${name}: found ${wrong}, expected ids from 0 to ${vocab - 1}.`);
    if (ids.length === 0) throw new Error(`${name}: found no ids, expected at least one.`);
    const most = this.config.max_length;
    if (start + ids.length > most)
      throw new Error(`${name}: found ${start + ids.length} positions, expected at most max_length = ${most}.`);
  }
}

/** @param {Tensor} x */
const withOneAxis = (x) => new Tensor([1, ...x.shape], x.data);

/** The tables that are computed, not learned, by their addresses.
 * @param {Config} config @returns {Map<string, Tensor>} */
function buffers(config) {
  /** @type {Map<string, Tensor>} */
  const found = new Map();
  const stacks = config.autoregressive_sublayer === "ssru" ? ["encoder"] : ["encoder", "decoder"];
  const attentions = stacks.flatMap((stack) =>
    Array.from({ length: config[`n_${stack}_layers`] }, (_, at) => `${stack}.layers.${at}.self_attention`),
  );
  if (config.positions === "sinusoidal") {
    const table = sinusoidalTable(config);
    for (const side of ["src", "tgt"]) found.set(`${side}_embedding.positions.table`, table);
  } else if (config.positions === "rotary") {
    const cos = angles(config.max_length, config.d_k, Math.cos);
    const sin = angles(config.max_length, config.d_k, Math.sin);
    for (const path of attentions) found.set(`${path}.rotary.cos`, cos).set(`${path}.rotary.sin`, sin);
  } else if (config.positions === "alibi") {
    const n = config.n_heads;
    const slopes = new Tensor(
      [n],
      Float32Array.from({ length: n }, (_, at) => 2 ** ((-8 * (at + 1)) / n)),
    );
    for (const path of attentions) found.set(`${path}.alibi.slopes`, slopes);
  }
  return found;
}

/** Which weight is another one, section 3.4. @param {Config} config @returns {Map<string, string>} */
function tie(config) {
  const [src, tgt, output] = [
    "src_embedding.tokens.weight",
    "tgt_embedding.tokens.weight",
    "output_projection.linear.weight",
  ];
  if (config.tie_embeddings === "all")
    return new Map([
      [tgt, src],
      [output, src],
    ]);
  return new Map(config.tie_embeddings === "target" ? [[output, tgt]] : []);
}

/** The model of a configuration; raises an error that names a setting which it does not know. With a kernel, which
 * has the weights, a pass that records and edits nothing is faster, and adds in float32.
 * @param {Config} config @param {Map<string, {shape: number[], data: Float32Array}>} weights
 * @param {import("./kernel.js").Kernel | null} [kernel] @returns {Transformer} */
export function createModel(config, weights, kernel = null) {
  checkConfig(config);
  return new Transformer(config, weights, kernel);
}
