// @ts-check
/** The chance that a translation is good, and why it is doubted, as `glassformer/decoding/confidence/` has them: a
 * logistic regression over a few numbers of the source and the output, and what the model has seen. */

import { fromBase64 } from "../record/weights.js";

/** @typedef {{mean: number, scale: number, weight: number}} Weight */
/** @typedef {{ngrams: {order: number, bits: string}, characters: string, words: string, longest: number,
 *   usual_unseen: number}} PackedSeen */
/** @typedef {{seen: PackedSeen, length_ratio: number, bias: number, doubtful: number,
 *   weights: Record<string, Weight>, reasons: Record<string, string>}} Packed */
/** @typedef {{source: string, target: string, ids: number[], logProb: number}} Judged */

const MORE_CHARACTERS = 10; // are added to both lengths: a short text says little by its length
const KNOWN_SHARE = 0.4;
const MIN_UNKNOWN = 2;
const MAX_NAMED = 5;
const FACTOR = 0x9e3779b1n;
const SHIFT = 14n;
const UNSPACED =
  "\\u0e00-\\u0fff\\u1000-\\u109f\\u1780-\\u17ff\\u3040-\\u30ff\\u3400-\\u9fff\\uf900-\\ufaff\\u{20000}-\\u{3ffff}";
const PIECE = new RegExp(`[${UNSPACED}]|[^\\s${UNSPACED}]+`, "gu");
const WORD = /[\p{L}\p{Nl}\p{No}]+(?:['’][\p{L}\p{Nl}\p{No}]+)*/gu;

/** Those of Python by their names. @type {Record<string, (of: Judged, packed: Packed, seen: SeenText) => number>} */
const FEATURES = {
  log_prob: ({ ids, logProb }) => logProb / Math.max(1, ids.length),
  unseen: ({ source }, _, seen) => seen.unseen(source),
  unknown: ({ source }, _, seen) => seen.unknownCharacters(source).length,
  lost: ({ source, target }, _, seen) => {
    const written = new Set(findWords(target).map(plain));
    return seen.rareWords(source).filter((word) => !written.has(plain(word))).length;
  },
  short: (of, packed) => Math.max(0, packed.length_ratio - logLengthRatio(of)),
  long: (of, packed) => Math.max(0, logLengthRatio(of) - packed.length_ratio),
};

/** @param {Judged} of */
const logLengthRatio = ({ source, target }) => {
  const size = (/** @type {string} */ text) => [...text.trim()].length + MORE_CHARACTERS;
  return Math.log(size(target) / size(source));
};

const fold = (/** @type {string} */ text) => text.normalize("NFKC").toLowerCase();
const plain = (/** @type {string} */ word) => fold(word).replaceAll("’", "'");

/** @param {string} text @returns {string[]} */
const findWords = (text) => (text.match(PIECE) ?? []).flatMap((piece) => piece.match(WORD) ?? []);

/** A set of texts: a few bits for each. */
class BloomFilter {
  /** @param {string} bits in base64 */
  constructor(bits) {
    this.bits = fromBase64(bits);
  }

  /** @param {string} text */
  has(text) {
    const code = crc32(text) >>> 0;
    const last = 8 * this.bits.length - 1;
    const second = Number(((BigInt(code) * FACTOR) >> SHIFT) & BigInt(last));
    return [code & last, second].every((place) => (this.bits[place >> 3] >> (place & 7)) & 1);
  }
}

/** What the sources that a model learned from are made of. */
class SeenText {
  /** @param {PackedSeen} packed */
  constructor({ ngrams, characters, words, longest, usual_unseen: usual }) {
    this.order = ngrams.order;
    this.ngrams = new BloomFilter(ngrams.bits);
    this.characters = new Set(characters);
    this.words = new BloomFilter(words);
    this.longest = longest;
    this.usual = usual;
  }

  /** The share of a text's n-grams that are not in the table. @param {string} text */
  unseen(text) {
    const characters = [...` ${fold(text).trim().split(/\s+/u).join(" ")} `];
    const count = Math.max(1, characters.length - this.order + 1);
    let unseen = 0;
    for (let at = 0; at < count; at++)
      if (!this.ngrams.has(characters.slice(at, at + this.order).join(""))) unseen += 1;
    return unseen / count;
  }

  /** @param {string} text */
  unknownCharacters(text) {
    const known = (/** @type {string} */ one) => /\s/u.test(one) || this.characters.has(one);
    return [...new Set(text)].filter((one) => !known(one) && ![...fold(one)].every(known));
  }

  /** @param {string} text */
  rareWords(text) {
    return [...new Set(findWords(text))].filter((word) => !this.hasWord(plain(word)));
  }

  /** Whether a word was seen; one with an apostrophe also by its parts. @param {string} word */
  hasWord(word) {
    return this.words.has(word) || (word.includes("'") && word.split("'").every((part) => this.words.has(part)));
  }

  /** @param {string} text */
  isForeign(text) {
    const words = findWords(text);
    const count = words.length;
    const unknown = words.filter((word) => !this.hasWord(plain(word))).length;
    const fewKnown = unknown >= MIN_UNKNOWN && count - unknown < KNOWN_SHARE * count;
    return fewKnown && this.unseen(text) > this.usual;
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

/** The first reason to doubt a translation, and what it names; null without a doubt.
 * @param {Judged} of @param {number} chance @param {Packed} packed @param {SeenText} seen
 * @returns {[string, string[]] | null} */
function doubt({ source, target }, chance, { doubtful }, seen) {
  if (seen.isForeign(source)) return ["language", []];
  const lost = seen.unknownCharacters(source).filter((one) => !target.includes(one));
  if (lost.length) return ["characters", lost];
  const rare = seen.rareWords(source);
  if (chance < doubtful && rare.length) return ["words", rare];
  if (findWords(source).length > seen.longest) return ["length", []];
  return chance < doubtful ? ["unsure", []] : null;
}

/** A word or a character in quotes; what cannot be seen by its number. @param {string} named */
const quote = (named) => {
  const number = (/** @type {string} */ one) => (one.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0");
  return /[\p{C}\p{Z}]/u.test(named) ? [...named].map((one) => `U+${number(one)}`).join(" ") : `"${named}"`;
};

/** The reason in words. @param {string} sentence @param {string[]} named */
function inWords(sentence, named) {
  const others = named.length - MAX_NAMED;
  const shown = named.slice(0, MAX_NAMED).map(quote).join(", ");
  return sentence.replace("{}", () => (others > 0 ? `${shown} and ${others} more` : shown));
}

/** What judges a translation: the chance, and why it is doubted, in words, if it is; null where this file does not
 * know one of the numbers.
 * @param {Packed} packed @returns {((of: Judged) => [number, string | null]) | null} */
export function createConfidence(packed) {
  const names = Object.keys(packed.weights);
  if (names.some((name) => !(name in FEATURES))) return null;
  const seen = new SeenText(packed.seen);
  return (of) => {
    const parts = names.map((name) => {
      const { mean, scale, weight } = packed.weights[name];
      return ((FEATURES[name](of, packed, seen) - mean) / scale) * weight;
    });
    const chance = 0.5 * (1 + Math.tanh((packed.bias + parts.reduce((sum, part) => sum + part, 0)) / 2));
    const found = doubt(of, chance, packed, seen);
    return [chance, found && inWords(packed.reasons[found[0]], found[1])];
  };
}
