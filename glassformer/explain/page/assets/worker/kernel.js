// @ts-check
/** The linear map of searches and of all that is not recorded: float32 sums in WebAssembly with SIMD, several times
 * as fast as JavaScript. `assembly/matmul.ts` is the source of what runs. */

import { MATMUL } from "./matmul.js";
import { fromBase64 } from "../record/weights.js";

/** @typedef {{shape: number[], data: Float32Array}} Matrix */

const PAGE = 65536;
const ROWS = 16; // that are multiplied at a time
const LANES = 4;

export class Kernel {
  /** Move the matrices among the weights into its memory, where they stay; null where a browser has no WebAssembly,
   * or a policy forbids it.
   * @param {Map<string, Matrix>} weights */
  static create(weights) {
    const module = compile();
    return module && new Kernel(module, weights);
  }

  /** @param {WebAssembly.Module} module @param {Map<string, Matrix>} weights */
  constructor(module, weights) {
    const matrices = [...weights.values()].filter(({ shape }) => shape.length === 2 && shape[1] % LANES === 0);
    const [widest, longest] = [1, 0].map((axis) => Math.max(LANES, ...matrices.map(({ shape }) => shape[axis])));
    const given = ROWS * widest;
    const numbers = given + ROWS * longest + matrices.reduce((sum, { data }) => sum + data.length, 0);
    const memory = new WebAssembly.Memory({ initial: Math.ceil((4 * numbers + 4 * LANES * 2) / PAGE) });
    const { exports } = new WebAssembly.Instance(module, { env: { memory } });
    this.matmul = /** @type {(...places: number[]) => void} */ (exports.matmul);
    const all = new Float32Array(memory.buffer);
    this.x = all.subarray(0, given);
    this.y = all.subarray(given, given + ROWS * longest);
    let at = given + ROWS * longest;
    for (const matrix of matrices) {
      all.set(matrix.data, at);
      matrix.data = all.subarray(at, (at += matrix.data.length));
    }
  }

  /** Whether a weight is in its memory: one that an edit made is not. @param {Matrix} weight */
  has({ shape, data }) {
    return data.buffer === this.x.buffer && shape.length === 2;
  }

  /** x Wᵀ for each row of x, whose width is that of W.
   * @param {Float32Array} x @param {Matrix} weight @returns {Float32Array} */
  linear(x, { shape: [out, into], data }) {
    const rows = x.length / into;
    const y = new Float32Array(rows * out);
    for (let row = 0; row < rows; row += ROWS) {
      const count = Math.min(ROWS, rows - row);
      this.x.set(x.subarray(row * into, (row + count) * into));
      this.matmul(this.x.byteOffset, count, data.byteOffset, out, into, this.y.byteOffset);
      y.set(this.y.subarray(0, count * out), row * out);
    }
    return y;
  }
}

function compile() {
  try {
    return new WebAssembly.Module(/** @type {any} */ (fromBase64(MATMUL)));
  } catch {
    return null;
  }
}
