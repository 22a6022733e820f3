// @ts-check
/**
 * Greedy and beam search, as in `glassformer/decoding/`: `candidates.py` and the rules of `beam_search.py`.
 *
 * At each step the `2 beam` best candidates are considered. Those among the first `beam` that end with eos are
 * finished; the best `beam` of the others stay live. The search is done when `beam` hypotheses have finished, when no
 * live one can still enter the `n_best`, or at the length limit; `early_stopping` "heuristic" and "never" drop the
 * first
 * condition, as there. Sums are float32, as they are there. A search is a generator that pauses after each position.
 */

/** @typedef {import("./model.js").Transformer} Transformer */
/** @typedef {import("./model.js").DecoderCache} DecoderCache */
/** @typedef {import("./model.js").Edit} Edit */
/** @typedef {{beam: number, length_penalty: number, length_norm: "gnmt" | "power", early_stopping: "beam" |
 *   "heuristic" | "never" | "shrink", word_penalty: number, allow_unk: boolean, n_best: number, max_length_a:
 *   number, max_length_b: number}} SearchConfig */
/** @typedef {Partial<SearchConfig> & {edits?: Edit[], srcMask?: ArrayLike<boolean | number>, prefix?: number[],
 *   memory?: import("./model.js").Memory, attend?: (node: number | null, weights: Float32Array) => void}}
 *   SearchOptions prefix: the ids that each candidate begins with; memory: of the source, where it is known; attend:
 *   is given the attention (heads src) from which each node is continued */
/** @typedef {{ids: number[], log_prob: number, score: number, truncated: boolean}} Candidate */
/** @typedef {Generator<number[], SearchResult>} Steps each gives the ids that all live hypotheses share */
/** @typedef {{step: number, parent: number | null, id: number, ids: number[], token_log_prob: number, log_prob:
 *   number, score: number, outcome: "live" | "finished" | "dropped", node: number}} TreeNode */
/** @typedef {{candidates: Candidate[], tree: TreeNode[], best: Candidate}} SearchResult */
/** @typedef {{ids: number[], logProb: number, cache: DecoderCache, node: number | null}} Hypothesis */

const UNK_ID = 3;

/** @type {SearchConfig} */
const PAPER = {
  beam: 4,
  length_penalty: 0.6,
  length_norm: "gnmt",
  early_stopping: "beam",
  word_penalty: 0,
  allow_unk: true,
  n_best: 1,
  max_length_a: 1,
  max_length_b: 50,
};

/** What of a run's decode settings the page's searches do not carry out, and its neutral value. */
const NEUTRAL = {
  min_length: 0,
  repetition_penalty: 1,
  no_repeat_ngram: 0,
  coverage_penalty: 0,
  sample: false,
  mbr: 0,
};

/** The settings among a run's decode section that the page's searches leave out.
 * @param {Record<string, unknown>} decode @returns {string[]} */
export const ignoredSettings = (decode) =>
  Object.entries(NEUTRAL)
    .filter(([name, value]) => name in decode && decode[name] !== value)
    .map(([name]) => name);

/** ((5 + length) / 6)^α, or length^α; `length` counts eos.
 * @param {number} length @param {Pick<SearchConfig, "length_penalty" | "length_norm">} settings */
export const lengthPenalty = (length, { length_penalty: alpha, length_norm: norm }) =>
  (norm === "power" ? length : (5 + length) / 6) ** alpha;

/** The sum less the word penalty, divided by the length penalty.
 * @param {number} sum @param {number} length @param {SearchConfig} settings */
const scoreOf = (sum, length, settings) => (sum - settings.word_penalty * length) / lengthPenalty(length, settings);

/** Log-probabilities of the next id: x - log Σ e^x, rounded to float32.
 * @param {Float32Array} logits @returns {Float32Array} */
export function logSoftmax(logits) {
  let greatest = -Infinity;
  let sum = 0;
  for (const one of logits) if (one > greatest) greatest = one;
  for (const one of logits) sum += Math.exp(one - greatest);
  const total = greatest + Math.log(sum);
  return logits.map((one) => one - total);
}

/** The same, and -∞ for padding and bos, which no output may hold.
 * @param {Float32Array} logits @param {Record<string, any>} config @returns {Float32Array} */
export function nextLogProbs(logits, config) {
  const logProbs = logSoftmax(logits);
  logProbs[config.pad_id] = logProbs[config.bos_id] = -Infinity;
  return logProbs;
}

/** The `count` greatest, greatest first, of equals the first.
 * @param {ArrayLike<number>} values @param {number} count @returns {number[]} */
export function topK(values, count) {
  /** @type {number[]} */
  const best = [];
  for (let at = 0; at < values.length; at++) {
    if (best.length === count && !(values[at] > values[best[count - 1]])) continue;
    let place = best.length;
    while (place > 0 && values[at] > values[best[place - 1]]) place--;
    best.splice(place, 0, at);
    best.length = Math.min(best.length, count);
  }
  return best;
}

/** The most ids of an output, eos included.
 * @param {number[]} srcIds @param {Record<string, any>} config @param {SearchConfig} options */
export const outputLimit = (srcIds, config, options) =>
  Math.min(Math.trunc(options.max_length_a * (srcIds.length - 1)) + options.max_length_b, config.max_length);

/** Greedy search: the result of a beam search with beam 1.
 * @param {Transformer} model @param {number[]} srcIds @param {SearchOptions} [options] @returns {Steps} */
export const greedy = (model, srcIds, options = {}) => beam(model, srcIds, { ...options, beam: 1, n_best: 1 });

/** Beam search of one source, whose ids end with eos. `tree` holds every candidate considered, `node` its place
 * there.
 * @param {Transformer} model @param {number[]} srcIds @param {SearchOptions} [options] @returns {Steps} */
export function* beam(model, srcIds, options = {}) {
  const { edits = [], srcMask, prefix = [] } = options;
  const settings = searchSettings(options);
  const limit = Math.min(prefix.length + outputLimit(srcIds, model.config, settings), model.config.max_length);
  const memory = options.memory ?? model.encode(srcIds, { edits, srcMask });
  const pool = settings.early_stopping === "beam" ? settings.n_best : settings.beam;
  /** @type {TreeNode[]} */
  const tree = [];
  /** @type {Candidate[]} */
  const ended = [];
  /** @type {Hypothesis[]} */
  let live = [{ ids: [], logProb: 0, cache: model.newCache(), node: null }];
  for (let step = 1, nEnded = 0; ; step++) {
    const shrinks = settings.early_stopping === "shrink";
    const width = shrinks ? settings.beam - nEnded : settings.beam;
    const forced = prefix[step - 1] ?? null;
    const every = candidatesOf(model, live, step, settings, memory, options, forced);
    const found = every.slice(0, shrinks ? width : undefined);
    const eosId = model.config.eos_id;
    found.forEach((one, rank) => {
      if (one.id === eosId && rank < width) one.outcome = "finished";
    });
    found
      .filter((one) => one.id !== eosId)
      .slice(0, width)
      .forEach((one) => {
        one.outcome = "live";
      });
    for (const one of found) one.node = tree.push(one) - 1;
    const finished = found.filter((one) => one.outcome === "finished");
    nEnded += finished.length;
    ended.push(...finished.map(({ ids, log_prob, score }) => ({ ids, log_prob, score, truncated: false })));
    ended.sort((a, b) => b.score - a.score).splice(pool);
    live = advance(
      found.filter((one) => one.outcome === "live"),
      live,
      tree,
    );
    const nothingBetter =
      !shrinks && ended.length === pool && ended[pool - 1].score >= reachable(live, step, limit, settings);
    if (nothingBetter || (endsWithBeam(settings) && nEnded >= settings.beam) || step >= limit || live.length === 0)
      break;
    yield sharedStart(live, ended);
  }
  const cutCompete = settings.early_stopping === "shrink";
  const truncated = cutCompete || ended.length < settings.n_best ? live.map((one) => truncate(one, settings)) : [];
  const ranked = [...ended, ...truncated.sort((a, b) => b.score - a.score)];
  if (cutCompete) ranked.sort((a, b) => b.score - a.score);
  const candidates = ranked.slice(0, settings.n_best);
  if (candidates.length === 0) throw new Error("the logits are not finite numbers, so there is no best token.");
  return { candidates, tree, best: candidates[0] };
}

/** The ids that all hypotheses begin with. @param {Hypothesis[]} live @param {Candidate[]} ended */
function sharedStart([first, ...others], ended) {
  const differs = (/** @type {number} */ at) => [...others, ...ended].some(({ ids }) => ids[at] !== first.ids[at]);
  const end = first.ids.findIndex((_, at) => differs(at));
  return end < 0 ? first.ids : first.ids.slice(0, end);
}

/** The result of steps, without a pause. @template T @param {Generator<any, T>} steps @returns {T} */
export function runToEnd(steps) {
  for (;;) {
    const { done, value } = steps.next();
    if (done) return value;
  }
}

/** Whether as many finished hypotheses as the beam is wide end the search. @param {SearchConfig} settings */
const endsWithBeam = ({ beam: width, early_stopping: stopping }) => stopping === "beam" || width === 1;

/** The best score that a live hypothesis is taken to reach: at the length limit, or at its present length.
 * @param {Hypothesis[]} live @param {number} step @param {number} limit @param {SearchConfig} settings */
function reachable(live, step, limit, settings) {
  const length = settings.early_stopping === "heuristic" && settings.beam > 1 ? step : limit;
  return live.length ? Math.fround(live[0].logProb / Math.fround(lengthPenalty(length, settings))) : -Infinity;
}

/** @param {SearchOptions} options @returns {SearchConfig} */
function searchSettings(options) {
  const given = Object.entries(options).filter(([name, value]) => name in PAPER && value !== undefined);
  const settings = { ...PAPER, ...Object.fromEntries(given) };
  if (settings.n_best > settings.beam)
    throw new Error(`n_best: found ${settings.n_best}, expected at most beam = ${settings.beam}.`);
  return settings;
}

/** The `2 beam` best continuations of the live hypotheses, best first.
 * @param {Transformer} model @param {Hypothesis[]} live @param {number} step @param {SearchConfig} settings
 * @param {import("./model.js").Memory} memory @param {SearchOptions} options @param {number | null} forced the only
 * next id @returns {TreeNode[]} */
function candidatesOf(model, live, step, settings, memory, { edits = [], attend }, forced) {
  /** @type {import("./model.js").PassOptions} */
  const recorded = attend ? { record: { taps: new Map() }, only: model.alignment } : {};
  const found = live
    .flatMap(({ ids, logProb, cache, node }) => {
      const last = ids.length ? ids[ids.length - 1] : model.config.bos_id;
      const logits = model.decode([last], memory, { cache, edits, ...recorded });
      attend?.(node, /** @type {any} */ (recorded.record).taps.get(model.alignment).data);
      const logProbs = nextLogProbs(logits.data, model.config);
      if (!settings.allow_unk) logProbs[UNK_ID] = -Infinity;
      const best = forced === null ? topK(logProbs, 2 * settings.beam) : [forced];
      return best.map((id) => {
        const sum = Math.fround(logProb + logProbs[id]);
        return {
          step: step - 1,
          parent: node,
          id,
          ids: [...ids, id],
          token_log_prob: logProbs[id],
          log_prob: sum,
          score: Math.fround(scoreOf(sum, step, settings)),
          outcome: /** @type {TreeNode["outcome"]} */ ("dropped"),
          node: -1,
        };
      });
    })
    .filter((one) => one.log_prob > -Infinity);
  return topK(
    found.map((one) => one.log_prob),
    2 * settings.beam,
  ).map((at) => found[at]);
}

/** The live hypotheses of the next step.
 * @param {TreeNode[]} found @param {Hypothesis[]} before @param {TreeNode[]} tree @returns {Hypothesis[]} */
const advance = (found, before, tree) =>
  found.map((one) => {
    const parent = /** @type {Hypothesis} */ (before.find((other) => other.node === one.parent));
    return { ids: one.ids, logProb: one.log_prob, cache: parent.cache.clone(), node: tree[one.node].node };
  });

/** @param {Hypothesis} live @param {SearchConfig} settings @returns {Candidate} */
const truncate = ({ ids, logProb }, settings) => ({
  ids,
  log_prob: logProb,
  score: scoreOf(logProb, ids.length, settings),
  truncated: true,
});
