// @ts-check
/** The page: its state, its address in the URL, and what is drawn when it changes. */
import { crumbs, entryOf, findAddress, layerOf, readPlace, writePlace } from "./record/addresses.js";
import { PLAIN } from "./views/distribution.js";
import { element, spaced } from "./drawing/element.js";
import { explanationOf } from "./views/explanation.js";
import { figureChips, figureOne } from "./views/figure.js";
import { viewOf } from "./views/ladder.js";
import { Living } from "./living.js";
import { exportButtons } from "./drawing/picture.js";
import { originOf } from "./record/origin.js";
import { readEmbedded } from "./record/record.js";
import { isDark } from "./drawing/scale.js";
import { sentenceBand } from "./views/sentence.js";
import { showStop, stopsOf, tourCard } from "./views/tour.js";
import { treeView } from "./views/tree.js";
import { whyView } from "./views/why.js";

/**
 * @typedef {{address: string, index?: Record<string, number>, operation: "zero" | "set" | "scale", value?: number}}
 *   Edit
 * @typedef {{title: string, sentence: string, view: (app: App) => HTMLElement}} Panel
 * @typedef {ReturnType<typeof createApp>} App
 */

/** @param {Awaited<ReturnType<typeof readEmbedded>>} embedded @param {HTMLElement} root
 * @param {Promise<import("./worker/translator.js").ModelEngine> | null} engine */
function createApp({ about, records }, root, engine) {
  const config = about.config;
  const app = {
    about,
    config,
    root,
    records,
    sentence: 0,
    step: 0,
    tour: 0,
    /** The stop that was scrolled to. */ shownStop: "",
    /** Whether everything is large, for a projector. */ large: false,
    place: readPlace(""),
    levers: { ...PLAIN },
    layers: { encoder: config.n_encoder_layers - 1, decoder: config.n_decoder_layers - 1 },
    /** @type {number | null} */ head: null,
    /** @type {Edit[]} */ edits: [],
    /** @type {import("./record/record.js").PassRecord} */ record: records[0],
    /** @type {import("./record/record.js").PassRecord | null} */ before: null,
    /** @type {any} */ living: null,
    /** The model that the page carries; both views speak to it. */ engine,
    /** Whether the page carries a model, which wakes after the first paint. */ carriesModel:
      document.getElementById("living") !== null,
    /** The address that the view shows. */ drawn: "",
    /** @type {Map<string, {shape: number[], data: Float32Array}> | null} */ get weights() {
      return app.living?.ready ? app.living.weights() : null;
    },
    /** @type {Map<string, string[]> | null} */ consumers: null,
    /** @type {Record<string, Panel>} */ panels: {},
    /** @type {WeakMap<Float32Array, import("./drawing/scale.js").Scale>} */ scaleCache: new WeakMap(),
    width: 600,
    /** For a matrix, so that none is cut off by the end of the screen. */ height: 400,
    /** @param {boolean} down */
    showBefore(down) {
      showBefore(app, down);
    },
    /** @param {string} address */
    go(address) {
      location.hash = writeHash(app, address);
    },
    /** @param {Partial<{step: number, sentence: number}>} change */
    set(change) {
      if (change.sentence !== undefined) app.living?.leave();
      Object.assign(app, change);
      history.replaceState(
        null,
        "",
        location.href.replace(/#.*/s, "") + writeHash(app, writePlace(app.place.address, app.place.cells)),
      );
      follow(app);
      draw(app);
    },
    /** @param {import("./views/distribution.js").Levers} levers */
    setLevers(levers) {
      app.levers = levers;
      const focus = /** @type {HTMLElement | null} */ (document.activeElement)?.dataset?.lever;
      draw(app);
      if (focus) /** @type {HTMLElement | null} */ (root.querySelector(`[data-lever="${focus}"]`))?.focus();
    },
    /** @param {Edit} edit */
    toggleEdit(edit) {
      app.living?.toggleEdit(edit);
    },
    redraw() {
      fitCells(app);
      draw(app);
    },
  };
  return app;
}

/** The address in the URL: place, then step and sentence where they are not the first.
 * @param {App} app @param {string} place */
function writeHash(app, place) {
  const rest = new URLSearchParams();
  if (app.step) rest.set("step", String(app.step));
  if (app.sentence) rest.set("sentence", String(app.sentence));
  if (app.tour) rest.set("tour", String(app.tour));
  if (app.large) rest.set("large", "1");
  for (const [name, value] of Object.entries(app.living?.link() ?? {})) rest.set(name, value);
  const more = rest.toString();
  return `#${encodeURI(place)}${more ? `&${more}` : ""}`;
}

/** @param {App} app */
function readHash(app) {
  const [place, ...rest] = location.hash.slice(1).split("&");
  const found = new URLSearchParams(rest.join("&"));
  let text = place;
  try {
    text = decodeURI(place);
  } catch {
    /* a broken link is taken as it is */
  }
  app.place = readPlace(text);
  const numberOf = (/** @type {string} */ name) =>
    /^\d{1,9}$/.test(found.get(name) ?? "") ? Number(found.get(name)) : 0;
  app.step = numberOf("step");
  app.tour = numberOf("tour");
  app.large = numberOf("large") === 1;
  app.sentence = Math.min(numberOf("sentence"), app.records.length - 1);
  return found;
}

/** Lead each index behind the end of its axis to the last one, and leave out an axis that the step does not have. Of
 * a weight nothing is known before the model is awake.
 * @param {App} app */
function fitCells(app) {
  const { address, cells } = app.place;
  const tap = app.record.taps.get(address) ?? app.record.at(address);
  const { src_tokens: src, tgt_out_tokens: tgt } = app.record.sentence;
  const sizes = tap
    ? Object.fromEntries(tap.axes.map((axis, at) => [axis, tap.shape[at]]))
    : { heads: app.config.n_heads, src: src.length, tgt: tgt.length };
  for (const axis of Object.keys(cells)) {
    const size = entryOf(sizes, axis);
    if (size) cells[axis] = Math.min(cells[axis], size - 1);
    else if (tap) delete cells[axis];
  }
}

/** Keep what belongs together in step: the record, the layer and the head of the place, the step of a picked target.
 * @param {App} app */
function follow(app) {
  if (!app.living?.record) app.record = app.records[app.sentence];
  fitCells(app);
  const layer = layerOf(app.place.address);
  if (layer) app.layers[layer.stack] = Math.min(layer.layer, app.config[`n_${layer.stack}_layers`] - 1);
  app.head =
    /\.cross_attention\./.test(app.place.address) && "heads" in app.place.cells ? app.place.cells.heads : null;
  if ("tgt" in app.place.cells) app.step = app.place.cells.tgt;
  app.step = Math.max(0, Math.min(app.step, app.record.sentence.tgt_out_tokens.length - 1));
}

/** @param {App} app @param {string} text */
function find(app, text) {
  if (app.record.at(readPlace(text).address)) return text; // a weight, too
  return findAddress(text, [...app.record.taps.keys()], (address) => {
    const story = entryOf(app.about.stories, address);
    return story ? `${story.title} ${story.equation}` : "";
  });
}

/** @param {App} app */
function frame(app) {
  const run = app.about.run ? `run: ${app.about.run}` : "";
  const search = /** @type {HTMLInputElement} */ (
    element("input", {
      type: "search",
      list: "addresses",
      placeholder: "find a step",
      "aria-label": "Find a step by its name or address",
      onchange: (/** @type {any} */ event) => {
        if (event.target.value.trim()) app.go(find(app, event.target.value.trim()));
      },
    })
  );
  const theme = element(
    "button.theme",
    { "aria-label": "Light or dark", title: "Light or dark", onclick: () => switchTheme(app) },
    "◐",
  );
  const large = element(
    "button.type-size",
    {
      "aria-pressed": String(app.large),
      "aria-label": "Large type, for a projector",
      title: "Large type, for a projector",
      onclick: () => switchType(app),
    },
    "A+",
  );
  const front = document.getElementById("translate") && app.carriesModel;
  const tour = element("button.tour-start", { onclick: () => goTour(app, 1) }, "Tour");
  const sentences =
    app.records.length > 1
      ? element(
          "select",
          {
            "aria-label": "Sentence",
            onchange: (/** @type {any} */ event) => app.set({ sentence: Number(event.target.value), step: 0 }),
          },
          app.records.map((/** @type {any} */ record, /** @type {number} */ at) =>
            element("option", { value: at }, record.sentence.source.slice(0, 60)),
          ),
        )
      : null;
  app.root.replaceChildren(
    element(
      "header.top",
      {},
      element("h1", {}, element("a", { href: "#" }, "glassformer")),
      front ? element("button.front", { onclick: () => (location.hash = "translate") }, "Translate") : null,
      sentences,
      element(
        "div#typing.typing",
        {},
        app.about.still ? element("p.still", {}, app.about.still) : null,
        app.carriesModel
          ? element("input", {
              type: "text", // the look of the field that takes its place
              disabled: true,
              value: app.record.sentence.source,
              "aria-label": "Source sentence",
            })
          : null,
      ),
      element("span.run", {}, run),
      search,
      tour,
      large,
      theme,
    ),
    element("nav#sentences.sentences", { "aria-label": "Sentences of the text" }),
    element("section#band.band", { "aria-label": "Sentence and translation" }),
    element("div#edits.edits", { "aria-live": "polite" }),
    element("div#tour", { "aria-live": "polite" }),
    element(
      "main.middle",
      {},
      element("div#figure.figure-column"),
      element("div#view.view-column", { tabindex: -1 }),
      element("aside#about.about-column", { "aria-label": "What it is" }),
    ),
    element("footer.bottom", {}, element("nav#crumbs", { "aria-label": "Where am I" })),
    element(
      "datalist#addresses",
      {},
      [...app.record.taps.keys()].map((value) => element("option", { value })),
    ),
  );
}

/** @param {string} id @param {...Node} children */
function put(id, ...children) {
  /** @type {HTMLElement} */ (document.getElementById(id)).replaceChildren(...children);
}

/** @param {App} app */
function draw(app) {
  document.documentElement.classList.toggle("large", app.large);
  put("band", sentenceBand(app));
  const card = app.tour ? tourCard(app, (stop) => goTour(app, stop)) : null;
  put("tour", ...(card ? [card] : []));
  measure(app);
  const exports = exportButtons("figure-1", () => app.root.querySelector("svg.figure"));
  put("figure", figureOne(app), figureChips(app), exports);
  const held = app.root.querySelector("#view svg.matrix:focus");
  const address = held ? app.drawn : null;
  const open = openSummaries(app);
  put("view", viewOf(app));
  if (held && address === app.place.address) holdFocus(app, /** @type {SVGElement} */ (held));
  app.drawn = app.place.address;
  put("about", explanationOf(app));
  for (const summary of app.root.querySelectorAll("details > summary"))
    if (open.has(summary.textContent)) /** @type {HTMLDetailsElement} */ (summary.parentElement).open = true;
  drawCrumbs(app);
  app.living?.draw();
  showStop(app);
}

/** What a person has opened, by its words: it stays open when the page is drawn anew. @param {App} app */
function openSummaries(app) {
  return new Set([...app.root.querySelectorAll("details[open] > summary")].map((one) => one.textContent));
}

/** The room that the middle has, in px of the type that is chosen. @param {App} app */
function measure(app) {
  const view = /** @type {HTMLElement} */ (document.getElementById("view"));
  const zoom = Number(getComputedStyle(document.documentElement).zoom) || 1;
  app.width = Math.max(240, view.clientWidth - 8);
  if (app.place.address === "") app.width = innerWidth / zoom > 1180 ? (app.width - 24) * 0.56 : app.width;
  const below = [".bottom", ".tour"].map((one) => app.root.querySelector(one)?.clientHeight ?? 0);
  const top = (view.getBoundingClientRect().top + window.scrollY) / zoom;
  const room = innerHeight / zoom - below[0] - below[1] - HEADING;
  app.height = Math.max(room - top, room / 2, 160);
}

const HEADING = 44; // px

/** Someone who moves through a matrix with the keys stays at the cell when it is drawn anew.
 * @param {App} app @param {SVGElement} held */
function holdFocus(app, held) {
  const matrix = /** @type {SVGElement | null} */ (app.root.querySelector("#view svg.matrix"));
  if (!matrix) return;
  matrix.dataset.cell = held.dataset.cell;
  matrix.focus({ preventScroll: true });
}

/** @param {App} app */
function drawCrumbs(app) {
  const { address, cells } = app.place;
  const way = crumbs(address);
  const steps = way.map((one, at) =>
    element(
      "li",
      {},
      at === way.length - 1 && !Object.keys(cells).length
        ? element("span", { "aria-current": "page" }, one.label)
        : element("a", { href: `#${one.address}` }, one.label),
    ),
  );
  if (Object.keys(cells).length) {
    const words = Object.entries(cells).map(([axis, index]) =>
      axis === "heads" ? `head ${index}` : app.record.label(address, axis, index),
    );
    const value =
      app.record.has(address)
      && Object.keys(cells).length
        >= (app.record.taps.get(address)?.axes.filter((axis) => !["batch", "one"].includes(axis)).length ?? 9)
        ? ` = ${app.record.value(address, cells).toPrecision(6)}`
        : "";
    steps.push(element("li", {}, element("span", { "aria-current": "page" }, spaced(words.join(" × ")), value)));
  }
  put("crumbs", element("ol", {}, steps));
}

/** @param {App} app @param {number} stop 0 ends the tour */
function goTour(app, stop) {
  app.tour = stop;
  app.go(stop ? stopsOf(app)[stop - 1].place : writePlace(app.place.address, app.place.cells));
}

/** @param {App} app */
function switchType(app) {
  app.large = !app.large;
  app.root.querySelector(".type-size")?.setAttribute("aria-pressed", String(app.large));
  app.set({});
}

/** @param {App} app */
function switchTheme(app) {
  document.documentElement.dataset.theme = isDark() ? "light" : "dark";
  app.scaleCache = new WeakMap();
  draw(app);
}

/** Everything that shows one token lights up with it. @param {HTMLElement} root */
function lightTokens(root) {
  let last = "";
  root.addEventListener("pointerover", (event) => {
    const own = /** @type {Element} */ (event.target).closest("[data-token]")?.getAttribute("data-token") ?? "";
    if (own === last) return;
    root.querySelectorAll(".lit-token").forEach((one) => one.classList.remove("lit-token"));
    if (own) root.querySelectorAll(`[data-token="${own}"]`).forEach((one) => one.classList.add("lit-token"));
    last = own;
  });
}

/** Links inside the page keep the step, the sentence, the tour and the edits in the address. @param {App} app */
function keepState(app) {
  app.root.addEventListener("click", (event) => {
    const link = /** @type {Element} */ (event.target).closest('a[href^="#"]');
    if (
      !link
      || event.defaultPrevented
      || /** @type {MouseEvent} */ (event).ctrlKey
      || /** @type {MouseEvent} */ (event).metaKey
    )
      return;
    event.preventDefault();
    app.go((link.getAttribute("href") ?? "#").slice(1));
  });
}

/** One up: the picked cell, the head, the part of the address. @param {App} app */
function goUp(app) {
  readHash(app); // the second of two quick presses comes before the event of the first one's change
  const { address, cells } = app.place;
  const axes = Object.keys(cells);
  if (axes.length)
    app.go(axes.length > 1 && "heads" in cells ? writePlace(address, { heads: cells.heads }) : address);
  else app.go(crumbs(address).at(-2)?.address ?? "");
}

/** Wake the model behind the first paint, where the page carries one.
 * @param {App} app @param {URLSearchParams} asked */
function wake(app, asked) {
  if (!app.engine) return undefined;
  app.living = new Living(app, app.engine);
  for (const record of app.records) record.parameters = () => (app.living.ready ? app.living.weights() : new Map());
  app.panels.why = {
    title: "Why this word?",
    sentence:
      "Four answers: hide each source token and compute again; split the logit into what each part of the model added; ask what the layers would have said; and look at the word that came second.",
    view: whyView,
  };
  app.panels.beam = {
    title: "Beam search",
    sentence:
      "The search keeps several translations alive and extends each by its most probable tokens. A score is the sum of log-probabilities over a length penalty.",
    view: treeView,
  };
  window.addEventListener("keydown", (event) => {
    if (event.key === "b" && !/INPUT/.test(document.activeElement?.tagName ?? "")) showBefore(app, true);
  });
  window.addEventListener("keyup", (event) => {
    if (event.key === "b") showBefore(app, false);
  });
  return app.living.start(asked);
}

/** @type {{record: any, edits: any[]} | null} */
let aside = null;

/** Hold B: everything as it was before the edits. @param {App} app @param {boolean} down */
function showBefore(app, down) {
  if (down && !aside && app.before && app.edits.length) {
    aside = { record: app.record, edits: app.edits };
    app.record = app.before;
    app.edits = [];
  } else if (!down && aside) {
    app.record = aside.record;
    app.edits = aside.edits;
    aside = null;
  } else return;
  app.root.classList.toggle("as-before", down);
  app.consumers = null;
  draw(app);
}

/** Draw the page, and wake its model behind the first paint.
 * @param {Promise<import("./worker/translator.js").ModelEngine> | null} [engine] */
export async function start(engine = null) {
  const root = /** @type {HTMLElement} */ (document.getElementById("app"));
  const app = createApp(await readEmbedded(document), root, engine);
  const asked = readHash(app);
  follow(app);
  frame(app);
  draw(app);
  lightTokens(root);
  keepState(app);
  const awake = new Promise((resolve) => setTimeout(() => resolve(wake(app, asked)), 30));
  window.addEventListener("hashchange", () => {
    if (root.hidden) return;
    readHash(app);
    follow(app);
    draw(app);
    document.getElementById("view")?.scrollTo({ top: 0 });
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && !/INPUT|SELECT|TEXTAREA/.test(document.activeElement?.tagName ?? "")) goUp(app);
  });
  let width = innerWidth;
  window.addEventListener("resize", () => {
    if (Math.abs(innerWidth - width) > 8) {
      width = innerWidth;
      draw(app);
    }
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    app.scaleCache = new WeakMap();
    draw(app);
  });
  /** @type {any} */ (window).glassformer = Object.assign(app, /** @type {any} */ (window).glassformer, { originOf });
  return { app, awake };
}
