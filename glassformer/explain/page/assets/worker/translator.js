// @ts-check
/** The model of the page as an engine: what the views ask, and what other scripts of the page may call.
 *
 * It runs in a worker, which looks for messages between two positions of a search, so that what is out of date stops
 * at once. `createTranslatorApi` has the shape of the Translator API that browsers propose. */

import { unpack } from "../record/weights.js";

/** @typedef {{text: string, start: number, end: number, confidence: number, sources: [number, number][]}} Word
 * start, end: in the text of its sentence; sources: in the source of its sentence */
/** @typedef {{source: string, text: string, words: Word[], alternatives: {text: string, score: number}[],
 *   confidence: number | null, doubt?: string | null, start: number, end: number}} TranslatedSentence
 * start, end: of its source, in the text that was given */
/** @typedef {{text: string, sentences: TranslatedSentence[], check: string[]}} TranslatedText
 * check: in words, what should be looked at */
/** @typedef {{target?: string, nBest?: number, prefix?: string, differAt?: string, glossary?: string[][],
 *   greedy?: boolean, signal?: AbortSignal, onPartial?: (index: number, text: string) => void}} TranslateOptions
 * prefix: what the answer to each text begins with; greedy: faster than the search of the run */
/** @typedef {{living: string, weights: string, worker: string}} ModelData what `page/weights.py` makes, and the
 * source of the worker, packed */
/** @typedef {{resolve: (value: any) => void, reject: (reason: Error) => void, onPartial?: (...given: any[]) => void}}
 *   Waiting */

/** The model that a file carries; null if it has none. @param {Document} document @returns {ModelData | null} */
export function readModelData(document) {
  const [living, weights, worker] = ["living", "weights", "worker"].map(
    (id) => document.getElementById(id)?.textContent,
  );
  return living && weights && worker ? { living, weights, worker } : null;
}

/** Start the worker and load the model. @param {ModelData} data @returns {Promise<ModelEngine>} */
export async function openModelEngine(data) {
  const [living, weights, worker] = await Promise.all([data.living, data.weights, data.worker].map(unpack));
  const toText = (/** @type {Uint8Array} */ bytes) => new TextDecoder().decode(bytes);
  const engine = new ModelEngine({ ...JSON.parse(toText(living)), weights }, toText(worker));
  engine.loaded = await engine.call("load", engine.living);
  return engine;
}

const aborted = () => new DOMException("The translation is out of date.", "AbortError");

export class ModelEngine {
  /** @param {any} living what `page/weights.py` makes @param {string} source of the worker */
  constructor(living, source) {
    this.living = living;
    /** What the worker says of the model. @type {any} */ this.loaded = null;
    this.last = 0;
    /** @type {Map<number, Waiting>} */ this.waiting = new Map();
    /** @type {Error | null} */ this.broken = null;
    this.worker = new Worker(URL.createObjectURL(new Blob([source], { type: "text/javascript" })));
    this.worker.onmessage = ({ data }) => this.receive(data);
    this.worker.onerror = (event) => {
      event.preventDefault();
      this.close(new Error(event.message));
    };
  }

  /** From which language into which the model translates; empty names if the run does not say. */
  get directions() {
    const [source, target] = this.living.languages ?? ["", ""];
    /** @type {string[]} */
    const targets = this.loaded?.targets ?? [];
    return (targets.length ? targets : [target]).map((one) => ({ source, target: one }));
  }

  /** One call of `worker/worker.js`. @param {string} call @param {...any} args @returns {Promise<any>} */
  call(call, ...args) {
    return this.ask(call, args, {});
  }

  /** The same, which `signal` ends. @param {string} call @param {any[]} args
   * @param {{signal?: AbortSignal, onPartial?: (...given: any[]) => void}} options @returns {Promise<any>} */
  ask(call, args, { signal, onPartial }) {
    const id = (this.last += 1);
    return new Promise((resolve, reject) => {
      if (this.broken || signal?.aborted) return reject(this.broken ?? aborted());
      const stop = () => {
        this.worker.postMessage({ cancel: id });
        this.waiting.delete(id);
        reject(aborted());
      };
      const ended = (/** @type {(value: any) => void} */ settle) => (/** @type {any} */ value) => {
        signal?.removeEventListener("abort", stop);
        settle(value);
      };
      signal?.addEventListener("abort", stop, { once: true });
      this.waiting.set(id, { resolve: ended(resolve), reject: ended(reject), onPartial });
      this.worker.postMessage({ id, call, args });
      return undefined;
    });
  }

  /** @param {{id: number, result?: any, error?: string, partial?: any[]}} answer */
  receive({ id, result, error, partial }) {
    const waiting = this.waiting.get(id);
    if (partial) return waiting?.onPartial?.(...partial);
    this.waiting.delete(id);
    return error === undefined ? waiting?.resolve(result) : waiting?.reject(new Error(error));
  }

  /** Translate texts; `onPartial(index, text)` gives what is certain of the text of a number.
   * @param {string[]} texts @param {TranslateOptions} [options] @returns {Promise<TranslatedText[]>} */
  translate(texts, { signal, onPartial, ...options } = {}) {
    return this.ask("translate", [[...texts].map(String), options], { signal, onPartial });
  }

  /** End the worker. @param {Error} [reason] */
  close(reason = new Error("The model was closed.")) {
    this.broken = reason;
    this.worker.terminate();
    for (const { reject } of this.waiting.values()) reject(reason);
    this.waiting.clear();
  }
}

/** The shape of the proposed Translator API, with the page's model: `Translator.create({sourceLanguage,
 * targetLanguage})`. @param {() => Promise<ModelEngine>} open */
export function createTranslatorApi(open) {
  /** @param {ModelEngine} engine @param {{sourceLanguage: string, targetLanguage: string}} pair */
  const find = (engine, { sourceLanguage, targetLanguage }) => {
    const isSame = (/** @type {string} */ asked, /** @type {string} */ own) =>
      asked.split("-")[0].toLowerCase() === own.split("-")[0].toLowerCase();
    return engine.directions.find((one) => isSame(sourceLanguage, one.source) && isSame(targetLanguage, one.target));
  };
  return class Translator {
    /** @param {ModelEngine} engine @param {{sourceLanguage: string, targetLanguage: string}} pair
     * @param {string} target */
    constructor(engine, { sourceLanguage, targetLanguage }, target) {
      this.engine = engine;
      this.sourceLanguage = sourceLanguage;
      this.targetLanguage = targetLanguage;
      this.inputQuota = Infinity;
      this.target = target;
      this.ended = new AbortController();
    }

    /** "available" or "unavailable". @param {{sourceLanguage: string, targetLanguage: string}} pair */
    static async availability(pair) {
      return find(await open(), pair) ? "available" : "unavailable";
    }

    /** @param {{sourceLanguage: string, targetLanguage: string, signal?: AbortSignal}} pair */
    static async create(pair) {
      pair.signal?.throwIfAborted();
      const engine = await open();
      const found = find(engine, pair);
      if (found) return new Translator(engine, pair, found.target);
      const known = engine.directions.map(({ source, target }) => `${source} to ${target}`).join(", ");
      const asked = `${pair.sourceLanguage} to ${pair.targetLanguage}`;
      throw new DOMException(`found ${asked}, expected ${known}: the model has no other.`, "NotSupportedError");
    }

    /** @param {string} text
     * @param {{signal?: AbortSignal, onPartial?: (index: number, text: string) => void}} [options]
     * @returns {Promise<string>} */
    async translate(text, { signal, onPartial } = {}) {
      const both = signal ? AbortSignal.any([signal, this.ended.signal]) : this.ended.signal;
      const [found] = await this.engine.translate([text], { target: this.target, signal: both, onPartial });
      return found.text;
    }

    /** Its pieces, each as soon as it is certain; joined they are the translation.
     * @param {string} text @param {{signal?: AbortSignal}} [options] @returns {ReadableStream<string>} */
    translateStreaming(text, { signal } = {}) {
      const stopped = new AbortController();
      const both = signal ? AbortSignal.any([signal, stopped.signal]) : stopped.signal;
      let given = "";
      return new ReadableStream({
        start: async (controller) => {
          const more = (/** @type {string} */ all) => {
            if (all.length > given.length && all.startsWith(given)) {
              controller.enqueue(all.slice(given.length));
              given = all;
            }
          };
          try {
            more(await this.translate(text, { signal: both, onPartial: (_, all) => more(all) }));
            controller.close();
          } catch (error) {
            if (!stopped.signal.aborted) controller.error(error);
          }
        },
        cancel: () => stopped.abort(),
      });
    }

    async measureInputUsage() {
      return 0; // there is no quota
    }

    destroy() {
      this.ended.abort();
    }
  };
}
