// @ts-check
/** What `glassformer/text/tokenizer/sentencepiece.py` makes of a SentencePiece model: rules of normalisation in a
 * table, pieces that begin with a space, and entries that no text has. */

import { fromBase64 } from "../record/weights.js";

const UNREACHABLE = " "; // begins an entry that has an id but is found in no text
const LARGEST_AT_ONCE = 6; // bytes: shorter characters of several signs are looked up whole
const LANGUAGE = ["(?<![^\\n])>>[^<]+<<", "^>>[^<]+<<"]; // in JavaScript, and as the library writes it
export const TYPED_CONTROL = "<(?=pad>|s>|/s>|unk>)";

/** @param {string} pattern */
export const isolateAll = (pattern) => ({
  type: "Split",
  pattern: { Regex: [pattern] },
  behavior: ["Isolated"],
  invert: [false],
});

/** @param {string} pattern @param {string} content */
const replaceAll = (pattern, content) => ({ type: "Replace", pattern: { String: [pattern] }, content: [content] });

/** The parts that the JSON of such a tokenizer has, as `tokenizer.js` compares them. */
export const SENTENCEPIECE = {
  pre_tokenizer: {
    type: "Sequence",
    pretokenizers: [
      isolateAll(LANGUAGE[1]),
      { type: "Metaspace", replacement: ["▁"], prepend_scheme: ["always"], split: [true] },
      isolateAll(TYPED_CONTROL),
    ],
  },
  decoder: {
    type: "Sequence",
    decoders: [
      replaceAll(UNREACHABLE, ""),
      replaceAll("▁", " "),
      { type: "Fuse" },
      { type: "Strip", content: [" "], start: [1000], stop: [0] },
    ],
  },
};

const PRECOMPILED = { type: "Precompiled", precompiled_charsmap: null };
const COLLAPSE = [
  { type: "Strip", strip_left: [true], strip_right: [true] },
  { type: "Replace", pattern: { Regex: [" {2,}"] }, content: [" "] },
];

/** The normalizers that such a JSON may have; each is there or not. @param {any[]} found */
export const sentencePieceNormalizers = (found) => [
  ...(found[0]?.type === "Precompiled" ? [PRECOMPILED] : []),
  ...(found.some((one) => one?.type === "Strip") ? COLLAPSE : []),
];

/** The rules of normalisation: a double-array trie of 32-bit units, then the texts that its values point at. */
class Charsmap {
  /** @param {string} packed in base64 */
  constructor(packed) {
    const bytes = fromBase64(packed);
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    const size = view.getUint32(0, true);
    this.units = Uint32Array.from({ length: size / 4 }, (_, at) => view.getUint32(4 + 4 * at, true));
    this.texts = bytes.subarray(4 + size);
  }

  /** What a character becomes by the first rule that one of its beginnings has; null for none.
   * @param {Uint8Array} bytes */
  rule(bytes) {
    const offset = (/** @type {number} */ unit) => (unit >>> 10) << ((unit & 512) >>> 6);
    let place = offset(this.units[0]);
    for (const byte of bytes) {
      place ^= byte;
      const unit = this.units[place];
      if (byte === 0 || (unit & 0x800000ff) >>> 0 !== byte) return null;
      place ^= offset(unit);
      if (unit & 256) return this.textAt(this.units[place] & 0x7fffffff);
    }
    return null;
  }

  /** @param {number} start */
  textAt(start) {
    return new TextDecoder("utf-8", { ignoreBOM: true }).decode(
      this.texts.subarray(start, this.texts.indexOf(0, start)),
    );
  }

  /** @param {string} text */
  apply(text) {
    const utf8 = new TextEncoder();
    const one = (/** @type {string} */ sign) => this.rule(utf8.encode(sign));
    return Array.from(new Intl.Segmenter("en", { granularity: "grapheme" }).segment(text), ({ segment }) => {
      const whole = utf8.encode(segment).length < LARGEST_AT_ONCE ? one(segment) : null;
      return whole ?? Array.from(segment, (sign) => one(sign) ?? sign).join("");
    }).join("");
  }
}

/** What normalises a text before it is cut. @param {any} json @returns {(text: string) => string} */
export function createNormalizer(json) {
  const steps = json.normalizer.normalizers;
  const charsmap = steps[0]?.type === "Precompiled" ? new Charsmap(steps[0].precompiled_charsmap) : null;
  const collapses = steps.some((/** @type {any} */ step) => step.type === "Strip");
  return (text) => {
    const mapped = charsmap ? charsmap.apply(text) : text;
    return collapses ? mapped.replace(/^\p{White_Space}+|\p{White_Space}+$/gu, "").replace(/ {2,}/g, " ") : mapped;
  };
}

/** The words of a text in normal form, each with the space before it. @param {string} text */
export const splitSentencePiece = (text) =>
  splitAt(text, LANGUAGE[0])
    .map((part) => part.replaceAll(" ", "▁").replace(/^(?!▁)/u, "▁"))
    .flatMap((part) => part.match(/▁?[^▁]+|▁/gu) ?? [])
    .flatMap((word) => splitAt(word, TYPED_CONTROL));

/** The text cut before and after each match. @param {string} text @param {string} pattern */
export const splitAt = (text, pattern) => text.split(new RegExp(`(${pattern})`, "u")).filter(Boolean);

/** @param {string[]} entries */
export const joinSentencePiece = (entries) =>
  entries
    .map((entry) => entry.replaceAll(UNREACHABLE, "").replaceAll("▁", " "))
    .join("")
    .replace(/^ {1,1000}/, "");

/** An entry without the mark of those that no text has. @param {string} entry */
export const withoutMark = (entry) => (entry.startsWith(UNREACHABLE) ? entry.slice(1) : entry);
