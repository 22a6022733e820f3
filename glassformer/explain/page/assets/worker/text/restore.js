// @ts-check
/** The way back that needs the model's attention: which word was written from which, where codes go, and what a
 * translation has lost. `glassformer/decoding/restore/`, and `text/codes/checks.py`. */

import { ANY_WORD, joinParts } from "./codes.js";
import { findWord } from "./draft.js";

/** @typedef {import("./codes.js").Part} Part */
/** @typedef {import("./codes.js").Rules} Rules */
/** @typedef {import("./draft.js").Draft} Draft */
/** @typedef {import("./draft.js").Mark} Mark */
/** @typedef {[number, number]} Span */

/** Where the words of a text are; in scripts without spaces each character is one.
 * @param {string} text @param {Rules} rules @returns {Span[]} */
export const findSpans = (text, rules) =>
  [...text.matchAll(rules.any.word)].flatMap(({ 0: word, index }) => {
    if (word.search(rules.any.unspaced) < 0) return [/** @type {Span} */ ([index, index + word.length])];
    return [...word.matchAll(rules.any.piece)].map(
      (one) => /** @type {Span} */ ([index + one.index, index + one.index + one[0].length]),
    );
  });

/** For each token the words that it has letters of; of words with spaces between them only the last.
 * @param {string} text @param {Span[]} words @param {number[]} ends of the tokens @returns {number[][]} */
export function wordsOfTokens(text, words, ends) {
  let [start, word] = [0, 0];
  return ends.map((end) => {
    let last = end - 1;
    while (last >= start && !ANY_WORD.test(text[last] ?? "") && !/[\ud800-\udfff]/.test(text[last] ?? "")) last -= 1;
    while (last >= start && word < words.length - 1 && words[word][1] <= last) word += 1;
    let first = word;
    const isNone = last < start || !words.length || last < words[word][0] || last >= words[word][1];
    while (!isNone && first && words[first - 1][0] >= start && words[first - 1][1] === words[first][0]) first -= 1;
    start = end;
    return isNone ? [] : Array.from({ length: word + 1 - first }, (_, at) => first + at);
  });
}

/** @typedef {{source: string, target: string, srcEnds: number[], tgtEnds: number[], links: number[]}}
 *   Aligned what the model read and wrote, where the tokens of both end, and the source token that each target token
 *   attends to most */

/** For each word of a translation the word of the source that it was most written from. */
export class Alignment {
  /** @param {Aligned} of @param {Rules} rules */
  constructor({ source, target, srcEnds, tgtEnds, links }, rules) {
    this.srcWords = findSpans(source, rules);
    this.tgtWords = findSpans(target, rules);
    this.tgtOf = wordsOfTokens(target, this.tgtWords, tgtEnds);
    const srcOf = wordsOfTokens(source, this.srcWords, srcEnds);
    /** @type {number[][]} */
    const votes = this.tgtWords.map(() => []);
    links.forEach((src, tgt) => {
      const from = srcOf[src]?.at(-1);
      if (from !== undefined) for (const word of this.tgtOf[tgt] ?? []) votes[word].push(from);
    });
    const count = (/** @type {number[]} */ of, /** @type {number} */ one) =>
      of.filter((other) => other === one).length;
    this.owners = votes.map((of) => of.reduce((a, b) => (count(of, b) > count(of, a) ? b : a), of[0] ?? -1));
  }
}

/** The translation with its codes, and what is unsure; null unless it has each stand-in once, those of one kind in
 * order. @param {Draft} draft @param {string} text @param {() => Alignment} align @param {Rules} rules
 * @returns {{parts: Part[], flags: string[]} | null} */
export function restoreDraft(draft, text, align, rules) {
  if (text === draft.text) return { parts: draft.source, flags: [] };
  if (!draft.marks.length && !draft.words.length) return { parts: text ? [text] : [], flags: [] };
  /** @type {{start: number, end: number, mark: Mark, isWord: boolean}[]} */
  const placed = [];
  for (const [word, mark] of draft.words) {
    const found = findWord(word, text, rules);
    if (found.length !== 1) return null;
    placed.push({ start: found[0], end: found[0] + word.length, mark, isWord: true });
  }
  const ordered = placed.filter(({ mark }) => isPositional(joinParts(mark.parts), rules));
  if (ordered.some(({ start }, at) => at > 0 && start < ordered[at - 1].start)) return null;
  /** @type {Set<string>} */
  const unsure = new Set();
  let end = 0;
  const spans = draft.marks.map((mark, number) => {
    const pair = mark.other && pairSpan(draft, mark.tag === "opens" ? mark : mark.other, text, align, rules);
    const place = pair && pair[mark.tag === "opens" ? 0 : 1];
    const span = place === undefined ? placeOf(draft, mark, text, align, rules, unsure) : [place, place];
    return { span: /** @type {Span} */ (span), number };
  });
  spans.sort((a, b) => a.span[0] - b.span[0] || a.span[1] - b.span[1] || a.number - b.number);
  for (const { span, number } of spans) {
    const start = Math.max(end, span[0]);
    end = Math.max(start, span[1]);
    placed.push({ start, end, mark: draft.marks[number], isWord: false });
  }
  placed.sort((a, b) => a.start - b.start || Number(a.isWord) - Number(b.isWord));
  const flags = [...unsure].map((label) => `${label} may stand in a wrong place`);
  return { parts: inOrder(draft.source, writeParts(text, placed, rules), rules), flags };
}

/** @param {string} raw @param {Rules} rules */
const isPositional = (raw, rules) => rules.whole.positional.test(raw);

/** The codes that a program fills one after another, in their order. @param {Part[]} source @param {Part[]} parts
 * @param {Rules} rules @returns {Part[]} */
function inOrder(source, parts, rules) {
  const isOne = (/** @type {Part} */ part) => typeof part !== "string" && isPositional(part.raw, rules);
  const wanted = source.filter(isOne).values();
  return parts.map((part) => (isOne(part) ? (wanted.next().value ?? part) : part));
}

/** How many characters at the start of a text have the signs of another one, spaces apart.
 * @param {string} found @param {string} wanted @param {Rules} rules */
function sharedSigns(found, wanted, { alike }) {
  const signs = wanted.replace(/\s/gu, "");
  let [place, at] = [0, 0];
  for (let number = 0; number < found.length; number++) {
    if (/\s/u.test(found[number])) continue;
    const other = signs[at++] ?? " ";
    const isAlike = alike.some((kind) => kind.includes(found[number]) && kind.includes(other));
    if (found[number] !== other && !isAlike) break;
    place = number + 1;
  }
  return place;
}

const reversed = (/** @type {string} */ text) => [...text].reverse().join("");

/** What stands before the first word of a text and behind the last one. @param {string} text */
const signsAround = (text) => {
  const words = text.match(/[\p{L}\p{N}](?:.*[\p{L}\p{N}])?/su);
  return words ? [text.slice(0, words.index), text.slice((words.index ?? 0) + words[0].length)] : [text, text];
};

/** Where what a pair of tags encloses stands in a translation: round the words that were written from it, side by
 * side, and as many of the signs next to them as it has itself; undefined where none seem to be.
 * @param {Draft} draft @param {Mark} opening @param {string} text @param {() => Alignment} align @param {Rules} rules
 * @returns {Span | undefined} */
function pairSpan(draft, opening, text, align, rules) {
  const [first, last] = [opening.start, opening.other?.start ?? 0];
  const [before, inner, after] = [draft.text.slice(0, first), draft.text.slice(first, last), draft.text.slice(last)];
  if (!ANY_WORD.test(inner)) return undefined;
  const around = signsAround(text);
  const isAll = !ANY_WORD.test(before) && !ANY_WORD.test(after);
  const span = isAll ? [around[0].length, text.length - around[1].length] : linkedSpan(first, last, align());
  if (!span) return undefined;
  const [left, right] = [signsAround(text.slice(0, span[0]))[1], signsAround(text.slice(span[1]))[0]];
  const own = signsAround(inner);
  const isFirst = !before.trim() && left.length === span[0];
  const isLast = !after.trim() && right.length === text.length - span[1];
  return [
    isFirst ? 0 : span[0] - sharedSigns(reversed(left), reversed(own[0]), rules),
    isLast ? text.length : span[1] + sharedSigns(right, own[1], rules),
  ];
}

/** The longest run of words that were written from a part of the source.
 * @param {number} first @param {number} last @param {Alignment} alignment @returns {Span | undefined} */
function linkedSpan(first, last, { srcWords, tgtWords, owners }) {
  const isInside = (/** @type {number} */ word) => srcWords[word]?.[1] > first && srcWords[word][0] < last;
  /** @type {number[][]} */
  const groups = [];
  let reached = -2; // the end of the last group, with words behind it that no word of the source owns
  owners.forEach((owner, word) => {
    if (isInside(owner)) {
      if (reached !== word - 1) groups.push([]);
      groups[groups.length - 1].push(word);
    }
    if (isInside(owner) || (owner < 0 && reached === word - 1)) reached = word;
  });
  const [best] = groups.sort((a, b) => b.length - a.length);
  return best && best.length < tgtWords.length ? [tgtWords[best[0]][0], tgtWords[best.at(-1) ?? 0][1]] : undefined;
}

/** Where a mark goes in a translation: at an end where it is at one, else where the words next to it are.
 * @param {Draft} draft @param {Mark} mark @param {string} text @param {() => Alignment} align @param {Rules} rules
 * @param {Set<string>} unsure @returns {Span} */
function placeOf(draft, mark, text, align, rules, unsure) {
  const [before, after] = [draft.text.slice(0, mark.start), draft.text.slice(mark.start)];
  const all = text.match(/[\p{L}\p{N}](?:.*[\p{L}\p{N}])?/su);
  const first = all?.index ?? 0;
  const last = all ? first + all[0].length : text.length;
  if (!ANY_WORD.test(before)) {
    const place = sharedSigns(text.slice(0, first), before, rules);
    return [place, place];
  }
  if (!ANY_WORD.test(after)) {
    const place = text.length - sharedSigns(reversed(text.slice(last)), reversed(after), rules);
    return [place, place];
  }
  return betweenWords(draft, mark, text, align(), rules, unsure);
}

/** @param {Draft} draft @param {Mark} mark @param {string} text @param {Alignment} alignment @param {Rules} rules
 * @param {Set<string>} unsure @returns {Span} */
function betweenWords(draft, mark, text, { srcWords, tgtWords, owners }, rules, unsure) {
  const label = joinParts(mark.parts);
  const numbers = srcWords.map((_, number) => number);
  const before = numbers.filter((word) => srcWords[word][1] <= mark.start);
  const after = numbers.filter((word) => srcWords[word][0] >= mark.start);
  const find = (/** @type {number[]} */ words) => {
    const n = words.findIndex((word) => owners.includes(word));
    return n < 0 ? null : { word: words[n], n };
  };
  const [behind, ahead] = [find([...before].reverse()), find(after)];
  if (!behind && !ahead) {
    unsure.add(label);
    const share = Math.round((tgtWords.length * before.length) / Math.max(1, srcWords.length));
    const place = tgtWords[Math.min(tgtWords.length - 1, share)]?.[0] ?? text.length;
    return [place, place];
  }
  if (Math.min(...[behind, ahead].map((one) => one?.n ?? Infinity)) > 0) unsure.add(label);
  const end = behind ? tgtWords[owners.lastIndexOf(behind.word)][1] : -1;
  const start = ahead ? tgtWords[owners.indexOf(ahead.word)][0] : -1;
  if (ahead && mark.tag === "opens") return [start, start];
  if (behind && mark.tag === "closes") return [end, end];
  if (behind && ahead && end <= start && !ANY_WORD.test(text.slice(end, start)))
    return inGap(draft, mark, text, end, start, rules);
  const touches = !/\s/u.test(mark.left) && !rules.opening.includes(mark.left);
  const stays = rules.afterWords.includes(mark.right) || (touches && /\s/u.test(mark.right));
  return behind && (!ahead || stays || behind.n < ahead.n) ? [end, end] : [start, start];
}

/** Between two words that stand side by side as those of the source do.
 * @param {Draft} draft @param {Mark} mark @param {string} text @param {number} end @param {number} start
 * @param {Rules} rules @returns {Span} */
function inGap(draft, mark, text, end, start, rules) {
  const gap = text.slice(end, start);
  const [left, right] = [ANY_WORD.test(mark.left), ANY_WORD.test(mark.right)];
  if (gap === " " && left && right) return [end, start]; // the source has no space there
  if (right && !left) return [start, start];
  const signs = draft.text.slice(0, mark.start).match(/[^\p{L}\p{N}]*$/u)?.[0] ?? "";
  const place = end + sharedSigns(gap, signs, rules);
  return [place, place];
}

/** The parts of a translation, with a space where a code would touch a word that it must not touch.
 * @param {string} text @param {{start: number, end: number, mark: Mark, isWord: boolean}[]} placed
 * @param {Rules} rules @returns {Part[]} */
function writeParts(text, placed, rules) {
  /** @type {Part[]} */
  const parts = [];
  let at = 0;
  let last = "";
  /** @type {Mark | null} */
  let run = null;
  const isApart = (/** @type {string} */ next, /** @type {string} */ neighbour, /** @type {string} */ edge) => {
    const isLetter = (/** @type {string} */ sign) => ANY_WORD.test(sign);
    if (rules.first.unspaced.test(next)) return isLetter(edge) && !rules.first.unspaced.test(edge);
    return /^\s$/u.test(neighbour) || ((isLetter(next) || next === "_") && !isLetter(neighbour));
  };
  const addText = (/** @type {string} */ piece) => {
    if (!piece) return;
    const isNext = run && !` ${rules.afterWords}`.includes(piece[0]);
    if (run && isNext && isApart(piece[0], run.right, joinParts(run.parts).slice(-1))) parts.push(" ");
    parts.push(piece);
    last = piece.slice(-1);
    run = null;
  };
  for (const { start, end, mark, isWord } of placed) {
    addText(text.slice(at, start));
    at = Math.max(at, end);
    const raw = joinParts(mark.parts);
    if (!isWord && !mark.tag) {
      const apart = run !== null || (last && isApart(last, mark.left, raw[0]));
      if (apart && !/\s/u.test(last)) parts.push(" ");
    }
    parts.push(...mark.parts);
    if (mark.tag) continue;
    last = raw.slice(-1);
    run = mark;
  }
  addText(text.slice(at));
  return parts.filter((part) => part !== "");
}

/** The white space at the ends of the source, and none by a number that the source has not.
 * @param {Part[]} source @param {Part[]} output @param {Rules} rules @returns {Part[]} */
export function keepSpaces(source, output, rules) {
  const whole = joinParts(source);
  const [before] = whole.match(/^\s*/u) ?? [""];
  const after = whole.trim() ? (whole.match(/(?<!\s)\s*$/u)?.[0] ?? "") : "";
  const mended = whole.search(rules.any.letterAndDigit) < 0;
  const parts = output.map((part, at) => {
    if (typeof part !== "string") return part;
    let text = mended ? part.replace(rules.any.letterAndDigit, "$& ") : part;
    if (at === 0) text = text.trimStart();
    return at === output.length - 1 ? text.trimEnd() : text;
  });
  return [before, ...parts, after].filter((part) => part !== "");
}

// ------------------------------------------------------------------------------------------------------ what is lost

/** In words, the numbers, codes and signs that an output does not have as often as its source.
 * @param {Part[]} source @param {Part[]} output @param {Rules} rules @returns {string[]} */
export function findChanges(source, output, rules) {
  const both = [source, output];
  const isCode = (/** @type {Part} */ part) =>
    typeof part !== "string"
    && rules.whole.ofCodes.test(part.raw)
    && !rules.whole.time.test(part.raw)
    && !rules.whole.dropped.test(part.raw);
  const texts = both.map((parts) =>
    parts
      .map((part) => (typeof part === "string" ? part : isCode(part) ? `\0${part.raw}\0` : part.raw))
      .join("")
      .replace(rules.any.dropped, "")
      .replace(rules.any.time, (_, hour, minutes, half) => `${(hour % 12) + (/p/iu.test(half) ? 12 : 0)}${minutes}`),
  );
  const all = (/** @type {RegExp} */ pattern) => texts.map((text) => text.match(pattern) ?? []);
  const numbers = all(rules.any.number).map((found) => found.map(plainNumber));
  const found = countChanges("the number ", numbers);
  const inOrder = both.map((parts) =>
    (
      parts
        .map((part) => (isCode(part) ? "" : joinParts([part])))
        .join(" ")
        .match(rules.any.number) ?? []
    ).map(plainNumber),
  );
  if (!found.length && inOrder[0].length === 2 && inOrder[0].join() !== inOrder[1].join())
    found.push(`the numbers ${inOrder[0][0]} and ${inOrder[0][1]} stand in another order`);
  const codes = countChanges(
    "",
    both.map((parts) => parts.filter(isCode).map((part) => joinParts([part]))),
  );
  if (codes.length) return [...found, ...codes];
  return [...found, ...[rules.any.run, rules.any.sign].flatMap((pattern) => countChanges("the sign ", all(pattern)))];
}

/** @param {string} what @param {string[][]} counted */
function countChanges(what, [before, after]) {
  const less = (/** @type {string[]} */ of, /** @type {string[]} */ others) => {
    const left = [...others];
    return of.filter((one) => !left.includes(one) || !left.splice(left.indexOf(one), 1)).sort();
  };
  return [
    ...less(before, after).map((one) => `${what}${one} is missing`),
    ...less(after, before).map((one) => `${what}${one} was added`),
  ];
}

/** A number as any language writes it. @param {string} number */
function plainNumber(number) {
  if (/^\p{Nd}+$/u.test(number)) return number;
  const digits = number.replace(/^[-\u2212\u2013% \u00a0\u202f]+|[-\u2212\u2013% \u00a0\u202f]+$/gu, "");
  const plain = digits.split("/").map((one) => {
    const groups = one.split(/[.,'\u2019\u00a0\u202f]/u);
    const marks = one.match(/\P{Nd}/gu) ?? [];
    const thousands = groups.slice(1).map((group) => group.length === 3);
    const isOneMark = new Set(marks).size === 1 && groups[0].length <= 3 && groups[0] !== "0";
    if (!marks.length || (thousands.every(Boolean) && isOneMark)) return groups.join("");
    const isPoint = marks.filter((mark) => mark === marks.at(-1)).length === 1;
    if (thousands.slice(0, -1).every(Boolean) && isPoint) return `${groups.slice(0, -1).join("")}.${groups.at(-1)}`;
    return groups.join(".");
  });
  return (/^[-\u2212\u2013]/u.test(number) ? "-" : "") + plain.join("/") + (number.endsWith("%") ? "%" : "");
}
