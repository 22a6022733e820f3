// @ts-check
/** What an engine answers, and how a text is cut for it. Knows nothing of the document.
 *
 * An engine has `directions` and `translate`, and perhaps `names` of languages; `refine`, which adds words to
 * results; `explain`, which gives the address of a page on a sentence; `files`, which translates whole files. */

/**
 * @typedef {[start: number, end: number]} Range
 * @typedef {{text: string, start: number, end: number, confidence: number | null, sources: Range[],
 *   token?: number}} Word offsets in its sentence's text, `sources` in its source; `token`: the first one of it
 * @typedef {{source: string, text: string, words: Word[], alternatives: {text: string, score: number}[],
 *   confidence?: number | null, doubt?: string | null}} Sentence
 * @typedef {{text: string, sentences: Sentence[], check: string[]}} Result
 * @typedef {{source?: string, target: string, nBest?: number, prefix?: string, differAt?: string,
 *   glossary?: string[][], signal?: AbortSignal, onPartial?: (index: number, text: string) => void,
 *   onProgress?: (done: number, total: number) => void}} Options `differAt`: the word behind the prefix that the
 *   alternatives do not have
 * @typedef {{line: number, source: string, text: string, remark: string}} Check
 * @typedef {{name: string, content: BlobPart, checks: Check[]}} Done
 * @typedef {{directions: {source: string, target: string}[], names?: Record<string, string>, limit?: number,
 *   translate: (texts: string[], options: Options) => Promise<Result[]>,
 *   refine?: (texts: string[], results: Result[], options: Options) => Promise<Result[]>,
 *   explain?: (sentence: Sentence, word: Word | null, options: Options) => string,
 *   files?: {endings: string[], translate: (file: File, options: Options) => Promise<Done>}}} Engine
 * @typedef {{source: string, start: number, gap: string}} Piece of the text: where it starts, what stands before it
 */

const LONG = 1000;
const SENTENCE =
  /\S(?:.{60,2000}?(?:[.!?…]+["'”’»)\]]*(?=\s+[\p{Lu}\p{N}"“(])|[。！？]+["'”’」』）»)\]]*)|.{2000}\S*|.*\S|)/gu;

/** The lines of a text, each in the pieces that are translated by themselves: one, or the sentences of a long line.
 * @param {string} text @returns {Piece[][]} */
export function cutText(text) {
  let begin = 0;
  return text.split("\n").map((line) => {
    const sources = line.length > LONG ? (line.match(SENTENCE) ?? []) : line.trim() ? [line.trim()] : [];
    let end = 0;
    const pieces = sources.map((source) => {
      const start = line.indexOf(source, end);
      const gap = line.slice(end, start);
      end = start + source.length;
      return { source, start: begin + start, gap };
    });
    begin += line.length + 1;
    return pieces;
  });
}

/** Where parts stand in a text, one behind the other.
 * @param {string} text @param {string[]} parts @returns {Range[]} */
export function findParts(text, parts) {
  let end = 0;
  return parts.map((part) => {
    const start = text.indexOf(part, end);
    if (start < 0) return [end, end];
    end = start + part.length;
    return [start, end];
  });
}

/** The words and signs of a text, without spaces. @param {string} text @returns {Range[]} */
export function findWords(text) {
  const found = [...new Intl.Segmenter(undefined, { granularity: "word" }).segment(text)];
  return found
    .filter((one) => one.segment.trim())
    .map(({ index, segment }) => /** @type {Range} */ ([index, index + segment.length]));
}

/** Where each token stands in a text, null for those that are not there, and the tokens that end a sentence.
 * @param {string[]} tokens @param {string} text */
export function placeTokens(tokens, text) {
  const low = text.toLowerCase();
  const folded = low.length === text.length ? low : text;
  /** @type {number[]} */
  const ends = [];
  let at = 0;
  const spans = tokens.map((token, number) => {
    if (token === "</s>") ends.push(number);
    const wanted = token.replace(/^(▁|##|Ġ)|(<\/w>|▁)$/g, "").toLowerCase();
    const start = token === "</s>" || !wanted ? -1 : folded.indexOf(wanted, at);
    if (start < 0 || start > at + 40) return null;
    at = start + wanted.length;
    return /** @type {Range} */ ([start, at]);
  });
  return { spans, ends };
}

/** The result with another translation of one of its sentences. @param {Result} result @param {Sentence} sentence
 * @param {Sentence} other @returns {Result} */
export function replaceSentence(result, sentence, other) {
  const at = result.sentences.indexOf(sentence);
  const [start, end] = findParts(
    result.text,
    result.sentences.map((one) => one.text),
  )[at];
  const text = result.text.slice(0, start) + other.text + result.text.slice(end);
  return { ...result, text, sentences: result.sentences.map((one) => (one === sentence ? other : one)) };
}
