// @ts-check
/** Codes in a text, such as {name}, %d, <b> or an address, by the patterns of `glassformer/text/codes/`, which the
 * file carries: a translation keeps them as they are. A text is a row of parts, strings and codes. */

/** @typedef {{raw: string, kind: "opens" | "closes" | "alone"}} Code */
/** @typedef {string | Code} Part */
/** @typedef {Record<string, RegExp>} Patterns */
/** @typedef {{any: Patterns, whole: Patterns, first: Patterns, names: string[], counts: string[], endings: string,
 *   pictures: string, joins: string, opening: string, afterWords: string, closing: string, stops: string,
 *   written: Record<string, string>, emptyTags: string[], alike: string[], abbreviations: Set<string>,
 *   amounts: string[] | null}} Rules any, whole, first: what finds a pattern in a text, meets all of it, or its
 *   start */

export const ANY_WORD = /[\p{L}\p{N}]/u;

/** What `page/text_rules.py` packs. @param {any} packed @returns {Rules} */
export function readRules({ patterns, abbreviations, ...lists }) {
  const compile = (/** @type {string} */ before, /** @type {string} */ after, /** @type {string} */ more) =>
    Object.fromEntries(
      Object.entries(/** @type {Record<string, [string, string]>} */ (patterns)).map(([name, [source, flags]]) => [
        name,
        new RegExp(before + source + after, flags + more),
      ]),
    );
  const [any, whole, first] = [compile("", "", "g"), compile("^(?:", ")$", ""), compile("^(?:", ")", "")];
  return { ...lists, any, whole, first, abbreviations: new Set(abbreviations) };
}

/** The text with its codes as they are. @param {Part[]} parts */
export const joinParts = (parts) => parts.map((part) => (typeof part === "string" ? part : part.raw)).join("");

/** @param {Part[]} parts */
export const hasWords = (parts) => parts.some((part) => typeof part === "string" && /\p{L}/u.test(part));

/** The same parts, with what a pattern finds in their text as codes.
 * @param {Part[]} parts @param {RegExp} pattern @param {(match: RegExpMatchArray) => Code} code @returns {Part[]} */
export const markCodes = (parts, pattern, code) =>
  parts.flatMap((part) => {
    if (typeof part !== "string") return [part];
    /** @type {Part[]} */
    const found = [];
    let at = 0;
    for (const match of part.matchAll(pattern)) {
      found.push(part.slice(at, match.index), code(match));
      at = /** @type {number} */ (match.index) + match[0].length;
    }
    return [...found, part.slice(at)].filter((one) => one !== "");
  });

/** @param {string} text @param {Rules} rules @returns {Part[]} */
export function findCodes(text, rules) {
  const closing = new Set([...text.matchAll(/\[\/([\p{L}\p{N}_.-]+)\]/gu)].map((found) => found[1]));
  /** @param {RegExpMatchArray} match @returns {Code} */
  const code = ({ 0: raw, groups = {} }) => {
    const isEmpty = raw.endsWith("/>") || rules.emptyTags.some((tag) => raw.toLowerCase().startsWith(tag));
    const name = groups.square && raw.match(/^\[\/?([\p{L}\p{N}_.-]+)/u);
    if (!((groups.tag && !isEmpty) || (name && closing.has(name[1])))) return { raw, kind: "alone" };
    return { raw, kind: raw[1] === "/" ? "closes" : "opens" };
  };
  const once = markCodes([text], rules.any.placeholder, code);
  return once.length > 1 ? markCodes(once, rules.any.placeholder, code) : once;
}

/** Whether a word of the sentence may be behind a code. @param {Code} code @param {Rules} rules */
export function standsForWord({ raw, kind }, rules) {
  if (rules.whole.addressTag.test(raw) || ["{}", "#"].includes(raw)) return true;
  return kind === "alone" && /[\p{L}\p{N}]/u.test(raw.replace(rules.any.wordless, ""));
}

/** What an opening and its closing code have in common. @param {Code} code @param {Rules} rules */
export const pairName = ({ raw }, rules) => raw.match(rules.first.tagName)?.[1] ?? "";

/** Signs of private use that a text does not have. @param {string} text @param {number} count */
export function unusedSigns(text, count) {
  const found = [];
  for (let sign = 0xe000; sign < 0xf900 && found.length < count; sign++)
    if (!text.includes(String.fromCharCode(sign))) found.push(String.fromCharCode(sign));
  return found;
}

/** The text in which each code is one sign, and what these stand for.
 * @param {Part[]} parts @returns {{coded: string, codes: Map<string, Code>}} */
export function replaceCodes(parts) {
  const found = parts.filter((part) => typeof part !== "string");
  const signs = found.length ? unusedSigns(joinParts(parts), found.length) : [];
  const codes = new Map(signs.map((sign, at) => [sign, /** @type {Code} */ (found[at])]));
  const left = signs.values();
  return { coded: parts.map((part) => (typeof part === "string" ? part : left.next().value)).join(""), codes };
}

/** @param {string} text @param {Map<string, Code>} codes @returns {Part[]} */
export const restoreCodes = (text, codes) =>
  text
    .split(codes.size ? new RegExp(`([${[...codes.keys()].join("")}])`, "u") : /(?!)/u)
    .filter((piece) => piece !== "")
    .map((piece) => codes.get(piece) ?? piece);
