// @ts-check
/** Addresses: what one names, which stack and layer it belongs to, and the way down to it. Knows no values. */

/**
 * A place in the page: an address and chosen indices along some of its axes.
 * @typedef {{address: string, cells: Record<string, number>}} Place
 */

/** @param {string} text `decoder.layers.0.cross_attention.weights[heads=2,query=1]` @returns {Place} */
export function readPlace(text) {
  const found = /^([^[\]]*)(?:\[([^\]]*)\])?$/.exec(text);
  /** @type {Record<string, number>} */
  const cells = {};
  for (const part of (found?.[2] ?? "").split(",").filter(Boolean)) {
    const [axis, index] = part.split("=");
    if (/^\d+$/.test(index ?? "")) cells[axis.trim()] = Number(index);
  }
  return { address: found?.[1] ?? "", cells };
}

/** @param {string} address @param {Record<string, number>} [cells] */
export function writePlace(address, cells = {}) {
  const chosen = Object.entries(cells).map(([axis, index]) => `${axis}=${index}`);
  return chosen.length ? `${address}[${chosen.join(",")}]` : address;
}

/** What a table has under a name that somebody typed; nothing under what all objects have, such as `constructor`.
 * @template T @param {Record<string, T>} table @param {string} name @returns {T | undefined} */
export const entryOf = (table, name) => (Object.hasOwn(table, name) ? table[name] : undefined);

/** @param {string} address @returns {{stack: "encoder" | "decoder", layer: number} | null} */
export function layerOf(address) {
  const found = /^(encoder|decoder)\.layers\.(\d+)(?:\.|$)/.exec(address);
  return found ? { stack: /** @type {any} */ (found[1]), layer: Number(found[2]) } : null;
}

/** @param {string} address the sublayer's address, such as `decoder.layers.0.cross_attention`, or null outside one */
export function sublayerOf(address) {
  const found =
    /^((?:encoder|decoder)\.layers\.\d+\.(self_attention|ssru|cross_attention|feed_forward))(?:_add_norm)?(?:\.|$)/.exec(
      address,
    );
  return found ? { address: found[1], name: found[2] } : null;
}

/** The last part of an address. @param {string} address */
export const nameOf = (address) => address.slice(address.lastIndexOf(".") + 1);

/** All but the last part. @param {string} address */
export const moduleOf = (address) => address.slice(0, Math.max(0, address.lastIndexOf(".")));

/** Which side an axis of a tap belongs to.
 * @param {string} address @param {string} axis @returns {"src" | "tgt" | null} */
export function sideOf(address, axis) {
  if (axis === "src" || axis === "tgt") return axis;
  if (!["position", "query", "key"].includes(axis)) return null;
  const parts = address.split(".");
  if (["encoder", "src_embedding", "src_mask"].includes(parts[0])) return "src";
  return axis === "key" && parts.includes("cross_attention") ? "src" : "tgt";
}

/** A hue for what stands in the encoder, the decoder, or between them. @param {string} address */
export function hueOf(address) {
  if (/cross_attention/.test(address)) return "cross";
  if (/^(encoder|src_)/.test(address)) return "encoder";
  return /^(decoder|tgt_|causal_mask)/.test(address) ? "decoder" : "neutral";
}

/** @type {Record<string, string>} */
const WORDS = {
  encoder: "Encoder",
  decoder: "Decoder",
  src_embedding: "Source embedding",
  tgt_embedding: "Target embedding",
  self_attention: "self-attention",
  ssru: "SSRU",
  cross_attention: "cross-attention",
  feed_forward: "feed-forward",
  self_attention_add_norm: "add & norm of self-attention",
  ssru_add_norm: "add & norm of SSRU",
  cross_attention_add_norm: "add & norm of cross-attention",
  feed_forward_add_norm: "add & norm of feed-forward",
  output_projection: "Output",
  final_norm: "final norm",
  choice: "Choice",
  text: "Text",
  attention: "All heads",
  next: "Next token",
  why: "Why this word?",
  beam: "Beam search",
  src_mask: "Source mask",
  causal_mask: "Causal mask",
};

/** Views that are no steps. */
const PANELS = ["text", "attention", "next", "why", "beam"];

/** One part of an address in words. @param {string} part */
export const inWords = (part) => WORDS[part] ?? part.replaceAll("_", " ");

/** `decoder layer 1 cross-attention.weights`. @param {string} address */
export const shortAddress = (address) =>
  address
    .replace(/^(encoder|decoder)\.layers\.(\d+)\./, "$1 layer $2 ")
    .replace("_attention", "-attention")
    .replaceAll("_", " ");

/** The way from the architecture down to an address.
 * @param {string} address @returns {{label: string, address: string}[]} */
export function crumbs(address) {
  const way = [{ label: "Architecture", address: "" }];
  const parts = address ? address.split(".") : [];
  for (let at = 0; at < parts.length; at += 1) {
    const so_far = parts.slice(0, at + 1).join(".");
    if (parts[at] === "layers") continue;
    if (/^\d+$/.test(parts[at])) way.push({ label: `layer ${parts[at]}`, address: so_far });
    else way.push({ label: inWords(parts[at]), address: so_far });
  }
  return way;
}

/** Lower case, with a space for every sign: `cross_attention.weights` and `Cross-attention weights` are alike.
 * @param {string} text */
const plain = (text) =>
  ` ${text
    .toLowerCase()
    .replace(/[^\p{L}\p{N}]+/gu, " ")
    .trim()} `;

/** Where a text leads that somebody types to find a step: an address as it is, or the shortest that has all its
 * words, in itself or in what is told of it. `head 3` is the head of an attention.
 * @param {string} text @param {string[]} addresses of all steps, in the order of computation
 * @param {(address: string) => string} toldOf */
export function findAddress(text, addresses, toldOf) {
  const known = addresses.flatMap((one) => crumbs(one).map(({ address }) => address));
  if (known.includes(readPlace(text).address)) return text;
  const [, head] = / heads? (\d+) /.exec(plain(text)) ?? [];
  const words = (
    plain(text)
      .replace(/ heads? \d+ /, " ")
      .trim() || "cross attention"
  ).split(" ");
  const found = [...new Set([...known, ...PANELS])]
    .filter((one) => !head || /_attention(\.|$)/.test(one))
    .filter((one) => {
      const own = plain(`${one} ${inWords(one)} ${toldOf(one)}`);
      return one && words.every((word) => own.includes(` ${word}`));
    })
    .sort((a, b) => a.split(".").length - b.split(".").length || a.length - b.length)[0];
  if (!found || !head) return found ?? text;
  return `${/attention$/.test(found) ? `${found}.weights` : found}[heads=${head}]`;
}
