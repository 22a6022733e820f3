// @ts-check
/** The living page: a sentence that can be typed, edits that stack, and a worker that computes what follows from
 * them. */
import { element, printable } from "./drawing/element.js";
import { moduleOf, shortAddress } from "./record/addresses.js";
import { PassRecord } from "./record/record.js";
import { readWeights } from "./record/weights.js";
import { headsToTry, tellingHeads } from "./views/levers.js";
import { COMPUTING } from "./views/sentence.js";

/** @typedef {import("./page.js").Edit} Edit */

const PAUSE_MS = 180;
const hasLetter = (/** @type {string} */ text) => /\p{L}/u.test(text);
const MAX_TRIES = 80; // of silencing heads, in search of some that tell

export class Living {
  /** @param {import("./page.js").App} app @param {Promise<import("./worker/translator.js").ModelEngine>} opening */
  constructor(app, opening) {
    this.app = app;
    this.opening = opening;
    /** What `page/weights.py` made. @type {any} */ this.packed = null;
    this.ready = false;
    this.busy = false;
    this.held = true;
    this.text = app.record.sentence.source;
    /** The sentences of the text, each of which is translated by itself. */ this.sentences = [this.text];
    /** The number of the one that is shown. */ this.shown = 0;
    /** The translation of each sentence that is known. @type {Map<string, string>} */ this.translations = new Map();
    /** @type {PassRecord | null} */ this.record = null;
    /** The sentence with the translation that the edits lead to. @type {any} */ this.written = null;
    /** The heads whose silence changes the translation; null for none. @type {Edit[] | null | undefined} */
    this.telling = undefined;
    /** The source whose telling head is known or looked for. */ this.told = "";
    this.trouble = "";
    /** Decode settings of the run that the page's search leaves out. @type {string[]} */ this.ignored = [];
    this.job = 0;
    this.wanted = new AbortController();
    /** The pass that the worker holds, as text. */ this.passed = "";
    /** @type {{key: string, weights: Map<string, {shape: number[], data: Float32Array}>} | null} */ this.edited =
      null;
  }

  /** Load the model, and take up what the address in the URL asks for. @param {URLSearchParams} asked */
  async start(asked) {
    try {
      this.engine = await this.opening;
      this.packed = this.engine.living;
      this.ignored = this.engine.loaded.ignored;
      this.ready = true;
      const edits = readEdits(asked.get("edits") ?? "[]");
      this.app.edits.push(...edits.filter(isEdit));
      this.text = asked.get("text") ?? this.text;
      this.shown = /^\d{1,6}$/.test(asked.get("shown") ?? "") ? Number(asked.get("shown")) : 0;
      this.drawTyping();
      if (this.app.edits.length || asked.get("text") !== null) await this.recompute();
      else {
        this.app.redraw();
        this.findTellingHeads().catch((error) => this.leaveOutdated(error));
      }
      if (!edits.every(isEdit)) this.trouble = "This link has changes that cannot be read; they are left out.";
      this.draw();
    } catch (error) {
      this.fail(/** @type {Error} */ (error).message);
    }
  }

  /** What keeps the model from living is said; the recorded pass stays. @param {string} message */
  fail(message) {
    this.trouble = `This page shows the recorded pass only: ${message.slice(0, 200)}`;
    this.ready = false;
    this.drawTyping();
    this.app.redraw();
  }

  /** @param {string} call @param {...any} args @returns {Promise<any>} */
  call(call, ...args) {
    return /** @type {import("./worker/translator.js").ModelEngine} */ (this.engine).call(call, ...args);
  }

  /** The same for what is shown, which ends when something else is asked for.
   * @param {string} call @param {...any} args @returns {Promise<any>} */
  ask(call, ...args) {
    const { signal } = this.wanted;
    return /** @type {import("./worker/translator.js").ModelEngine} */ (this.engine).ask(call, args, { signal });
  }

  /** The number of a new job; what others asked for is not wanted any more. */
  nextJob() {
    this.wanted.abort();
    this.wanted = new AbortController();
    return (this.job += 1);
  }

  /** The weights as the edits have them. */
  weights() {
    const key = JSON.stringify(this.app.edits.filter((edit) => edit.index && "row" in edit.index));
    if (!this.plainWeights) this.plainWeights = readWeights(this.packed.weights);
    if (this.edited?.key !== key) this.edited = { key, weights: editedWeights(this.plainWeights, JSON.parse(key)) };
    return this.edited.weights;
  }

  /** @param {Edit} edit */
  toggleEdit(edit) {
    const same = (/** @type {Edit} */ one) =>
      one.address === edit.address && JSON.stringify(one.index) === JSON.stringify(edit.index);
    const found = this.app.edits.findIndex(same);
    const before = this.app.edits[found];
    if (found >= 0) this.app.edits.splice(found, 1);
    if (!before || before.operation !== edit.operation || before.value !== edit.value) this.app.edits.push(edit);
    this.recompute();
  }

  /** All of them, or none if all are there. @param {Edit[]} edits */
  toggleEdits(edits) {
    const key = (/** @type {Edit} */ edit) => JSON.stringify(edit);
    const wanted = new Set(edits.map(key));
    const others = this.app.edits.filter((edit) => !wanted.has(key(edit)));
    const there = this.app.edits.length - others.length === edits.length;
    this.app.edits.splice(0, Infinity, ...others, ...(there ? [] : edits));
    this.recompute();
  }

  /** Another sentence of the page is shown: what was typed and edited is left behind. */
  leave() {
    this.nextJob();
    this.record = null;
    this.app.edits.length = 0;
    this.app.before = null;
    setTimeout(() => {
      this.text = this.app.record.sentence.source;
      this.sentences = [this.text];
      this.drawTyping();
      this.drawSentences();
    });
  }

  reset() {
    this.app.edits.length = 0;
    this.text = this.app.records[this.app.sentence].sentence.source;
    this.drawTyping();
    this.recompute();
  }

  /** @param {string} text @param {number} caret in it: the sentence in which it stands is shown */
  type(text, caret) {
    this.text = text;
    this.caret = caret;
    this.setBusy(true);
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.recompute(), PAUSE_MS);
  }

  /** From the text and the edits to what the page shows. */
  async recompute() {
    const { app } = this;
    const job = this.nextJob();
    const recorded = app.records[app.sentence];
    this.trouble = "";
    const isRecorded = () => this.sentences[this.shown] === recorded.sentence.source;
    try {
      if (!this.text.trim()) {
        this.choose([""]);
        this.trouble = "Type a sentence in the field at the top.";
        this.setBusy(false);
        return app.redraw();
      }
      const known = this.text === recorded.sentence.source;
      const sentences = known ? [this.text] : await this.ask("split", this.text);
      if (job !== this.job) return undefined;
      this.choose(sentences);
      if (isRecorded() && !app.edits.length) return this.settle(job, recorded, null, null);
      this.setBusy(true);
      const plain = isRecorded() ? recorded.sentence : await this.read(sentences[this.shown]);
      if (job !== this.job) return undefined;
      const before = isRecorded() ? recorded : await this.pass(plain, []);
      if (!app.edits.length) return this.settle(job, before, null, null);
      const found = await this.ask("beam", plain.src_ids, { ...this.search(), edits: app.edits });
      const written = await this.sentenceOf(plain, found.best);
      const record = await this.pass(this.held ? plain : written, app.edits);
      return this.settle(job, record, before, written);
    } catch (error) {
      if (job === this.job) this.trouble = /** @type {Error} */ (error).message;
      this.setBusy(false);
      this.draw();
      return undefined;
    }
  }

  /** Which of the sentences is shown: that of the caret, or the one before. @param {string[]} sentences */
  choose(sentences) {
    this.sentences = sentences;
    let end = 0;
    const ends = sentences.map((one) => (end = this.text.indexOf(one, end) + one.length));
    const { caret } = this;
    if (caret !== undefined) {
      this.shown = ends.findIndex((one) => caret <= one);
      while (this.shown > 0 && !hasLetter(sentences[this.shown])) this.shown -= 1; // an emoji after a sentence
    }
    this.caret = undefined;
    if (this.shown < 0 || this.shown >= sentences.length) this.shown = sentences.length - 1;
    this.drawSentences();
  }

  /** A button for each sentence, where the text has several. */
  drawSentences() {
    const many = this.sentences.length > 1;
    const buttons = this.sentences.map((text, at) =>
      element(
        "button",
        {
          "aria-pressed": String(at === this.shown),
          onclick: () => {
            this.shown = at;
            this.recompute();
          },
        },
        element("bdi", {}, text),
        element("bdi.soft", {}, this.translations.get(text) ?? "…"),
      ),
    );
    document.getElementById("sentences")?.replaceChildren(...(many ? buttons : []));
  }

  /** In the background, the translations of the sentences that are not shown. @param {number} job */
  async translateOthers(job) {
    for (const text of this.sentences.length > 1 ? this.sentences : []) {
      if (this.copies(text)) this.translations.set(text, text);
      const tooLong = () => (job === this.job ? this.translations.set(text, "too long") : null);
      if (!this.translations.has(text)) await this.read(text).catch(tooLong);
      if (job !== this.job) return;
      this.drawSentences();
    }
  }

  /** @param {number} job @param {PassRecord} record @param {PassRecord | null} before @param {any} written */
  settle(job, record, before, written) {
    if (job !== this.job) return;
    this.record = record === this.app.records[this.app.sentence] && !before ? null : record;
    this.app.record = record;
    this.app.before = before;
    this.written = written;
    this.app.consumers = null;
    this.setBusy(false);
    this.app.set({});
    this.translateOthers(job)
      .then(() => (job === this.job ? this.findTellingHeads() : undefined))
      .catch((error) => this.leaveOutdated(error));
  }

  /** In the background, the first heads whose silence changes the translation. */
  async findTellingHeads() {
    const { sentence } = this.app.before ?? this.app.record;
    const source = sentence.src_ids.join();
    if (this.told === source) return;
    this.told = source;
    this.tell(undefined);
    const isWanted = () => {
      if (this.busy) this.told = ""; // what is asked for comes first
      return this.told === source;
    };
    const greedy = async (/** @type {Edit[]} */ edits) =>
      (await this.ask("greedy", sentence.src_ids, { ...this.search(), edits })).best.ids.join();
    const search = async (/** @type {Edit[]} */ edits) => {
      const { best } = await this.ask("beam", sentence.src_ids, { ...this.search(), edits });
      return (await this.ask("decodeIds", "tgt", best.ids)).text;
    };
    const [plainGreedy, plain] = [await greedy([]), await search([])];
    const later = [];
    for (const edits of headsToTry(this.app.config).slice(0, MAX_TRIES)) {
      if (!isWanted()) return;
      if ((await greedy(edits)) === plainGreedy)
        later.push(edits); // as most, and faster than to search with a beam
      else if ((await search(edits)) !== plain) return isWanted() ? this.tell(edits) : undefined;
    }
    for (const edits of later) {
      if (!isWanted()) return;
      if ((await search(edits)) !== plain) return isWanted() ? this.tell(edits) : undefined;
    }
    if (isWanted()) this.tell(null);
  }

  /** @param {Error} error of what was not wanted any more */
  leaveOutdated(error) {
    if (error.name !== "AbortError") throw error;
    this.told = "";
  }

  /** @param {Edit[] | null | undefined} edits */
  tell(edits) {
    this.telling = edits;
    document.getElementById("telling")?.replaceWith(tellingHeads(this.app));
  }

  /** The run's settings, of which the worker takes those that its search has. */
  search() {
    return { ...this.packed.decode, n_best: 1 };
  }

  /** Whether `glassformer translate` leaves a sentence as it is. @param {string} text */
  copies(text) {
    return Boolean(this.packed?.decode.copy_wordless) && !hasLetter(text);
  }

  /** What the model reads, where that is not what was typed, and what `glassformer translate` does besides. */
  readNote() {
    const typed = this.sentences[this.shown].replace(/\s+/gu, " ").trim();
    const read = this.app.record.sentence.source;
    const isCopied = this.copies(typed);
    if (this.busy || !this.record || !typed || (read === typed && !isCopied)) return null;
    if (isCopied)
      return element(
        "p.note.reads",
        {},
        "glassformer translate copies what has no letter. This is what the model makes of it.",
      );
    const does = /[{}<>%$&`@]|:\/\//.test(typed)
      ? "restores {name} and other codes afterwards"
      : "puts back the capitals and signs that were typed";
    return element(
      "p.note.reads",
      {},
      "The model reads “",
      element("bdi", {}, printable(read)),
      `”; glassformer translate ${does}.`,
    );
  }

  /** Which settings of the run the page's search leaves out, where it shows what that search found. */
  ignoredNote() {
    const { ignored } = this;
    if (!ignored.length) return null;
    const settings = ignored.map((name) => `${name} = ${this.packed.decode[name]}`).join(", ");
    return element(
      "p.left-out.ignored",
      {},
      `This run is set to ${settings}. The search of this page leaves ${ignored.length === 1 ? "that" : "those"} out, so that glassformer translate may write something else.`,
    );
  }

  /** A typed text as ids and its translation. @param {string} text @returns {Promise<any>} */
  async read(text) {
    const { config } = this.app;
    const read = await this.ask("encodeText", "src", text);
    if (read.ids.length + 1 > config.max_length)
      throw new Error(
        `The text has ${read.ids.length + 1} tokens, and this model takes ${config.max_length}. Shorten it.`,
      );
    const src_ids = [...read.ids, config.eos_id];
    const derivation = {
      normalised: read.normalised,
      pre_tokens: read.steps.map((/** @type {any} */ part) => ({
        text: part.text,
        tokens: part.tokens,
        ids: part.ids,
        ...mergeStates(part),
      })),
    };
    const { best } = await this.ask("beam", src_ids, this.search());
    const found = await this.sentenceOf(
      { source: read.text, forced: false, src_ids, src_tokens: [...read.tokens, "</s>"], derivation },
      best,
    );
    this.translations.set(text, found.target);
    return found;
  }

  /** @param {any} source @param {{ids: number[], log_prob: number}} best what was written, with </s>
   * @returns {Promise<any>} */
  async sentenceOf(source, { ids, log_prob: logProb }) {
    const tgt_in_ids = [this.app.config.bos_id, ...ids.slice(0, -1)];
    const { text, tokens } = await this.ask("decodeIds", "tgt", ids);
    const read = await this.ask("decodeIds", "tgt", tgt_in_ids);
    const judged = { source: source.source, target: text, ids, logProb };
    return {
      ...source,
      target: text,
      forced: false,
      confidence: await this.ask("confidence", judged),
      tgt_in_ids,
      tgt_out_ids: ids,
      tgt_in_tokens: read.tokens,
      tgt_out_tokens: tokens,
    };
  }

  /** One pass in the worker. @param {any} sentence @param {Edit[]} edits @returns {Promise<PassRecord>} */
  async pass(sentence, edits) {
    this.passed = JSON.stringify([sentence.src_ids, sentence.tgt_in_ids, edits]);
    const { taps } = await this.ask("pass", sentence.src_ids, sentence.tgt_in_ids, { edits });
    addChoice(taps);
    const record = new PassRecord(sentence, taps, this.app.about.vocab);
    record.parameters = () => this.weights();
    return record;
  }

  /** Let the worker hold the pass that is shown, which the attributions explain. */
  async holdShown() {
    const { sentence } = this.app.record;
    if (this.passed !== JSON.stringify([sentence.src_ids, sentence.tgt_in_ids, this.app.edits]))
      await this.pass(sentence, this.app.edits);
  }

  /** What a link carries in addition to the place. */
  link() {
    /** @type {Record<string, string>} */
    const carried = {};
    if (this.text !== this.app.records[this.app.sentence].sentence.source) carried.text = this.text;
    if (this.shown) carried.shown = String(this.shown);
    if (this.app.edits.length) carried.edits = JSON.stringify(this.app.edits);
    return carried;
  }

  /** What is on the screen is stale while the page computes, and when it could not. @param {boolean} busy */
  setBusy(busy) {
    this.busy = busy;
    this.app.root.classList.toggle("stale", busy || this.trouble !== "");
    const state = this.app.root.querySelector(".state");
    if (state) state.textContent = busy ? COMPUTING : "";
  }

  drawTyping() {
    const place = document.getElementById("typing");
    if (!place) return;
    if (!this.ready) return place.replaceChildren(this.trouble ? element("p.left-out", {}, this.trouble) : "");
    place.replaceChildren(
      element("input#text", {
        type: "text",
        value: this.text,
        dir: "auto",
        spellcheck: "false",
        "aria-label": "Source sentence: type, and the model translates it",
        oninput: (/** @type {any} */ event) => this.type(event.target.value, event.target.selectionStart),
      }),
    );
    return undefined;
  }

  draw() {
    const place = /** @type {HTMLElement} */ (document.getElementById("edits"));
    const { app } = this;
    if (app.root.classList.contains("as-before")) return undefined;
    if (this.trouble && this.ready)
      return place.replaceChildren(
        element("p.left-out", {}, this.trouble),
        app.edits.length ? element("button", { onclick: () => this.reset() }, "Reset") : "",
      );
    const ignored = this.record ? this.ignoredNote() : null;
    if (!app.edits.length) return place.replaceChildren(...(ignored ? [ignored] : []));
    const chips = app.edits.map((edit) =>
      element(
        "span.edit",
        {},
        inWords(edit, app),
        element(
          "button",
          {
            "aria-label": `undo: ${inWords(edit, app)}`,
            onclick: () => this.toggleEdit({ ...edit }),
          },
          "✕",
        ),
      ),
    );
    place.replaceChildren(
      element(
        "div.edit-list",
        {},
        element("b", {}, `${app.edits.length} ${app.edits.length === 1 ? "change" : "changes"}:`),
        chips,
        element("button", { onclick: () => this.reset() }, "Reset"),
      ),
      ignored ?? "",
      element(
        "div.edit-list",
        {},
        element(
          "label",
          {},
          element("input", {
            type: "checkbox",
            checked: this.held,
            onchange: (/** @type {any} */ event) => {
              this.held = event.target.checked;
              this.recompute();
            },
          }),
          " keep the pieces and numbers of the translation before",
        ),
        element("small", {}, "What differs is outlined."),
        element(
          "button.hold",
          {
            title: "Also the key B",
            onpointerdown: () => app.showBefore(true),
            onpointerup: () => app.showBefore(false),
            onpointerleave: () => app.showBefore(false),
          },
          "Hold: as it was",
        ),
      ),
    );
    return undefined;
  }
}

/** What a link carries as edits, which anybody may have written. @param {string} text @returns {any[]} */
function readEdits(text) {
  try {
    const found = JSON.parse(text);
    return Array.isArray(found) ? found : [found];
  } catch {
    return [text];
  }
}

/** @param {any} edit */
const isEdit = (edit) =>
  typeof edit?.address === "string"
  && ["undefined", "object"].includes(typeof edit.index)
  && edit.index !== null
  && (edit.operation === "zero" || (["set", "scale"].includes(edit.operation) && typeof edit.value === "number"));

/** The most probable token of each position. @param {Map<string, any>} taps */
function addChoice(taps) {
  const tap = taps.get("output_projection.probabilities");
  if (!tap) return;
  const [batch, positions, vocab] = tap.shape;
  const ids = new Float32Array(positions);
  const most = new Float32Array(positions);
  for (let at = 0; at < positions; at += 1) {
    for (let id = 0; id < vocab; id += 1) {
      const value = tap.data[at * vocab + id];
      if (id === 0 || value > most[at]) {
        most[at] = value;
        ids[at] = id;
      }
    }
  }
  taps.set("choice.next_ids", { axes: ["batch", "tgt"], shape: [batch, positions], data: ids });
  taps.set("choice.next_probabilities", { axes: ["batch", "tgt"], shape: [batch, positions], data: most });
}

/** The symbols of a word at first and after each merge, and its steps in words. @param {any} part */
function mergeStates(part) {
  const merges = part.steps.filter((/** @type {any} */ step) => step.step === "merge");
  const steps = part.steps.map((/** @type {any} */ step) =>
    step.step === "merge"
      ? `${step.left} + ${step.right} → ${step.result} (merge ${step.rank})`
      : step.step === "match"
        ? `${step.rest} → ${step.piece} (longest match)`
        : step.step === "lookup"
          ? `${step.piece} → ${step.result}`
          : `${step.pieces?.join(" + ")} = ${step.total?.toFixed(2)}`,
  );
  if (merges.length !== part.steps.length || merges.length > 40) return { steps, states: [] };
  const symbols = new Map(part.symbols.map((/** @type {string} */ symbol, /** @type {number} */ at) => [at, symbol]));
  const states = [[...symbols.values()]];
  for (const { start, middle, result } of merges) {
    symbols.set(start, result);
    symbols.delete(middle);
    states.push([...symbols.values()]);
  }
  return { steps, states };
}

/** @param {Map<string, {shape: number[], data: Float32Array}>} weights @param {Edit[]} edits */
function editedWeights(weights, edits) {
  if (!edits.length) return weights;
  const copy = new Map(weights);
  for (const { address, index, operation, value } of edits) {
    const tied = [address, "tgt_embedding.tokens.weight", "src_embedding.tokens.weight"].find(
      (name) => copy.has(name) && (name === address || /tokens|output_projection/.test(address)),
    );
    const weight = tied ? copy.get(tied) : undefined;
    if (!weight || !tied || !index) continue;
    const data = weight.data.slice();
    const width = weight.shape[1] ?? 1;
    const at = index.row * width + (index.column ?? 0);
    data[at] = operation === "zero" ? 0 : operation === "scale" ? data[at] * (value ?? 1) : (value ?? 0);
    copy.set(tied, { shape: weight.shape, data });
  }
  return copy;
}

/** @param {Edit} edit @param {import("./page.js").App} app */
function inWords(edit, app) {
  const { address, index = {}, operation, value } = edit;
  if (address === "src_mask") return `source token ${app.record.sentence.src_tokens[index.src] ?? index.src} hidden`;
  if (address === "causal_mask") return "causal mask lifted";
  if (/\.heads$/.test(address) && Object.keys(index).length === 1 && operation === "zero")
    return `${shortAddress(moduleOf(address))}, head ${index.heads} off`;
  const where = Object.entries(index)
    .map(([axis, at]) => `${axis} ${at}`)
    .join(", ");
  return `${shortAddress(address)} [${where}] ${operation === "zero" ? "= 0" : operation === "scale" ? `× ${value}` : `= ${value}`}`;
}
