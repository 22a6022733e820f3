// @ts-check
/** A sentence without its codes, as the model reads it, with names and numbers where codes carry grammar:
 * `glassformer/text/codes/draft.py`, but that each tag is placed by itself. */

import { ANY_WORD, joinParts, markCodes, pairName, standsForWord, unusedSigns } from "./codes.js";
import { normalizeSource } from "../tokenizer.js";

/** @typedef {import("./codes.js").Part} Part */
/** @typedef {import("./codes.js").Code} Code */
/** @typedef {import("./codes.js").Rules} Rules */
/** @typedef {{parts: Part[], start: number, left: string, right: string, tag: string, other?: Mark}} Mark
 * codes that left a text at
 * a place, and the characters next to them; tag: opens, closes or empty; other: the tag that closes this one, or that
 * it closes */
/** @typedef {{source: Part[], text: string, marks: Mark[], words: [string, Mark][]}} Draft */

const SEPARATORS = ":;,|/–—-";
const BRACKETS = ["()", "[]", '""', "''", "«»", "„“", "“”", "‘’", "{}", "<>"];

const dropBreaks = (/** @type {string} */ text, /** @type {Rules} */ rules) => text.replace(rules.any.dropped, "");
const isOf = (/** @type {string} */ sign, /** @type {string} */ signs) => sign !== "" && signs.includes(sign);

/** The same parts, with numbers and signs as codes, amounts as the target language writes them.
 * @param {Part[]} parts @param {Rules} rules @returns {Part[]} */
export const markNumbers = (parts, rules) =>
  markCodes(parts, rules.any.numberOrSign, ({ 0: raw }) => ({ raw: writeAmount(raw, rules), kind: "alone" }));

/** $2,500.50 as $2.500,50 in German; a number without a currency or thousands stays.
 * @param {string} number @param {Rules} rules */
function writeAmount(number, { amounts }) {
  if (!amounts) return number;
  const [group, point, otherGroup, otherPoint] = amounts;
  const [g, p] = [group, point].map((sign) => sign.replace(/[.+*?^$|()[\]{}\\]/u, "\\$&"));
  const inner = `\\p{Nd}{1,3}(?:${g}\\p{Nd}{3})+(?:${p}\\p{Nd}+)?(?![\\p{Nd}${g}${p}])`;
  const amount = new RegExp(`[$¢-¥\\u20a0-\\u20cf]\\s?(?:${inner}|\\p{Nd}+${p}\\p{Nd}+$)|^${inner}`, "gu");
  const swap = (/** @type {string} */ sign) => (sign === group ? otherGroup : sign === point ? otherPoint : sign);
  return number.replace(amount, (found) => [...found].map(swap).join(""));
}

/** Where a text has a word, with no letter or digit next to it that could belong to it.
 * @param {string} word @param {string} text @param {Rules} rules */
export function findWord(word, text, rules) {
  const found = [];
  const isApart = (/** @type {string} */ next, /** @type {string} */ edge) =>
    !ANY_WORD.test(next) || [next, edge].some((sign) => rules.first.unspaced.test(sign));
  for (let at = text.indexOf(word); at >= 0 && word; at = text.indexOf(word, at + 1))
    if (isApart(text[at - 1] ?? "", word[0]) && isApart(text[at + word.length] ?? "", word.at(-1) ?? ""))
      found.push(at);
  return found;
}

/** With an `attempt`, which is 0 or 1, stand-ins are tried; null if there is nothing that they could stand for.
 * @param {Part[]} parts @param {Rules} rules @param {number | null} [attempt] @returns {Draft | null} */
export function makeDraft(parts, rules, attempt = null) {
  const isWord = (/** @type {Part} */ part) => typeof part !== "string" && standsForWord(part, rules);
  if (attempt !== null && !parts.some(isWord)) return null;
  if (parts.length === 1 && typeof parts[0] === "string")
    return { source: parts, text: normalizeSource(dropBreaks(parts[0], rules)), marks: [], words: [] };
  const builder = new DraftBuilder(parts, rules, attempt);
  builder.build();
  return attempt !== null && !builder.draft.words.length ? null : builder.draft;
}

class DraftBuilder {
  /** @param {Part[]} parts @param {Rules} rules @param {number | null} attempt */
  constructor(parts, rules, attempt) {
    this.rules = rules;
    this.attempt = attempt;
    /** @type {Draft} */
    this.draft = { source: parts, text: "", marks: [], words: [] };
    const kept = parts.filter((part) => typeof part === "string" || !rules.whole.dropped.test(part.raw));
    const read = kept.map((part) =>
      typeof part === "string" ? dropBreaks(part, rules).replace(/\s+/gu, " ") : part,
    );
    const plain = read.filter((part) => typeof part === "string").join("");
    const [alone, word, tag] = unusedSigns(plain, 3);
    this.signs = { alone, word, tag };
    /** @param {Code} code */
    const signOf = (code) => (code.kind !== "alone" ? tag : standsForWord(code, rules) ? word : alone);
    this.coded = read.map((part) => (typeof part === "string" ? part : signOf(part))).join("");
    this.codes = /** @type {IterableIterator<Code>} */ (read.filter((part) => typeof part !== "string").values());
    const start = 2 * (attempt ?? 0); // each attempt begins with others
    const free = (/** @type {string[]} */ words) =>
      [...words.slice(start), ...words.slice(0, start)].filter((one) => !findWord(one, plain, rules).length).values();
    this.names = free(rules.names);
    this.counts = free(rules.counts);
    const first = this.coded.search(/[\p{L}\p{N}]/u);
    this.first = first < 0 ? this.coded.length : first;
    this.last = [...this.coded.matchAll(/[\p{L}\p{N}]/gu)].at(-1)?.index ?? -1;
    this.space = false;
    this.afterRun = false;
    /** Tags that nothing closes yet. @type {Mark[]} */ this.opened = [];
  }

  build() {
    let at = 0;
    for (const [start, end] of this.runs()) {
      this.addText(this.coded.slice(at, start));
      this.addRun(start, end);
      at = end;
    }
    this.addText(this.coded.slice(at));
  }

  /** Where codes with nothing but signs between them are, with brackets round them; at an end of the text with what
   * divides them from it. @returns {Generator<[number, number]>} */
  *runs() {
    const { alone, word, tag } = this.signs;
    const text = this.coded;
    const ending = `(?:(?<=${word})(?:${this.rules.endings})(?![\\p{L}\\p{N}]))?`;
    const one = `(?:(?<![\\p{L}\\p{N}])[vx](?=${word}))?[${alone}${word}]${ending}`;
    const between = `(?:[^\\p{L}\\p{N}_\\s${alone}${word}${tag}]{0,3}|\\s?[,;/|&+–—-]\\s)`;
    let done = 0;
    for (const match of text.matchAll(new RegExp(`${one}(?:${between}${one})*|${tag}`, "gu"))) {
      let [start, end] = [match.index, match.index + match[0].length];
      if (match[0] !== tag) {
        while (start > done && BRACKETS.includes(text[start - 1] + (text[end] ?? ""))) {
          start -= 1;
          end += 1;
        }
        const behind = text.slice(end);
        if (end <= this.first) end += behind.match(/^[:;,|/–—-]+(?=\s)/u)?.[0].length ?? 0;
        if (start > this.last) start = beforeSeparator(text, done, start);
        if (isOf(text.slice(done, start).trimEnd().slice(-1), SEPARATORS))
          end += text.slice(end).match(/^\s?[:;,|/–—-]+(?=\s)/u)?.[0].length ?? 0;
      }
      yield [start, end];
      done = end;
    }
  }

  /** @param {string} text */
  addText(text) {
    const { draft, rules } = this;
    if (!text) return;
    let rest = text;
    if (rest[0] === " ") {
      this.space = draft.text !== "" && !(this.afterRun && isOf(draft.text.slice(-1), rules.opening));
      rest = rest.slice(1);
    }
    if (!rest) return;
    if (this.space && !(this.afterRun && isOf(rest[0], rules.afterWords))) draft.text += " ";
    draft.text += rest.trimEnd();
    this.space = rest.endsWith(" ");
    this.afterRun = false;
  }

  /** @param {number} start @param {number} end */
  addRun(start, end) {
    const { coded, signs, draft, rules } = this;
    const withoutTags = (/** @type {string} */ text) => text.replaceAll(signs.tag, "");
    const [left, right] = [withoutTags(coded.slice(0, start)).slice(-1), withoutTags(coded.slice(end)).slice(0, 1)];
    const isCode = (/** @type {string} */ sign) => Object.values(signs).includes(sign);
    const parts = [...coded.slice(start, end)].map((sign) => (isCode(sign) ? this.codes.next().value : sign));
    const [code] = parts;
    const tag = coded[start] === signs.tag ? code.kind : "";
    /** @type {Mark} */
    const mark = { parts, start: draft.text.length, left, right, tag };
    const isOne = parts.length === 1 && coded[start] === signs.word;
    const word = this.attempt !== null && isOne ? this.standIn(mark, end) : null;
    if (word) {
      draft.words.push([word, mark]);
      return this.addText(word);
    }
    draft.marks.push(mark);
    if (tag === "opens") this.opened.push(mark);
    if (tag === "closes") {
      const name = pairName(code, rules);
      const at = this.opened.findLastIndex(({ parts: [one] }) => pairName(/** @type {Code} */ (one), rules) === name);
      if (at >= 0) mark.other = this.opened.splice(at)[0];
      if (mark.other) mark.other.other = mark;
    }
    if (tag) return undefined;
    this.afterRun = true;
    if (ANY_WORD.test(left) && ANY_WORD.test(right) && !rules.first.unspaced.test(left)) this.space = true;
    return undefined;
  }

  /** @param {Mark} mark @param {number} end @returns {string | null} */
  standIn(mark, end) {
    const { rules, coded, signs } = this;
    const isFree = ` "'${rules.opening}`.includes(mark.left) && ` "'“${rules.afterWords}`.includes(mark.right);
    if (!isFree) return null;
    const raw = joinParts(mark.parts);
    const isCount = raw.search(rules.any.count) >= 0 || rules.whole.numberOrSign.test(raw);
    const isTitle = end <= this.first && /^\p{Uppercase}/u.test(coded.slice(end).replaceAll(signs.tag, "").trim());
    if (isTitle && !isCount) return null; // "%s The house is big."
    return (isCount !== (this.attempt === 2) ? this.counts : this.names).next().value ?? null;
  }
}

/** Where the signs begin, with a space, that divide a part of a text from what follows.
 * @param {string} text @param {number} start @param {number} end */
function beforeSeparator(text, start, end) {
  const part = text.slice(start, end).trimEnd();
  const without = part.replace(/[:;,|/–—-]+$/u, "");
  return part === without ? end : start + without.trimEnd().length;
}
