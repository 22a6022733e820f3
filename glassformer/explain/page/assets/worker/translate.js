// @ts-check
/** Whole texts to whole translations: sentences, searches, and where each word comes from. */

/** @typedef {{target?: string, nBest?: number, prefix?: string, glossary?: [string, string][], greedy?: boolean}}
 *   Options */
/** @typedef {import("./translator.js").TranslatedText} TranslatedText */
/** @typedef {import("./translator.js").TranslatedSentence} TranslatedSentence */

const WORD_RUN = /[\p{L}\p{M}\p{N}]+(?:['’.][\p{L}\p{M}\p{N}]+)*/gu;

export class TextTranslator {
  /** @param {import("./worker.js").PageWorker} worker */
  constructor(worker) {
    this.worker = worker;
  }

  /** @param {string[]} texts @param {Options} [options]
   * @returns {Generator<[number, string] | null, TranslatedText[]>} */
  *translate(texts, options = {}) {
    const found = [];
    for (const [number, text] of texts.entries()) {
      /** @type {TranslatedSentence[]} */
      const sentences = [];
      let at = 0;
      let written = "";
      for (const source of this.worker.split(text)) {
        const start = text.indexOf(source, at);
        written += text.slice(at, start);
        at = start + source.length;
        const one = { ...this.sentence(source, options), start, end: at };
        sentences.push(one);
        written += one.text;
        yield [number, written];
      }
      found.push({ text: written + text.slice(at), sentences, check: [] });
    }
    return found;
  }

  /** @param {string} source @param {Options} options */
  sentence(source, { nBest = 1, greedy = false }) {
    const { worker } = this;
    if (!/\p{L}/u.test(source)) return { source, text: source, words: [], alternatives: [], confidence: null };
    const { ids, text: read } = worker.encodeText("src", source);
    const { eos_id: eos, max_length: most } = worker.model.config;
    const settings = greedy ? { ...worker.decode, beam: 1 } : worker.decode;
    const beam = Math.max(settings.beam ?? 4, nBest);
    const search = worker.beam([...ids.slice(0, most - 1), eos], { ...settings, beam, n_best: nBest });
    const text = worker.decodeIds("tgt", search.best.ids).text;
    const alternatives = search.candidates.slice(1).map((one) => ({
      text: worker.decodeIds("tgt", one.ids).text,
      score: one.score,
    }));
    const judged = { source: read, target: text, ids: search.best.ids, logProb: search.best.log_prob };
    const words = [...text.matchAll(WORD_RUN)].map((word) => ({
      text: word[0],
      start: word.index,
      end: word.index + word[0].length,
      confidence: 1,
      sources: /** @type {[number, number][]} */ ([]),
    }));
    return { source, text, words, alternatives, confidence: worker.confidence(judged)?.[0] ?? null };
  }
}
