// @ts-check
/** The page in one file: the Translate view in front, the living page behind it, and one model for both. */
import { start } from "../page.js";
import { createTranslatorApi, openModelEngine, readModelData } from "../worker/translator.js";
import { placeTokens } from "./result.js";
import { TEXT_ENDINGS, translateTextFile } from "./text_files.js";
import { TranslateView } from "./view.js";

/** @typedef {import("./output.js").Meaning} Meaning */

const FRONT = "#translate";

class TwoViews {
  /** @param {Promise<import("../worker/translator.js").ModelEngine>} engine */
  constructor(engine) {
    this.engine = engine;
    this.front = /** @type {HTMLElement} */ (document.getElementById("translate"));
    this.back = /** @type {HTMLElement} */ (document.getElementById("app"));
    /** @type {TranslateView | null} */ this.view = null;
    /** @type {ReturnType<typeof start> | null} */ this.living = null;
    window.addEventListener("hashchange", () => this.show(location.hash === FRONT));
    const isFront =
      location.hash === FRONT || (!location.hash && document.documentElement.dataset.first === "translate");
    if (isFront) history.replaceState(null, "", FRONT);
    this.show(isFront);
  }

  /** @param {boolean} isFront */
  show(isFront) {
    this.front.hidden = !isFront;
    this.back.hidden = isFront;
    if (isFront) this.openFront();
    else this.living ??= start(this.engine);
  }

  async openFront() {
    if (this.view) return this.view.input?.focus();
    this.front.replaceChildren("The model is loading …");
    try {
      const engine = await this.engine;
      const { directions } = engine;
      const files = {
        endings: TEXT_ENDINGS,
        translate: (/** @type {File} */ file, /** @type {any} */ options) => translateTextFile(engine, file, options),
      };
      /** @type {import("./result.js").Engine} */
      const own = {
        directions,
        translate: (texts, options) => engine.translate(texts, /** @type {any} */ (options)),
        files,
      };
      this.view ??= new TranslateView(this.front, own, { inside: (text, meaning) => this.look(text, meaning) });
    } catch (error) {
      this.front.replaceChildren(`The model of this page cannot be opened: ${/** @type {Error} */ (error).message}`);
    }
    return undefined;
  }

  /** The living page of a sentence, at what made the word, if there is one.
   * @param {string} text @param {Meaning | null} meaning */
  async look(text, meaning) {
    const source = meaning?.sentence.source ?? text.split("\n").find((line) => line.trim());
    location.hash = "#";
    this.show(false);
    const { app, awake } = await /** @type {ReturnType<typeof start>} */ (this.living);
    await awake;
    if (!source || !app.living?.ready) return;
    app.living.text = source.trim();
    app.living.shown = 0;
    app.living.drawTyping();
    await app.living.recompute();
    const { word } = meaning ?? {};
    const { target, tgt_out_tokens: tokens } = app.record.sentence;
    const at = placeTokens(tokens, target).spans.findIndex((span) => word && span && span[1] > word.start);
    app.set({ step: Math.max(at, 0) });
    app.go(word ? "why" : "");
  }
}

const data = readModelData(document);
if (data) {
  const engine = openModelEngine(data);
  /** @type {any} */ (window).glassformer = {
    /** For other scripts. @param {string[]} texts @param {any} [options] */
    translate: async (texts, options) => (await engine).translate(texts, options),
    Translator: createTranslatorApi(() => engine),
  };
  new TwoViews(engine);
} else start();
