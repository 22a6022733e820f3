// Times of the page's computations, for page_steps.py: the packed model in, milliseconds out. Node.js or a browser.
import { PageWorker } from "./worker/worker.js";

/** @param {any} living @param {number} rounds @param {number} nSrc @returns {Record<string, number[]>} */
export function measure(living, rounds, nSrc) {
  const worker = new PageWorker();
  const times = /** @type {Record<string, number[]>} */ ({});
  const time = (/** @type {string} */ name, /** @type {() => void} */ work) => {
    const start = performance.now();
    work();
    (times[name] ??= []).push(performance.now() - start);
  };
  time("load", () => worker.load(living));
  const { model } = worker, vocab = living.config.tgt_vocab;
  const src = [...Array.from({ length: nSrc - 1 }, (_, at) => 4 + ((at * 97) % (vocab - 4))), living.config.eos_id];
  const tgt = [living.config.bos_id, ...src.slice(0, nSrc - 1)], edit = { address: "decoder.layers.0.cross_attention.heads", index: { heads: 0 }, operation: /** @type {const} */ ("zero") };
  for (let round = 0; round < rounds; round++) {
    const memory = model.encode(src), cache = model.newCache();
    model.decode(tgt, memory, { cache });
    time("next step", () => { model.decode([9], memory, { cache }); });
    time("next step, recorded", () => { model.decode([9], memory, { cache, record: { taps: new Map() } }); });
    time("whole pass, recorded", () => { worker.pass(src, tgt); });
    time("whole pass, recorded, a head masked", () => { worker.pass(src, tgt, { edits: [edit] }); });
    time("why this word: parts of a logit", () => { worker.directLogits(nSrc - 1, 9); });
    time("why this word: hidden source tokens", () => { worker.occlusion(src, tgt, 9); });
  }
  return times;
}
