// @ts-check
/** A matrix as a picture: tokens on its axes, a legend with the range, a cell that pointer and arrow keys move. */
import { element, printable, scrollable, spaced, svg } from "./element.js";
import { css, exactNumber, inkOn, shortNumber } from "./scale.js";

/**
 * @typedef {{rows: number, columns: number, value: (row: number, column: number) => number, rowLabel: (row: number)
 *   => string,
 *   columnLabel: (column: number) => string, rowToken?: (row: number) => string | null, columnToken?: (column:
 *   number) => string | null,
 *   rowAxis: string, columnAxis: string, scale: import("./scale.js").Scale, title: string,
 *   was?: ((row: number, column: number) => number) | null}} Matrix
 */

const MAX_SVG_CELLS = 2000;
const ROOM_FOR_WORDS = 480;
const MIN_CELL_HEIGHT = 8;
const MIN_WORD_HEIGHT = 16; // of a row with a token, so that each has its label and its numbers
const MAX_WORD_ROWS = 16;
const AROUND = 52; // px above and below the picture: the axes in words, and the number under the pointer
const READS_AND_WRITES = /^reads (.*) → writes (.*)$/s;

const AT_ONCE_MS = 12;
const AT_A_TIME_MS = 8;
const ANOTHER_DRAW_MS = 200;

/** Pictures that are painted when they come near the screen, a few at a time. @type {WeakMap<Element, () => void>} */
const unpainted = new WeakMap();
/** @type {Element[]} */
const queue = [];
let drawStart = 0;
let spent = 0;

const watcher = new IntersectionObserver(
  (entries) => {
    const near = entries.filter((entry) => entry.isIntersecting).map((entry) => entry.target);
    near.forEach((one) => watcher.unobserve(one));
    if (!queue.length && near.length) setTimeout(paintSome);
    queue.push(...near);
  },
  { rootMargin: "400px" },
);

function paintSome() {
  const end = performance.now() + AT_A_TIME_MS;
  while (queue.length && performance.now() < end) {
    const one = /** @type {Element} */ (queue.shift());
    if (one.isConnected) unpainted.get(one)?.();
  }
  if (queue.length) setTimeout(paintSome);
}

/** The first pictures of a view are painted at once, so that nothing flickers.
 * @param {Element} picture @param {() => void} work */
function paintSoon(picture, work) {
  const now = performance.now();
  if (now - drawStart > ANOTHER_DRAW_MS) {
    drawStart = now;
    spent = 0;
  }
  if (spent < AT_ONCE_MS) {
    work();
    spent += performance.now() - now;
    return;
  }
  unpainted.set(picture, work);
  watcher.observe(picture);
}

/** A small picture without labels; `matrixOf` is asked when it is painted.
 * @param {{rows: number, columns: number}} size @param {() => Matrix | null} matrixOf
 * @param {number} [most] the greatest width and height, in px */
export function thumbnail(size, matrixOf, most = 88) {
  const picture = /** @type {HTMLImageElement} */ (
    element("img.thumbnail", { alt: "", decoding: "sync", draggable: "false" })
  );
  const columns = Math.min(size.columns, 256);
  const rows = Math.min(size.rows, 128);
  paintSoon(picture, () => {
    const matrix = matrixOf();
    if (matrix) picture.src = painted({ ...matrix, rows, columns });
  });
  const ratio = Math.max(1, Math.min(rows / columns, 1) * most);
  picture.style.width = `${columns >= rows ? most : (most * columns) / rows}px`;
  picture.style.height = `${columns >= rows ? Math.max(ratio, 14) : most}px`;
  return picture;
}

/** A picture with a pixel for each cell, as a URL. An image costs less than a canvas where there are many: a canvas
 * is a layer of its own.
 * @param {Matrix} matrix */
function painted(matrix) {
  const canvas = document.createElement("canvas");
  canvas.width = Math.max(1, matrix.columns);
  canvas.height = Math.max(1, matrix.rows);
  const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d", { willReadFrequently: true }));
  const image = context.createImageData(canvas.width, canvas.height);
  for (let row = 0; row < matrix.rows; row += 1) {
    for (let column = 0; column < matrix.columns; column += 1) {
      const colour = matrix.scale.colour(matrix.value(row, column));
      const at = 4 * (row * canvas.width + column);
      image.data[at] = colour[0];
      image.data[at + 1] = colour[1];
      image.data[at + 2] = colour[2];
      image.data[at + 3] = 255;
    }
  }
  context.putImageData(image, 0, 0);
  return canvas.toDataURL();
}

/** The width of labels in px, without measuring: about 6.7 px a character.
 * @param {string[]} labels @param {number} most */
const labelWidth = (labels, most) =>
  Math.min(most, 20 + 6.9 * Math.max(1, ...labels.map((label) => [...label].length)));

/** @param {string} label @param {number} most */
const cut = (label, most) => ([...label].length > most ? `${[...label].slice(0, most - 1).join("")}…` : label);

/**
 * The large picture, as SVG, with its readout.
 * @param {Matrix} matrix
 * @param {{width: number, height?: number, selected?: {row: number, column: number} | null,
 *   onpick: (row: number, column: number) => void}} options
 */
export function matrixView(matrix, { width, height = Infinity, selected, onpick }) {
  const rowLabels = Array.from({ length: matrix.rows }, (_, row) => printable(matrix.rowLabel(row)));
  const brief = width <= ROOM_FOR_WORDS && rowLabels.some((label) => READS_AND_WRITES.test(label));
  const shownLabels = rowLabels.map((label) =>
    brief ? cut(label.replace(READS_AND_WRITES, "$1 → $2"), 20) : cut(label, 32),
  );
  const columnLabels = Array.from({ length: matrix.columns }, (_, column) => printable(matrix.columnLabel(column)));
  const left = labelWidth(shownLabels, 226);
  const named = (matrix.columnToken?.(0) ?? null) !== null;
  const top = named ? Math.min(110, 18 + 6 * Math.max(1, ...columnLabels.map((label) => [...label].length))) : 24;
  const right = named ? Math.min(60, Math.max(12, 6 * [...(columnLabels.at(-1) ?? "")].length)) : 12; // of a turned label
  const room = Math.max(160, width - left - right);
  const cellWidth = Math.min(64, room / matrix.columns);
  const natural = Math.min(34, Math.max(matrix.rows > 60 ? 8 : 18, cellWidth));
  const words = (matrix.rowToken?.(0) ?? null) !== null && matrix.rows <= MAX_WORD_ROWS;
  const least = words ? MIN_WORD_HEIGHT : MIN_CELL_HEIGHT;
  const cellHeight = Math.min(natural, Math.max(least, (height - top - AROUND) / matrix.rows));
  const w = cellWidth * matrix.columns;
  const h = cellHeight * matrix.rows;
  const picture = svg("svg.matrix", {
    viewBox: `0 0 ${left + w + right} ${top + h + 4}`,
    width: left + w + right,
    height: top + h + 4,
    tabindex: 0,
    role: "application",
    "aria-label": `${matrix.title}: ${matrix.rows} × ${matrix.columns}, arrow keys move the cell, Enter opens it`,
  });
  picture.append(cells(matrix, left, top, cellWidth, cellHeight));
  if (cellWidth >= 38 && cellHeight >= 16 && matrix.rows * matrix.columns <= 600)
    picture.append(numbers(matrix, left, top, cellWidth, cellHeight));
  picture.append(labels(matrix, shownLabels, columnLabels, { left, top, cellWidth, cellHeight, named }));
  const cursor = svg("rect.cursor", { width: cellWidth, height: cellHeight, visibility: "hidden" });
  picture.append(changes(matrix, left, top, cellWidth, cellHeight), cursor);
  const readout = element("p.readout", { "aria-live": "polite" }, " ");
  drive(picture, cursor, readout, matrix, {
    left,
    top,
    cellWidth,
    cellHeight,
    selected: selected ?? null,
    onpick,
    rowLabels,
    columnLabels,
  });
  return element(
    "figure.matrix-figure",
    {},
    element(
      "figcaption.axes",
      {},
      element("span", {}, `rows: ${matrix.rowAxis}${brief ? " (reads → writes)" : ""}`),
      element("span", {}, `columns: ${matrix.columnAxis}`),
      legend(matrix.scale),
    ),
    element("div.scroll", {}, picture),
    readout,
  );
}

/** @param {Matrix} matrix @param {number} left @param {number} top @param {number} width @param {number} height */
function cells(matrix, left, top, width, height) {
  if (matrix.rows * matrix.columns > MAX_SVG_CELLS) {
    return svg("image.cells", {
      href: painted(matrix),
      x: left,
      y: top,
      width: width * matrix.columns,
      height: height * matrix.rows,
      preserveAspectRatio: "none",
    });
  }
  const group = svg("g.cells");
  for (let row = 0; row < matrix.rows; row += 1) {
    for (let column = 0; column < matrix.columns; column += 1) {
      const gap = width > 12 ? 1 : 0;
      group.append(
        svg("rect", {
          x: left + column * width,
          y: top + row * height,
          width: width - gap,
          height: height - gap,
          rx: gap ? 2 : 0,
          fill: css(matrix.scale.colour(matrix.value(row, column))),
        }),
      );
    }
  }
  return group;
}

/** @param {Matrix} matrix @param {number} left @param {number} top @param {number} width @param {number} height */
function numbers(matrix, left, top, width, height) {
  const group = svg("g.numbers", { "aria-hidden": "true" });
  for (let row = 0; row < matrix.rows; row += 1) {
    for (let column = 0; column < matrix.columns; column += 1) {
      const value = matrix.value(row, column);
      const text =
        matrix.scale.kind === "share"
          ? Number.isInteger(value)
            ? String(value)
            : value.toFixed(2)
          : shortNumber(value).slice(0, 6);
      group.append(
        svg(
          "text",
          {
            x: left + (column + 0.5) * width - 0.5,
            y: top + (row + 0.5) * height + 3.5,
            "text-anchor": "middle",
            style: { fill: inkOn(matrix.scale.colour(value)) },
          },
          text,
        ),
      );
    }
  }
  return group;
}

/** Outlines of what differs from before an edit.
 * @param {Matrix} matrix @param {number} left @param {number} top @param {number} width @param {number} height */
function changes(matrix, left, top, width, height) {
  const group = svg("g.changes");
  if (!matrix.was) return group;
  let drawn = 0;
  for (let row = 0; row < matrix.rows && drawn < MAX_SVG_CELLS; row += 1) {
    for (let column = 0; column < matrix.columns; column += 1) {
      const before = matrix.was(row, column);
      const now = matrix.value(row, column);
      if (Object.is(before, now) || Math.abs(before - now) < 1e-4 * Math.max(1, matrix.scale.most)) continue;
      group.append(
        svg("rect", {
          x: left + column * width + 1,
          y: top + row * height + 1,
          width: Math.max(1, width - 3),
          height: height - 3,
          rx: 2,
        }),
      );
      drawn += 1;
    }
  }
  return group;
}

/** @param {Matrix} matrix @param {string[]} rows @param {string[]} columns
 * @param {{left: number, top: number, cellWidth: number, cellHeight: number, named: boolean}} place */
function labels(matrix, rows, columns, { left, top, cellWidth, cellHeight, named }) {
  const group = svg("g.labels");
  const everyRow = Math.ceil(12 / cellHeight);
  const everyColumn = named ? Math.ceil(12 / cellWidth) : Math.ceil(34 / cellWidth);
  rows.forEach((label, row) => {
    const token = matrix.rowToken?.(row) ?? null;
    if (token)
      group.append(
        svg("rect.band", {
          "data-token": token,
          x: left,
          y: top + row * cellHeight,
          width: cellWidth * matrix.columns,
          height: cellHeight,
        }),
      );
    if (row % everyRow === 0)
      group.append(
        svg(
          "text",
          { x: left - 8, y: top + (row + 0.5) * cellHeight + 4, "text-anchor": "end", "data-token": token },
          spaced(label, svg),
        ),
      );
  });
  const turned =
    named
    && columns.some((label, column) => column % everyColumn === 0 && cellWidth < 7 * Math.min([...label].length, 9));
  columns.forEach((label, column) => {
    const token = matrix.columnToken?.(column) ?? null;
    const x = left + (column + 0.5) * cellWidth;
    if (token)
      group.append(
        svg("rect.band", {
          "data-token": token,
          x: left + column * cellWidth,
          y: top,
          width: cellWidth,
          height: cellHeight * matrix.rows,
        }),
      );
    if (column % everyColumn) return;
    group.append(
      svg(
        "text",
        turned
          ? { x: 0, y: 0, transform: `translate(${x + 4} ${top - 7}) rotate(-50)`, "data-token": token }
          : { x, y: top - 8, "text-anchor": "middle", "data-token": token },
        spaced(cut(label, 16), svg),
      ),
    );
  });
  return group;
}

/** Pointer and keys move the cell; a click or Enter opens it.
 * @param {SVGElement} picture @param {SVGElement} cursor @param {HTMLElement} readout @param {Matrix} matrix
 * @param {any} place */
function drive(picture, cursor, readout, matrix, place) {
  const { left, top, cellWidth, cellHeight, onpick, rowLabels, columnLabels, selected } = place;
  let cell = selected ?? { row: 0, column: 0 };
  const show = (/** @type {number} */ row, /** @type {number} */ column) => {
    cell = {
      row: Math.min(Math.max(row, 0), matrix.rows - 1),
      column: Math.min(Math.max(column, 0), matrix.columns - 1),
    };
    cursor.setAttribute("x", String(left + cell.column * cellWidth));
    cursor.setAttribute("y", String(top + cell.row * cellHeight));
    cursor.setAttribute("visibility", "visible");
    picture.dataset.cell = `${cell.row},${cell.column}`;
    const value = matrix.value(cell.row, cell.column);
    const before = matrix.was?.(cell.row, cell.column);
    const was = before !== undefined && !Object.is(before, value) ? `, before ${exactNumber(before)}` : "";
    const where = spaced(`${rowLabels[cell.row]} × ${columnLabels[cell.column]}`);
    readout.replaceChildren(...where, ` = ${exactNumber(value)}${was}`);
  };
  const under = (/** @type {MouseEvent} */ event) => {
    const box = picture.getBoundingClientRect();
    const ratio = Number(picture.getAttribute("width")) / box.width;
    return {
      row: Math.floor(((event.clientY - box.top) * ratio - top) / cellHeight),
      column: Math.floor(((event.clientX - box.left) * ratio - left) / cellWidth),
    };
  };
  const inside = (/** @type {{row: number, column: number}} */ at) =>
    at.row >= 0 && at.column >= 0 && at.row < matrix.rows && at.column < matrix.columns;
  picture.addEventListener("pointermove", (event) => {
    const at = under(/** @type {MouseEvent} */ (event));
    if (inside(at)) show(at.row, at.column);
  });
  picture.addEventListener("click", (event) => {
    const at = under(/** @type {MouseEvent} */ (event));
    if (inside(at)) onpick(at.row, at.column);
  });
  picture.addEventListener("keydown", (event) => {
    const { key } = /** @type {KeyboardEvent} */ (event);
    const step = {
      ArrowUp: [-1, 0],
      ArrowDown: [1, 0],
      ArrowLeft: [0, -1],
      ArrowRight: [0, 1],
      Home: [0, -cell.column],
      End: [0, matrix.columns],
    }[key];
    if (step) {
      event.preventDefault();
      show(cell.row + step[0], cell.column + step[1]);
    } else if (key === "Enter" || key === " ") {
      event.preventDefault();
      onpick(cell.row, cell.column);
    }
  });
  picture.addEventListener("focus", () => {
    const [row, column] = picture.dataset.cell?.split(",").map(Number) ?? [cell.row, cell.column];
    show(row, column);
  });
  if (selected) show(selected.row, selected.column);
}

/** The range of the colours. @param {import("./scale.js").Scale} scale */
export function legend(scale) {
  const low = scale.kind === "share" ? 0 : -scale.most;
  const steps = Array.from({ length: 24 }, (_, at) => css(scale.colour(low + ((scale.most - low) * at) / 23)));
  return element(
    "span.legend",
    {},
    shortNumber(low),
    svg(
      "svg",
      { width: 96, height: 10, viewBox: "0 0 96 10", "aria-hidden": "true" },
      steps.map((fill, at) => svg("rect", { x: 4 * at, width: 4.2, height: 10, fill })),
    ),
    Number.isInteger(scale.most) ? scale.most : shortNumber(scale.most),
  );
}

/** The numbers themselves, made when they are needed. @param {Matrix} matrix */
export function numberTable(matrix) {
  const most = { rows: 200, columns: 64 };
  const details = element("details.table", {}, element("summary", {}, "The numbers as a table"));
  details.addEventListener("toggle", () => {
    if (details.childElementCount > 1) return;
    const columns = Math.min(matrix.columns, most.columns);
    const rows = Math.min(matrix.rows, most.rows);
    const range = (/** @type {number} */ size) => Array.from({ length: size }, (_, at) => at);
    const cutOff = columns < matrix.columns || rows < matrix.rows;
    details.append(
      scrollable(
        `${matrix.title} as a table`,
        element(
          "table",
          {},
          element(
            "thead",
            {},
            element(
              "tr",
              {},
              element("td"),
              range(columns).map((column) => element("th", { scope: "col" }, printable(matrix.columnLabel(column)))),
            ),
          ),
          element(
            "tbody",
            {},
            range(rows).map((row) =>
              element(
                "tr",
                {},
                element("th", { scope: "row" }, printable(matrix.rowLabel(row))),
                range(columns).map((column) => element("td", {}, exactNumber(matrix.value(row, column)))),
              ),
            ),
          ),
        ),
      ),
      cutOff
        ? element(
            "p.note",
            {},
            `The first ${rows} rows and ${columns} columns; CSV has all ${matrix.rows} × ${matrix.columns}.`,
          )
        : "",
    );
  });
  return details;
}
