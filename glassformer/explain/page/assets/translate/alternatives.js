// @ts-check
/** The panel on a word: how sure it is, other words in its place, the whole sentence in other words, and why. */
import { element } from "../drawing/element.js";
import { findWords } from "./result.js";

/** @typedef {import("./output.js").Meaning} Meaning
 * @typedef {import("./result.js").Sentence} Sentence */

const MANY = 8; // outputs of the model, of which several begin alike
const WIDTH = 380; // of the panel, px, as in the style sheet

/** Chances in words. @param {number} chance */
const sureness = (chance) =>
  chance >= 0.9 ? "sure" : chance >= 0.75 ? "fairly sure" : chance >= 0.5 ? "not quite sure" : "not sure";

export class Alternatives {
  /** @param {{engine: () => import("./result.js").Engine, options: () => import("./result.js").Options,
   *   choose: (meaning: Meaning, sentence: Sentence) => void, say: (message: string) => void,
   *   why: (meaning: Meaning) => {inside: () => unknown, address?: string}, language: () => string}} hooks */
  constructor(hooks) {
    this.hooks = hooks;
    this.stop = new AbortController();
    this.root = element("div#alternatives.panel", {
      popover: "auto",
      role: "dialog",
      ontoggle: (/** @type {any} */ event) => event.newState === "closed" && this.stop.abort(),
    });
  }

  /** @param {Meaning} meaning @param {HTMLElement} at */
  open(meaning, at) {
    this.stop.abort();
    this.stop = new AbortController();
    const { sentence, word } = meaning;
    const lang = this.hooks.language();
    const others = element("div.choices", { lang }, element("p.note", {}, "Looking …"));
    const whole = element("div.choices", { lang }, element("p.note", {}, "Looking …"));
    const written = word?.sources.map((range) => sentence.source.slice(...range)).join(" ");
    const own = element("input", {
      type: "text",
      lang,
      dir: "auto",
      placeholder: "another word, then Enter",
      "aria-label": "Another word here; the rest of the sentence follows",
    });
    const title = word ? word.text : "Whole sentence";
    this.root.setAttribute("aria-label", word ? `Other words for ${word.text}` : "Other translations");
    this.root.replaceChildren(
      element(
        "div.panel-head",
        {},
        element("h2", {}, element("bdi", word ? { lang } : {}, title)),
        element("button.plain", { "aria-label": "Close", onclick: () => this.root.hidePopover() }, "✕"),
      ),
      element(
        "p.note",
        {},
        written ? ["from ", element("bdi", {}, written), ". "] : null,
        word && word.confidence !== null
          ? `The model is ${sureness(word.confidence)}: ${percent(word.confidence)}. `
          : "",
        sentence.doubt
          ? `The sentence is probably wrong: ${sentence.doubt}.`
          : sentence.confidence
            ? `The sentence is good with a chance of ${percent(sentence.confidence)}.`
            : null,
      ),
      ...(word ? [element("h3", {}, "In its place"), others, own] : []),
      element("h3", {}, "The whole sentence"),
      whole,
      this.whyOf(meaning),
    );
    own.addEventListener("keydown", (event) => {
      const value = /** @type {HTMLInputElement} */ (own).value.trim();
      if (event.key === "Enter" && value && word) this.follow(meaning, sentence.text.slice(0, word.start) + value);
    });
    this.show(at);
    const first = word ? this.list(others, meaning, word) : null;
    Promise.resolve(first).then(() => this.list(whole, meaning));
  }

  /** The way to what made the word: a page of the server, or the second view. @param {Meaning} meaning */
  whyOf(meaning) {
    const words = meaning.word ? "Why this word?" : "Why?";
    const { inside, address } = this.hooks.why(meaning);
    if (address) return element("a.why", { href: address, target: "_blank", rel: "noopener" }, words);
    return element("button.why", { onclick: inside }, words);
  }

  /** Below the word, or above where there is more room; on a phone the style sheet has it at the bottom.
   * @param {HTMLElement} at */
  show(at) {
    const box = at.getClientRects()[0] ?? at.getBoundingClientRect();
    const isBelow = innerHeight - box.bottom > Math.min(box.top, 420);
    const places = {
      left: `${Math.max(8, Math.min(box.left, document.body.clientWidth - WIDTH - 8))}px`,
      top: isBelow ? `${box.bottom + 6}px` : "auto",
      bottom: isBelow ? "auto" : `${innerHeight - box.top + 6}px`,
      room: `${(isBelow ? innerHeight - box.bottom : box.top) - 14}px`,
    };
    for (const [name, value] of Object.entries(places)) this.root.style.setProperty(`--${name}`, value);
    this.root.showPopover();
    /** @type {HTMLElement} */ (this.root.querySelector(".panel-head button")).focus();
  }

  /** Other sentences, or what else could stand at a word, each with what follows then.
   * @param {HTMLElement} place @param {Meaning} meaning @param {import("./result.js").Word} [word] */
  async list(place, meaning, word) {
    const { sentence } = meaning;
    const prefix = word ? sentence.text.slice(0, word.start) : "";
    const found = await this.ask(sentence, { prefix: prefix.trim(), nBest: MANY, differAt: word?.text });
    if (!found) return place.replaceChildren(element("p.note", {}, "None can be had now."));
    const named = found.alternatives
      .filter(({ text }) => text.startsWith(prefix.trim()) && text !== sentence.text)
      .map(({ text }) => ({ text, name: word ? firstWord(text.slice(prefix.length)) : text }));
    const other = named.filter(
      ({ name }, at) => name && name !== word?.text && named.findIndex((one) => one.name === name) === at,
    );
    const buttons = other.map(({ text }) =>
      element(
        "button.choice",
        { dir: "auto", onclick: () => this.choose(meaning, text) },
        ...difference(sentence.text, text, word ? prefix.length : 0),
      ),
    );
    return place.replaceChildren(...(buttons.length ? buttons : [element("p.note", {}, "The model has no other.")]));
  }

  /** @param {Sentence} sentence @param {{prefix: string, nBest?: number, differAt?: string}} asked
   * @returns {Promise<Sentence | null>} */
  async ask(sentence, asked) {
    const { signal } = this.stop;
    try {
      const options = { ...this.hooks.options(), ...asked, signal };
      const [result] = await this.hooks.engine().translate([sentence.source], options);
      return result.sentences.length === 1 ? result.sentences[0] : { ...sentence, ...joined(result) };
    } catch (error) {
      if (!signal.aborted) this.hooks.say(/** @type {Error} */ (error).message);
      return null;
    }
  }

  /** The sentence goes on behind what a person wrote. @param {Meaning} meaning @param {string} prefix */
  async follow(meaning, prefix) {
    const found = await this.ask(meaning.sentence, { prefix });
    if (found) this.finish(meaning, found);
  }

  /** @param {Meaning} meaning @param {string} text one of the alternatives */
  async choose(meaning, text) {
    const found = await this.ask(meaning.sentence, { prefix: text });
    this.finish(meaning, found?.text === text ? found : { ...meaning.sentence, text, words: [], doubt: null });
  }

  /** @param {Meaning} meaning @param {Sentence} sentence */
  finish(meaning, sentence) {
    this.root.hidePopover();
    this.hooks.choose(meaning, { ...sentence, source: meaning.sentence.source });
  }
}

/** @param {import("./result.js").Result} result */
const joined = ({ text, sentences }) => ({ text, words: [], alternatives: sentences[0]?.alternatives ?? [] });

/** @param {string} text */
function firstWord(text) {
  const [first] = findWords(text);
  return first ? text.slice(0, first[1]).trimStart() : "";
}

/** Another text from a character on, in which the words stand out that the first one has not.
 * @param {string} text @param {string} other @param {number} start @returns {(Node | string)[]} */
function difference(text, other, start) {
  const [own, its] = [text, other].map((one) => findWords(one).map((range) => one.slice(...range)));
  const places = findWords(other);
  let head = 0;
  while (head < its.length && own[head] === its[head]) head += 1;
  let tail = 0;
  while (tail < its.length - head && tail < own.length - head && own.at(-1 - tail) === its.at(-1 - tail)) tail += 1;
  const from = Math.max(places[head]?.[0] ?? other.length, start);
  const to = Math.max(places[its.length - 1 - tail]?.[1] ?? 0, from);
  return [
    element("span.t-rest", {}, other.slice(start, from)),
    element("b", {}, other.slice(from, to)),
    element("span.t-rest", {}, other.slice(to)),
  ];
}

/** @param {number} share */
const percent = (share) => `${Math.round(100 * share)}\u00a0%`;
