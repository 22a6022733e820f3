// @ts-check
/** The worker: answers `{id, call, args}` with `{id, result}` or `{id, error}`. `load` comes first. What takes long
 * pauses between its steps, so that other calls come between, and `{cancel: id}` ends it. */

import { directLogits, logitLens, occlusion, runnerUp } from "./attribution.js";
import { readRules } from "./text/codes.js";
import { createConfidence } from "./confidence.js";
import { Kernel } from "./kernel.js";
import { createModel } from "./model.js";
import { beam, greedy, ignoredSettings, runToEnd } from "./search.js";
import { createTokenizer } from "./tokenizer.js";
import { readSentences, readSource, TextTranslator } from "./translate.js";
import { fromBase64, readWeights } from "../record/weights.js";

/** @typedef {import("./model.js").Recording} PassRecord */
/** @typedef {{config: any, weights: string | Uint8Array, tokenizers: {src: any, tgt: any}, decode?: any,
 *   confidence?: import("./confidence.js").Packed | null,
 *   plain_signs?: Record<string, string>, rules?: any, languages?: [string, string] | null}} Living */

/** What one page computes with; `calls` are what it answers. */
export class PageWorker {
  constructor() {
    /** @type {import("./model.js").Transformer | null} */
    this.loaded = null;
    /** @type {{src: import("./tokenizer.js").Tokenizer, tgt: import("./tokenizer.js").Tokenizer} | null} */
    this.tokenizers = null;
    /** @type {PassRecord | null} */
    this.last = null;
    /** The run's decode settings. @type {any} */
    this.decode = {};
    /** How texts are read. @type {import("./text/codes.js").Rules} */
    this.rules = readRules({ patterns: {}, abbreviations: [] });
    /** @type {[string, string] | null} */
    this.languages = null;
    /** The target languages of a model of several. @type {string[]} */
    this.targets = [];
    /** How typographic signs are read that the model does not know. @type {Record<string, string>} */
    this.plainSigns = {};
    /** @type {ReturnType<typeof createConfidence>} */
    this.estimate = null;
    /** Why a translation is doubted, in words. @type {Record<string, string>} */
    this.reasons = {};
  }

  get model() {
    if (!this.loaded) throw new Error("load: expected before every other call.");
    return this.loaded;
  }

  /** What `page/weights.py` packs. Answers with the number of parameters, with the decode settings that the searches
   * leave out, and with the target languages of a model of several.
   * @param {Living} living */
  load({ config, weights, tokenizers, decode = {}, confidence = null, rules, languages = null, ...more }) {
    const read = readWeights(typeof weights === "string" ? fromBase64(weights) : weights);
    this.loaded = createModel(config, read, Kernel.create(read));
    this.readTexts(decode, rules, more.plain_signs ?? {});
    this.languages = languages;
    this.estimate = confidence && createConfidence(confidence);
    this.reasons = confidence?.reasons ?? {};
    const src = createTokenizer(tokenizers.src);
    this.tokenizers = { src, tgt: tokenizers.tgt === null ? src : createTokenizer(tokenizers.tgt) };
    this.targets = src.entries.flatMap((entry) => entry.match(/^▁?>>(.+)<<$/u)?.[1] ?? []);
    return { parameters: this.loaded.parameters, ignored: ignoredSettings(decode), targets: this.targets };
  }

  /** How texts are read: as the run's decode settings say. @param {any} decode @param {any} rules
   * @param {Record<string, string>} plainSigns */
  readTexts(decode, rules, plainSigns) {
    this.decode = rules ? decode : { ...decode, keep_codes: false, match_style: false, split_sentences: false };
    this.rules = readRules(rules ?? { patterns: {}, abbreviations: [] });
    this.plainSigns = plainSigns;
  }

  /** @param {"src" | "tgt"} side */
  tokenizer(side) {
    if (!this.tokenizers) throw new Error("load: expected before every other call.");
    return this.tokenizers[side];
  }

  /** The texts that are translated by themselves. @param {string} text */
  split(text) {
    const found = readSentences(this, text).map(({ source }) => source.trim());
    return found.length ? found : [""];
  }

  /** A source as the model reads it. @param {string} text */
  readSource(text) {
    return readSource(this, text);
  }

  /** With the text as the model reads it. @param {"src" | "tgt"} side @param {string} text */
  encodeText(side, text) {
    const read = side === "src" ? this.readSource(text) : text;
    return { text: read, ...this.tokenizer(side).encode(read) };
  }

  /** @param {"src" | "tgt"} side @param {number[]} ids */
  decodeIds(side, ids) {
    return { text: this.tokenizer(side).decode(ids), tokens: ids.map((id) => this.tokenizer(side).label(id)) };
  }

  /** The chance that a translation is good, and why it is doubted, if it is; null for a run without an estimate.
   * @param {import("./confidence.js").Judged} judged */
  confidence(judged) {
    return this.estimate?.(judged) ?? null;
  }

  /** One pass with teacher forcing: its record, which the attributions then use.
   * @param {number[]} srcIds @param {number[]} tgtInIds @param {{edits?: any[], srcMask?: any}} [options]
   * @returns {PassRecord} */
  pass(srcIds, tgtInIds, options = {}) {
    this.last = { taps: new Map() };
    this.model.forward(srcIds, tgtInIds, { ...options, record: this.last });
    return this.last;
  }

  /** @param {number[]} srcIds @param {import("./search.js").SearchOptions} [options] */
  *greedy(srcIds, options) {
    return yield* silently(greedy(this.model, srcIds, options));
  }

  /** @param {number[]} srcIds @param {import("./search.js").SearchOptions} [options] */
  *beam(srcIds, options) {
    return yield* silently(beam(this.model, srcIds, options));
  }

  /** @param {number[]} srcIds @param {number[]} tgtInIds @param {number} id
   * @param {{edits?: any[], srcMask?: any}} [options] */
  occlusion(srcIds, tgtInIds, id, options) {
    return occlusion(this.model, srcIds, tgtInIds, id, options);
  }

  /** Of the last `pass`, like the two that follow.
   * @param {number} position @param {number} id @param {any[]} [edits] */
  directLogits(position, id, edits) {
    return directLogits(this.model, this.record, position, id, edits);
  }

  /** @param {number} position @param {any[]} [edits] */
  runnerUp(position, edits) {
    return runnerUp(this.model, this.record, position, edits);
  }

  /** @param {number} position @param {{k?: number, edits?: any[]}} [options] */
  logitLens(position, options) {
    return logitLens(this.model, this.record, position, options);
  }

  get record() {
    if (!this.last) throw new Error("pass: expected before an attribution, which explains the last one.");
    return this.last;
  }

  /** Whole texts, with partial answers `[number, text]` on the way.
   * @param {string[]} texts @param {import("./translate.js").Options} [options] */
  translate(texts, options) {
    return new TextTranslator(this, options ?? {}).translate(texts);
  }

  /** The answer to one message, whatever time it takes.
   * @param {{id: unknown, call: string, args?: unknown[]}} message
   * @returns {{id: unknown, result?: any, error?: string}} */
  answer(message) {
    return runToEnd(this.steps(message));
  }

  /** The same step by step: its last value is the answer, others are partial ones, or none.
   * @param {{id: unknown, call: string, args?: unknown[]}} message @returns {Generator<any, any>} */
  *steps({ id, call, args = [] }) {
    const method = CALLS.has(call) ? /** @type {any} */ (this)[call] : null;
    if (!method) return { id, error: `call: found ${call}, expected one of ${[...CALLS].join(", ")}.` };
    try {
      const result = method.apply(this, args);
      return { id, result: typeof result?.next === "function" ? yield* result : result };
    } catch (error) {
      return { id, error: error instanceof Error ? error.message : String(error) };
    }
  }
}

/** The same pauses, with nothing to say. @param {import("./search.js").Steps} steps
 * @returns {Generator<null, import("./search.js").SearchResult>} */
function* silently(steps) {
  for (;;) {
    const { done, value } = steps.next();
    if (done) return value;
    yield null;
  }
}

const CALLS = new Set([
  "load",
  "split",
  "encodeText",
  "decodeIds",
  "confidence",
  "pass",
  "greedy",
  "beam",
  "occlusion",
  "directLogits",
  "runnerUp",
  "logitLens",
  "translate",
]);

/** The jobs that are wanted. @type {Set<unknown>} */
const wanted = new Set();
/** The jobs that pause, in turn. @type {((value: unknown) => void)[]} */
const paused = [];
/** Wakes the next of them; opened by the first, since an open one keeps Node.js from ending. @type {MessagePort} */
let bell;
/** Until what has arrived meanwhile is done. */
const pause = () =>
  new Promise((resolve) => {
    paused.push(resolve);
    bell ??= openBell();
    bell.postMessage(null);
  });

function openBell() {
  const { port1, port2 } = new MessageChannel();
  port1.onmessage = () => paused.shift()?.(null);
  return port2;
}

/** @param {PageWorker} worker @param {any} message @param {(answer: any) => void} send */
async function serve(worker, message, send) {
  wanted.add(message.id);
  const steps = worker.steps(message);
  for (let step = steps.next(); ; step = steps.next()) {
    if (step.done) send(step.value);
    if (step.done) break;
    if (step.value) send({ id: message.id, partial: step.value });
    await pause();
    if (!wanted.has(message.id)) break;
  }
  wanted.delete(message.id);
}

const WorkerScope = /** @type {any} */ (globalThis).WorkerGlobalScope; // absent in a document and in Node
if (WorkerScope && self instanceof WorkerScope) {
  const worker = new PageWorker();
  self.onmessage = ({ data }) => {
    if ("cancel" in data) wanted.delete(data.cancel);
    else serve(worker, data, (answer) => self.postMessage(answer));
  };
}
