// @ts-check
/** DOM elements in one expression. Knows nothing of models. Text enters as text nodes only, never as markup. */

const SVG = "http://www.w3.org/2000/svg";

/** @typedef {Node | string | number | null | undefined | false | Array<Node | string | number | null | undefined |
 *   false>} Child */

/**
 * @param {Element} made
 * @param {Record<string, any>} attributes
 * @param {Child[]} children
 */
function fill(made, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (name === "style" && typeof value === "object") {
      for (const [key, one] of Object.entries(value)) /** @type {any} */ (made).style.setProperty(key, String(one));
    } else made.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children.flat()) {
    if (child === null || child === undefined || child === false) continue;
    made.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
}

/**
 * An HTML element: `element("p.note", {title: "..."}, "text")`.
 * @param {string} tag name, id after #, classes after dots
 * @param {Record<string, any>} [attributes] `on...` are listeners
 * @param {...Child} children
 * @returns {HTMLElement}
 */
export function element(tag, attributes = {}, ...children) {
  const [start, ...classes] = tag.split(".");
  const [name, id] = start.split("#");
  const made = document.createElement(name);
  if (id) made.id = id;
  if (classes.length) made.className = classes.join(" ");
  fill(made, attributes, children);
  return made;
}

/**
 * An SVG element.
 * @param {string} tag name, with classes after dots
 * @param {Record<string, any>} [attributes]
 * @param {...Child} children
 * @returns {SVGElement}
 */
export function svg(tag, attributes = {}, ...children) {
  const [name, ...classes] = tag.split(".");
  const made = /** @type {SVGElement} */ (document.createElementNS(SVG, name));
  if (classes.length) made.setAttribute("class", classes.join(" "));
  fill(made, attributes, children);
  return made;
}

/** What is wider than the page, in a region that keys scroll, too. @param {string} label @param {Element} content */
export const scrollable = (label, content) =>
  element("div.scroll", { tabindex: 0, role: "region", "aria-label": label }, content);

/** Pictures of control characters, so that a label shows what it holds; a space stays a space.
 * @param {string} text */
export function printable(text) {
  return text.replace(/[\u0000-\u001f\u007f\u2028\u2029\u200b-\u200f\u202a-\u202e\u2066-\u2069\ufeff]/g, (sign) => {
    const code = sign.charCodeAt(0);
    return code < 0x20 ? String.fromCharCode(0x2400 + code) : `⟨${code.toString(16).toUpperCase().padStart(4, "0")}⟩`;
  });
}

/** A text in which each ▁, which stands for a space, is light. @param {string} text
 * @param {(tag: string, attributes: Record<string, any>, text: string) => Node} [make] `svg` inside a picture
 * @returns {(Node | string)[]} */
export const spaced = (text, make = element) =>
  printable(text)
    .split(/(▁)/)
    .filter(Boolean)
    .map((part) => (part === "▁" ? make(make === svg ? "tspan.space" : "span.space", {}, part) : part));

/** A token's label, isolated from the direction of the text around it.
 * @param {string} token @param {Record<string, any>} [attributes] */
export const token = (token, attributes = {}) => element("bdi.token", attributes, spaced(token));

/** What a reader has to do the pointing with: a pointer that hovers, or a finger. */
export const hasPointer = () => matchMedia("(hover: hover)").matches;
