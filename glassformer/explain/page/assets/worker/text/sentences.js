// @ts-check
/** The sentences of a text, as `glassformer/text/sentence_splitter.py` and `text/steps/sentences.py` find them. */

import { joinParts, unusedSigns } from "./codes.js";

/** @typedef {import("./codes.js").Part} Part */
/** @typedef {import("./codes.js").Rules} Rules */
/** @typedef {{parts: Part[], gap: string}} Cut a sentence and the white space behind it */

const LINE_BREAK = /[\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029]/u;
const MOST_LOOK_BACK = 40;

/** @param {string} text @param {number} start */
const skipSpace = (text, start) => {
  const found = text.slice(start).search(/\S/u);
  return found < 0 ? text.length : start + found;
};

/** At least one; joined with their gaps they are the text. @param {string} text @param {Rules} rules
 * @returns {{text: string, gap: string}[]} */
export function splitSentences(text, rules) {
  const found = [];
  let start = 0;
  let stop = 0;
  let first = skipSpace(text, 0);
  for (const match of text.matchAll(rules.any.sentenceEnd)) {
    const end = match.index + match[0].length;
    if (end < Math.max(first, stop)) continue;
    stop = skipSpace(text, end);
    const last = text.slice(Math.max(start, end - MOST_LOOK_BACK), end);
    const [following = text[stop] ?? ""] = text.slice(stop, stop + 3).replace(/^[-–— ]+/u, "");
    const gap = text.slice(end, stop);
    if (stop >= text.length || first >= end || !isEnd(last, match.groups?.spaced, gap, following, rules)) continue;
    found.push({ text: text.slice(start, end), gap });
    start = stop;
    first = stop;
  }
  return [...found, { text: text.slice(start), gap: "" }];
}

/** @param {string} last @param {string | undefined} mark @param {string} gap @param {string} following
 * @param {Rules} rules */
function isEnd(last, mark, gap, following, rules) {
  if (mark === undefined || LINE_BREAK.test(gap)) return true;
  if (mark === ".") {
    if (last.search(rules.any.initial) >= 0) return false;
    if (/^\p{Nd}/u.test(following) && last.search(rules.any.shortWord) >= 0) return false;
    const [word = ""] = last.match(rules.any.lastWord) ?? [];
    if (rules.abbreviations.has(word.slice(0, -1))) return false;
  }
  return !/^\p{Lowercase}/u.test(following);
}

/** The lines. @param {string} text */
export function splitLines(text) {
  const pieces = text.split(/(\s*[\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029]\s*)(?=\S)/u);
  return pieces.flatMap((one, at) => (at % 2 ? [] : [{ text: one, gap: pieces[at + 1] ?? "" }]));
}

/** The same of a text with codes: a code that breaks a line is alone, and tags keep what they enclose together.
 * @param {Part[]} parts @param {Rules} rules @param {(text: string) => {text: string, gap: string}[]} split
 * @returns {Cut[]} */
export function splitParts(parts, rules, split) {
  const codes = parts.filter((part) => typeof part !== "string").values();
  const plain = joinParts(parts);
  const [alone, opens] = unusedSigns(plain, 2);
  const closes = [...rules.closing].find((sign) => !plain.includes(sign)) ?? alone;
  const signs = /** @type {Record<string, string>} */ ({ alone, opens, closes });
  const coded = parts.map((part) => (typeof part === "string" ? part : signs[part.kind])).join("");
  const border = new RegExp(`([${alone}${opens}${closes.replace(/[\]^\\-]/u, "\\$&")}])`, "u");
  /** @type {Cut[]} */
  const found = [];
  /** @type {Part[]} */
  let together = [];
  let depth = 0;
  let gap = "";
  for (const sentence of split(coded)) {
    if (gap && together.length) together.push(gap);
    for (const piece of plain === coded ? [sentence.text] : sentence.text.split(border)) {
      if (plain === coded || !Object.values(signs).includes(piece)) {
        if (piece) together.push(piece);
        continue;
      }
      const code = /** @type {import("./codes.js").Code} */ (codes.next().value);
      if (rules.whole.breaks.test(code.raw)) {
        if (together.length) found.push({ parts: together, gap: "" });
        found.push({ parts: [code], gap: "" });
        together = [];
      } else {
        depth += { opens: 1, closes: -1, alone: 0 }[code.kind];
        together.push(code);
      }
    }
    gap = sentence.gap;
    if (together.length && depth <= 0) {
      found.push({ parts: together, gap });
      together = [];
      depth = 0;
      gap = "";
    } else if (!together.length && found.length) {
      found[found.length - 1].gap += gap;
      gap = "";
    }
  }
  return together.length ? [...found, { parts: together, gap }] : found;
}

/** The white space between the translations of two sentences. @param {string} source @param {string} left
 * @param {string} gap @param {Rules} rules */
export function gapBetween(source, left, gap, { stops, closing }) {
  const isUnspaced = (/** @type {string} */ text) => {
    const letters = [...text.trimEnd()];
    while (letters.length && closing.includes(letters[letters.length - 1])) letters.pop();
    return letters.length > 0 && stops.includes(letters[letters.length - 1]);
  };
  if (!left.trim() || LINE_BREAK.test(gap) || isUnspaced(source) === isUnspaced(left)) return gap;
  return isUnspaced(left) ? "" : gap || " ";
}
