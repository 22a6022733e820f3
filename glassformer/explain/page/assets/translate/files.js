// @ts-check
/** Files: dropped or chosen, translated one after the other, saved, with a list of what wants a look. */
import { element } from "../drawing/element.js";
import { save } from "./storage.js";

const MOST_SHOWN = 200; // remarks of a file

export class FilesView {
  /** @param {import("./result.js").Engine} engine @param {() => import("./result.js").Options} options */
  constructor(engine, options) {
    this.engine = engine;
    this.options = options;
    this.shown = () => {};
    this.queue = Promise.resolve();
    this.list = element("ol.file-list", { "aria-live": "polite" });
    const endings = engine.files?.endings ?? [];
    const file = element("input", {
      type: "file",
      multiple: true,
      hidden: true,
      accept: endings.join(","),
      onchange: (/** @type {any} */ event) => {
        this.add([...event.target.files]);
        event.target.value = "";
      },
    });
    this.root = element(
      "div",
      {},
      element(
        "div.drop",
        {},
        element(
          "p",
          {},
          "Drop files here, or ",
          element("button", { onclick: () => file.click() }, "choose files"),
          file,
        ),
        element("p.note", {}, endings.join(" ")),
      ),
      this.list,
    );
  }

  /** Files may be dropped anywhere. @param {HTMLElement} place */
  catchDrops(place) {
    const isFile = (/** @type {DragEvent} */ event) => event.dataTransfer?.types.includes("Files");
    place.addEventListener("dragover", (event) => {
      if (!isFile(event) || !this.engine.files) return;
      event.preventDefault();
      place.classList.add("dropping");
    });
    place.addEventListener("dragleave", () => place.classList.remove("dropping"));
    place.addEventListener("drop", (event) => {
      if (!isFile(event) || !this.engine.files) return;
      event.preventDefault();
      place.classList.remove("dropping");
      this.shown();
      this.add([...(event.dataTransfer?.files ?? [])]);
    });
  }

  /** @param {File[]} files */
  add(files) {
    for (const file of files) {
      const stop = new AbortController();
      const line = element("li.file");
      this.list.prepend(line);
      this.queue = this.queue.then(() => this.translate(file, line, stop));
      const leave = () => {
        stop.abort();
        line.remove();
      };
      this.say(line, file, leave, element("span.note", {}, "waits"));
    }
  }

  /** @param {HTMLElement} line @param {File} file @param {() => void} leave @param {...Node} rest */
  say(line, file, leave, ...rest) {
    const label = `Remove ${file.name}`;
    const remove = element("button.plain", { "aria-label": label, onclick: leave }, "✕");
    line.replaceChildren(element("bdi.file-name", {}, file.name), ...rest, remove);
  }

  /** @param {File} file @param {HTMLElement} line @param {AbortController} stop */
  async translate(file, line, stop) {
    const { signal } = stop;
    const leave = () => {
      stop.abort();
      line.remove();
    };
    if (signal.aborted) return;
    const bar = /** @type {HTMLProgressElement} */ (
      element("progress", { "aria-label": `${file.name}: translating` })
    );
    this.say(line, file, leave, bar);
    const onProgress = (/** @type {number} */ done, /** @type {number} */ total) => {
      bar.max = total;
      bar.value = done;
    };
    try {
      const ending = /\.\w+$/.exec(file.name.toLowerCase())?.[0] ?? "";
      const known = this.engine.files?.endings ?? [];
      if (!known.includes(ending))
        throw new Error(`Found a file ending in ${ending || "nothing"}, expected ${known.join(" ")}.`);
      const done = await this.engine.files?.translate(file, { ...this.options(), signal, onProgress });
      if (!done || signal.aborted) return;
      const button = element("button", { onclick: () => save(done.name, done.content) }, "Save");
      const length = new Set(done.checks.map((one) => one.line)).size;
      const words = length
        ? `${length} ${length === 1 ? "place wants" : "places want"} a look`
        : "nothing to look at";
      this.say(line, file, leave, element("span.note", {}, words), button);
      if (length) line.append(checkList(done.checks));
    } catch (error) {
      if (!signal.aborted)
        this.say(line, file, leave, element("span.failed", {}, /** @type {Error} */ (error).message));
    }
  }
}

/** @param {import("./result.js").Check[]} checks */
function checkList(checks) {
  const rows = checks
    .slice(0, MOST_SHOWN)
    .map(({ line, source, text, remark }) =>
      element(
        "li",
        {},
        element("b", {}, `Line ${line}: ${remark}`),
        element("bdi", {}, source.slice(0, 300)),
        element("bdi.t-rest", {}, text.slice(0, 300)),
      ),
    );
  const others = checks.length - rows.length;
  return element(
    "details.checks",
    {},
    element("summary", {}, "What to look at"),
    element("ul", {}, rows, others > 0 ? element("li", {}, `and ${others} more`) : null),
  );
}
