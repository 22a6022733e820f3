// @ts-check
/** Where a number comes from: the sum, softmax or norm that made it, with the place of each factor.
 *
 * The rules follow `model/` line by line and are read from a record; weights take part where the page has them.
 */
import { layerOf, moduleOf, nameOf, sideOf } from "./addresses.js";
import { numberAt, vocabularyRow } from "./record.js";

/**
 * @typedef {{about: any, config: any, record: import("./record.js").PassRecord}} Context
 * @typedef {{value: number, address?: string, cells?: Record<string, number>, label: string}} Factor
 * @typedef {{factors: Factor[], product: number, label: string}} Term
 * @typedef {{kind: "dot" | "sum" | "softmax" | "same" | "formula" | "lookup", terms: Term[], factors: Factor[],
 *   result: number,
 *   formula: string, note: string, missing?: string}} Origin
 */

/** What the first layer of a stack takes in. @param {Context} context @param {string} stack */
function embeddingOutput(context, stack) {
  const name = stack === "encoder" ? "src_embedding" : "tgt_embedding";
  return context.record.has(`${name}.with_positions`) ? `${name}.with_positions` : `${name}.scaled`;
}

/** The residual stream that enters a layer. @param {Context} context @param {string} stack @param {number} layer */
export function layerInput(context, stack, layer) {
  return layer === 0 ? embeddingOutput(context, stack) : `${stack}.layers.${layer - 1}.output`;
}

/** The residual stream round a sublayer. @param {Context} context @param {string} sublayer its address */
export function streamBefore(context, sublayer) {
  const place = /** @type {{stack: string, layer: number}} */ (layerOf(sublayer));
  const layer = moduleOf(sublayer);
  const before = {
    self_attention: "",
    ssru: "",
    cross_attention: context.config.autoregressive_sublayer,
    feed_forward: place.stack === "decoder" ? "cross_attention" : "self_attention",
  };
  const previous = before[/** @type {keyof typeof before} */ (nameOf(sublayer))];
  if (!previous) return layerInput(context, place.stack, place.layer);
  return context.config.norm === "pre"
    ? `${layer}.${previous}_add_norm.residual`
    : `${layer}.${previous}_add_norm.norm.output`;
}

/** What a sublayer computes with. @param {Context} context @param {string} sublayer */
export function sublayerInput(context, sublayer) {
  return context.config.norm === "pre" ? `${sublayer}_add_norm.norm.output` : streamBefore(context, sublayer);
}

/** What a layer norm is given. @param {Context} context @param {string} norm its address */
export function normInput(context, norm) {
  if (nameOf(norm) === "final_norm") {
    const stack = moduleOf(norm);
    const layers = stack === "encoder" ? context.config.n_encoder_layers : context.config.n_decoder_layers;
    return `${stack}.layers.${layers - 1}.output`;
  }
  const addNorm = moduleOf(norm);
  return context.config.norm === "pre"
    ? streamBefore(context, addNorm.replace(/_add_norm$/, ""))
    : `${addNorm}.residual`;
}

/** The queries, keys or values as the products take them.
 * @param {Context} context @param {string} module @param {string} name */
function latest(context, module, name) {
  return (
    [`${name}_cached`, `${name}_rotated`].map((one) => `${module}.${one}`).find((one) => context.record.has(one))
    ?? `${module}.${name}`
  );
}

/** The addresses that a tap is computed from. @param {Context} context @param {string} address @returns {string[]} */
export function inputsOf(context, address) {
  const module = moduleOf(address);
  const name = nameOf(address);
  const own = (/** @type {string} */ one) => `${module}.${one}`;
  const extra = (/** @type {string[]} */ ...all) => all.filter((one) => context.record.has(one));
  const { config } = context;
  if (/_embedding$/.test(module)) {
    return (
      {
        embedded: ["text"],
        scaled: [own("embedded")],
        position_vectors: [],
        with_positions: [own("scaled"), own("position_vectors")],
      }[name] ?? []
    );
  }
  if (/attention\.(relative|alibi)$/.test(module)) {
    const outer = moduleOf(module);
    return (
      {
        relative_products: [latest(context, outer, "q"), own("relative_keys")],
        relative_heads: [`${outer}.weights`, own("relative_values")],
      }[name] ?? []
    );
  }
  if (/_attention$/.test(module)) {
    const memory = module.endsWith("cross_attention") ? "encoder.memory" : sublayerInput(context, module);
    const mask = /^encoder|cross_attention$/.test(module) ? "src_mask" : "causal_mask";
    /** @type {Record<string, () => string[]>} */
    const rules = {
      q_projected: () => [sublayerInput(context, module)],
      k_projected: () => [memory],
      v_projected: () => [memory],
      products: () => [latest(context, module, "q"), latest(context, module, "k")],
      scores: () => [own("products"), ...extra(own("relative.relative_products"), own("alibi.biases"))],
      masked_scores: () => [own("scores"), mask],
      weights: () => [own("masked_scores")],
      weighted_values: () => [own("weights"), latest(context, module, "v")],
      heads: () =>
        context.record.has(own("weighted_values"))
          ? [own("weighted_values"), own("relative.relative_heads")]
          : [own("weights"), latest(context, module, "v")],
      heads_by_position: () => [own("heads")],
      heads_merged: () => [own("heads_by_position")],
      output: () => [own("heads_merged")],
    };
    const split = /^([qkv])_split$/.exec(name);
    const rotated = /^([qk])_rotated$/.exec(name);
    if (split) return [own(`${split[1]}_projected`)];
    if (rotated) return [own(rotated[1])];
    return rules[name]?.() ?? (/^[qkv]$/.test(name) ? [own(`${name}_split`)] : []);
  }
  if (/(^|[._])norm$/.test(module) || /final_norm$/.test(module)) {
    const x = normInput(context, module);
    return (
      {
        mean: [x],
        variance: [x, own("mean")],
        normalised: [x, own("mean"), own("variance")],
        output: [own("normalised")],
      }[name] ?? []
    );
  }
  if (/_add_norm$/.test(module)) {
    const sublayer = module.replace(/_add_norm$/, "");
    return [streamBefore(context, sublayer), `${sublayer}.output`];
  }
  if (/feed_forward$/.test(module)) {
    return (
      { inner: [sublayerInput(context, module)], activated: [own("inner")], output: [own("activated")] }[name] ?? []
    );
  }
  if (/\.ssru$/.test(module)) {
    const given = [sublayerInput(context, module)];
    return (
      {
        candidate: given,
        gate_scores: given,
        forget_gate: [own("gate_scores")],
        cell: [own("forget_gate"), own("candidate")],
        output: [own("cell")],
      }[name] ?? []
    );
  }
  const layer = layerOf(address);
  if (layer && name === "output") {
    return [
      config.norm === "pre"
        ? `${module}.feed_forward_add_norm.residual`
        : `${module}.feed_forward_add_norm.norm.output`,
    ];
  }
  if (address === "encoder.memory" || address === "decoder.output") {
    const count = module === "encoder" ? config.n_encoder_layers : config.n_decoder_layers;
    return [
      context.record.has(`${module}.final_norm.output`)
        ? `${module}.final_norm.output`
        : `${module}.layers.${count - 1}.output`,
    ];
  }
  return (
    {
      "output_projection.logits": ["decoder.output"],
      "output_projection.probabilities": ["output_projection.logits"],
      "choice.next_ids": ["output_projection.probabilities"],
      "choice.next_probabilities": ["output_projection.probabilities"],
      src_mask: ["text"],
    }[address] ?? []
  );
}

/** The module's parameter behind a tap that is a linear map. @param {string} address */
export function linearOf(address) {
  const module = moduleOf(address);
  const name = nameOf(address);
  const projected = /^([qkv])_projected$/.exec(name);
  if (projected) return `${module}.w_${projected[1]}`;
  if (name === "output" && /_attention$/.test(module)) return `${module}.w_o`;
  if (/feed_forward$/.test(module)) return { inner: `${module}.w_1`, output: `${module}.w_2` }[name] ?? null;
  if (/\.ssru$/.test(module)) return { candidate: `${module}.w`, gate_scores: `${module}.w_f` }[name] ?? null;
  return address === "output_projection.logits" ? "output_projection.linear" : null;
}

/** The origin of one number.
 * @param {Context} context @param {string} address @param {Record<string, number>} cells @returns {Origin} */
export function originOf(context, address, cells) {
  const result = context.record.value(address, cells);
  const linear = linearOf(address);
  if (linear) return linearOrigin(context, address, cells, result, linear);
  const module = moduleOf(address);
  const name = nameOf(address);
  if (context.record.taps.get(address) === undefined && context.record.at(address)) {
    return origin("lookup", {
      result,
      formula: "learned",
      note: "A parameter: training found this number. Nothing computes it.",
    });
  }
  const rule =
    /_attention$/.test(module) || /\.(relative|alibi)$/.test(module)
      ? ATTENTION[name]
      : /norm$/.test(module) && !/_add_norm$/.test(module)
        ? NORM[name]
        : /_embedding$/.test(module)
          ? EMBEDDING[name]
          : /\.ssru$/.test(module)
            ? RECURRENCE[name]
            : (OTHER[address] ?? OTHER[name]);
  return rule ? rule(context, address, cells, result) : same(context, address, cells, result);
}

/** A factor that is a number of the record.
 * @param {Context} context @param {string} address @param {Record<string, number>} cells @returns {Factor} */
function at(context, address, cells) {
  const tap = context.record.taps.get(address);
  /** @type {Record<string, number>} */
  const own = {};
  for (const axis of tap?.axes ?? []) if (axis !== "batch" && axis !== "one") own[axis] = cells[axis] ?? 0;
  const along = (tap?.axes ?? []).filter((axis) => axis !== "batch" && axis !== "one");
  const label = along
    .map((axis) => (axis === "heads" ? `head ${own[axis]}` : context.record.label(address, axis, own[axis])))
    .join(", ");
  return { value: context.record.value(address, own), address, cells: own, label: `${nameOf(address)}[${label}]` };
}

/** @param {Origin["kind"]} kind @param {Partial<Origin>} rest @returns {Origin} */
const origin = (kind, rest) => ({ kind, terms: [], factors: [], result: NaN, formula: "", note: "", ...rest });

/** @param {Context} context @param {string} address @param {string} axis */
function sizeOf(context, address, axis) {
  const tap = context.record.taps.get(address);
  return tap ? tap.shape[tap.axes.indexOf(axis)] : 0;
}

/** The number at a position and column. @param {Context} context @param {string} address @param {number} position
 * @param {number} column */
const atRow = (context, address, position, column) =>
  at(context, address, rowCells(context, address, position, column));

/** Σ a·b over an axis. @param {Factor[][]} pairs @returns {Term[]} */
const products = (pairs) => pairs.map(([a, b]) => ({ factors: [a, b], product: a.value * b.value, label: "" }));

/** The index of a position, whatever the axis is called. @param {Record<string, number>} cells */
const positionIn = (cells) => cells.position ?? cells.query ?? cells.tgt ?? cells.src ?? cells.key ?? 0;

/** The cells of an address for a position and a last index.
 * @param {Context} context @param {string} address @param {number} position @param {number} last */
function rowCells(context, address, position, last) {
  const axes = (context.record.taps.get(address)?.axes ?? []).filter((axis) => axis !== "batch");
  return { [axes[0]]: position, [axes[axes.length - 1]]: last };
}

/** The same number in another shape.
 * @param {Context} context @param {string} address @param {Record<string, number>} cells @param {number} result */
function same(context, address, cells, result) {
  const from = inputsOf(context, address)[0];
  const tap = context.record.taps.get(address);
  if (!from || from === "text" || !tap)
    return origin("formula", { result, formula: "", note: "An input of the pass." });
  const { config } = context;
  let target = { ...cells };
  if (/_split$/.test(nameOf(address))) {
    const last = tap.axes[tap.axes.length - 1];
    target = rowCells(context, from, positionIn(cells), (cells.heads ?? 0) * config[last] + (cells[last] ?? 0));
  } else if (nameOf(address) === "heads_merged") {
    const column = cells.heads_d_v ?? 0;
    target = { query: positionIn(cells), heads: Math.floor(column / config.d_v), d_v: column % config.d_v };
  } else if (!/^[qkv]$|heads_by_position/.test(nameOf(address))) {
    const axes = tap.axes.filter((axis) => axis !== "batch");
    target = rowCells(context, from, positionIn(cells), cells[axes[axes.length - 1]] ?? 0);
  }
  const factor = at(context, from, target);
  return origin("same", {
    factors: [factor],
    result,
    formula: "=",
    note: "The same number in another place: nothing is computed here.",
  });
}

/** x W + b.
 * @param {Context} context @param {string} address @param {Record<string, number>} cells @param {number} result
 * @param {string} linear */
function linearOrigin(context, address, cells, result, linear) {
  const tap = context.record.taps.get(address);
  const axes = (tap?.axes ?? []).filter((axis) => axis !== "batch");
  const output = cells[axes[axes.length - 1]] ?? 0;
  const from = inputsOf(context, address)[0];
  const position = positionIn(cells);
  const source = context.record.taps.get(from);
  const width = source ? source.shape[source.shape.length - 1] : 0;
  const weight = context.record.parameter(`${linear}.weight`);
  const bias = context.record.parameter(`${linear}.bias`);
  const x = Array.from({ length: width }, (_, column) => atRow(context, from, position, column));
  if (!weight) {
    return origin("dot", {
      factors: x,
      result,
      formula: `Σ ${nameOf(from)} · ${nameOf(linear)}`,
      missing: `This page has no weights, so the factors from ${linear}.weight are not shown. The other factors are.`,
    });
  }
  const terms = products(
    x.map((factor, column) => [
      factor,
      {
        value: weight.data[output * width + column],
        label: `${nameOf(linear)}[${output}, ${column}]`,
        address: `${linear}.weight`,
        cells: { row: output, column },
      },
    ]),
  );
  if (bias)
    terms.push({
      factors: [{ value: bias.data[output], label: `${nameOf(linear)}.bias[${output}]` }],
      product: bias.data[output],
      label: "bias",
    });
  return origin("dot", { terms, result, formula: `Σ ${nameOf(from)} · ${nameOf(linear)}` });
}

/** @typedef {(context: Context, address: string, cells: Record<string, number>, result: number) => Origin} Rule */

/** @type {Record<string, Rule>} */
const ATTENTION = {
  products(context, address, cells, result) {
    const module = moduleOf(address);
    const q = latest(context, module, "q");
    const k = latest(context, module, "k");
    const width = sizeOf(context, q, "d_k");
    const terms = products(
      Array.from({ length: width }, (_, d_k) => [
        at(context, q, { heads: cells.heads, query: cells.query, d_k }),
        at(context, k, { heads: cells.heads, key: cells.key, d_k }),
      ]),
    );
    return origin("dot", {
      terms,
      result,
      formula: "q · k",
      note: "Query and key agree where both have the same sign and are large.",
    });
  },
  scores(context, address, cells, result) {
    const module = moduleOf(address);
    const factors = [at(context, `${module}.products`, cells)];
    const relative = `${module}.relative.relative_products`;
    const alibi = `${module}.alibi.biases`;
    if (context.record.has(relative)) factors.push(at(context, relative, cells));
    if (context.record.has(alibi)) factors.push(at(context, alibi, cells));
    const root = Math.sqrt(context.config.d_k);
    const inner = context.record.has(relative)
      ? `(${factors[0].value.toFixed(4)} + ${factors[1].value.toFixed(4)})`
      : factors[0].value.toFixed(4);
    const plus = context.record.has(alibi) ? ` + (${factors[factors.length - 1].value.toFixed(4)})` : "";
    return origin("formula", {
      factors,
      result,
      formula: `${inner} / √${context.config.d_k}${plus}`,
      note: `√d_k = ${root.toFixed(4)} keeps the softmax from being too sharp.`,
    });
  },
  masked_scores(context, address, cells, result) {
    const factors = inputsOf(context, address).map((from) => at(context, from, cells));
    return origin("formula", {
      factors,
      result,
      formula: factors[1]?.value ? "the mask lets it through" : "the mask hides it",
      note: factors[1]?.value ? "" : "−∞ becomes 0 in the softmax.",
    });
  },
  weights(context, address, cells, result) {
    const from = `${moduleOf(address)}.masked_scores`;
    const all = Array.from({ length: sizeOf(context, from, "key") }, (_, key) =>
      at(context, from, { ...cells, key }),
    );
    return softmaxOrigin(all, cells.key ?? 0, result);
  },
  heads(context, address, cells, result) {
    const inputs = inputsOf(context, address);
    if (nameOf(inputs[0]) === "weighted_values")
      return sumOrigin(
        inputs.map((from) => at(context, from, cells)),
        result,
      );
    return weightedValues(context, address, cells, result);
  },
  weighted_values: (context, address, cells, result) => weightedValues(context, address, cells, result),
  q_rotated: (context, address, cells, result) => rotated(context, address, cells, result),
  k_rotated: (context, address, cells, result) => rotated(context, address, cells, result),
  relative_products(context, address, cells, result) {
    const [q, keys] = inputsOf(context, address);
    const terms = products(
      Array.from({ length: sizeOf(context, q, "d_k") }, (_, d_k) => [
        at(context, q, { ...cells, d_k }),
        at(context, keys, { ...cells, d_k }),
      ]),
    );
    return origin("dot", {
      terms,
      result,
      formula: "q · a_K",
      note: "a_K depends only on how far the key is from the query.",
    });
  },
  relative_heads(context, address, cells, result) {
    const [weights, values] = inputsOf(context, address);
    const terms = products(
      Array.from({ length: sizeOf(context, weights, "key") }, (_, key) => [
        at(context, weights, { ...cells, key }),
        at(context, values, { ...cells, key }),
      ]),
    );
    return origin("dot", { terms, result, formula: "Σ weights · a_V" });
  },
  relative_keys: (_, __, cells, result) =>
    tableRow(`key_table, distance ${(cells.key ?? 0) - (cells.query ?? 0)}`, result),
  relative_values: (_, __, cells, result) =>
    tableRow(`value_table, distance ${(cells.key ?? 0) - (cells.query ?? 0)}`, result),
  biases: (context, _, cells, result) =>
    origin("formula", {
      result,
      formula: `−2^(−8·${(cells.heads ?? 0) + 1}/${context.config.n_heads}) · |${cells.key} − ${cells.query}|`,
    }),
};

/** @param {string} note @param {number} result */
const tableRow = (note, result) =>
  origin("lookup", { result, formula: note, note: "A learned row, clipped at the greatest distance." });

/** @param {Context} context @param {string} address @param {Record<string, number>} cells @param {number} result */
function weightedValues(context, address, cells, result) {
  const module = moduleOf(address);
  const v = latest(context, module, "v");
  const weights = `${module}.weights`;
  const terms = products(
    Array.from({ length: sizeOf(context, weights, "key") }, (_, key) => [
      at(context, weights, { ...cells, key }),
      at(context, v, { heads: cells.heads, key, d_v: cells.d_v }),
    ]),
  );
  return origin("dot", {
    terms,
    result,
    formula: "Σ weight · value",
    note: "A mean of the values, in the shares that the softmax gave.",
  });
}

/** @param {Context} context @param {string} address @param {Record<string, number>} cells @param {number} result */
function rotated(context, address, cells, result) {
  const from = inputsOf(context, address)[0];
  const even = (cells.d_k ?? 0) - ((cells.d_k ?? 0) % 2);
  const factors = [at(context, from, { ...cells, d_k: even }), at(context, from, { ...cells, d_k: even + 1 })];
  const formula = (cells.d_k ?? 0) % 2 ? "even · sin θ + odd · cos θ" : "even · cos θ − odd · sin θ";
  return origin("formula", {
    factors,
    result,
    formula,
    note: `θ = ${positionIn(cells)} / 10000^(${even}/${context.config.d_k})`,
  });
}

/** @param {Factor[]} all @param {number} chosen @param {number} result @returns {Origin} */
function softmaxOrigin(all, chosen, result) {
  const most = Math.max(...all.map((one) => one.value));
  const terms = all.map((factor) => ({
    factors: [factor],
    product: most === -Infinity ? 0 : Math.exp(factor.value - most),
    label: "",
  }));
  return origin("softmax", {
    terms,
    factors: [all[chosen]],
    result,
    formula: "exp(score) / Σ exp(scores)",
    note:
      most === -Infinity
        ? "Every key is hidden, so the row is 0."
        : `Each exponential is taken after the row's greatest score, ${most.toFixed(4)}, is subtracted; the shares are the same.`,
  });
}

/** @param {Factor[]} factors @param {number} result */
const sumOrigin = (factors, result) =>
  origin("sum", {
    terms: factors.map((factor) => ({ factors: [factor], product: factor.value, label: "" })),
    result,
    formula: "a + b",
  });

/** @type {Record<string, Rule>} */
const NORM = {
  mean(context, address, cells, result) {
    const from = normInput(context, moduleOf(address));
    const width = context.config.d_model;
    const terms = Array.from({ length: width }, (_, column) => atRow(context, from, positionIn(cells), column)).map(
      (factor) => ({ factors: [factor], product: factor.value / width, label: "" }),
    );
    return origin("dot", { terms, result, formula: `Σ x / ${width}` });
  },
  variance(context, address, cells, result) {
    const from = normInput(context, moduleOf(address));
    const width = context.config.d_model;
    const mean = atRow(context, `${moduleOf(address)}.mean`, positionIn(cells), positionIn(cells));
    const terms = Array.from({ length: width }, (_, column) => atRow(context, from, positionIn(cells), column)).map(
      (factor) => ({ factors: [factor], product: (factor.value - mean.value) ** 2 / width, label: "" }),
    );
    return origin("dot", { terms, factors: [mean], result, formula: `Σ (x − μ)² / ${width}` });
  },
  normalised(context, address, cells, result) {
    const norm = moduleOf(address);
    const from = normInput(context, norm);
    const position = positionIn(cells);
    const mean = atRow(context, `${norm}.mean`, position, position);
    const variance = atRow(context, `${norm}.variance`, position, position);
    const x = atRow(context, from, position, cells.d_model ?? 0);
    return origin("formula", {
      factors: [x, mean, variance],
      result,
      formula: `(${x.value.toFixed(4)} − ${mean.value.toFixed(4)}) / √(${variance.value.toFixed(4)} + ε)`,
      note: `ε = ${context.config.norm_eps}`,
    });
  },
  output(context, address, cells, result) {
    const norm = moduleOf(address);
    const column = cells.d_model ?? 0;
    const factor = at(context, `${norm}.normalised`, cells);
    const gain = context.record.parameter(`${norm}.gain`)?.data[column];
    const bias = context.record.parameter(`${norm}.bias`)?.data[column];
    const formula =
      gain === undefined
        ? "γ · normalised + β"
        : `${gain.toFixed(4)} · ${factor.value.toFixed(4)} + (${bias?.toFixed(4)})`;
    return origin("formula", {
      factors: [factor],
      result,
      formula,
      note: gain === undefined ? "" : "γ (gain) and β (bias) are learned, one of each for every column.",
      missing: gain === undefined ? "This page has no weights, so γ and β are not shown." : undefined,
    });
  },
};

/** @type {Record<string, Rule>} */
const EMBEDDING = {
  embedded(context, address, cells, result) {
    const side = sideOf(address, "position") ?? "src";
    const position = positionIn(cells);
    const { sentence } = context.record;
    const ids = side === "src" ? sentence.src_ids : sentence.tgt_in_ids;
    const tokens = side === "src" ? sentence.src_tokens : sentence.tgt_in_tokens;
    return origin("lookup", {
      factors: [{ value: ids[position], address: "text", cells: {}, label: `id of ${tokens[position]}` }],
      result,
      formula: `${moduleOf(address)}.tokens.weight[${ids[position]}, ${cells.d_model ?? 0}]`,
      note: "Row id, column d_model of the learned table. The id comes from the text: the chain ends here.",
    });
  },
  scaled(context, address, cells, result) {
    const factor = at(context, `${moduleOf(address)}.embedded`, cells);
    const { d_model, scale_embedding } = context.config;
    return origin("formula", {
      factors: [factor],
      result,
      formula: scale_embedding ? `${factor.value.toFixed(4)} · √${d_model}` : "not scaled in this model",
      note: scale_embedding ? `√d_model = ${Math.sqrt(d_model).toFixed(4)}` : "",
    });
  },
  position_vectors(context, address, cells, result) {
    const column = cells.d_model ?? 0;
    const position = positionIn(cells);
    if (context.config.positions !== "sinusoidal")
      return origin("lookup", {
        result,
        formula: `${moduleOf(address)}.positions.table[${position}, ${column}]`,
        note: "A learned row, one for each position.",
      });
    const { d_model, sinusoid } = context.config;
    const [last, whose] = sinusoid === "tensor2tensor" ? [d_model - 2, "tensor2tensor's"] : [d_model, "the paper's"];
    const wave = column % 2 ? "cos" : "sin";
    return origin("formula", {
      result,
      formula: `${wave}(${position} / 10000^(${column - (column % 2)}/${last}))`,
      note: `Not learned: ${whose} formula.`,
    });
  },
  with_positions: (context, address, cells, result) =>
    sumOrigin(
      inputsOf(context, address).map((from) => at(context, from, cells)),
      result,
    ),
};

/** @type {Record<string, Rule>} */
const RECURRENCE = {
  forget_gate(context, address, cells, result) {
    const factor = at(context, `${moduleOf(address)}.gate_scores`, cells);
    return origin("formula", { factors: [factor], result, formula: `σ(${factor.value.toFixed(4)})` });
  },
  cell(context, address, cells, result) {
    const position = positionIn(cells);
    const [gate, candidate] = inputsOf(context, address).map((from) => at(context, from, cells));
    const before = position ? at(context, address, { ...cells, tgt: position - 1 }) : null;
    const kept = (before?.value ?? 0).toFixed(4);
    const [f, z] = [gate, candidate].map(({ value }) => value.toFixed(4));
    return origin("formula", {
      factors: [gate, candidate, ...(before ? [before] : [])],
      result,
      formula: `${f} · ${kept} + (1 − ${f}) · ${z}`,
      note: before ? "f · the cell before + (1 − f) · the candidate." : "Before the first position the cell is 0.",
    });
  },
  output(context, address, cells, result) {
    const factor = at(context, `${moduleOf(address)}.cell`, cells);
    return origin("formula", { factors: [factor], result, formula: `max(0, ${factor.value.toFixed(4)})` });
  },
};

/** @type {Record<string, Rule>} */
const OTHER = {
  residual: (context, address, cells, result) =>
    sumOrigin(
      inputsOf(context, address).map((from) => atRow(context, from, positionIn(cells), cells.d_model ?? 0)),
      result,
    ),
  activated(context, address, cells, result) {
    const factor = at(context, `${moduleOf(address)}.inner`, cells);
    const z = factor.value.toFixed(4);
    const right = context.about.stories[address].equation.replace(/^.* = /, ""); // of this model's activation
    const formula = right.replace("z ", "z · ").replaceAll("z", z);
    return origin("formula", { factors: [factor], result, formula });
  },
  "output_projection.probabilities": (context, _, cells, result) => vocabularySoftmax(context, cells, result),
  "choice.next_ids"(context, _, cells, result) {
    const position = positionIn(cells);
    return origin("formula", {
      factors: [at(context, "output_projection.probabilities", { tgt: position, vocab: result })],
      result,
      formula: `the most probable entry: ${context.record.vocab[result]}`,
    });
  },
  "choice.next_probabilities"(context, _, cells, result) {
    const id = context.record.value("choice.next_ids", cells);
    return origin("same", {
      factors: [at(context, "output_projection.probabilities", { tgt: positionIn(cells), vocab: id })],
      result,
      formula: "=",
    });
  },
  src_mask: (context, _, cells, result) =>
    origin("formula", {
      result,
      formula: `id ${context.record.sentence.src_ids[cells.src ?? cells.key ?? 0]} ${result ? "≠" : "="} ${context.config.pad_id}, the id of padding`,
      note: result ? "1: every query may attend to it." : "0: padding is hidden.",
    }),
  causal_mask: (_, __, cells, result) =>
    origin("formula", {
      result,
      formula: `key ${cells.key} ${result ? "≤" : ">"} query ${cells.query}`,
      note: result ? "1: it may look there." : "0: that would be peeking at what comes later.",
    }),
};

/** @param {Context} context @param {Record<string, number>} cells @param {number} result */
function vocabularySoftmax(context, cells, result) {
  const logits = /** @type {import("./record.js").Tap} */ (context.record.at("output_projection.logits"));
  const row = vocabularyRow(logits, positionIn(cells));
  const values = Array.from(row.values, (value, place) => ({ value, id: row.ids ? row.ids[place] : place })).sort(
    (a, b) => b.value - a.value,
  );
  const most = values[0].value;
  const chosen = numberAt(logits, { ...cells, tgt: positionIn(cells) });
  const shown = values.slice(0, 24);
  if (!shown.some(({ id }) => id === cells.vocab)) shown.push({ value: chosen, id: cells.vocab ?? 0 });
  const total = row.ids
    ? Math.exp(chosen - most) / result
    : values.reduce((sum, { value }) => sum + Math.exp(value - most), 0);
  const terms = shown.map(({ value, id }) => ({
    factors: [at(context, "output_projection.logits", { tgt: positionIn(cells), vocab: id })],
    product: Math.exp(value - most),
    label: "",
  }));
  const rest = total - terms.reduce((sum, term) => sum + term.product, 0);
  terms.push({
    factors: [],
    product: rest,
    label: `all ${(context.config.tgt_vocab - shown.length).toLocaleString("en")} others`,
  });
  return origin("softmax", {
    terms,
    factors: [at(context, "output_projection.logits", { tgt: positionIn(cells), vocab: cells.vocab ?? 0 })],
    result,
    formula: "exp(logit) / Σ exp(logits)",
    note: `Each exponential is taken after the greatest logit, ${most.toFixed(4)}, is subtracted.`,
  });
}
