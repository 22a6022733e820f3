// @ts-check
/** Codes in a typed text, such as {name}, %d, <b> or an address: those that people type most of what
 * `glassformer/text/codes/` finds. A model reads a text without them, with a name or a number where one of them
 * stands for a word. */

const CODE = new RegExp(
  [
    String.raw`(?:https?:\/\/|www\.)[^\s<>"'[\]]*[^\s<>"'.,;:!?)[\]]`,
    String.raw`(?<![\w.+-])[\w.+-]+@[\w-]+(?:\.[\w-]+)+`,
    "(?<!`)`(?!\\s)[^`\\n]+(?<!\\s)`(?!`)",
    String.raw`%(?:\(\w+\)|\d+\$)?[-+ 0#]*(?:\d+|\*)?(?:\.\d+)?[diouxXeEfFgGcsSrp@](?![A-Za-z])`,
    String.raw`[%#$]?\{{1,3}[^{}\n]*\}{1,3}`,
    String.raw`\$[A-Za-z_]\w*|(?<!\d)%[A-Za-z_]\w+%`,
    String.raw`&(?:#\d+|#x[0-9A-Fa-f]+|[A-Za-z]+);`,
    String.raw`<\/?(?:[A-Za-z][^<>\n]*|\d{1,3}\/?)>`,
  ].join("|"),
  "gu",
);
const LINE_BREAK = /^<\/?(?:br|hr|p|div|li)\b/i;
const WORDLESS = /^(?:<.*>|&.*;)$/s;
const COUNT = /%[^a-zA-Z%]*[diouxXeEfFgG]$|count|num|total|size|\bn\b/i;
const NAMES = ["Tom", "Berlin", "Peter", "Paris", "Anna", "Japan", "Robert", "London"];
const COUNTS = ["7", "12", "5", "30", "8", "15", "40", "3"];
const ANY_SIGN = /[\ue000-\uf8ff]/gu; // of private use
const LEFT_OUT = / ?[\ue000-\uf8ff](?=[.,;:!?…)\]}»”]|$)|[\ue000-\uf8ff]/gu;
const BEFORE_WORD = ` ([„“«"'`;
const AFTER_WORD = ` .,;:!?…)]”“»"'`;

/** A text with a sign of private use for each code, and the codes; a text that has such signs itself has none.
 * @param {string} text @returns {{coded: string, codes: Map<string, string>}} */
export function markCodes(text) {
  /** @type {Map<string, string>} */
  const codes = new Map();
  if (text.search(ANY_SIGN) >= 0) return { coded: text, codes };
  const coded = text.replace(CODE, (code) => {
    const sign = String.fromCharCode(0xe000 + (codes.size % 0x1900));
    codes.set(sign, code);
    return sign;
  });
  return { coded, codes };
}

/** The text as it was typed. @param {string} coded @param {Map<string, string>} codes */
export const restoreCodes = (coded, codes) => coded.replace(ANY_SIGN, (sign) => codes.get(sign) ?? sign);

/** A text without the codes that stand for no word, which are tags and entities.
 * @param {string} coded @param {Map<string, string>} codes */
export const dropTags = (coded, codes) =>
  coded.replace(ANY_SIGN, (sign) => {
    const code = codes.get(sign) ?? sign;
    return LINE_BREAK.test(code) ? " " : WORDLESS.test(code) ? "" : sign;
  });

/** What a model reads: a word for each code that seems to be one, and nothing for the others.
 * @param {string} coded without tags @param {Map<string, string>} codes */
export function readCodes(coded, codes) {
  if (!codes.size) return coded;
  const free = (/** @type {string[]} */ words) =>
    words.filter((word) => !new RegExp(`\\b${word}\\b`).test(coded)).values();
  const [names, counts] = [free(NAMES), free(COUNTS)];
  const first = coded.search(/[\p{L}\p{N}]/u);
  const filled = coded.replace(ANY_SIGN, (sign, /** @type {number} */ at) => {
    const isCount = COUNT.test(codes.get(sign) ?? "");
    const isApart = BEFORE_WORD.includes(coded[at - 1] ?? " ") && AFTER_WORD.includes(coded[at + 1] ?? " ");
    const isTitle = at < first && /^ *\p{Uppercase}/u.test(coded.slice(at + 1)) && !isCount;
    return (isApart && !isTitle && (isCount ? counts : names).next().value) || sign;
  });
  return filled.replace(LEFT_OUT, "").replace(/ +/gu, " ").trim();
}
