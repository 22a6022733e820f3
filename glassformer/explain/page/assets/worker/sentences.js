// @ts-check
/** The sentences of a typed text, as `glassformer/text/sentence_splitter.py` finds them, but for abbreviations: it
 * knows those of a library, this file a few of English. */

const SENTENCE_END = /(?<mark>[.!?…]+)["'”’»)\]]*(?=\s)|[。！？]+["'”’」』）»)\]]*/gu;
const INITIAL_OR_NUMBER = /(?:^|[\s.(["'“‘-])(?:\p{L}|\p{Nd}{1,2})\.$/u;
const ABBREVIATION =
  /(?:^|[\s(["'“‘])(?:Mr|Mrs|Ms|Dr|Prof|St|Jr|Sr|Capt|Gen|Col|Lt|Sgt|Rev|Mt|Inc|Ltd|Corp|Co|vs|etc|approx|dept|e\.g|i\.e|a\.m|p\.m)\.$/u;

/** At least one, without the spaces round them. @param {string} text @returns {string[]} */
export function splitSentences(text) {
  const found = [];
  let start = 0;
  for (const match of text.matchAll(SENTENCE_END)) {
    const end = match.index + match[0].length;
    const following = text
      .slice(end)
      .trimStart()
      .replace(/^[-–—]+\s*/u, "");
    const last = text.slice(start, end);
    if (!following || /^\p{Ll}/u.test(following)) continue;
    if (match[0] === "." && (INITIAL_OR_NUMBER.test(last) || ABBREVIATION.test(last))) continue;
    if (match[0] === "." && /^\p{Nd}/u.test(following) && /(?<!\p{L})\p{L}{1,4}\.$/u.test(last)) continue;
    found.push(last.trim());
    start = end;
  }
  return [...found, text.slice(start).trim()];
}
