// @ts-check
/** The panel on a word: how sure it is, other words in its place, the whole sentence in other words, and why. */
import { element } from "../drawing/element.js";
import { findWords } from "./result.js";

/** @typedef {import("./output.js").Meaning} Meaning
 * @typedef {import("./result.js").Sentence} Sentence */

const MANY = 8; // outputs of the model, of which several begin alike

/** Chances in words. @param {number} chance */
const sureness = (chance) =>
  chance >= 0.9 ? "sure" : chance >= 0.75 ? "fairly sure" : chance >= 0.5 ? "not quite sure" : "not sure";

export class Alternatives {
  /** @param {{engine: () => import("./result.js").Engine, options: () => import("./result.js").Options,
   *   choose: (meaning: Meaning, sentence: Sentence) => void, say: (message: string) => void,
   *   why: (meaning: Meaning) => unknown, language: () => string}} hooks */
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
        "header",
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
        sentence.doubt ? `The sentence is probably wrong: ${sentence.doubt}.` : null,
      ),
      ...(word ? [element("h3", {}, "In its place"), others, own] : []),
      element("h3", {}, "The whole sentence"),
      whole,
      element("button.why", { onclick: () => this.hooks.why(meaning) }, word ? "Why this word?" : "Why?"),
    );
    own.addEventListener("keydown", (event) => {
      const value = /** @type {HTMLInputElement} */ (own).value.trim();
      if (event.key === "Enter" && value && word) this.follow(meaning, sentence.text.slice(0, word.start) + value);
    });
    this.show(at);
    if (word) this.list(others, meaning, sentence.text.slice(0, word.start));
    this.list(whole, meaning, null);
  }

  /** Below the word, or above where there is more room; on a phone the style sheet has it at the bottom.
   * @param {HTMLElement} at */
  show(at) {
    const box = at.getClientRects()[0] ?? at.getBoundingClientRect();
    this.root.showPopover();
    const { offsetWidth: width, offsetHeight: height } = this.root;
    const left = Math.max(8, Math.min(box.left, document.documentElement.clientWidth - width - 8));
    const below = box.bottom + 6 + height < innerHeight || box.top < height;
    this.root.style.setProperty("--left", `${left}px`);
    this.root.style.setProperty(
      "--top",
      `${below ? Math.min(box.bottom + 6, innerHeight - height - 8) : box.top - 6 - height}px`,
    );
    /** @type {HTMLElement} */ (this.root.querySelector("header button")).focus();
  }

  /** What else could stand there: with a prefix other next words, else other sentences.
   * @param {HTMLElement} place @param {Meaning} meaning @param {string | null} prefix */
  async list(place, meaning, prefix) {
    const { sentence, word } = meaning;
    const found = await this.ask(sentence, { prefix: (prefix ?? "").trim(), nBest: MANY });
    if (!found) return place.replaceChildren(element("p.note", {}, "None can be had now."));
    const texts = found.alternatives.map((one) => one.text).filter((text) => text.startsWith((prefix ?? "").trim()));
    const start = prefix?.length ?? 0;
    const named = texts.map((text) => ({ text, name: prefix === null ? text : firstWord(text.slice(start)) }));
    const now = prefix === null ? sentence.text : word?.text;
    const fit = named.filter(({ name }) => name && name !== now);
    const first = fit.filter(({ name }, at) => fit.findIndex((one) => one.name === name) === at);
    const buttons = first.map(({ name, text }) =>
      element(
        "button.choice",
        { dir: "auto", onclick: () => this.choose(meaning, text) },
        element("b", {}, name),
        prefix === null ? null : element("span.rest", {}, text.slice(start + name.length)),
      ),
    );
    place.replaceChildren(...(buttons.length ? buttons : [element("p.note", {}, "The model has no other.")]));
  }

  /** @param {Sentence} sentence @param {{prefix: string, nBest?: number}} asked
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

/** @param {number} share */
const percent = (share) => `${Math.round(100 * share)} %`;
