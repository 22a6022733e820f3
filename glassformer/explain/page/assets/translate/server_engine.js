// @ts-check
/** The engine that a server has: `/v1/translate` and the routes beside it, and nothing else. */
import { findWords, placeTokens } from "./result.js";

/** @typedef {import("./result.js").Result} Result */
/** @typedef {import("./result.js").Range} Range */
/** @typedef {import("./result.js").Options} Options */

const BUSY = new Set([429, 503]);
const MAX_WAITS = 3;
const IS_WORD = /[\p{L}\p{N}]/u;
const MOST_WORDS = 5; // that may stand in the place of one

/** Why there is no answer, in words for a person. */
export class EngineError extends Error {
  /** @param {string} message @param {"gone" | "key" | "refused"} kind */
  constructor(message, kind) {
    super(message);
    this.kind = kind;
  }
}

export class ServerEngine {
  /** @param {string} base the address of the server, which ends with a slash */
  constructor(base) {
    this.base = base;
    this.key = "";
    /** @type {{source: string, target: string}[]} */ this.directions = [];
    /** @type {Record<string, string>} */ this.names = {};
    this.limit = Infinity;
    /** @type {string[]} */ this.endings = [];
    this.files = { endings: this.endings, translate: this.translateFile.bind(this) };
  }

  /** Ask what the server has. */
  async open() {
    const [languages, settings] = await Promise.all([this.fetch("languages"), this.fetch("frontend/settings")]);
    for (const { code, name, targets } of await languages.json()) {
      this.names[code] = name;
      for (const target of targets) if (target !== code) this.directions.push({ source: code, target });
    }
    const { charLimit, supportedFilesFormat, filesTranslation } = await settings.json();
    if (charLimit > 0) this.limit = charLimit;
    if (filesTranslation) this.endings.push(...supportedFilesFormat);
    return this;
  }

  /** An answer of the server, whose status is good. Who is told to come again comes again.
   * @param {string} path @param {RequestInit} [options] @returns {Promise<Response>} */
  async fetch(path, options = {}, waits = 0) {
    const headers = { ...options.headers, ...(this.key ? { Authorization: `Bearer ${this.key}` } : {}) };
    let answer;
    try {
      answer = await fetch(this.base + path, { ...options, headers });
    } catch (error) {
      if (options.signal?.aborted) throw error;
      throw new EngineError("The server does not answer.", "gone");
    }
    if (answer.ok) return answer;
    const seconds = Number(answer.headers.get("Retry-After"));
    if (BUSY.has(answer.status) && seconds && seconds <= 10 && waits < MAX_WAITS) {
      await new Promise((resolve) => setTimeout(resolve, 1000 * seconds));
      options.signal?.throwIfAborted();
      return this.fetch(path, options, waits + 1);
    }
    const text = await answer.text();
    const kind = answer.status === 401 || answer.status === 403 ? "key" : answer.status >= 502 ? "gone" : "refused";
    throw new EngineError(messageOf(text) || `The server answers with status ${answer.status}.`, kind);
  }

  /** @param {string} path @param {Record<string, unknown>} asked @param {AbortSignal} [signal] */
  post(path, asked, signal) {
    const headers = { "Content-Type": "application/json" };
    return this.fetch(path, { method: "POST", headers, body: JSON.stringify(asked), signal });
  }

  /** @param {string[]} texts @param {Options} options @returns {Promise<Result[]>} */
  async translate(texts, options) {
    const { source = "auto", target, nBest = 1, prefix = "", differAt, glossary = [], signal, onPartial } = options;
    if (differAt) return [await this.differ(texts[0], prefix, differAt, options)];
    if (texts.length === 1 && nBest === 1 && !prefix && onPartial)
      return [await this.stream(texts[0], { source, target, glossary }, onPartial, signal)];
    const own = nBest > 1 || prefix ? { n_best: nBest, beam: Math.max(nBest, 4), prefix, alignment: true } : {};
    const asked = { text: texts, source, target, glossary, ...own };
    const { translations } = await (await this.post("v1/translate", asked, signal)).json();
    return translations.map((/** @type {any} */ answer, /** @type {number} */ at) => readAnswer(texts[at], answer));
  }

  /** Translations that begin alike and go on with other words than one. @param {string} text @param {string} prefix
   * @param {string} word @param {Options} options @returns {Promise<Result>} */
  async differ(text, prefix, word, { source = "auto", target, signal }) {
    const ban = [word];
    const alternatives = [];
    while (ban.length <= MOST_WORDS) {
      const asked = { text, source, target, prefix, ban, split_sentences: false };
      const [{ text: found, score }] = (await (await this.post("v1/translate", asked, signal)).json()).translations;
      const [next] = findWords(found.slice(prefix.length));
      const name = next && found.slice(prefix.length).slice(...next);
      if (!name || ban.includes(name) || !found.startsWith(prefix)) break;
      alternatives.push({ text: found, score });
      ban.push(name);
    }
    return { text, check: [], sentences: [{ source: text, text, words: [], alternatives }] };
  }

  /** @param {string} text @param {Record<string, unknown>} asked @param {(index: number, text: string) => void} show
   * @param {AbortSignal} [signal] @returns {Promise<Result>} */
  async stream(text, asked, show, signal) {
    const answer = await this.post("v1/translate", { text, ...asked, stream: true }, signal);
    let waiting = "";
    let shown = "";
    /** @type {ReadableStream<string>} */
    const pieces = /** @type {any} */ (answer.body).pipeThrough(new TextDecoderStream());
    const reader = pieces.getReader();
    for (;;) {
      const { done, value } = await reader.read().catch((error) => {
        throw signal?.aborted ? error : new EngineError("The server has stopped in the middle.", "gone");
      });
      if (done) throw new EngineError("The server has stopped in the middle.", "gone");
      const events = (waiting + value).split("\n\n");
      waiting = events.pop() ?? "";
      for (const event of events) {
        const [, kind, data] = /^event: (\w+)\ndata: (.*)$/s.exec(event) ?? [];
        if (kind === "translation") return readAnswer(text, JSON.parse(data));
        if (kind === "error") throw new EngineError(messageOf(data), "refused");
        show(0, (shown += JSON.parse(data).text));
      }
    }
  }

  /** The same results with their sentences, and which word was written from which.
   * @param {string[]} texts @param {Result[]} results @param {Options} options @returns {Promise<Result[]>} */
  async refine(texts, results, { source = "auto", target, signal }) {
    const asked = { text: texts, source, target, alignment: true };
    const { translations } = await (await this.post("v1/translate", asked, signal)).json();
    const found = translations.map((/** @type {any} */ answer, /** @type {number} */ at) => {
      const sentences = readSentences(texts[at], answer);
      return answer.text === results[at].text && sentences.length ? { ...results[at], sentences } : results[at];
    });
    await this.judge(found, { source, target, signal });
    return found;
  }

  /** Of several sentences, the confidence in each. @param {Result[]} results @param {Options} options */
  async judge(results, { source, target, signal }) {
    const all = results.flatMap(({ sentences }) => (sentences.length > 1 ? sentences : []));
    if (!all.length) return;
    const asked = { text: all.map((one) => one.source), source, target, split_sentences: false };
    const { translations } = await (await this.post("v1/translate", asked, signal)).json();
    all.forEach((one, at) =>
      Object.assign(one, one.text === translations[at].text ? judgement(translations[at]) : {}),
    );
  }

  /** The address of a page on the sentence. @param {import("./result.js").Sentence} sentence
   * @param {import("./result.js").Word | null} word @param {Options} options */
  explain(sentence, word, { source = "", target }) {
    const asked = new URLSearchParams({ text: sentence.source.replace(/\s+/g, " "), source, target });
    return `${this.base}v1/explain?${asked}#why&step=${word?.token ?? 0}`;
  }

  /** @param {File} file @param {Options} options @returns {Promise<import("./result.js").Done>} */
  async translateFile(file, { source = "auto", target, signal }) {
    const body = new FormData();
    for (const [name, value] of Object.entries({ source, target, file })) body.append(name, value);
    const answer = await (await this.fetch("translate_file", { method: "POST", body, signal })).json();
    const number = answer.translatedFileUrl.split("/").pop();
    const content = await (await this.fetch(`download_file/${number}`, { signal })).blob();
    return { name: file.name.replace(/(\.\w+)?$/, `_${target}$1`), content, checks: answer.check ?? [] };
  }
}

/** @param {string} base @returns {Promise<ServerEngine>} */
export const openServerEngine = (base) => new ServerEngine(base).open();

/** @param {string} text of an error response */
function messageOf(text) {
  try {
    const { error, message } = JSON.parse(text);
    return String(error?.message ?? error ?? message ?? "").replace(/^Invalid request: /, "");
  } catch {
    return "";
  }
}

/** @param {any} answer of the server, for one text */
const judgement = ({ confidence = null, doubt = null }) => ({ confidence, doubt: doubt?.text ?? null });

/** @param {string} source @param {any} answer @returns {Result} */
function readAnswer(source, answer) {
  const { text, check, hypotheses = [], alignment } = answer;
  const aligned = alignment ? readSentences(source, answer) : [];
  const whole =
    aligned.length === 1 ? aligned : [{ source, text, words: [], alternatives: [], ...judgement(answer) }];
  const alternatives = hypotheses.map((/** @type {any} */ one) => ({ text: one.text, score: one.score }));
  return { text, check, sentences: hypotheses.length ? [{ ...whole[0], alternatives }] : whole };
}

/** The sentences of an answer with an alignment: in its tokens each ends with </s>.
 * @param {string} source @param {any} answer @returns {import("./result.js").Sentence[]} */
function readSentences(source, answer) {
  const { text, hypotheses, source_tokens: sourceTokens, alignment } = answer;
  const [src, tgt] = [placeTokens(sourceTokens, source), placeTokens(hypotheses[0].tokens, text)];
  if (src.ends.length !== tgt.ends.length) return [];
  return src.ends.map((srcEnd, number) => {
    const [srcStart, tgtStart] = [src, tgt].map((side) => (number ? side.ends[number - 1] + 1 : 0));
    const from = spanOf(src, srcStart, srcEnd, source, number);
    const to = spanOf(tgt, tgtStart, tgt.ends[number], text, number);
    const letters = findWords(text.slice(...to)).filter((range) => IS_WORD.test(text.slice(...to).slice(...range)));
    const words = letters.map(([start, end]) => {
      const inside = (/** @type {number} */ at) => overlaps(tgt.spans[at], start + to[0], end + to[0]);
      const links = alignment.filter((/** @type {Range} */ [, at]) => at >= tgtStart && inside(at));
      const sources = findWords(source.slice(...from)).filter(([first, last]) =>
        links.some((/** @type {Range} */ [at]) => overlaps(src.spans[at], first + from[0], last + from[0])),
      );
      const first = tgt.spans.findIndex((_, at) => at >= tgtStart && inside(at));
      const token = first < 0 ? undefined : first - tgtStart;
      return { text: text.slice(to[0] + start, to[0] + end), start, end, confidence: null, sources, token };
    });
    const own = src.ends.length === 1 ? judgement(answer) : {};
    return { source: source.slice(...from), text: text.slice(...to), words, alternatives: [], ...own };
  });
}

/** @param {Range | null} span @param {number} start @param {number} end */
const overlaps = (span, start, end) => span !== null && span[0] < end && span[1] > start;

/** The characters of a sentence: from its first token, or the start of the text, to the first of the next.
 * @param {ReturnType<typeof placeTokens>} side @param {number} start @param {number} end @param {string} text
 * @param {number} number of the sentence @returns {Range} */
function spanOf(side, start, end, text, number) {
  const first = (/** @type {number} */ from) =>
    side.spans.slice(from).find((one) => one !== null)?.[0] ?? text.length;
  const from = number ? first(start) : 0;
  const own = text.slice(from, number === side.ends.length - 1 ? text.length : first(end + 1));
  return [from, from + own.trimEnd().length];
}
