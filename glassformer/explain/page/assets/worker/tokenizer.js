// @ts-check
/**
 * The seven kinds of tokenizer of `glassformer/text/tokenizer/kinds.py`, from the JSON of the `tokenizers` library:
 * text to ids with every step, and back. A part or an option that stands nowhere here is refused by its name.
 *
 * Which characters are letters and what their normal forms are is the browser's Unicode.
 */

import {
  SENTENCEPIECE,
  TYPED_CONTROL,
  createNormalizer,
  isolateAll,
  joinSentencePiece,
  sentencePieceNormalizers,
  splitAt,
  splitSentencePiece,
  withoutMark,
} from "./sentencepiece.js";

/** @typedef {{step: "merge", left: string, right: string, result: string, rank: number, start: number, middle:
 *   number, end: number}} Merge */
/** @typedef {{step: "match", rest: string, piece: string, tries: number}} Match */
/** @typedef {{step: "segmentation", pieces: string[], log_probs: number[], total: number, best: boolean}}
 *   Segmentation */
/** @typedef {{step: "lookup", piece: string, result: string, reason: string}} Lookup */
/** @typedef {Merge | Match | Segmentation | Lookup} Step */
/** @typedef {{text: string, symbols: string[], steps: Step[], tokens: string[], ids: number[]}} PreToken */
/** @typedef {{steps: Step[], tokens: string[]}} Tokens */
/** @typedef {(entry: string) => string} Show */

const UNKNOWN = "<unk>";
const CONTROL_TOKENS = ["<pad>", "<s>", "</s>", UNKNOWN];
const SPACE_MARK = "▁";
const UNKNOWN_PENALTY = 10; // how far an unknown character is below the worst entry of a unigram vocabulary

// ------------------------------------------------------------------------------------------- what a file may contain

const LOWERCASE = { type: "Lowercase" };
const NFC = { type: "NFC" };
const NFD = { type: "NFD" };
const byteLevel = (/** @type {boolean} */ cuts, isDecoder = false) => ({
  type: "ByteLevel",
  add_prefix_space: [isDecoder],
  trim_offsets: [true],
  use_regex: [cuts],
});
/** How byte-level BPE cuts words; that of earlier runs cuts them at each combining mark, too. */
const BYTE_WORDS = String.raw`'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}[\p{L}\p{M}\u200c\u200d]*| ?\p{N}[\p{N}\p{M}]*|(?: |\s(?=\p{M}))?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`;
const OLD_BYTE_LEVEL = byteLevel(true);
/** A symbol in parentheses, which characters keep whole, and any other character. */
const MARKED = String.raw` ?\([^() ]+\)|[\s\S]`;
const METASPACE = { type: "Metaspace", replacement: [SPACE_MARK], prepend_scheme: ["never"], split: [true] };
/** @param {string} pattern @param {"String" | "Regex"} [type] */
const isolate = (pattern, type = "String") => ({
  type: "Split",
  pattern: { [type]: [pattern] },
  behavior: ["Isolated"],
  invert: [false],
});

/** The parts of each kind: for each option the values that are known; `null`: any.
 * @type {Record<string, {model: any, pre_tokenizer: any, decoder: any}>} */
const PARTS = {
  bpe: {
    model: {
      type: "BPE",
      dropout: [null],
      unk_token: [null],
      continuing_subword_prefix: [null],
      end_of_word_suffix: [null],
      fuse_unk: [false],
      byte_fallback: [false],
      ignore_merges: [false],
      vocab: null,
      merges: null,
    },
    pre_tokenizer: { type: "Sequence", pretokenizers: [isolate(BYTE_WORDS, "Regex"), byteLevel(false)] },
    decoder: byteLevel(true, true),
  },
  wordpiece: {
    model: {
      type: "WordPiece",
      unk_token: [UNKNOWN],
      continuing_subword_prefix: ["##"],
      max_input_chars_per_word: null,
      vocab: null,
    },
    pre_tokenizer: { type: "BertPreTokenizer" },
    decoder: { type: "WordPiece", prefix: ["##"], cleanup: [true] },
  },
  unigram: {
    model: { type: "Unigram", unk_id: [3], byte_fallback: [false], vocab: null },
    pre_tokenizer: { type: "Sequence", pretokenizers: [METASPACE, isolate("<")] },
    decoder: METASPACE,
  },
  words: {
    model: { type: "WordLevel", unk_token: [UNKNOWN], vocab: null },
    pre_tokenizer: { type: "Whitespace" },
    decoder: null,
  },
  whitespace: {
    model: { type: "WordLevel", unk_token: [UNKNOWN], vocab: null },
    pre_tokenizer: { type: "Sequence", pretokenizers: [{ type: "WhitespaceSplit" }, isolateAll(TYPED_CONTROL)] },
    decoder: null,
  },
  symbols: {
    model: { type: "WordLevel", unk_token: [UNKNOWN], vocab: null },
    pre_tokenizer: {
      type: "Sequence",
      pretokenizers: [{ ...isolate(" "), behavior: ["Removed"] }, isolateAll(TYPED_CONTROL)],
    },
    decoder: null,
  },
  characters: {
    model: { type: "WordLevel", unk_token: [UNKNOWN], vocab: null },
    pre_tokenizer: isolate(""),
    decoder: { type: "Fuse" },
  },
};

/** @param {string} where @param {any} [found] @returns {never} */
function refusePart(where, found) {
  const name = found?.type ?? found;
  const said = /^[\w .-]{1,30}$/.test(String(name)) && typeof name !== "object" ? ` (${name})` : "";
  throw new Error(`its tokenizer has a part that the page does not know: ${where}${said}.`);
}

/** Refuse, by its place, what is not known. @param {any} found @param {any} known @param {string} where */
function checkPart(found, known, where) {
  if (known === null && where !== "decoder") return;
  const refuse = () => refusePart(where, found);
  if (Array.isArray(known) && !known.some((one) => one !== null && typeof one === "object")) {
    if (!known.includes(found)) refuse();
  } else if (Array.isArray(known)) {
    if (!Array.isArray(found) || found.length !== known.length) refuse();
    known.forEach((one, at) => checkPart(found[at], one, `${where}[${at}]`));
  } else if (known === null || typeof known === "string") {
    if (found !== known) refuse();
  } else if (found === null || typeof found !== "object") {
    refuse();
  } else {
    for (const [name, value] of Object.entries(found)) {
      if (!(name in known)) refusePart(`${where}.${name}`);
      checkPart(value, known[name], `${where}.${name}`);
    }
  }
}

/** Whether a tokenizer was read from a SentencePiece model, whose words begin with their space. @param {any} json */
const isSentencePiece = (json) =>
  json.model?.type === "Unigram" && json.pre_tokenizer?.pretokenizers?.[1]?.prepend_scheme === "always";

/** Whether BPE cuts words at combining marks, as in earlier runs. @param {any} json */
const isOldBpe = (json) => json.model?.type === "BPE" && json.pre_tokenizer?.type === "ByteLevel";

/** Whether characters keep a symbol in parentheses whole. @param {any} json */
const isMarked = (json) => json.pre_tokenizer?.type === "Split" && "Regex" in (json.pre_tokenizer.pattern ?? {});

/** The types of a tokenizer's parts, by which its kind is known. @param {any} parts */
const types = (parts) => {
  const { type, pretokenizers } = parts.pre_tokenizer ?? {};
  const first = parts.model?.type === "WordLevel" ? (pretokenizers?.[0]?.type ?? "") : "";
  return `${parts.model?.type} ${type} ${first}`.trim();
};

/** The kind of a tokenizer's JSON, whose parts are all known. @param {any} json @returns {string} */
function checkKind(json) {
  const isOld = isOldBpe(json);
  const kind = isOld ? "bpe" : Object.keys(PARTS).find((one) => types(PARTS[one]) === types(json));
  if (!kind) refusePart("model", types(json));
  const steps = json.normalizer?.normalizers ?? [];
  const form = kind === "characters" && steps.at(-1)?.type === "NFD" ? NFD : NFC;
  const normalizers = isSentencePiece(json)
    ? sentencePieceNormalizers(steps)
    : steps[0]?.type === "Lowercase"
      ? [LOWERCASE, form]
      : [form];
  checkPart(json.normalizer, { type: "Sequence", normalizers }, "normalizer");
  const pre_tokenizer = isOld ? OLD_BYTE_LEVEL : isMarked(json) ? isolateAll(MARKED) : PARTS[kind].pre_tokenizer;
  const others = isSentencePiece(json) ? SENTENCEPIECE : { pre_tokenizer };
  const parts = { ...PARTS[kind], ...others };
  for (const part of /** @type {("model" | "pre_tokenizer" | "decoder")[]} */ (["model", "pre_tokenizer", "decoder"]))
    checkPart(json[part], parts[part], part);
  for (const part of ["truncation", "padding", "post_processor"]) checkPart(json[part] ?? null, [null], part);
  return kind;
}

// ------------------------------------------------------------------------------------------------------------ labels

const BYTES = (() => {
  const printable = (/** @type {number} */ value) =>
    (value > 0x20 && value < 0x7f) || (value > 0xa0 && value !== 0xad);
  /** @type {string[]} */
  const letters = [];
  for (let value = 0, rank = 0; value < 256; value++)
    letters.push(String.fromCharCode(printable(value) ? value : 256 + rank++));
  return { letters, values: new Map(letters.map((letter, value) => [letter, value])) };
})();

/** @param {string} entry */
const bytesOf = (entry) => Uint8Array.from(entry, (letter) => BYTES.values.get(letter) ?? 0);

/** A readable text: ▁ for a space, ⟨U+200D⟩ for an invisible character. @param {string} entry */
const label = (entry) =>
  Array.from(entry, (one) => {
    if (one === " ") return SPACE_MARK;
    return /[\p{C}\p{Z}]/u.test(one) ? `⟨U+${hex(/** @type {number} */ (one.codePointAt(0)), 4)}⟩` : one;
  }).join("");

/** @param {number} number @param {number} width */
const hex = (number, width) => number.toString(16).toUpperCase().padStart(width, "0");

/** The label of a byte-level entry; ⟨E3⟩ for a byte that is only a part of a character. @param {string} entry */
function byteLabel(entry) {
  const bytes = bytesOf(entry);
  const strict = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
  let text = "";
  for (let at = 0; at < bytes.length;) {
    const lead = bytes[at];
    const length = lead < 0x80 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
    try {
      text += label(strict.decode(bytes.subarray(at, at + length)));
      at += length;
    } catch {
      text += `⟨${hex(bytes[at++], 2)}⟩`;
    }
  }
  return text;
}

// ------------------------------------------------------------------------------------------- normal form, pre-tokens

// The library's classes by their Unicode names: JavaScript's \s and \w have other members.
const inUnicode = (/** @type {string} */ pattern) =>
  new RegExp(pattern.replaceAll("\\s", "\\p{White_Space}").replaceAll("\\S", "\\P{White_Space}"), "gu");
const MARKED_PATTERN = new RegExp(MARKED, "gu");
const BYTE_WORD_PATTERN = inUnicode(BYTE_WORDS);
const OLD_BYTE_PATTERN =
  /'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\p{White_Space}\p{L}\p{N}]+|\p{White_Space}+(?!\P{White_Space})|\p{White_Space}+/gu;
const WORD_PATTERN =
  /[\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\p{Join_Control}]+|[^\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\p{Join_Control}\p{White_Space}]+/gu;
const BERT_PATTERN = /[\p{P}$+<=>^`|~]|[^\p{White_Space}\p{P}$+<=>^`|~]+/gu;

/** @param {string} text @param {RegExp} pattern */
const splitBytes = (text, pattern) =>
  text
    .match(pattern)
    ?.map((piece) => Array.from(new TextEncoder().encode(piece), (value) => BYTES.letters[value]).join("")) ?? [];

/** @type {Record<string, (text: string, json: any) => string[]>} */
const PRE_TOKENIZERS = {
  bpe: (text, json) => splitBytes(text, isOldBpe(json) ? OLD_BYTE_PATTERN : BYTE_WORD_PATTERN),
  wordpiece: (text) => text.match(BERT_PATTERN) ?? [],
  unigram: (text) => text.replaceAll(" ", SPACE_MARK).match(/<|▁?[^▁<]+|▁/gu) ?? [],
  words: (text) => text.match(WORD_PATTERN) ?? [],
  whitespace: (text) => (text.match(/\P{White_Space}+/gu) ?? []).flatMap((word) => splitAt(word, TYPED_CONTROL)),
  symbols: (text) =>
    text
      .split(" ")
      .filter(Boolean)
      .flatMap((word) => splitAt(word, TYPED_CONTROL)),
  characters: (text, json) => (isMarked(json) ? (text.match(MARKED_PATTERN) ?? []) : Array.from(text)),
};

// ------------------------------------------------------------------------------------------------------------ models

/** A heap of [rank, start]: the lowest rank first, of equal ranks the leftmost. */
class Queue {
  constructor() {
    /** @type {[number, number][]} */
    this.items = [];
  }

  /** @param {number} one @param {number} other */
  before(one, other) {
    const [a, b] = [this.items[one], this.items[other]];
    return a[0] < b[0] || (a[0] === b[0] && a[1] < b[1]);
  }

  /** @param {[number, number]} item */
  push(item) {
    let at = this.items.push(item) - 1;
    for (let parent = (at - 1) >> 1; at > 0 && this.before(at, parent); at = parent, parent = (at - 1) >> 1)
      this.swap(at, parent);
  }

  /** @returns {[number, number] | undefined} */
  pop() {
    if (this.items.length < 2) return this.items.pop();
    this.swap(0, this.items.length - 1);
    const first = this.items.pop();
    for (let at = 0; ;) {
      const children = [2 * at + 1, 2 * at + 2].filter((child) => child < this.items.length);
      const least = children.length === 2 && this.before(children[1], children[0]) ? children[1] : children[0];
      if (least === undefined || !this.before(least, at)) return first;
      this.swap(at, least);
      at = least;
    }
  }

  /** @param {number} one @param {number} other */
  swap(one, other) {
    [this.items[one], this.items[other]] = [this.items[other], this.items[one]];
  }
}

class Bpe {
  /** @param {any} model @param {Show} show */
  constructor(model, show) {
    this.show = show;
    /** @type {Map<string, number>} */
    this.ranks = new Map(
      model.merges.map((/** @type {string[]} */ pair, /** @type {number} */ rank) => [pair.join(" "), rank]),
    );
  }

  /** @param {string} word @returns {Tokens} */
  tokenize(word) {
    /** @type {Map<number, string>} */
    const symbols = new Map(Array.from(word).entries());
    const steps = this.merges(symbols);
    return { steps, tokens: [...symbols.values()] };
  }

  /** Merge `symbols`, by the position where each starts, until no two neighbours have a rank.
   * @param {Map<number, string>} symbols @returns {Merge[]} */
  merges(symbols) {
    const n = symbols.size;
    const ends = Array.from({ length: n }, (_, at) => at + 1);
    const before = ends.map((end) => end - 2);
    const queue = new Queue();
    /** @type {Merge[]} */
    const steps = [];
    const offer = (/** @type {number} */ at) => {
      const rank = symbols.has(at) ? this.ranks.get(`${symbols.get(at)} ${symbols.get(ends[at])}`) : undefined;
      if (rank !== undefined) queue.push([rank, at]);
    };
    for (let at = 0; at < n; at++) offer(at);
    for (let next = queue.pop(); next; next = queue.pop()) {
      const [rank, start] = next;
      const middle = ends[start];
      const left = symbols.get(start);
      const right = symbols.get(middle);
      if (left === undefined || right === undefined || this.ranks.get(`${left} ${right}`) !== rank) continue; // one is now a part of a longer symbol
      const end = ends[middle];
      symbols.set(start, left + right);
      symbols.delete(middle);
      ends[start] = end;
      if (end < n) before[end] = start;
      steps.push({
        step: "merge",
        left: this.show(left),
        right: this.show(right),
        result: this.show(left + right),
        rank,
        start,
        middle,
        end,
      });
      offer(before[start]);
      offer(start);
    }
    return steps;
  }
}

class WordPiece {
  /** @param {any} model @param {Show} show */
  constructor(model, show) {
    this.show = show;
    this.vocab = new Set(Object.keys(model.vocab));
    this.mark = model.continuing_subword_prefix ?? "##";
    this.most = model.max_input_chars_per_word ?? 100;
  }

  /** @param {string} word @returns {Tokens} */
  tokenize(word) {
    const characters = Array.from(word);
    const tokens = [];
    /** @type {Step[]} */
    const steps = [];
    const unknown = (/** @type {string} */ rest, /** @type {string} */ reason) => ({
      steps: [...steps, /** @type {Lookup} */ ({ step: "lookup", piece: this.show(rest), result: UNKNOWN, reason })],
      tokens: [UNKNOWN],
    });
    if (characters.length > this.most)
      return unknown(word, `${characters.length} characters, more than ${this.most}`);
    for (let start = 0; start < characters.length;) {
      const mark = start ? this.mark : "";
      const rest = mark + characters.slice(start).join("");
      let end = characters.length;
      while (end > start && !this.vocab.has(mark + characters.slice(start, end).join(""))) end--;
      if (end === start) return unknown(rest, "no prefix is in the vocabulary, so the whole word is unknown");
      const piece = mark + characters.slice(start, end).join("");
      steps.push({
        step: "match",
        rest: this.show(rest),
        piece: this.show(piece),
        tries: characters.length - end + 1,
      });
      tokens.push(piece);
      start = end;
    }
    return { steps, tokens };
  }
}

/** @typedef {{total: number, start: number, rank: number, logProb: number}} Path */

class Unigram {
  /** @param {any} model @param {Show} show */
  constructor(model, show) {
    this.show = show;
    /** @type {Map<string, number>} */
    this.scores = new Map(model.vocab);
    this.longest = 0;
    let least = Infinity;
    for (const [entry, score] of model.vocab) {
      this.longest = Math.max(this.longest, Array.from(entry).length);
      least = Math.min(least, score);
    }
    this.unknownScore = least - UNKNOWN_PENALTY;
  }

  /** @param {string} word @returns {Tokens} */
  tokenize(word) {
    const characters = Array.from(word);
    const paths = this.twoBest(characters);
    const last = paths[characters.length];
    const cuts = last.map((_, rank) => this.joinUnknown(piecesOf(characters, paths, rank)));
    /** @type {Step[]} */
    const steps = cuts.map((cut, rank) => ({
      step: "segmentation",
      pieces: cut.map(([piece]) => this.show(piece)),
      log_probs: cut.map(([, score]) => score),
      total: last[rank].total,
      best: rank === 0,
    }));
    return { steps, tokens: cuts[0].map(([piece]) => (this.scores.has(piece) ? piece : UNKNOWN)) };
  }

  /** Viterbi's algorithm for the two best segmentations up to each position; of equal sums the longer last piece.
   * @param {string[]} characters @returns {Path[][]} */
  twoBest(characters) {
    /** @type {Path[][]} */
    const paths = [[{ total: 0, start: 0, rank: 0, logProb: 0 }], ...characters.map(() => [])];
    for (let start = 0; start < characters.length; start++) {
      let piece = "";
      for (let end = start + 1; end <= Math.min(start + this.longest, characters.length); end++) {
        piece += characters[end - 1];
        const score = this.scores.get(piece) ?? (end === start + 1 ? this.unknownScore : undefined);
        if (score === undefined) continue;
        paths[start].forEach((path, rank) => {
          const found = { total: path.total + score, start, rank, logProb: score };
          const best = paths[end];
          best.splice(best.filter((other) => found.total <= other.total).length, 0, found);
          best.length = Math.min(best.length, 2);
        });
      }
    }
    return paths;
  }

  /** The pieces, with neighbouring unknown characters as one piece.
   * @param {[string, number][]} pieces @returns {[string, number][]} */
  joinUnknown(pieces) {
    /** @type {[string, number][]} */
    const found = [];
    let wasKnown = true;
    for (const [piece, score] of pieces) {
      const known = this.scores.has(piece);
      const last = found[found.length - 1];
      if (known || wasKnown) found.push([piece, score]);
      else found[found.length - 1] = [last[0] + piece, last[1] + score];
      wasKnown = known;
    }
    return found;
  }
}

/** The pieces of a segmentation of the whole word, read from its end.
 * @param {string[]} characters @param {Path[][]} paths @param {number} rank @returns {[string, number][]} */
function piecesOf(characters, paths, rank) {
  /** @type {[string, number][]} */
  const pieces = [];
  for (let end = characters.length; end > 0;) {
    const path = paths[end][rank];
    pieces.unshift([characters.slice(path.start, end).join(""), path.logProb]);
    [end, rank] = [path.start, path.rank];
  }
  return pieces;
}

class WordLevel {
  /** @param {any} model @param {Show} show */
  constructor(model, show) {
    this.show = show;
    this.vocab = new Set(Object.keys(model.vocab));
  }

  /** @param {string} word @returns {Tokens} */
  tokenize(word) {
    const known = this.vocab.has(word);
    const token = known ? word : UNKNOWN;
    const reason = known ? "in the vocabulary" : "not in the vocabulary";
    return { steps: [{ step: "lookup", piece: this.show(word), result: this.show(token), reason }], tokens: [token] };
  }
}

const KINDS = {
  bpe: Bpe,
  wordpiece: WordPiece,
  unigram: Unigram,
  words: WordLevel,
  whitespace: WordLevel,
  symbols: WordLevel,
  characters: WordLevel,
};

// ---------------------------------------------------------------------------------------------------------- decoders

const CLEAN = [
  [" .", "."],
  [" ?", "?"],
  [" !", "!"],
  [" ,", ","],
  [" ' ", "'"],
  [" n't", "n't"],
  [" 'm", "'m"],
  [" do not", " don't"],
  [" 's", "'s"],
  [" 've", "'ve"],
  [" 're", "'re"],
];

/** @type {Record<string, (entries: string[]) => string>} */
const DECODERS = {
  bpe: (entries) =>
    new TextDecoder("utf-8", { ignoreBOM: true }).decode(
      Uint8Array.from(entries.flatMap((entry) => [...bytesOf(entry)])),
    ),
  wordpiece: (entries) =>
    entries
      .map((entry, at) => {
        const spaced = at === 0 ? entry : entry.startsWith("##") ? entry.slice(2) : ` ${entry}`;
        return CLEAN.reduce((text, [from, to]) => text.replaceAll(from, to), spaced);
      })
      .join(""),
  unigram: (entries) => entries.join("").replaceAll(SPACE_MARK, " "),
  words: (entries) => entries.join(" "),
  whitespace: (entries) => entries.join(" "),
  symbols: (entries) => entries.join(" "),
  characters: (entries) => entries.join(""),
};

// --------------------------------------------------------------------------------------------------------- tokenizer

/** @param {any} json @returns {(text: string) => string} */
function normalizerOf(json) {
  const lower = json.normalizer.normalizers[0].type === "Lowercase";
  // Each character alone, as the library does it: in a word JavaScript has another small sigma for its end.
  const form = json.normalizer.normalizers.at(-1).type;
  return (text) => (lower ? Array.from(text, (one) => one.toLowerCase()).join("") : text).normalize(form);
}

export class Tokenizer {
  /** @param {any} json */
  constructor(json) {
    this.kind = checkKind(json);
    const { vocab } = json.model;
    /** @type {string[]} */
    this.entries = [];
    if (this.kind === "unigram") this.entries = vocab.map((/** @type {[string, number]} */ [entry]) => entry);
    else for (const [entry, id] of Object.entries(vocab)) this.entries[/** @type {number} */ (id)] = entry;
    this.idOf = new Map(this.entries.map((entry, id) => [entry, id]));
    this.show = this.kind === "bpe" ? byteLabel : label;
    const imported = isSentencePiece(json);
    this.composes = !imported && json.normalizer.normalizers.at(-1).type === "NFD";
    this.normalise = imported ? createNormalizer(json) : normalizerOf(json);
    /** @type {(text: string) => string[]} */
    this.split = imported ? splitSentencePiece : (text) => PRE_TOKENIZERS[this.kind](text, json);
    this.join = imported ? joinSentencePiece : DECODERS[this.kind];
    this.model = new KINDS[/** @type {keyof typeof KINDS} */ (this.kind)](json.model, this.show);
  }

  /** Entries of the vocabulary, control tokens included. */
  get size() {
    return this.entries.length;
  }

  /** The ids of a text, without <s> and </s>, and how they come about; a lone surrogate counts as U+FFFD.
   * @param {string} text @returns {{ids: number[], tokens: string[], normalised: string, steps: PreToken[]}} */
  encode(text) {
    const normalised = this.normalise(text.replace(/\p{Surrogate}/gu, "\ufffd"));
    /** @type {Map<string, PreToken>} */
    const known = new Map();
    const steps = this.split(normalised).map((word) => {
      const found = known.get(word) ?? this.preToken(word);
      known.set(word, found);
      return found;
    });
    return { ids: steps.flatMap((one) => one.ids), tokens: steps.flatMap((one) => one.tokens), normalised, steps };
  }

  /** @param {string} word @returns {PreToken} */
  preToken(word) {
    const { steps, tokens } = this.model.tokenize(word);
    const ids = tokens.map((token) => this.idOf.get(token) ?? CONTROL_TOKENS.indexOf(UNKNOWN));
    return {
      text: this.show(word),
      symbols: Array.from(word, this.show),
      steps,
      tokens: tokens.map((token, at) => this.label(ids[at])),
      ids,
    };
  }

  /** The readable label of an id. @param {number} id */
  label(id) {
    if (id < CONTROL_TOKENS.length) return CONTROL_TOKENS[id];
    return this.show(this.kind === "unigram" ? withoutMark(this.entries[id]) : this.entries[id]);
  }

  /** The text of ids without control tokens; broken UTF-8 becomes U+FFFD. @param {number[]} ids @returns {string} */
  decode(ids) {
    const wrong = ids.find((id) => !(id >= 0 && id < this.size));
    if (wrong !== undefined) throw new Error(`id ${wrong} is not in the vocabulary, expected 0 to ${this.size - 1}.`);
    const text = this.join(ids.filter((id) => id >= CONTROL_TOKENS.length).map((id) => this.entries[id]));
    return this.composes ? text.normalize("NFC") : text;
  }
}

// As `glassformer/text/lines.py` has them: signs without width, and the scripts and pictures in which joiners stay.
const JOINING = "\u0590-\u1cff\u2190-\u2bff\ufe0f\ua800-\uabff\u{10a00}-\u{11fff}\u{1f000}-\u{1faff}";
const UNREAD = new RegExp(`[\u00ad\u200b\u2060\ufeff]|[\u200c\u200d](?<![${JOINING}][\u200c\u200d])`, "gu");

/** A source as a model reads it: trimmed, with plain single spaces and no signs without width.
 * @param {string} text */
export const normalizeSource = (text) =>
  text
    .replace(UNREAD, "")
    .replace(/[\s\x1c-\x1f\x85]+/gu, " ")
    .trim();

/** The tokenizer of a JSON of the `tokenizers` library, as text or read. @param {any} json @returns {Tokenizer} */
export const createTokenizer = (json) => new Tokenizer(typeof json === "string" ? JSON.parse(json) : json);
