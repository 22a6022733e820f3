// @ts-check
/** The chance that a translation is good, as `glassformer/decoding/confidence/` estimates it: a logistic regression
 * over a few numbers of the source and the output. */

import { fromBase64 } from "../record/weights.js";

/** @typedef {{mean: number, scale: number, weight: number}} Weight */
/** @typedef {{ngrams: {order: number, bits: string}, length_ratio: number, bias: number, weights: Record<string,
 *   Weight>, reasons: Record<string, string>}} Packed */
/** @typedef {{source: string, srcTokens: string[], target: string, ids: number[], logProb: number}} Judged */

const MORE_CHARACTERS = 10; // are added to both lengths: a short text says little by its length

/** Those of Python by their names. @type {Record<string, (of: Judged, packed: Packed, ngrams: Ngrams) => number>} */
const FEATURES = {
  log_prob: ({ ids, logProb }) => logProb / Math.max(1, ids.length),
  unseen: ({ source }, _, ngrams) => ngrams.unseen(source),
  unknown: ({ srcTokens }) => srcTokens.filter((one) => one === "<unk>").length / Math.max(1, srcTokens.length),
  short: (of, packed) => Math.max(0, packed.length_ratio - logLengthRatio(of)),
  long: (of, packed) => Math.max(0, logLengthRatio(of) - packed.length_ratio),
};

/** @param {Judged} of */
const logLengthRatio = ({ source, target }) => {
  const size = (/** @type {string} */ text) => [...text.trim()].length + MORE_CHARACTERS;
  return Math.log(size(target) / size(source));
};

/** The character n-grams of the text that a model learned from: a bit for each hash. */
class Ngrams {
  /** @param {{order: number, bits: string}} packed */
  constructor({ order, bits }) {
    this.order = order;
    this.bits = fromBase64(bits);
  }

  /** The share of a text's n-grams that are not in the table. @param {string} text */
  unseen(text) {
    const characters = [...` ${text.normalize("NFKC").toLowerCase().trim().split(/\s+/u).join(" ")} `];
    const count = Math.max(1, characters.length - this.order + 1);
    let unseen = 0;
    for (let at = 0; at < count; at++) {
      const place = crc32(characters.slice(at, at + this.order).join("")) & (8 * this.bits.length - 1);
      if (!((this.bits[place >> 3] >> (place & 7)) & 1)) unseen += 1;
    }
    return unseen / count;
  }
}

/** Of the text in UTF-8, as zlib has it. @param {string} text */
function crc32(text) {
  let sum = -1;
  for (const byte of new TextEncoder().encode(text)) {
    sum ^= byte;
    for (let bit = 0; bit < 8; bit++) sum = (sum >>> 1) ^ (sum & 1 ? 0xedb88320 : 0);
  }
  return ~sum;
}

/** What judges a translation: the chance, and what speaks most against it, in words; null where this file does not
 * know one of the numbers.
 * @param {Packed} packed @returns {((of: Judged) => [number, string]) | null} */
export function createConfidence(packed) {
  const names = Object.keys(packed.weights);
  if (names.some((name) => !(name in FEATURES))) return null;
  const ngrams = new Ngrams(packed.ngrams);
  return (of) => {
    const parts = names.map((name) => {
      const { mean, scale, weight } = packed.weights[name];
      return ((FEATURES[name](of, packed, ngrams) - mean) / scale) * weight;
    });
    const logOdds = packed.bias + parts.reduce((sum, part) => sum + part, 0);
    const against = names[parts.indexOf(Math.min(...parts))];
    return [0.5 * (1 + Math.tanh(logOdds / 2)), packed.reasons[against]];
  };
}
