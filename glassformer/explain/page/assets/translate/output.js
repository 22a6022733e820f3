// @ts-check
/** The translation as it is shown: lines, sentences and words, each lit with what it was written from. */
import { element } from "../drawing/element.js";
import { findParts } from "./result.js";

/** @typedef {import("./result.js").Result} Result
 * @typedef {import("./result.js").Piece & {result?: Result, partial?: string}} Shown
 * @typedef {{piece: Shown, sentence: import("./result.js").Sentence, at: number, word?: import("./result.js").Word}}
 *   Meaning of an element; `at` is where the source of the sentence starts in the piece
 * @typedef {{element: HTMLElement, pieces: Shown[], made: (Result | string | undefined)[]}} Row */

const UNSURE = [0.5, 0.75]; // below the first a word is marked strongly, below the second lightly
const MOST_AWAITED = 3; // pieces for which the old words of a line stay
const MARGIN = { rootMargin: "400px" };

export class Output {
  /** @param {{light: (ranges: [number, number][][]) => void, open: (meaning: Meaning, at: HTMLElement) => void}}
   * hooks `light` gets the characters of the text: of the sentence, then of the words */
  constructor(hooks) {
    this.hooks = hooks;
    /** @type {Row[]} */ this.rows = [];
    /** @type {WeakMap<Element, Meaning>} */ this.meanings = new WeakMap();
    /** The word that the keys have reached. @type {HTMLElement | null} */ this.current = null;
    this.root = element("div#output.text", {
      tabindex: 0,
      role: "group",
      "aria-label": "Translation. The arrow keys go from word to word, Enter shows others.",
      onpointerover: (/** @type {Event} */ event) => this.lightAt(/** @type {Element} */ (event.target)),
      onpointerleave: () => this.light(null),
      onclick: (/** @type {Event} */ event) => this.press(/** @type {HTMLElement} */ (event.target)),
      onkeydown: (/** @type {KeyboardEvent} */ event) => this.key(event),
      onfocusin: (/** @type {Event} */ event) => this.lightAt(/** @type {Element} */ (event.target)),
      onfocusout: () => this.light(null),
    });
    this.seen = new IntersectionObserver((entries) => {
      for (const { isIntersecting, target } of entries)
        if (isIntersecting) this.fill(/** @type {HTMLElement} */ (target));
    }, MARGIN);
  }

  /** Show the lines; those that are the same stay as they are, and old words stay until there are new ones.
   * @param {Shown[][]} lines @param {string} lang */
  show(lines, lang) {
    this.root.lang = lang;
    const old = this.rows;
    const most = Math.min(old.length, lines.length);
    let head = 0;
    while (head < most && isSame(old[head], lines[head])) head += 1;
    let tail = 0;
    while (tail < most - head && isSame(old[old.length - 1 - tail], lines[lines.length - 1 - tail])) tail += 1;
    const between = old.slice(head, old.length - tail);
    const changed = lines.slice(head, lines.length - tail);
    const rows = changed.map((line, at) => this.update(between[at], line));
    for (const row of between.slice(changed.length)) row.element.remove();
    const following = old[old.length - tail]?.element ?? null;
    rows.slice(between.length).forEach((row) => this.root.insertBefore(row.element, following));
    this.rows = [...old.slice(0, head), ...rows, ...old.slice(old.length - tail)];
    this.rows.forEach((row, at) => lines[at].forEach((piece, number) => (row.pieces[number].start = piece.start)));
  }

  /** @param {Row | undefined} row @param {Shown[]} pieces @returns {Row} */
  update(row, pieces) {
    const line = row?.element ?? element("p.t-line", { dir: "auto" });
    const made = pieces.map((one) => one.result ?? one.partial);
    const waiting = made.filter((one) => one === undefined).length;
    const isStale = waiting > 0 && waiting <= MOST_AWAITED && line.textContent !== "";
    line.classList.toggle("stale", isStale);
    if (isStale && row) return { element: line, pieces, made: row.made };
    line.replaceChildren(...pieces.flatMap((one) => [one.gap, ...this.draw(one)]));
    return { element: line, pieces, made };
  }

  /** @param {Shown} piece @returns {(Node | string)[]} */
  draw(piece) {
    const { result, partial = "" } = piece;
    if (!result) return [element("span.partial", {}, partial)];
    const places = findParts(
      result.text,
      result.sentences.map((one) => one.text),
    );
    const sources = findParts(
      piece.source,
      result.sentences.map((one) => one.source),
    );
    let end = 0;
    const parts = result.sentences.flatMap((sentence, at) => {
      const doubt = sentence.doubt ? ".doubted" : "";
      const made = element(`span.t-sentence${doubt}`, {}, sentence.text);
      this.meanings.set(made, { piece, sentence, at: sources[at][0] });
      this.seen.observe(made);
      const before = result.text.slice(end, places[at][0]);
      end = places[at][1];
      return [before, made];
    });
    return [...parts, result.text.slice(end)];
  }

  /** Give a sentence its words, once it is on the screen. @param {HTMLElement} made */
  fill(made) {
    this.seen.unobserve(made);
    const meaning = this.meanings.get(made);
    if (!meaning?.sentence.words.length || made.firstElementChild) return;
    const { text, words } = meaning.sentence;
    let end = 0;
    const parts = words.flatMap((word) => {
      const level = levelOf(word);
      const one = element(
        level < 0 ? "span.t-word" : `span.t-word.unsure-${level}`,
        {},
        text.slice(word.start, word.end),
      );
      this.meanings.set(one, { ...meaning, word });
      const before = text.slice(end, word.start);
      end = word.end;
      return [before, one];
    });
    made.replaceChildren(...parts, text.slice(end));
  }

  /** @param {Element} target */
  lightAt(target) {
    const found = target.closest(".t-word, .t-sentence");
    if (found && !found.closest(".stale")) this.light(found);
    else this.light(null);
  }

  /** @param {Element | null} found a word or a sentence */
  light(found) {
    const meaning = found && this.meanings.get(found);
    for (const one of this.root.querySelectorAll(".t-lit, .near")) one.classList.remove("t-lit", "near");
    if (!found || !meaning) return this.hooks.light([]);
    if (meaning.word) found.classList.add("t-lit");
    found.closest(".t-sentence")?.classList.add("near");
    return this.hooks.light(rangesOf(meaning));
  }

  /** Light what was written from a character of the text. @param {number} offset */
  lightSource(offset) {
    const row = this.rows.findLast((one) => (one.pieces[0]?.start ?? Infinity) <= offset);
    const sentences = [...(row?.element.querySelectorAll(".t-sentence") ?? [])];
    const found = sentences.findLast((one) => this.startOf(one) <= offset);
    const meaning = found && this.meanings.get(found);
    if (!found || !meaning || this.startOf(found) + meaning.sentence.source.length < offset) return this.light(null);
    this.fill(/** @type {HTMLElement} */ (found));
    this.light(found);
    const at = offset - this.startOf(found);
    const words = [...found.children].filter((one) =>
      this.meanings.get(one)?.word?.sources.some(([start, end]) => start <= at && at <= end),
    );
    words.forEach((one) => one.classList.add("t-lit"));
    const ranges = words.slice(0, 1).flatMap((one) => rangesOf(/** @type {Meaning} */ (this.meanings.get(one))));
    return this.hooks.light(ranges.length ? ranges : rangesOf(meaning));
  }

  /** @param {Element} sentence */
  startOf(sentence) {
    const meaning = /** @type {Meaning} */ (this.meanings.get(sentence));
    return meaning.piece.start + meaning.at;
  }

  /** @param {HTMLElement} target */
  press(target) {
    if (getSelection()?.isCollapsed === false) return;
    const found = /** @type {HTMLElement | null} */ (target.closest(".t-word, .t-sentence"));
    if (found && !found.closest(".stale")) this.openAt(found);
  }

  /** @param {HTMLElement} found */
  openAt(found) {
    const meaning = this.meanings.get(found);
    if (!meaning) return;
    if (meaning.word) this.reach(found);
    this.hooks.open(meaning, found);
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    const steps = /** @type {Record<string, number>} */ ({ ArrowRight: 1, ArrowLeft: -1, ArrowDown: 1, ArrowUp: -1 });
    const { current } = this;
    if (event.key === "Enter" || event.key === " ") {
      if (!current?.isConnected) return;
      event.preventDefault();
      this.openAt(current);
    } else if (event.key in steps && !event.shiftKey && !event.ctrlKey && !event.metaKey && !event.altKey) {
      for (const one of this.root.querySelectorAll(".t-sentence")) this.fill(/** @type {HTMLElement} */ (one));
      const isSentence = event.key === "ArrowDown" || event.key === "ArrowUp";
      const all = [...this.root.querySelectorAll(isSentence ? ".t-word:first-child" : ".t-word")];
      const line = current?.closest("[dir]");
      const mirrored = !isSentence && line && getComputedStyle(line).direction === "rtl" ? -1 : 1;
      const from = current?.isConnected
        ? all.indexOf(closestOf(all, current))
        : steps[event.key] > 0
          ? -1
          : all.length;
      const next = all[Math.min(Math.max(from + steps[event.key] * mirrored, 0), all.length - 1)];
      if (!next) return;
      event.preventDefault();
      this.reach(/** @type {HTMLElement} */ (next));
    }
  }

  /** Let a word have the focus. @param {HTMLElement} word */
  reach(word) {
    if (this.current !== word) this.current?.removeAttribute("tabindex");
    this.current = word;
    for (const [name, value] of [
      ["tabindex", "-1"],
      ["role", "button"],
      ["aria-haspopup", "dialog"],
    ])
      word.setAttribute(name, value);
    word.focus();
  }

  /** The word at a character of a sentence, once it is drawn anew. @param {string} source @param {number} start */
  find(source, start) {
    for (const one of this.root.querySelectorAll(".t-sentence")) {
      if (this.meanings.get(one)?.sentence.source !== source) continue;
      this.fill(/** @type {HTMLElement} */ (one));
      const word = [...one.children].find((each) => this.meanings.get(each)?.word?.start === start);
      return /** @type {HTMLElement} */ (word ?? one);
    }
    return null;
  }
}

/** How unsure a word is: 0 most, 1 less, -1 not at all. @param {import("./result.js").Word} word */
export const levelOf = (word) => UNSURE.findIndex((most) => (word.confidence ?? 1) < most);

/** @param {Element[]} all @param {Element} one @returns {Element} itself, or the first word of its sentence */
const closestOf = (all, one) =>
  all.includes(one) ? one : (one.closest(".t-sentence")?.querySelector(".t-word:first-child") ?? one);

/** @param {Meaning} meaning @returns {[number, number][][]} */
function rangesOf({ piece, sentence, at, word }) {
  const start = piece.start + at;
  const words = word?.sources.map((range) => /** @type {[number, number]} */ ([start + range[0], start + range[1]]));
  return [[[start, start + sentence.source.length]], words ?? []];
}

/** @param {Row} row @param {Shown[]} line */
const isSame = (row, line) =>
  !row.element.classList.contains("stale")
  && row.pieces.length === line.length
  && line.every((one, at) => one.source === row.pieces[at].source && (one.result ?? one.partial) === row.made[at]);
