// @ts-check
/** What a person keeps: a glossary for each direction, and the last translations. */
import { element } from "../drawing/element.js";
import { recall, remember, save } from "./storage.js";

const PAUSE_MS = 500;
const MAX_HISTORY = 50;

/** The table of terms of one direction. */
export class GlossaryTable {
  /** @param {() => void} changed is called when a term has changed */
  constructor(changed) {
    this.changed = changed;
    this.name = "";
    this.terms = /** @type {string[][]} */ ([]);
    this.body = element("tbody");
    const file = element("input", {
      type: "file",
      accept: ".tsv,.txt",
      hidden: true,
      onchange: async () => this.read(await /** @type {any} */ (file).files[0].text()),
    });
    this.root = element(
      "details.drawer",
      {},
      element("summary", {}, "Glossary"),
      element("p.note", {}, "A term is translated as you say. Several forms: with | between them."),
      element(
        "table.terms-table",
        {},
        element(
          "thead",
          {},
          element("tr", {}, element("th", {}, "Term"), element("th", {}, "Translation"), element("td")),
        ),
        this.body,
      ),
      element(
        "p.actions",
        {},
        element("button", { onclick: () => this.add() }, "Add a term"),
        element("button", { onclick: () => file.click() }, "Open TSV"),
        element("button", { onclick: () => save(`${this.name}.tsv`, this.toTsv()) }, "Save TSV"),
        element("button", { onclick: () => this.set([]) }, "Clear"),
        file,
      ),
    );
  }

  /** @param {string} direction such as en-de */
  open(direction) {
    this.name = `glossary.${direction}`;
    this.terms = recall(this.name, /** @type {string[][]} */ ([])).filter(Array.isArray);
    this.draw();
  }

  /** What the engine is given. */
  get complete() {
    return this.terms.filter((term) => term.length > 1 && term.every((cell) => String(cell).trim()));
  }

  draw() {
    this.body.replaceChildren(...this.terms.map((term) => this.row(term)));
    const count = this.complete.length;
    /** @type {HTMLElement} */ (this.root.firstElementChild).textContent = count ? `Glossary · ${count}` : "Glossary";
  }

  /** @param {string[]} term */
  row(term) {
    const cell = (
      /** @type {string} */ label,
      /** @type {string} */ value,
      /** @type {(text: string) => void} */ put,
    ) =>
      element(
        "td",
        {},
        element("input", {
          type: "text",
          dir: "auto",
          value,
          "aria-label": label,
          oninput: (/** @type {any} */ event) => {
            put(event.target.value);
            this.later();
          },
        }),
      );
    return element(
      "tr",
      {},
      cell("Term", term[0], (text) => (term[0] = text.trim())),
      cell("Translation", term.slice(1).join(" | "), (text) => term.splice(1, Infinity, ...cellsOf(text, "|"))),
      element(
        "td",
        {},
        element(
          "button.plain",
          {
            "aria-label": `Delete ${term[0] || "the term"}`,
            onclick: () => this.set(this.terms.filter((one) => one !== term)),
          },
          "✕",
        ),
      ),
    );
  }

  add() {
    this.terms.push(["", ""]);
    this.draw();
    /** @type {HTMLElement} */ (this.body.querySelector("tr:last-child input")).focus();
  }

  /** @param {string[][]} terms */
  set(terms) {
    this.terms = terms;
    this.draw();
    this.later();
  }

  later() {
    remember(this.name, this.complete.length ? this.complete : null);
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.changed(), PAUSE_MS);
  }

  /** A line for each term: the term, a tab, its translation, other forms after further tabs. @param {string} text */
  read(text) {
    const lines = text.replace(/^\ufeff/, "").split(/\r?\n/);
    const terms = lines.filter((line) => line.trim() && !line.startsWith("#")).map((line) => cellsOf(line, "\t"));
    this.set([...this.complete, ...terms.filter((term) => term.length > 1)]);
    this.root.setAttribute("open", "");
  }

  toTsv() {
    return this.complete.map((term) => `${term.join("\t")}\n`).join("");
  }
}

/** @param {string} text @param {string} sign between the cells */
const cellsOf = (text, sign) =>
  text
    .split(sign)
    .map((cell) => cell.trim())
    .filter(Boolean);

/** @typedef {{source: string, target: string, text: string, translation: string}} Entry */

/** The last translations, newest first. */
export class History {
  /** @param {(entry: Entry) => void} restore */
  constructor(restore) {
    this.restore = restore;
    /** @type {Entry[]} */ this.entries = recall("history", []);
    this.list = element("ol.history");
    this.root = element(
      "details.drawer",
      {},
      element("summary", {}, "History"),
      element("p.note", {}, "It is kept in this browser and sent nowhere."),
      this.list,
      element("p.actions", {}, element("button", { onclick: () => this.set([]) }, "Clear all")),
    );
    this.draw();
  }

  /** One that goes on from the last one takes its place. @param {Entry} entry */
  add(entry) {
    const [last] = this.entries;
    const goesOn = last && (entry.text.startsWith(last.text) || last.text.startsWith(entry.text));
    const others = (goesOn ? this.entries.slice(1) : this.entries).filter((one) => one.text !== entry.text);
    this.set([entry, ...others].slice(0, MAX_HISTORY));
  }

  /** @param {Entry[]} entries */
  set(entries) {
    this.entries = entries;
    remember("history", entries.length ? entries : null);
    this.draw();
  }

  draw() {
    const lines = this.entries.map((entry) =>
      element(
        "li",
        {},
        element(
          "button.choice",
          { onclick: () => this.restore(entry) },
          element("bdi", { lang: entry.source }, String(entry.text).slice(0, 200)),
          element("bdi.t-rest", { lang: entry.target }, String(entry.translation).slice(0, 200)),
        ),
      ),
    );
    this.list.replaceChildren(...(lines.length ? lines : [element("li.note", {}, "Nothing yet.")]));
  }
}
