// @ts-check
/** What is done to a sentence before the model reads it, and undone in the answer: `glassformer/text/steps/`. */

import { hasWords, joinParts, markCodes, replaceCodes, restoreCodes, standsForWord } from "./codes.js";
import { normalizeSource } from "../tokenizer.js";

/** @typedef {import("./codes.js").Part} Part */
/** @typedef {import("./codes.js").Rules} Rules */
/** @typedef {{rules: Rules, matchesStyle: boolean, copiesWordless: boolean, plainSigns: Record<string, string>,
 *   keepsCapital: (word: string) => boolean, prefix: string}} StepOptions */
/** @typedef {{parts: Part[], restore: (answer: Part[]) => Part[], start?: (answer: string) => string,
 *   written?: string}} Change start: of an answer that is not complete; written: the prefix as the model writes it */
/** @typedef {(parts: Part[], options: StepOptions) => Change | null} Step gives null where it changes nothing */

const LEAST_CAPITALS = 5;
const LETTER = /\p{L}/u;
const MOST_CODES = 300;
const LONGEST_WITH_CODES = 30_000;

const isText = (/** @type {Part} */ part) => typeof part === "string";
const texts = (/** @type {Part[]} */ parts) => parts.filter(isText).join("");
/** @param {Part[]} parts @param {(text: string) => string} change */
const mapTexts = (parts, change) => parts.map((part) => (typeof part === "string" ? change(part) : part));
/** Texts that stand side by side as one. @param {Part[]} parts */
const joinTexts = (parts) =>
  parts.reduce((/** @type {Part[]} */ all, part) => {
    const last = all.at(-1);
    const isOne = typeof last === "string" && typeof part === "string";
    return isOne ? [...all.slice(0, -1), last + part] : [...all, part];
  }, []);
const filled = (/** @type {Part[]} */ parts) => parts.filter((part) => part !== "");

/** Marks of direction are not read, and typographic signs that the model does not know as plain ones. @type {Step} */
function readSigns(parts, { rules, matchesStyle, plainSigns }) {
  const text = texts(parts);
  const plain = Object.entries(plainSigns).filter(([sign]) => text.includes(sign));
  if (!matchesStyle || (!plain.length && text.search(rules.any.directions) < 0)) return null;
  const written = plain
    .filter(([sign, other]) => sign in rules.written && !text.includes(other))
    .map(([sign, other]) => [other, other !== " - " ? sign : /\s—\s/u.test(text) ? " — " : "—"]);
  const read = mapTexts(parts, (part) =>
    plain.reduce(
      (all, [sign, other]) =>
        other.startsWith(" ") ? all.replace(new RegExp(`\\s*${sign}\\s*`, "gu"), other) : all.replaceAll(sign, other),
      part.replace(rules.any.directions, ""),
    ),
  );
  return {
    parts: filled(read),
    restore: (answer) =>
      mapTexts(joinTexts(answer), (part) =>
        written.reduce((all, [other, sign]) => all.replaceAll(other, sign), part),
      ),
    start: written.length ? () => "" : (answer) => answer,
  };
}

/** White space, and punctuation that carries no words: a bullet, brackets round all, `!!!`. @type {Step} */
function readPunctuation(parts, options) {
  const { coded, codes } = replaceCodes(parts);
  const [before, inner, after] =
    options.matchesStyle && !isFixed(parts, options) ? splitPunctuation(coded, options.rules) : trim(coded);
  if (inner === coded) return null;
  const signs = before.trim();
  const first = signs && options.prefix.startsWith(signs) ? before.slice(0, before.indexOf(signs)) : before;
  return {
    parts: restoreCodes(inner, codes),
    restore: (answer) => filled([first, ...answer, after]),
    start: (answer) => first + answer,
  };
}

/** @param {string} text @returns {[string, string, string]} */
function trim(text) {
  const start = text.length - text.trimStart().length;
  return [text.slice(0, start), text.trim(), text.slice(start + text.trim().length)];
}

/** Whether a code may stand before a prefix. @param {Part[]} parts @param {StepOptions} options */
const isFixed = (parts, { prefix }) => prefix !== "" && !parts.every(isText);

/** The signs before a text, the text, and those after it. @param {string} text @param {Rules} rules
 * @returns {[string, string, string]} */
function splitPunctuation(text, rules) {
  const ends = `[${rules.pictures.slice(1, -1)}${rules.joins}\\s]+`;
  const [atStart, atEnd] = [new RegExp(`^${ends}`, "u"), new RegExp(`(?<!${ends.slice(0, -1)})${ends}$`, "u")];
  let inner = text.replace(atStart, "").replace(rules.first.bullet, "").replace(atStart, "");
  let read = inner.replace(atEnd, "");
  const middle = read.slice(1, -1);
  const pair = read.slice(0, 1) + read.slice(-1);
  if (["()", "[]"].includes(pair) && read.length > 2 && ![...pair].some((sign) => middle.includes(sign))) {
    inner = inner.slice(1).replace(atStart, "");
    read = inner.replace(atEnd, "").slice(0, -1).replace(atEnd, "");
  }
  read = read.replace(rules.any.marks, "");
  if (!LETTER.test(read)) return ["", text, ""];
  const start = text.length - inner.length;
  return [text.slice(0, start), read, text.slice(start + read.length)];
}

/** Pictures inside a text are codes. @type {Step} */
function readEmoji(parts, { rules, matchesStyle }) {
  const found = matchesStyle ? markCodes(parts, rules.any.emoji, ({ 0: raw }) => ({ raw, kind: "alone" })) : parts;
  return found.every((part, at) => part === parts[at])
    ? null
    : { parts: found, restore: (answer) => answer, start: () => "" };
}

/** Capitals throughout, or a lower-case start, are a style; the answer gets it. @type {Step} */
function readCase(parts, options) {
  const { rules, matchesStyle, prefix } = options;
  if (!matchesStyle || isFixed(parts, options)) return null;
  const standIn = (/** @type {Part} */ part) =>
    typeof part === "string" ? part : standsForWord(part, rules) ? "0" : rules.whole.emoji.test(part.raw) ? " " : "";
  const text = normalizeSource(parts.map(standIn).join(""));
  const isWord = /^(?=.*\p{Lowercase})[^\p{Uppercase}\p{Lt}\P{L}]+[.!?…]?$/u.test(text) && parts.length === 1;
  const upper = isUpper(text);
  const lower = !upper && /^\p{Lowercase}/u.test(text) && (text.includes(" ") || isWord);
  if (!upper && !lower && !prefix) return null;
  const read = upper ? mapTexts(parts, (part) => part.toLowerCase()) : parts;
  const keeps = lower && isWord ? options.keepsCapital : () => false;
  let written = prefix && normalizeSource(LETTER.test(prefix) ? splitPunctuation(prefix, rules)[1] : prefix);
  if (upper && isUpper(written)) written = written.toLowerCase();
  if (upper || lower) written = capitalized(written);
  const restore = (/** @type {Part[]} */ answer) => {
    const first = typeof answer[0] === "string" ? answer[0] : "";
    const hasPrefix = written !== "" && first.startsWith(written);
    let rest = hasPrefix ? [first.slice(written.length), ...answer.slice(1)] : answer;
    if (upper) rest = mapTexts(rest, (part) => part.toUpperCase());
    else if (lower && !hasPrefix && !keeps(first)) rest = changeFirst(rest, rules, (one) => one.toLowerCase());
    return filled([hasPrefix ? prefix : "", ...rest]);
  };
  return {
    parts: upper || lower ? changeFirst(read, rules, (one) => one.toUpperCase()) : parts,
    restore,
    start: prefix || (lower && isWord) ? () => "" : (answer) => joinParts(restore([answer])),
    written,
  };
}

const capitalized = (/** @type {string} */ text) => {
  const [first = "", ...rest] = text;
  return first.toUpperCase() + rest.join("");
};

/** @param {string} text */
function isUpper(text) {
  const letters = text.match(/\p{L}/gu) ?? [];
  return letters.length >= LEAST_CAPITALS && letters.every((one) => /\p{Uppercase}/u.test(one));
}

/** The case of the first letter changed, unless a number, or a code that stands for a word, is before it.
 * @param {Part[]} parts @param {Rules} rules @param {(letter: string) => string} change @returns {Part[]} */
function changeFirst(parts, rules, change) {
  for (const [at, part] of parts.entries()) {
    if (typeof part !== "string") {
      if (standsForWord(part, rules)) return parts;
      continue;
    }
    const found = part.match(rules.first.firstLetter);
    if (found) return parts.with(at, found[1] + change(found[2]) + part.slice(found[0].length));
    if (/[\p{L}\p{N}]/u.test(part)) return parts;
  }
  return parts;
}

const STEPS = [readSigns, readPunctuation, readEmoji, readCase];

/** A sentence after all steps; `isCopied` if it is its own answer.
 * @param {Part[]} parts @param {StepOptions} options */
export function readSteps(parts, options) {
  const codes = parts.filter((part) => !isText(part)).length;
  const isCrowded = codes > MOST_CODES || (codes > 1 && joinParts(parts).length > LONGEST_WITH_CODES);
  const isBlank = joinParts(parts).trim() === "";
  const isCopied = hasWords(parts)
    ? isCrowded
    : isBlank || ((options.copiesWordless || codes > 0) && !options.prefix);
  /** @type {Change[]} */
  const changes = [];
  let read = parts;
  for (const step of isCopied ? [] : STEPS) {
    const change = step(read, options);
    if (!change) continue;
    changes.push(change);
    read = change.parts;
  }
  return {
    read,
    isCopied,
    isCrowded: isCrowded && hasWords(parts),
    prefix: changes.at(-1)?.written ?? normalizeSource(options.prefix),
    restore: (/** @type {Part[]} */ answer) => changes.reduceRight((all, { restore }) => restore(all), answer),
    start: (/** @type {string} */ answer) =>
      changes.reduceRight((all, { start }) => (start && all ? start(all) : all), answer),
  };
}
