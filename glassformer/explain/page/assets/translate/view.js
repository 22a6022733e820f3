// @ts-check
/** The Translate view: a text, its translation, and what a person does with both. */
import { element } from "../drawing/element.js";
import { isDark } from "../drawing/scale.js";
import { Alternatives } from "./alternatives.js";
import { FilesView } from "./files.js";
import { GlossaryTable, History } from "./keeping.js";
import { levelOf, Output } from "./output.js";
import { cutText, replaceSentence } from "./result.js";
import { recall, remember } from "./storage.js";

/** @typedef {import("./result.js").Result} Result */
/** @typedef {import("./output.js").Meaning} Meaning */

const PAUSE_MS = 120;
const SLOW_MS = 1500;
const SETTLED_MS = 2000; // a text that stays so long is history
const BATCH = { texts: 32, characters: 4000 };
const MOST_REFINED = 12_000; // characters of a text whose words are looked up at once
const MOST_LIT = 30_000; // of a text in which the words of the source are lit
const MOST_KEPT = 20_000; // results
const MOST_DOUBTS = 5;

export class TranslateView {
  /** @param {HTMLElement} root @param {import("./result.js").Engine} engine
   * @param {{inside?: (text: string, meaning: Meaning | null) => unknown}} [more] `inside` opens the second view */
  constructor(root, engine, { inside } = {}) {
    this.engine = engine;
    this.inside = inside;
    this.direction = engine.directions[0];
    this.stop = new AbortController();
    /** @type {Map<string, Result>} */ this.results = new Map();
    /** @type {WeakSet<Result>} */ this.refined = new WeakSet();
    /** @type {Map<string, string>} */ this.partial = new Map();
    this.output = new Output({
      light: (ranges) => this.lightSource(ranges),
      open: (meaning, at) => this.alternatives.open(meaning, at),
    });
    this.alternatives = new Alternatives({
      engine: () => this.engine,
      options: () => this.options(),
      choose: (meaning, sentence) => this.choose(meaning, sentence),
      say: (message) => this.say(message),
      why: (meaning) => this.why(meaning),
      language: () => this.direction.target,
    });
    this.glossary = new GlossaryTable(() => this.forget());
    this.history = new History((entry) => this.restore(entry));
    this.files = new FilesView(engine, () => this.options());
    this.build(root);
    const last = recall("direction", this.direction);
    this.turn(this.find(last.source, last.target) ?? this.direction);
  }

  /** @param {HTMLElement} root */
  build(root) {
    document.documentElement.dataset.theme = recall("theme", "") || document.documentElement.dataset.theme || "";
    this.input = /** @type {HTMLTextAreaElement} */ (
      element("textarea#source", {
        placeholder: "Type or paste a text",
        "aria-label": "Text to translate",
        oninput: () => this.typed(),
        onkeyup: () => this.followCaret(),
        onclick: () => this.followCaret(),
        onpointermove: (/** @type {PointerEvent} */ event) => this.followPointer(event),
        onpointerleave: () => this.output.light(null),
      })
    );
    this.mirror = element("div.mirror", { "aria-hidden": "true" });
    this.from = element("select", { "aria-label": "From", onchange: () => this.chosen("source") });
    this.to = element("select", { "aria-label": "To", onchange: () => this.chosen("target") });
    this.swap = element(
      "button.plain.swap",
      { "aria-label": "Swap the languages", onclick: () => this.turnRound() },
      "⇄",
    );
    this.status = element("p.status", { role: "status" });
    this.trouble = element("div.trouble", { role: "alert", hidden: true });
    this.count = element("span.amount");
    this.remarks = element("ul.remarks");
    this.legend = element(
      "p.note",
      { hidden: true },
      element("span.unsure-1", {}, "Shaded words"),
      " are less sure.",
    );
    const text = element("section.panes", {}, this.sourcePane(), this.targetPane());
    const files = element("section.files", { hidden: true }, this.files.root);
    const show = (/** @type {boolean} */ isFiles) => {
      text.hidden = isFiles;
      files.hidden = !isFiles;
      for (const [at, tab] of [...tabs.children].entries())
        tab.setAttribute("aria-pressed", String((at === 1) === isFiles));
    };
    const tabs = element(
      "div.tabs",
      {},
      element("button", { "aria-pressed": "true", onclick: () => show(false) }, "Text"),
      this.engine.files ? element("button", { "aria-pressed": "false", onclick: () => show(true) }, "Files") : null,
    );
    this.files.shown = () => show(true);
    const languages = element("div.languages", {}, this.from, this.swap, this.to);
    root.replaceChildren(
      this.header(),
      element(
        "main",
        {},
        element("div.bar", {}, languages, tabs),
        this.trouble,
        text,
        files,
        this.remarks,
        element("div.drawers", {}, this.glossary.root, this.history.root),
      ),
      this.alternatives.root,
    );
    this.files.catchDrops(root);
    if (matchMedia("(hover: hover)").matches) this.input.focus(); // a finger would open the keyboard
  }

  header() {
    const theme = () => {
      const { dataset } = document.documentElement;
      dataset.theme = isDark() ? "light" : "dark";
      remember("theme", dataset.theme);
    };
    return element(
      "header.top",
      {},
      element("h1", {}, "glassformer"),
      element("span.stretch"),
      this.inside
        ? element("button", { onclick: () => this.inside?.(this.input?.value ?? "", null) }, "Look inside")
        : null,
      element("button.plain", { "aria-label": "Light or dark", title: "Light or dark", onclick: theme }, "◐"),
    );
  }

  sourcePane() {
    const clear = element("button.plain", { "aria-label": "Clear the text", onclick: () => this.write("") }, "✕");
    return element(
      "div.pane",
      {},
      element("div.field", {}, this.mirror, this.input, clear),
      element("footer", {}, this.count),
    );
  }

  targetPane() {
    const copy = element("button", { onclick: () => this.copy() }, "Copy");
    const others = element("button", { onclick: () => this.openFirst() }, "Alternatives");
    return element(
      "div.pane.target",
      {},
      this.output.root,
      element("footer", {}, this.legend, this.status, element("span.buttons", {}, others, copy)),
    );
  }

  get text() {
    return this.input?.value ?? "";
  }

  /** @returns {import("./result.js").Options} */
  options() {
    return { ...this.direction, glossary: this.glossary.complete, signal: this.stop.signal };
  }

  /** @param {string} source @param {string} target */
  find(source, target) {
    return this.engine.directions.find((one) => one.source === source && one.target === target);
  }

  /** @param {string} code of a language */
  nameOf(code) {
    const known = this.engine.names?.[code];
    if (known) return known;
    try {
      return new Intl.DisplayNames(["en"], { type: "language" }).of(code) ?? code;
    } catch {
      return code; // no code of a language
    }
  }

  /** Translate in another direction. @param {{source: string, target: string}} direction */
  turn(direction) {
    this.direction = direction;
    remember("direction", direction);
    const { source, target } = direction;
    const options = (/** @type {"source" | "target"} */ side, /** @type {string} */ chosen) => {
      const fit = this.engine.directions.filter((one) => side === "source" || one.source === source);
      return [...new Set(fit.map((one) => one[side]))].map((code) =>
        element("option", { value: code, selected: code === chosen }, this.nameOf(code)),
      );
    };
    this.from?.replaceChildren(...options("source", source));
    this.to?.replaceChildren(...options("target", target));
    this.swap?.toggleAttribute("disabled", !this.find(target, source));
    if (this.input) this.input.lang = source;
    this.glossary.open(`${source}-${target}`);
    this.forget();
  }

  /** @param {"source" | "target"} side */
  chosen(side) {
    const [source, target] = [this.from, this.to].map((one) => /** @type {HTMLSelectElement} */ (one).value);
    const found = this.find(source, target) ?? this.engine.directions.find((one) => one.source === source);
    if (found) this.turn(side === "source" ? found : { source, target });
  }

  turnRound() {
    const { source, target } = this.direction;
    const text = this.translation();
    if (this.input && text.trim()) this.input.value = text;
    this.turn({ source: target, target: source });
  }

  /** What was translated is translated anew. */
  forget() {
    this.results.clear();
    this.later(0);
  }

  /** @param {string} text */
  write(text) {
    if (this.input) this.input.value = text;
    this.input?.focus();
    this.typed();
  }

  typed() {
    if (this.mirror?.firstChild) this.mirror.replaceChildren();
    this.later(PAUSE_MS);
  }

  /** @param {number} pause in milliseconds */
  later(pause) {
    this.stop.abort();
    this.stop = new AbortController();
    clearTimeout(this.timer);
    clearTimeout(this.settling);
    this.timer = setTimeout(() => this.translate(), pause);
  }

  /** From the text to what is shown. What another one has asked for in between is not shown. */
  async translate() {
    const { signal } = this.stop;
    const { text } = this;
    this.partial.clear();
    this.lines = cutText(text);
    const limit = this.engine.limit ?? Infinity;
    const length = text.length.toLocaleString("en");
    if (this.count) this.count.textContent = text ? `${length} characters` : "";
    if (this.results.size > MOST_KEPT) this.results.clear();
    this.draw();
    const all = [...new Set(this.lines.flat().map((one) => one.source))];
    const missing = all.filter((one) => !this.results.has(one));
    const slow = setTimeout(() => this.tell("Still waiting for the translation …"), SLOW_MS);
    try {
      for (const batch of batches(missing, Math.min(BATCH.characters, limit))) {
        const done = all.length - missing.length + missing.indexOf(batch[0]);
        if (all.length > BATCH.texts) this.tell(`Translating: ${done} of ${all.length} parts`);
        const onPartial = (/** @type {number} */ at, /** @type {string} */ part) =>
          this.showPart(signal, batch[at], part);
        const found = await this.engine.translate(batch, { ...this.options(), signal, onPartial });
        if (signal.aborted) return;
        found.forEach((result, at) => this.results.set(batch[at], result));
        this.draw();
      }
      this.hush();
      this.tell("");
      clearTimeout(slow);
      this.settling = setTimeout(() => this.settle(), SETTLED_MS);
      if (text.length <= MOST_REFINED) await this.refine(all, signal);
    } catch (error) {
      if (!signal.aborted) this.fail(/** @type {Error} */ (error));
    } finally {
      clearTimeout(slow);
    }
  }

  /** @param {AbortSignal} signal @param {string} source @param {string} part */
  showPart(signal, source, part) {
    if (signal.aborted || this.results.has(source)) return;
    if (!this.partial.size) requestAnimationFrame(() => this.draw());
    else if (this.partial.get(source) !== part) requestAnimationFrame(() => this.draw());
    this.partial.set(source, part);
  }

  /** Ask for the words of what is translated, where the engine has not given them. @param {string[]} all
   * @param {AbortSignal} signal */
  async refine(all, signal) {
    const { refine } = this.engine;
    const plain = all.filter((one) => !this.refined.has(/** @type {Result} */ (this.results.get(one))));
    if (!refine || !plain.length) return;
    for (const batch of batches(plain, BATCH.characters)) {
      const results = batch.map((one) => /** @type {Result} */ (this.results.get(one)));
      const found = await refine.call(this.engine, batch, results, { ...this.options(), signal });
      if (signal.aborted) return;
      found.forEach((result, at) => {
        if (this.results.get(batch[at]) !== results[at]) return; // chosen in between
        this.results.set(batch[at], result);
        this.refined.add(result);
      });
      this.draw();
    }
  }

  draw() {
    const lines = (this.lines ?? []).map((pieces) =>
      pieces.map((one) => ({ ...one, result: this.results.get(one.source), partial: this.partial.get(one.source) })),
    );
    this.output.show(lines, this.direction.target);
    this.drawRemarks(lines.flat());
  }

  /** What wants a look, each with a way to it. @param {import("./output.js").Shown[]} pieces */
  drawRemarks(pieces) {
    const found = pieces.flatMap(({ source, result }) => (result?.check ?? []).map((remark) => ({ source, remark })));
    const some = found.slice(0, MOST_DOUBTS).map(({ source, remark }) => {
      const start = source.length > 60 ? `${source.slice(0, 60)} …` : source;
      const look = (/** @type {Event} */ event) => this.look(event, source);
      return element(
        "li",
        {},
        element("a", { href: "#output", onclick: look }, element("bdi", {}, start)),
        ` ${remark}`,
      );
    });
    const others = found.length - some.length;
    this.remarks?.replaceChildren(...some, ...(others > 0 ? [element("li", {}, `and ${others} more`)] : []));
    const sentences = pieces.slice(0, 200).flatMap((one) => one.result?.sentences ?? []);
    const isUnsure = sentences.some((one) => one.doubt || one.words.some((word) => levelOf(word) >= 0));
    if (this.legend) this.legend.hidden = !isUnsure;
  }

  /** @param {Event} event @param {string} source of what a remark is on */
  look(event, source) {
    event.preventDefault();
    const at = this.lines?.flat().find((one) => one.source === source)?.start ?? 0;
    this.output.lightSource(at);
    this.output.root.querySelector(".near")?.scrollIntoView({ block: "nearest" });
  }

  translation() {
    return (this.lines ?? [])
      .map((pieces) => pieces.map(({ source, gap }) => gap + (this.results.get(source)?.text ?? "")).join(""))
      .join("\n");
  }

  /** A text that stays becomes history. */
  settle() {
    const translation = this.translation();
    if (translation.trim()) this.history.add({ ...this.direction, text: this.text, translation });
  }

  /** @param {import("./keeping.js").Entry} entry */
  restore({ source, target, text }) {
    const known = this.find(source, target);
    if (known) this.turn(known);
    this.write(String(text));
  }

  async copy() {
    const text = this.translation();
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      const area = /** @type {HTMLTextAreaElement} */ (element("textarea", {}, text)); // a file may not write there
      this.status?.append(area);
      area.select();
      document.execCommand("copy");
    }
    this.tell("Copied");
  }

  /** The alternatives of the sentence at the caret, or of the first. */
  openFirst() {
    const found = this.output.root.querySelector(".t-sentence.near") ?? this.output.root.querySelector(".t-sentence");
    const meaning = found && this.output.meanings.get(found);
    if (meaning) this.alternatives.open(meaning, /** @type {HTMLElement} */ (found));
    else this.tell("There is no translation yet.");
  }

  /** @param {Meaning} meaning @param {import("./result.js").Sentence} other */
  choose({ piece, sentence, word }, other) {
    const result = this.results.get(piece.source);
    if (!result?.sentences.includes(sentence)) return;
    const changed = replaceSentence(result, sentence, other);
    this.results.set(piece.source, changed);
    if (other.words.length) this.refined.add(changed);
    this.draw();
    const found = this.output.find(sentence.source, word?.start ?? 0);
    if (found?.matches(".t-word")) this.output.reach(found);
  }

  /** The way to what made the word. @param {Meaning} meaning */
  why(meaning) {
    const { sentence, word = null } = meaning;
    const address = this.engine.explain?.(sentence, word, this.options());
    return { inside: () => this.inside?.(this.text, meaning), address };
  }

  /** @param {[number, number][][]} ranges of the sentence and of its words, in the text */
  lightSource([sentences = [], words = []]) {
    if (!this.mirror || (!sentences.length && !this.mirror.firstChild)) return;
    const { text } = this;
    if (!sentences.length || text.length > MOST_LIT) return this.mirror.replaceChildren();
    const [start, end] = sentences[0];
    let at = start;
    const inner = words.flatMap(([from, to]) => {
      const before = text.slice(at, from);
      at = to;
      return [before, element("mark.t-lit", {}, text.slice(from, to))];
    });
    this.mirror.replaceChildren(
      text.slice(0, start),
      element("mark.near", {}, ...inner, text.slice(at, end)),
      `${text.slice(end)}\n`,
    );
  }

  followCaret() {
    const { input } = this;
    if (input && input.selectionStart === input.selectionEnd) this.output.lightSource(input.selectionStart);
  }

  /** @param {PointerEvent} event */
  followPointer({ clientX, clientY }) {
    const place = /** @type {any} */ (document).caretPositionFromPoint?.(clientX, clientY);
    if (place?.offsetNode === this.input) this.output.lightSource(place.offset);
  }

  /** @param {string} message quiet news */
  tell(message) {
    if (this.status && this.status.textContent !== message) this.status.textContent = message;
  }

  /** @param {string} message trouble that a person should read @param {...Node} more */
  say(message, ...more) {
    this.trouble?.replaceChildren(element("p", {}, message), ...more);
    this.trouble?.removeAttribute("hidden");
  }

  hush() {
    this.trouble?.setAttribute("hidden", "");
  }

  /** @param {Error & {kind?: string}} error */
  fail(error) {
    this.tell("");
    const again = element("button", { onclick: () => this.later(0) }, "Try again");
    if (error.kind === "gone") return this.say(`${error.message} Your text stays here.`, again);
    if (error.kind !== "key") return this.say(error.message, again);
    const key = element("input", {
      type: "text",
      autocomplete: "off",
      "aria-label": "Key of this server",
      placeholder: "its key",
      onchange: (/** @type {any} */ event) => {
        /** @type {any} */ (this.engine).key = event.target.value.trim();
        this.later(0);
      },
    });
    return this.say(`The server asks for a key: ${error.message}`, key);
  }
}

/** What is asked for at a time. @param {string[]} texts @param {number} characters */
function* batches(texts, characters) {
  let batch = /** @type {string[]} */ ([]);
  let size = 0;
  for (const text of texts) {
    if (batch.length && (batch.length === BATCH.texts || size + text.length > characters)) {
      yield batch;
      [batch, size] = [[], 0];
    }
    batch.push(text);
    size += text.length;
  }
  if (batch.length) yield batch;
}
