// @ts-check
/** A tap as pictures: which two axes become rows and columns, one picture for each head, exports. */
import { nameOf, sideOf } from "../record/addresses.js";
import { element } from "./element.js";
import { numberAt } from "../record/record.js";
import { scaleOf } from "./scale.js";

/** @typedef {import("./matrix.js").Matrix & {first: number, cells: (row: number, column: number) => Record<string,
 *   number>}} TapMatrix */

const MAX_ROWS = 1200;
const WINDOW = 40;

/** Rows and columns of the matrix of a tap, without its numbers. @param {import("../record/record.js").Tap} tap */
export function matrixSize(tap) {
  const { row, column } = layout(tap);
  const tall = sizeAlong(tap, row);
  return { rows: tall > MAX_ROWS ? WINDOW : tall, columns: sizeAlong(tap, column) };
}

/** How far apart neighbours along an axis stand in the tap's numbers; 0 for an axis that it has not.
 * @param {import("../record/record.js").Tap} tap @param {string | null} axis */
function strideOf(tap, axis) {
  const place = axis === null ? -1 : tap.axes.indexOf(axis);
  return place < 0 ? 0 : tap.shape.slice(place + 1).reduce((product, size) => product * size, 1);
}

/** The numbers of a matrix by row and column, without a look at the axes for each.
 * @param {import("../record/record.js").Tap} tap @param {number} chosen @param {number} first */
function reader(tap, chosen, first) {
  const { many, row, column } = layout(tap);
  const data = /** @type {Float32Array} */ (tap.data);
  const down = strideOf(tap, row);
  const across = strideOf(tap, column);
  const start = chosen * strideOf(tap, many) + first * down;
  return (/** @type {number} */ r, /** @type {number} */ c) => data[start + r * down + c * across];
}

/** The axes that are rows and columns, and the one that is chosen before.
 * @param {import("../record/record.js").Tap} tap */
export function layout(tap) {
  const axes = tap.axes.filter((axis, at) => axis !== "batch" && !(axis === "one" && tap.shape[at] === 1));
  const many = axes.includes("heads") ? "heads" : axes.length > 2 ? axes[0] : null;
  const rest = axes.length > 2 ? axes.filter((axis) => axis !== many) : axes;
  const [row, column] = rest.length > 1 ? rest.slice(-2) : [rest[0] ?? "one", "one"];
  return { many: axes.length > 2 ? many : null, row, column };
}

/** @param {import("../record/record.js").Tap} tap @param {string} axis */
export const sizeAlong = (tap, axis) => (tap.axes.includes(axis) ? tap.shape[tap.axes.indexOf(axis)] : 1);

/**
 * The matrix of a tap, at one index of the axis that is chosen before.
 * @param {import("../page.js").App} app @param {string} address @param {number} chosen
 * @param {number} near the row that a window of a very tall matrix holds @returns {TapMatrix | null}
 */
export function tapMatrix(app, address, chosen = 0, near = 0) {
  const tap = app.record.at(address);
  if (!tap || !tap.data) return null;
  const { many, row, column } = layout(tap);
  const tall = sizeAlong(tap, row);
  const first = tall > MAX_ROWS ? Math.min(Math.max(0, near - WINDOW / 2), tall - WINDOW) : 0;
  const cells = (/** @type {number} */ r, /** @type {number} */ c) => ({
    ...(many ? { [many]: chosen } : {}),
    ...(row === "one" ? {} : { [row]: r + first }),
    ...(column === "one" ? {} : { [column]: c }),
  });
  const side = (/** @type {string} */ axis) => sideOf(address, axis);
  const name = nameOf(address);
  const before = app.before?.at(address);
  const same = before && before.shape.join() === tap.shape.join();
  const wholeScale = app.scaleCache.get(tap.data) ?? scaleOf(name, tap.data);
  app.scaleCache.set(tap.data, wholeScale);
  const tokenOf = (/** @type {string} */ axis) => (/** @type {number} */ at) =>
    side(axis) ? `${side(axis)}:${at}` : null;
  const whole = tap.kept === undefined;
  return {
    first,
    ...matrixSize(tap),
    cells,
    value: whole ? reader(tap, chosen, first) : (r, c) => numberAt(tap, cells(r, c)),
    was: same && app.edits.length ? reader(before, chosen, first) : null,
    rowLabel: (r) => (row === "one" ? "" : app.record.label(address, row, r + first)),
    columnLabel: (c) => (column === "one" ? "value" : app.record.label(address, column, c)),
    rowToken: tokenOf(row),
    columnToken: tokenOf(column),
    rowAxis: axisWords(app, address, row),
    columnAxis: axisWords(app, address, column),
    scale: wholeScale,
    title: `${address}${many ? `, ${many} ${chosen}` : ""}`,
  };
}

/** @param {import("../page.js").App} app @param {string} address @param {string} axis */
export function axisWords(app, address, axis) {
  if (axis === "one") return "one";
  const side = sideOf(address, axis);
  const words =
    { query: "queries", key: "keys", position: "positions", src: "positions", tgt: "positions" }[axis] ?? axis;
  return side ? `${side === "src" ? "source" : "target"} ${words}` : words;
}

/** A mean over heads as a matrix.
 * @param {import("../page.js").App} app @param {string} address @returns {import("./matrix.js").Matrix | null} */
export function meanMatrix(app, address) {
  const first = tapMatrix(app, address);
  const tap = app.record.at(address);
  if (!first || !tap) return null;
  const heads = sizeAlong(tap, "heads");
  const readers = Array.from({ length: heads }, (_, head) => reader(tap, head, 0));
  const value = (/** @type {number} */ r, /** @type {number} */ c) =>
    readers.reduce((sum, read) => sum + read(r, c), 0) / heads;
  return { ...first, value, was: null, title: `${address}, mean of ${heads} heads` };
}

/** @param {Blob} blob @param {string} name */
function save(blob, name) {
  const link = /** @type {HTMLAnchorElement} */ (element("a", { href: URL.createObjectURL(blob), download: name }));
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

/** A picture's markup that stands alone: styles written into it. @param {Element} picture */
export function svgText(picture) {
  if (!picture.isConnected) {
    // made for the file, with its styles in it
    picture.setAttribute("xmlns", "http://www.w3.org/2000/svg");
    return new XMLSerializer().serializeToString(picture);
  }
  const copy = /** @type {SVGElement} */ (picture.cloneNode(true));
  copy.querySelectorAll(".cursor, .band").forEach((one) => one.remove());
  const from = [picture, ...picture.querySelectorAll("*")].filter((one) => !one.matches(".cursor, .band"));
  [copy, ...copy.querySelectorAll("*")].forEach((one, at) => {
    const style = getComputedStyle(from[at]);
    const kept = ["fill", "stroke", "stroke-width", "opacity", "font-size", "font-family", "font-weight"].map(
      (key) => `${key}:${style.getPropertyValue(key)}`,
    );
    one.setAttribute("style", kept.join(";"));
  });
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  return new XMLSerializer().serializeToString(copy);
}

/** Buttons that save a picture, which `picture` finds when it is asked for, and a table as CSV where there is one.
 * @param {string} name of the files @param {() => Element | null} picture @param {(() => string) | null} [csv] */
export function exportButtons(name, picture, csv = null) {
  const saved = (/** @type {(shown: Element, name: string) => void} */ write) => () => {
    const shown = picture();
    if (shown) write(shown, name);
  };
  return element(
    "div.exports",
    {},
    element("button", { onclick: saved(exportSvg) }, "SVG"),
    element("button", { onclick: saved(exportPng) }, "PNG"),
    csv
      ? element(
          "button",
          {
            onclick: () => save(new Blob([csv()], { type: "text/csv;charset=utf-8" }), `${name}.csv`),
          },
          "CSV",
        )
      : null,
  );
}

/** @param {Element} picture @param {string} name */
export function exportSvg(picture, name) {
  save(new Blob([svgText(picture)], { type: "image/svg+xml" }), `${name}.svg`);
}

/** @param {Element} picture @param {string} name */
export async function exportPng(picture, name) {
  const image = new Image();
  const shown = picture.getBoundingClientRect();
  const box = shown.width
    ? shown
    : { width: Number(picture.getAttribute("width")), height: Number(picture.getAttribute("height")) };
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(svgText(picture))}`;
  await image.decode();
  const canvas = document.createElement("canvas");
  canvas.width = Math.round(2 * box.width);
  canvas.height = Math.round(2 * box.height);
  const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  context.fillStyle = getComputedStyle(document.body).backgroundColor;
  context.fillRect(0, 0, canvas.width, canvas.height);
  context.drawImage(image, 0, 0, canvas.width, canvas.height);
  canvas.toBlob((blob) => blob && save(blob, `${name}.png`));
}

/** A text as a cell of CSV that no spreadsheet takes for a formula. @param {string} text */
export const quote = (text) => `"${(/^[=+\-@\t\r]/.test(text) ? `'${text}` : text).replaceAll('"', '""')}"`;

/** A matrix as CSV: a head row of column labels, a label before each row, numbers that are exactly the float32.
 * @param {import("./matrix.js").Matrix} matrix @param {(value: number) => string} number */
export function csvText(matrix, number) {
  const lines = [
    ["", ...Array.from({ length: matrix.columns }, (_, column) => quote(matrix.columnLabel(column)))].join(","),
  ];
  for (let row = 0; row < matrix.rows; row += 1) {
    const values = Array.from({ length: matrix.columns }, (_, column) => number(matrix.value(row, column)));
    lines.push([quote(matrix.rowLabel(row)), ...values].join(","));
  }
  return `${lines.join("\n")}\n`;
}
