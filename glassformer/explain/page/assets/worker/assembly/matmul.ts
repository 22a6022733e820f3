// x Wᵀ of rows: the one loop of the translation engine that takes time, in WebAssembly with SIMD.
//
// AssemblyScript; `tests/explain/page/build_matmul.py` makes `matmul.js` of it. All matrices are row-major float32 at
// byte addresses of the memory that the page gives; `into` is a multiple of 4.

/** The sum of a vector's four numbers. */
// @ts-ignore: a decorator of AssemblyScript
@inline
function total(x: v128): f32 {
  return (
    f32x4.extract_lane(x, 0) + f32x4.extract_lane(x, 1) + (f32x4.extract_lane(x, 2) + f32x4.extract_lane(x, 3))
  );
}

/** y[r][o] = Σ x[r][i] w[o][i], for `rows` rows of x and `out` rows of w: two rows and four outputs at a time. */
export function matmul(x: usize, rows: usize, w: usize, out: usize, into: usize, y: usize): void {
  const bytes = into << 2;
  let o: usize = 0;
  for (; o + 4 <= out; o += 4) {
    const w0 = w + o * bytes;
    let r: usize = 0;
    for (; r + 2 <= rows; r += 2) {
      let a0 = f32x4.splat(0), a1 = f32x4.splat(0), a2 = f32x4.splat(0), a3 = f32x4.splat(0);
      let b0 = f32x4.splat(0), b1 = f32x4.splat(0), b2 = f32x4.splat(0), b3 = f32x4.splat(0);
      const x0 = x + r * bytes, x1 = x0 + bytes;
      for (let i: usize = 0; i < bytes; i += 16) {
        const p = v128.load(x0 + i), q = v128.load(x1 + i);
        let v = v128.load(w0 + i);
        a0 = f32x4.add(a0, f32x4.mul(p, v));
        b0 = f32x4.add(b0, f32x4.mul(q, v));
        v = v128.load(w0 + bytes + i);
        a1 = f32x4.add(a1, f32x4.mul(p, v));
        b1 = f32x4.add(b1, f32x4.mul(q, v));
        v = v128.load(w0 + 2 * bytes + i);
        a2 = f32x4.add(a2, f32x4.mul(p, v));
        b2 = f32x4.add(b2, f32x4.mul(q, v));
        v = v128.load(w0 + 3 * bytes + i);
        a3 = f32x4.add(a3, f32x4.mul(p, v));
        b3 = f32x4.add(b3, f32x4.mul(q, v));
      }
      const to = y + ((r * out + o) << 2), next = to + (out << 2);
      f32.store(to, total(a0)); f32.store(to, total(a1), 4); f32.store(to, total(a2), 8); f32.store(to, total(a3), 12);
      f32.store(next, total(b0)); f32.store(next, total(b1), 4); f32.store(next, total(b2), 8); f32.store(next, total(b3), 12);
    }
    for (; r < rows; r++) {
      let a0 = f32x4.splat(0), a1 = f32x4.splat(0), a2 = f32x4.splat(0), a3 = f32x4.splat(0);
      const x0 = x + r * bytes;
      for (let i: usize = 0; i < bytes; i += 16) {
        const p = v128.load(x0 + i);
        a0 = f32x4.add(a0, f32x4.mul(p, v128.load(w0 + i)));
        a1 = f32x4.add(a1, f32x4.mul(p, v128.load(w0 + bytes + i)));
        a2 = f32x4.add(a2, f32x4.mul(p, v128.load(w0 + 2 * bytes + i)));
        a3 = f32x4.add(a3, f32x4.mul(p, v128.load(w0 + 3 * bytes + i)));
      }
      const to = y + ((r * out + o) << 2);
      f32.store(to, total(a0)); f32.store(to, total(a1), 4); f32.store(to, total(a2), 8); f32.store(to, total(a3), 12);
    }
  }
  for (; o < out; o++) {
    for (let r: usize = 0; r < rows; r++) {
      let a = f32x4.splat(0);
      for (let i: usize = 0; i < bytes; i += 16)
        a = f32x4.add(a, f32x4.mul(v128.load(x + r * bytes + i), v128.load(w + o * bytes + i)));
      f32.store(y + ((r * out + o) << 2), total(a));
    }
  }
}
