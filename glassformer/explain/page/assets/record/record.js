// @ts-check
/** A record: every tap of one pass over one sentence, with axes, values and tokens. Recorded or computed, the
 * same. */
import { sideOf } from "./addresses.js";
import { unpack } from "./weights.js";

/**
 * @typedef {{address?: string, axes: string[], shape: number[], data: Float32Array | null, ids?: Float32Array,
 *   kept?: number}} Tap
 * @typedef {{source: string, target: string, forced: boolean, src_ids: number[], tgt_in_ids: number[], tgt_out_ids:
 *   number[],
 *   src_tokens: string[], tgt_in_tokens: string[], tgt_out_tokens: string[], derivation: any}} Sentence
 */

export class PassRecord {
  /** @param {Sentence} sentence @param {Map<string, Tap>} taps @param {string[]} vocab */
  constructor(sentence, taps, vocab) {
    this.sentence = sentence;
    this.taps = taps;
    this.vocab = vocab;
    /** Weights, where the page has them. @type {(() => Map<string, {shape: number[], data: Float32Array}>) | null} */
    this.parameters = null;
  }

  /** @param {string} address @returns {Tap | undefined} a tap with values */
  at(address) {
    const tap = this.taps.get(address);
    if (tap) return tap.data ? tap : undefined;
    const weight = /\.(weight|bias|gain|table|key_table|value_table)$/.test(address)
      ? this.parameter(address)
      : undefined;
    return (
      weight && {
        axes: weight.shape.length === 2 ? ["row", "column"] : ["row"],
        shape: weight.shape,
        data: weight.data,
      }
    );
  }

  /** A parameter by its name; tied matrices are held once. @param {string} address */
  parameter(address) {
    const found = this.parameters?.();
    const tied = /^(output_projection\.linear|(src|tgt)_embedding\.tokens)\.weight$/.test(address)
      ? ["tgt_embedding.tokens.weight", "src_embedding.tokens.weight"]
      : [];
    return [address, ...tied].map((name) => found?.get(name)).find(Boolean);
  }

  /** @param {string} address */
  has(address) {
    return this.taps.has(address);
  }

  /** One number.
   * @param {string} address @param {Record<string, number>} cells index along each axis; 0 where absent */
  value(address, cells) {
    const tap = this.at(address);
    return tap && tap.data ? numberAt(tap, cells) : NaN;
  }

  /** The tokens along an axis, or null. @param {string} address @param {string} axis @returns {string[] | null} */
  tokens(address, axis) {
    if (axis === "vocab") return this.vocab;
    if (axis === "row")
      return /^(tgt_embedding\.tokens|output_projection\.linear)\.weight$/.test(address) ? this.vocab : null;
    const side = sideOf(address, axis);
    return side === null ? null : side === "src" ? this.sentence.src_tokens : this.sentence.tgt_in_tokens;
  }

  /** The label of a row or a column: a token, `reads <s> → writes Ich` along target queries, or an index.
   * @param {string} address @param {string} axis @param {number} index */
  label(address, axis, index) {
    const tokens = this.tokens(address, axis);
    if (!tokens) return String(index);
    if (sideOf(address, axis) === "tgt" && axis !== "key") {
      return `reads ${tokens[index]} → writes ${this.sentence.tgt_out_tokens[index] ?? "?"}`;
    }
    return tokens[index] ?? String(index);
  }
}

/** @param {Tap} tap @param {Record<string, number>} cells */
export function numberAt(tap, cells) {
  let at = 0;
  for (let axis = 0; axis < tap.axes.length; axis += 1) at = at * tap.shape[axis] + (cells[tap.axes[axis]] ?? 0);
  if (tap.ids && tap.kept !== undefined) return cutNumber(tap, cells);
  return tap.data ? tap.data[at] : NaN;
}

/** A number of a vocabulary that was cut to its most probable entries; NaN for one of the others.
 * @param {Tap} tap @param {Record<string, number>} cells */
function cutNumber(tap, cells) {
  const kept = tap.kept ?? 0;
  const row = cells[tap.axes[tap.axes.length - 2]] ?? 0;
  for (let place = 0; place < kept; place += 1) {
    if (tap.ids?.[row * kept + place] === cells.vocab) return tap.data?.[row * (kept + 1) + place] ?? NaN;
  }
  return NaN;
}

/** The entries of one row along the vocabulary, and the sum of those left out.
 * @param {Tap} tap @param {number} row @returns {{ids: ArrayLike<number> | null, values: Float32Array, rest:
 * number}} */
export function vocabularyRow(tap, row) {
  const data = /** @type {Float32Array} */ (tap.data);
  if (!tap.ids || tap.kept === undefined) {
    const size = tap.shape[tap.shape.length - 1];
    return { ids: null, values: data.subarray(row * size, (row + 1) * size), rest: 0 };
  }
  const start = row * (tap.kept + 1);
  return {
    ids: tap.ids.subarray(row * tap.kept, (row + 1) * tap.kept),
    values: data.subarray(start, start + tap.kept),
    rest: data[start + tap.kept],
  };
}

/** The command, or the line of Python, that records a step which this page leaves out.
 * @param {{run_option: string | null}} about @param {Sentence} sentence @param {string} address */
export function recordCommand({ run_option: run }, { source, target, forced }, address) {
  const shell = (/** @type {string} */ text) => `'${text.replaceAll("'", "'\\''")}'`;
  if (run === null)
    return `walk(translator, [${JSON.stringify(source)}]${forced ? `, [${JSON.stringify(target)}]` : ""}, only=${JSON.stringify(address)})`;
  return [
    "glassformer trace",
    shell(source),
    forced ? `--tgt ${shell(target)}` : "",
    run,
    `--only ${shell(address)} --save DIR`,
  ]
    .filter(Boolean)
    .join(" ");
}

/** A tap with its numbers; heads that are stored position by position are put head by head when they are first read.
 * @param {Float32Array | null} stored @param {number[] | null} shape of what is stored by position
 * @param {Omit<Tap, "data">} tap @returns {Tap} */
function withData(stored, shape, tap) {
  if (!stored || !shape) return { ...tap, data: stored };
  /** @type {Float32Array | null} */
  let ordered = null;
  return {
    ...tap,
    get data() {
      return (ordered ??= byHead(stored, shape));
    },
  };
}

/** @param {Float32Array} stored (positions heads width) @param {number[]} shape (batch heads positions width) */
function byHead(stored, [, heads, positions, width]) {
  const data = new Float32Array(stored.length);
  for (let position = 0, at = 0; position < positions; position += 1) {
    for (let head = 0; head < heads; head += 1, at += width)
      data.set(stored.subarray(at, at + width), (head * positions + position) * width);
  }
  return data;
}

/** Everything that the page was written with. @param {Document} page */
export async function readEmbedded(page) {
  const texts = ["record", "values"].map((id) => page.getElementById(id)?.textContent ?? "");
  const [json, { buffer }] = await Promise.all(texts.map(unpack));
  const about = JSON.parse(new TextDecoder().decode(json));
  const numbers = new Float32Array(/** @type {ArrayBuffer} */ (buffer));
  const records = about.sentences.map((/** @type {any} */ sentence) => {
    /** @type {Map<string, Tap>} */
    const taps = new Map();
    for (const tap of sentence.taps) {
      const wide = tap.kept === undefined ? 0 : tap.kept + 1 - tap.shape[tap.shape.length - 1];
      const shape = wide ? [...tap.shape.slice(0, -1), tap.kept + 1] : tap.shape;
      const size = shape.reduce((/** @type {number} */ a, /** @type {number} */ b) => a * b, 1);
      const rows = size / (tap.kept === undefined ? 1 : tap.kept + 1);
      const stored = tap.offset === null ? null : numbers.subarray(tap.offset, tap.offset + size);
      taps.set(
        tap.address,
        withData(stored, tap.by_position ? tap.shape : null, {
          address: tap.address,
          axes: tap.axes,
          shape: tap.shape,
          kept: tap.kept,
          ids: tap.kept === undefined ? undefined : numbers.subarray(tap.ids, tap.ids + rows * tap.kept),
        }),
      );
    }
    return new PassRecord(sentence, taps, about.vocab);
  });
  return { about, records };
}
