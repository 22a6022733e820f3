// @ts-check
/** Whole texts to whole translations, as `Translator.translate` of Python: sentences, steps, codes, searches, and
 * from which word each word comes. A generator that pauses after each position of a search. */

import { findCodes, joinParts } from "./codes.js";
import { makeDraft, markNumbers } from "./draft.js";
import { Alignment, findChanges, findSpans, keepSpaces, restoreDraft } from "./restore.js";
import { beam } from "./search.js";
import { gapBetween, splitLines, splitParts, splitSentences } from "./sentences.js";
import { readSteps } from "./steps.js";
import { normalizeSource } from "./tokenizer.js";

/** @typedef {import("./codes.js").Part} Part */
/** @typedef {import("./draft.js").Draft} Draft */
/** @typedef {import("./translator.js").TranslatedText} TranslatedText */
/** @typedef {import("./translator.js").TranslatedSentence} TranslatedSentence */
/** @typedef {{target?: string, nBest?: number, prefix?: string, differAt?: string, glossary?: string[][],
 *   greedy?: boolean}} Options differAt: the word behind the prefix that the alternatives do not have */
/** @typedef {{text: string, ids: number[], log_prob: number, score: number, truncated: boolean, logProbs: number[]}}
 *   Hypothesis logProbs: of each id */
/** @typedef {{read: string, hypotheses: Hypothesis[], next: number[], isCut: boolean, align: () => Alignment}}
 *   Found what a search of what is read has found; next: what could stand behind the prefix; isCut: whether the
 *   model takes no more of it */
/** @typedef {{draft: Draft, found: Found, restored: {parts: Part[], flags: string[]}[], lost: string[]}} Attempt */
/** @typedef {{start: number, source: string, parts: Part[], gap: string}} Sentence */

const ATTEMPTS = 2;
const LOOK_AHEAD = 6; // words
const MOST_OTHERS = 6; // words in the place of one
/** @param {Found} found what a run without words finds */
const certainty = ({ hypotheses: [best] }) => best.log_prob / Math.max(1, best.ids.length);

/** The sentences of a text. @param {import("./worker.js").PageWorker} worker @param {string} text
 * @returns {Sentence[]} */
export function readSentences({ rules, decode }, text) {
  const parts = decode.keep_codes ? findCodes(text, rules) : [text];
  const split = decode.split_sentences
    ? (/** @type {string} */ one) => splitSentences(one, rules)
    : (/** @type {string} */ one) => splitLines(one);
  let start = 0;
  return splitParts(parts, rules, split).map((one) => {
    const source = joinParts(one.parts);
    const sentence = { ...one, source, start };
    start += source.length + one.gap.length;
    return sentence;
  });
}

/** A sentence as the model reads it. @param {import("./worker.js").PageWorker} worker @param {string} text */
export function readSource(worker, text) {
  const { rules, decode } = worker;
  const parts = decode.keep_codes ? findCodes(text, rules) : [text];
  const { read, isCopied } = readSteps(parts, { ...stepOptions(worker), copiesWordless: false });
  if (isCopied) return normalizeSource(text);
  return (makeDraft(read, rules, 0) ?? makeDraft(read, rules))?.text || normalizeSource(text);
}

/** @param {import("./worker.js").PageWorker} worker */
const stepOptions = ({ rules, decode, plainSigns, ...worker }) => ({
  rules,
  plainSigns,
  matchesStyle: Boolean(decode.match_style),
  copiesWordless: Boolean(decode.copy_wordless),
  prefix: "",
  keepsCapital: (/** @type {string} */ word) => {
    const [first = "", ...rest] = word;
    const count = (/** @type {string} */ one) => worker.tokenizers?.tgt.encode(` ${one}`).ids.length ?? 0;
    return count(first.toLowerCase() + rest.join("")) > count(word);
  },
});

export class TextTranslator {
  /** @param {import("./worker.js").PageWorker} worker @param {Options} options */
  constructor(worker, { nBest = 1, prefix = "", differAt = "", glossary = [], greedy = false, target = "" }) {
    this.worker = worker;
    this.glossary = glossary;
    this.differAt = differAt;
    this.prefix = prefix.trim();
    const { decode } = worker;
    const width = greedy ? 1 : (decode.beam ?? 4);
    this.search = { ...decode, beam: Math.max(width, nBest), n_best: nBest };
    this.token = worker.targets.includes(target) ? `>>${target}<< ` : "";
  }

  /** @param {string[]} texts @returns {Generator<[number, string] | null, TranslatedText[]>} */
  *translate(texts) {
    const found = [];
    for (const [number, text] of texts.entries()) found.push(yield* this.text(number, text));
    return found;
  }

  /** @param {number} number @param {string} text @returns {Generator<[number, string] | null, TranslatedText>} */
  *text(number, text) {
    const { rules } = this.worker;
    /** @type {TranslatedSentence[]} */
    const sentences = [];
    const check = new Set();
    const read = readSentences(this.worker, text);
    let written = "";
    for (const [at, sentence] of read.entries()) {
      const before = written;
      const steps = this.withTerms(sentence, at ? "" : this.prefix);
      let step = steps.next();
      for (; !step.done; step = steps.next()) yield step.value ? [number, before + step.value] : null;
      const { flags, ...one } = step.value;
      for (const flag of flags) check.add(flag);
      sentences.push(one);
      const next = read[at + 1]?.source ?? "";
      const isBreak = !sentence.source.trim() || !next.trim();
      written += one.text + (isBreak ? sentence.gap : gapBetween(sentence.source, one.text, sentence.gap, rules));
      if (next) yield [number, written];
    }
    return { text: written, sentences, check: [...check] };
  }

  /** The same with the terms of the glossary that it lacks: each stands where its word was, and the rest follows.
   * @param {Sentence} sentence @param {string} prefix
   * @returns {Generator<string | null, TranslatedSentence & {flags: string[]}>} */
  *withTerms(sentence, prefix) {
    const { unspaced } = this.worker.rules.first;
    let found = yield* this.sentence(sentence, prefix);
    const asked = this.glossary.map(([term, ...forms]) => ({
      term,
      forms,
      at: findTerm(sentence.source, term, unspaced),
    }));
    const terms = asked
      .filter(({ at, forms }) => at && forms.length)
      .sort((left, right) => Number(left.at?.[0]) - Number(right.at?.[0]));
    const isMet = (/** @type {string[]} */ forms) => forms.some((form) => findTerm(found.text, form, unspaced));
    for (const { forms, at } of terms) {
      const [start, end] = at ?? [0, 0];
      const word = found.words.find(({ sources }) => sources.some((one) => one[0] < end && one[1] > start));
      if (word && !isMet(forms)) found = yield* this.sentence(sentence, found.text.slice(0, word.start) + forms[0]);
    }
    const lost = terms.filter(({ forms }) => !isMet(forms));
    const flags = lost.map(({ term, forms }) => `the term '${term}' is not translated as '${forms[0]}'`);
    return { ...found, flags: [...found.flags, ...flags] };
  }

  /** Yields what is certain of the translation. @param {Sentence} sentence @param {string} prefix
   * @returns {Generator<string | null, TranslatedSentence & {flags: string[]}>} */
  *sentence({ parts, source, start }, prefix) {
    const { worker } = this;
    const whole = { source, start, end: start + source.length };
    const steps = readSteps(parts, { ...stepOptions(worker), prefix });
    if (steps.isCopied) {
      const flags = steps.isCrowded ? ["left as it was: it has too many placeholders, or is too long for them"] : [];
      return { ...whole, text: source, words: [], alternatives: [], confidence: null, flags };
    }
    const forced = prefix ? this.worker.tokenizer("tgt").encode(steps.prefix).ids : [];
    const attempt = yield* this.attempts(steps.read, forced, steps.start);
    const texts = attempt.restored.map((one) => joinParts(steps.restore(one.parts)));
    const { found } = attempt;
    const [best] = found.hypotheses;
    const judged = { source: found.read, target: best.text, ids: best.ids, logProb: best.log_prob };
    const [confidence, reason] = worker.confidence(judged) ?? [null, null];
    const flags = [...attempt.restored[0].flags, ...attempt.lost];
    if (reason && confidence !== null)
      flags.push(`the translation is probably wrong (confidence ${confidence.toFixed(2)}): ${reason}`);
    if (found.isCut) flags.push("longer than the model takes; its end was not translated");
    if (best.truncated) flags.push("the length limit cut the translation");
    return {
      ...whole,
      text: texts[0],
      words: this.words(source, texts[0], found),
      alternatives: this.differAt
        ? yield* this.others(steps, attempt, forced)
        : found.hypotheses.slice(1).map(({ score }, at) => ({ text: texts[at + 1], score })),
      confidence,
      doubt: reason,
      flags,
    };
  }

  /** What else could stand behind the forced ids, each with what follows then.
   * @param {ReturnType<typeof readSteps>} steps @param {Attempt} attempt @param {number[]} forced
   * @returns {Generator<string | null, {text: string, score: number}[]>} */
  *others({ read, restore }, { found }, forced) {
    const alternatives = [];
    for (const id of found.next.slice(0, MOST_OTHERS)) {
      const other = yield* this.attempts(read, [...forced, id], () => "");
      alternatives.push({
        text: joinParts(restore(other.restored[0].parts)),
        score: other.found.hypotheses[0].score,
      });
    }
    return alternatives;
  }

  /** A sentence without its codes, with stand-ins for them, and with what it lost as codes: the best of these.
   * @param {Part[]} parts @param {number[]} forced @param {(text: string) => string} start
   * @returns {Generator<string | null, Attempt>} */
  *attempts(parts, forced, start) {
    const { rules, decode, languages } = this.worker;
    const checksNumbers = Boolean(languages && decode.keep_codes);
    const isPlain = parts.length === 1 && parts[0] === makeDraft(parts, rules)?.text;
    const isShown = isPlain && markNumbers(parts, rules).length === 1;
    /** @type {{draft: Draft, found: Found} | null} */
    let plain = null;
    /** @type {Attempt | null} */
    let chosen = null;
    /** @type {Part[] | null} */
    let again = parts;
    /** @type {Part[] | null} */
    let marked = parts;
    for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
      const draft = again && makeDraft(again, rules);
      if (draft) plain = { draft, found: yield* this.find(draft.text, forced, isShown ? start : null) };
      const worded = marked && makeDraft(marked, rules, attempt);
      let failed = null;
      if (worded && plain) {
        const one = this.restore(parts, worded, yield* this.find(worded.text, forced, null));
        if (one && this.isBetter(plain.found, one.found)) [chosen, again] = [one, null];
        else failed = marked;
      }
      if (again && plain) chosen = this.restore(parts, plain.draft, plain.found);
      again = again && checksNumbers && chosen ? this.markLost(parts, chosen.lost) : null;
      marked = again ?? failed;
    }
    return /** @type {Attempt} */ (chosen);
  }

  /** A text that lost a number or a sign, with these as codes. @param {Part[]} parts @param {string[]} lost */
  markLost(parts, lost) {
    const marked = lost.length ? markNumbers(parts, this.worker.rules) : parts;
    const hasWords = marked.some((part) => typeof part === "string" && /\p{L}/u.test(part));
    return marked.length === parts.length || !hasWords ? null : marked;
  }

  /** The codes in each hypothesis; null if one with stand-ins lost anything.
   * @param {Part[]} parts @param {Draft} draft @param {Found} found @returns {Attempt | null} */
  restore(parts, draft, found) {
    const { rules } = this.worker;
    const restored = [];
    const lost = [];
    for (const { text } of found.hypotheses) {
      const one = restoreDraft(draft, text, found.align, rules);
      if (!one) return null;
      const kept = { ...one, parts: keepSpaces(parts, one.parts, rules) };
      const changed = findChanges(parts, kept.parts, rules);
      if (changed.length && draft.words.length) return null;
      restored.push(kept);
      lost.push(changed);
    }
    return { draft, found, restored, lost: lost[0] };
  }

  /** Whether a translation with stand-ins has the content words of one without. @param {Found} plain
   * @param {Found} worded */
  isBetter(plain, worded) {
    const { rules } = this.worker;
    const text = worded.hypotheses[0].text.toLowerCase();
    const words = plain.hypotheses[0].text.toLowerCase().match(rules.any.piece) ?? [];
    const isThere = (/** @type {string} */ word) => {
      if (word.length <= 3 && !rules.first.unspaced.test(word)) return true;
      const bare = word.replace(/^[.,;:!?…()[\]{}"'„“”‚‘’«»¿¡]+|[.,;:!?…()[\]{}"'„“”‚‘’«»¿¡]+$/gu, "");
      return text.includes(bare.slice(0, Math.max(3, bare.length - 2)));
    };
    return words.every(isThere) || (/^\p{Lowercase}/u.test(plain.read) && certainty(worded) > certainty(plain));
  }

  /** Search for the translation of what the model reads. @param {string} read @param {number[]} prefix
   * @param {((text: string) => string) | null} start what is shown of an answer that begins so
   * @returns {Generator<string | null, Found>} */
  *find(read, prefix, start) {
    const { model } = this.worker;
    const [src, tgt] = [this.worker.tokenizer("src"), this.worker.tokenizer("tgt")];
    const { eos_id: eos, bos_id: bos, max_length: most } = model.config;
    const own = src.encode(read).ids;
    const all = this.token ? src.encode(this.token + read).ids : own;
    const ids = [...all.slice(0, most - 1), eos];
    const memory = model.encode(ids);
    yield null;
    const steps = beam(model, ids, { ...this.search, memory, prefix: prefix.slice(0, most - 1) });
    let step = steps.next();
    for (; !step.done; step = steps.next())
      yield start && step.value.length
        ? start(
            tgt
              .decode(step.value)
              .replace(/\ufffd+$/u, "")
              .trim(),
          )
        : null;
    const { candidates, tree } = step.value;
    /** @type {Hypothesis[]} */
    const hypotheses = [];
    const texts = new Set();
    for (const one of candidates) {
      const text = tgt.decode(one.ids).replaceAll("\r", " ");
      const plain = text.replace(/(?<=[^.]\.)\.$/u, "");
      if (!texts.has(plain)) hypotheses.push({ ...one, text, logProbs: logProbsOf(one.ids, tree) });
      texts.add(plain);
    }
    /** @type {Alignment | null} */
    let alignment = null;
    const align = () => {
      if (alignment) return alignment;
      const [best] = hypotheses;
      const { shape, data } = model.attention([bos, ...best.ids.slice(0, -1)], memory);
      const before = Array.from({ length: all.length - own.length }, () => 0);
      const srcEnds = [...before, ...tokenEnds(src, own)].slice(0, most - 1);
      const of = { source: read, target: best.text, srcEnds, tgtEnds: tokenEnds(tgt, best.ids) };
      alignment = new Alignment({ ...of, links: mostAttended(shape, data) }, this.worker.rules);
      return alignment;
    };
    const next = tree.filter((one) => one.ids.length === prefix.length + 1 && one.id !== eos).map((one) => one.id);
    return { read, hypotheses, next, isCut: all.length > most - 1, align };
  }

  /** The words of a translation, from which words of the typed source they come, and how probable each was.
   * @param {string} source @param {string} text @param {Found} found @returns {import("./translator.js").Word[]} */
  words(source, text, { read, hypotheses: [best], align }) {
    const { rules } = this.worker;
    const { srcWords, tgtWords, tgtOf, owners } = align();
    const [typed, shown] = [findSpans(source, rules), findSpans(text, rules)];
    const cut = (/** @type {string} */ of) => (/** @type {[number, number]} */ span) => of.slice(...span);
    const written = matchWords(shown.map(cut(text)), tgtWords.map(cut(best.text)));
    const typedOf = matchWords(srcWords.map(cut(read)), typed.map(cut(source)));
    const sure = tgtWords.map(() => 0);
    tgtOf.forEach((words, token) => words.forEach((word) => (sure[word] += best.logProbs[token] ?? 0)));
    return shown.map(([start, end], at) => {
      const word = text.slice(start, end);
      const own = written[at];
      const place =
        own < 0 ? typed.findIndex((span) => source.slice(...span) === word) : (typedOf[owners[own]] ?? -1);
      const sources = place < 0 ? [] : [typed[place]];
      return { text: word, start, end, confidence: own < 0 ? 1 : Math.exp(sure[own]), sources };
    });
  }
}

/** Where a term stands as words of their own; in small letters it may be written in any. @param {string} text
 * @param {string} term @param {RegExp} unspaced a character of a script without spaces */
function findTerm(text, term, unspaced) {
  const border = (/** @type {string} */ edge, /** @type {string} */ look) =>
    unspaced.test(edge) ? "" : `(?${look}[\\p{L}\\p{M}\\p{N}_])`;
  const exact = term.replace(/[\\^$.*+?()[\]{}|/]/g, "\\$&");
  const pattern = `${border(term.slice(0, 1), "<!")}${exact}${border(term.slice(-1), "!")}`;
  const found = new RegExp(pattern, term === term.toLowerCase() ? "ui" : "u").exec(text);
  return found && [found.index, found.index + found[0].length];
}

/** The log-probability of each id of a candidate.
 * @param {number[]} ids @param {import("./search.js").TreeNode[]} tree */
function logProbsOf(ids, tree) {
  const found = [];
  let node = tree.find((one) => one.ids === ids);
  for (; node; node = node.parent === null ? undefined : tree[node.parent]) found.unshift(node.token_log_prob);
  return found;
}

/** Where each token ends, in the characters of their text. @param {import("./tokenizer.js").Tokenizer} tokenizer
 * @param {number[]} ids */
function tokenEnds(tokenizer, ids) {
  const pieces = ids.map((id) => tokenizer.decode([id]));
  if (tokenizer.kind !== "bpe" || pieces.some((piece) => piece.includes("\ufffd")))
    return ids.map((_, at) => tokenizer.decode(ids.slice(0, at + 1)).length);
  let end = 0;
  return pieces.map((piece) => (end += piece.length));
}

/** The source position with the greatest mean weight of all heads, for each target position.
 * @param {number[]} shape (heads tgt src) @param {Float32Array} data */
function mostAttended([heads, tgt, src], data) {
  return Array.from({ length: tgt }, (_, row) => {
    let [best, most] = [0, -1];
    for (let column = 0; column < src; column++) {
      let sum = 0;
      for (let head = 0; head < heads; head++) sum += data[(head * tgt + row) * src + column];
      if (sum > most) [best, most] = [column, sum];
    }
    return best;
  });
}

/** For each word the place of the same word among others, which are in the same order; -1 where there is none.
 * @param {string[]} words @param {string[]} others */
function matchWords(words, others) {
  const lower = others.map((one) => one.toLowerCase());
  let next = 0;
  return words.map((word) => {
    const found = lower.slice(next, next + LOOK_AHEAD).indexOf(word.toLowerCase());
    if (found < 0) return -1;
    next += found + 1;
    return next - 1;
  });
}
