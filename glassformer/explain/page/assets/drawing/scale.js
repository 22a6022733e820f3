// @ts-check
/** Colours of numbers, and numbers as text. Both scales are safe for colour-blind eyes; dark mode has its own. */

/** @typedef {[number, number, number]} Colour */

/** @type {Record<string, {share: Colour[], signed: Colour[], nothing: Colour}>} */
const PALETTES = {
  light: {
    share: [
      [252, 252, 253],
      [221, 226, 240],
      [168, 180, 219],
      [107, 122, 188],
      [61, 70, 146],
      [30, 31, 92],
    ],
    signed: [
      [8, 69, 130],
      [67, 133, 190],
      [158, 198, 226],
      [249, 249, 249],
      [250, 196, 140],
      [223, 127, 46],
      [150, 68, 4],
    ],
    nothing: [232, 232, 235],
  },
  dark: {
    share: [
      [28, 30, 36],
      [44, 48, 74],
      [72, 80, 132],
      [112, 124, 190],
      [163, 176, 230],
      [226, 232, 255],
    ],
    signed: [
      [150, 208, 255],
      [74, 146, 206],
      [40, 84, 122],
      [30, 32, 38],
      [120, 72, 26],
      [206, 126, 54],
      [255, 196, 134],
    ],
    nothing: [48, 50, 57],
  },
};

/** Whether the page is dark now. */
export function isDark() {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

/** @param {Colour[]} stops @param {number} share from 0 to 1 @returns {Colour} */
function between(stops, share) {
  const place = Math.min(Math.max(share, 0), 1) * (stops.length - 1);
  const left = Math.min(Math.floor(place), stops.length - 2);
  const part = place - left;
  return /** @type {Colour} */ (stops[left].map((one, at) => Math.round(one + (stops[left + 1][at] - one) * part)));
}

/** What a number's colour means.
 * @typedef {{kind: "share" | "signed", most: number, colour: (value: number) => Colour}} Scale */

const SHADES = 512;

/** @type {Map<Colour[], Colour[]>} */
const tables = new Map();

/** Colours by number from 0 to SHADES, mixed once for each palette. @param {Colour[]} stops */
function shades(stops) {
  const found = tables.get(stops) ?? Array.from({ length: SHADES + 1 }, (_, at) => between(stops, at / SHADES));
  tables.set(stops, found);
  return found;
}

/** @param {number} share */
const shade = (share) => Math.round(Math.min(Math.max(share, 0), 1) * SHADES);

/** Probabilities and masks: none to all. @param {number} [most] @returns {Scale} */
export function shareScale(most = 1) {
  const palette = PALETTES[isDark() ? "dark" : "light"];
  const colours = shades(palette.share);
  return {
    kind: "share",
    most,
    colour: (value) => (Number.isFinite(value) ? colours[shade(most ? value / most : 0)] : palette.nothing),
  };
}

/** Signed numbers, symmetric about 0. @param {number} most the greatest magnitude @returns {Scale} */
export function signedScale(most) {
  const palette = PALETTES[isDark() ? "dark" : "light"];
  const colours = shades(palette.signed);
  return {
    kind: "signed",
    most,
    colour: (value) =>
      Number.isFinite(value) ? colours[shade(most ? 0.5 + value / most / 2 : 0.5)] : palette.nothing,
  };
}

/** The scale that suits a tap.
 * @param {string} name the tap's own name @param {ArrayLike<number>} values @returns {Scale} */
export function scaleOf(name, values) {
  if (["weights", "forget_gate", "probabilities", "src_mask", "causal_mask", "next_probabilities"].includes(name))
    return shareScale(1);
  return signedScale(greatest(values));
}

/** The greatest magnitude of finite numbers. @param {ArrayLike<number>} values */
export function greatest(values) {
  let most = 0;
  for (let at = 0; at < values.length; at += 1) {
    const size = Math.abs(values[at]);
    if (size > most && size !== Infinity) most = size;
  }
  return most;
}

/** @param {Colour} colour */
export const css = ([red, green, blue]) => `rgb(${red} ${green} ${blue})`;

/** A colour that can be read on another. @param {Colour} colour */
export function inkOn([red, green, blue]) {
  return 0.2126 * (red / 255) ** 2.2 + 0.7152 * (green / 255) ** 2.2 + 0.0722 * (blue / 255) ** 2.2 > 0.3
    ? "#15161a"
    : "#fff";
}

/** A number for reading: four digits that count, −∞ and ∞ as signs. @param {number} value */
export function shortNumber(value) {
  if (Number.isNaN(value)) return "—";
  if (!Number.isFinite(value)) return value < 0 ? "−∞" : "∞";
  if (value === 0) return "0";
  const size = Math.abs(value);
  const text =
    size >= 1e5 || size < 1e-3
      ? value.toExponential(2)
      : value.toFixed(size >= 1000 ? 1 : size >= 100 ? 2 : size >= 10 ? 3 : 4);
  return text.replace("-", "−").replace("e−", "e-").replace("e+", "e");
}

/** The shortest decimal that is this float32 and no other. @param {number} value */
export function exactNumber(value) {
  if (!Number.isFinite(value)) return shortNumber(value);
  for (let digits = 1; digits < 10; digits += 1) {
    const text = value.toPrecision(digits);
    if (Math.fround(Number(text)) === Math.fround(value)) return String(Number(text));
  }
  return String(value);
}

/** @param {number} share */
export function percent(share) {
  if (!Number.isFinite(share)) return "—";
  if (share === 0) return "0 %";
  return share >= 0.1
    ? `${(100 * share).toFixed(1)} %`
    : share >= 0.001
      ? `${(100 * share).toFixed(2)} %`
      : share >= 1e-7
        ? `${Number((100 * share).toPrecision(2)).toFixed(Math.max(2, 1 - Math.floor(Math.log10(100 * share))))} %`
        : `${(100 * share).toExponential(1)} %`;
}
