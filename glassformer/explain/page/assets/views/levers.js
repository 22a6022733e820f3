// @ts-check
/** The levers that stand at what they move: a head's switch, the mask's, and the heads whose silence tells. */
import { moduleOf, shortAddress } from "../record/addresses.js";
import { element } from "../drawing/element.js";

/** The edit that silences a head. @param {string} module the attention's address @param {number} head
 * @returns {import("../page.js").Edit} */
const silenced = (module, head) => ({
  address: `${module}.heads`,
  index: { heads: head },
  operation: "zero",
});

/** @param {import("../page.js").App} app @param {string} module @param {number} head */
export const isSilent = (app, module, head) =>
  app.edits.some((edit) => edit.address === `${module}.heads` && edit.index?.heads === head);

/** @param {import("../page.js").App} app @param {string} module @param {number} head */
export function headSwitch(app, module, head) {
  const silent = isSilent(app, module, head);
  return element(
    "button.switch",
    {
      "aria-pressed": silent ? "true" : "false",
      title: `${shortAddress(module)}, head ${head}`,
      onclick: () => app.toggleEdit(silenced(module, head)),
    },
    wordsOf(silent, [head]),
  );
}

/** @param {boolean} silent @param {number[]} heads @param {boolean} [all] */
function wordsOf(silent, heads, all = false) {
  const which = all ? "all heads" : heads.length > 1 ? `heads ${heads.join(" and ")}` : `head ${heads[0]}`;
  return `Switch ${which} ${silent ? "on" : "off"}`;
}

/** A switch that stands where the model has not woken yet, so that nothing moves when it has.
 * @param {string} words */
export const unseenSwitch = (words) => element("span.switch.unseen", { "aria-hidden": "true" }, words);

/** The head, or the few of one attention, whose silence changes this translation, once the page has found them.
 * @param {import("../page.js").App} app */
export function tellingHeads(app) {
  /** @type {import("../page.js").Edit[] | null | undefined} */
  const telling = app.living?.telling;
  if (!app.carriesModel || app.living?.trouble) return element("span#telling");
  if (telling === null) return element("small#telling", {}, "No attention alone changes this translation.");
  if (!telling) return element("span#telling", {}, element("span.switch", {}, "Looking for a head to switch off …"));
  const module = moduleOf(telling[0].address);
  const heads = telling.map((edit) => edit.index?.heads ?? 0);
  const silent = heads.every((head) => isSilent(app, module, head));
  return element(
    "span#telling",
    {},
    element(
      "button.switch",
      {
        "aria-pressed": silent ? "true" : "false",
        onclick: () => app.living.toggleEdits(telling),
      },
      wordsOf(silent, heads, heads.length > 2),
    ),
    element(
      "small",
      {},
      ` ${shortAddress(module)}, one of ${headCount(app.config)} heads: each looks at the words in its own way`,
    ),
  );
}

/** @param {any} config */
const headCount = (config) =>
  config.n_heads
  * (config.n_encoder_layers + config.n_decoder_layers * (config.autoregressive_sublayer === "ssru" ? 1 : 2));

/** The heads to silence in search of some that tell, the decoder's last layer first: its heads one by one, two of a
 * cross-attention, the encoder's one by one, and all of a cross-attention.
 * @param {any} config @returns {import("../page.js").Edit[][]} */
export function headsToTry(config) {
  const heads = [...Array(config.n_heads).keys()];
  const own = config.autoregressive_sublayer === "self_attention" ? ["decoder self_attention"] : [];
  const modules = ["decoder cross_attention", ...own, "encoder self_attention"].flatMap((kind) => {
    const [stack, sublayer] = kind.split(" ");
    const layers = [...Array(config[`n_${stack}_layers`]).keys()].reverse();
    return layers.map((layer) => `${stack}.layers.${layer}.${sublayer}`);
  });
  const cross = modules.slice(0, config.n_decoder_layers);
  const pairs = heads.flatMap((one) => heads.slice(one + 1).map((other) => [one, other]));
  const alone = (/** @type {string} */ module) => heads.map((head) => [silenced(module, head)]);
  const together = (/** @type {number[][]} */ groups) =>
    cross.flatMap((module) => groups.map((group) => group.map((head) => silenced(module, head))));
  const decoder = modules.slice(0, (1 + own.length) * cross.length);
  return [
    ...decoder.flatMap(alone),
    ...together(pairs),
    ...modules.slice(decoder.length).flatMap(alone),
    ...together([heads]),
  ];
}

/** Lift the causal mask, or put it back. @param {import("../page.js").App} app @param {string} address */
export function maskLever(app, address) {
  const masks = address === "causal_mask" || /^decoder.*self_attention\.(masked_scores|weights)$/.test(address);
  if (!masks || !app.carriesModel || app.living?.trouble) return null;
  if (!app.living?.ready) return element("p.mask-lever", {}, unseenSwitch("Lift the mask"));
  const lifted = app.edits.some((edit) => edit.address === "causal_mask" && edit.operation === "set");
  return element(
    "p.mask-lever",
    {},
    element(
      "button.switch",
      {
        "aria-pressed": lifted ? "true" : "false",
        onclick: () => app.toggleEdit({ address: "causal_mask", operation: "set", value: 1 }),
      },
      lifted ? "Put the mask back" : "Lift the mask",
    ),
  );
}
