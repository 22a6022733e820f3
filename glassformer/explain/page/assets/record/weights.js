// @ts-check
/** Weights as `explain/page/weights.py` packs them: a safetensors file, int8 matrices with a scale for each row. */

const SCALE = "scale/"; // before the name of an int8 matrix: the name of its scales

/** float32 of each float16, by its bits: a table of 65,536. @type {Float32Array | null} */
let halves = null;

function halfTable() {
  if (halves) return halves;
  halves = new Float32Array(65536);
  for (let bits = 0; bits < 65536; bits++) {
    const sign = bits >> 15 ? -1 : 1;
    const exponent = (bits >> 10) & 31;
    const fraction = bits & 1023;
    if (exponent === 31) halves[bits] = fraction ? NaN : sign * Infinity;
    else halves[bits] = sign * (exponent ? (1 + fraction / 1024) * 2 ** (exponent - 15) : fraction * 2 ** -24);
  }
  return halves;
}

/** @type {Record<string, (bytes: ArrayBuffer) => Float32Array>} */
const READERS = {
  F32: (bytes) => new Float32Array(bytes),
  F16: (bytes) => {
    const table = halfTable();
    const bits = new Uint16Array(bytes);
    const numbers = new Float32Array(bits.length);
    for (let at = 0; at < bits.length; at++) numbers[at] = table[bits[at]];
    return numbers;
  },
  BF16: (bytes) => {
    const words = new Uint32Array(new Uint16Array(bytes));
    for (let at = 0; at < words.length; at++) words[at] <<= 16;
    return new Float32Array(words.buffer);
  },
  I8: (bytes) => new Float32Array(new Int8Array(bytes)),
};

/** Every weight by its name, as float32.
 * @param {Uint8Array} file @returns {Map<string, {shape: number[], data: Float32Array}>} */
export function readWeights(file) {
  const length = Number(new DataView(file.buffer, file.byteOffset).getBigUint64(0, true));
  const header = JSON.parse(new TextDecoder().decode(file.subarray(8, 8 + length)));
  delete header.__metadata__;
  /** @type {Map<string, {shape: number[], data: Float32Array}>} */
  const found = new Map();
  for (const [
    name,
    {
      dtype,
      shape,
      data_offsets: [start, stop],
    },
  ] of Object.entries(header)) {
    if (!READERS[dtype])
      throw new Error(`${name}: holds ${dtype}, expected one of ${Object.keys(READERS).join(", ")}.`);
    found.set(name, { shape, data: READERS[dtype](file.slice(8 + length + start, 8 + length + stop).buffer) });
  }
  for (const key of [...found.keys()].filter((one) => one.startsWith(SCALE))) {
    const { shape, data } = /** @type {any} */ (found.get(key.slice(SCALE.length)));
    const scales = found.get(key)?.data ?? [];
    for (let row = 0, at = 0; row < shape[0]; row++)
      for (let column = 0; column < shape[1]; column++, at++) data[at] *= scales[row];
    found.delete(key);
  }
  return found;
}

/** What `explain/page/packing.py` has packed: gzip in base64, or with seven bits a character.
 * @param {string} text @returns {Promise<Uint8Array>} */
export async function unpack(text) {
  const bytes = /^\d+:/.test(text) ? fromSevenBits(text) : fromBase64(text);
  const packed = new Blob([/** @type {any} */ (bytes)]).stream();
  return new Uint8Array(await new Response(packed.pipeThrough(new DecompressionStream("gzip"))).arrayBuffer());
}

const FORBIDDEN = [0, 13, 60]; // of which each is one character with the next one

/** @param {string} text @returns {Uint8Array} */
function fromSevenBits(text) {
  const start = text.indexOf(":") + 1;
  const bytes = new Uint8Array(Number(text.slice(0, start - 1)));
  let [bits, count, to] = [0, 0, 0];
  const add = (/** @type {number} */ seven) => {
    bits = ((bits << 7) | seven) & 0x3fff;
    count += 7;
    if (count < 8) return;
    count -= 8;
    bytes[to++] = bits >> count;
  };
  for (let at = start; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code >= 128) add(FORBIDDEN[(code >> 7) - 1]);
    add(code & 127);
  }
  return bytes;
}

/** @param {string} text @returns {Uint8Array} */
export function fromBase64(text) {
  const decode = /** @type {any} */ (Uint8Array).fromBase64;
  if (decode) return decode.call(Uint8Array, text);
  const binary = atob(text);
  const bytes = new Uint8Array(binary.length);
  for (let at = 0; at < binary.length; at++) bytes[at] = binary.charCodeAt(at);
  return bytes;
}
