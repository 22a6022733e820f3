// @ts-check
/** Plain text and subtitles, translated in their own form: the same bytes as `glassformer/documents` writes, whose
 * `line_segments` and `subtitle_segments` this file mirrors. */

/** @typedef {{start: number, end: number, text: string, line: number, write: (text: string) => string}} Segment */

export const TEXT_ENDINGS = [".txt", ".srt", ".vtt"];

const BATCH = 16;
const LONGEST_LINE = 42; // characters; a longer text is broken into two lines, as subtitlers do
const TIME = "(?:\\p{Nd}+:)?\\p{Nd}+:\\p{Nd}\\p{Nd}(?:[,.]\\p{Nd}+)?";
const TIMES = new RegExp(`(?<![^\\n])[ \\t]*${TIME}[ \\t]*-->[ \\t]*${TIME}(?![\\p{Nd}:,.])[^\\n]*`, "gu");
const DAMAGED =
  /(?<![^\n])(?:(?=[^\n]*\p{Nd}:\p{Nd})[^\n]*-->|[ \t]*\p{Nd}+:\p{Nd}\p{Nd}:\p{Nd}\p{Nd}[,.]\p{Nd}+[ \t]*-)[^\n]*/u;
const BLOCK = /(?:(?<![^\n])[^\S\n]*\S[^\n]*(?:\n|(?![^])))+/g;
const NUMBER = /\n[ \t]*\p{Nd}+\s*(?![^])/u;
const NUMBER_LINE = /^[ \t]*\p{Nd}+[ \t]*\r?\n/u;
const TAG = "</?[A-Za-z][^<>\\n]*>|<\\p{Nd}[\\p{Nd}:.]*>|\\{\\\\[^\\{\\}\\n]*\\}";
const TEXT_LINE = /[^\r\n]*\S[^\r\n]*/gu;
const CLOSING_TAGS = /(?:\s*<\/[A-Za-z][^<>\n]*>)+$/u;
const LABEL = "(?![a-z\\p{Nd}])[\\p{L}\\p{N}][^a-z:\\n]{0,30}:(?:[ \\t]+|[ \\t]*(?![^\\n]))";
const SPEAKER = new RegExp(`^(?:${TAG}|[ \\t])*(?:(?<dash>[\\-–—](?![\\-–—])[ \\t]*)|(?<label>${LABEL}))`, "u");
const VOICE = /^\s*<v[ .]/u;
const APART = new RegExp(`^(?:${TAG}|\\s)*(?:\\([^()\\n]*\\)|\\[[^\\[\\]\\n]*\\]|♪[^\\n]*♪)(?:${TAG}|\\s)*$`, "u");
const SPACE = new RegExp(`(?:${TAG})|(?<![)\\]♪])( )(?![\\-–—(\\[♪]|<v[ .]|${LABEL})`, "gu");

/** @param {{translate: (texts: string[], options: any) => Promise<import("./result.js").Result[]>}} engine
 * @param {File} file @param {import("./result.js").Options} options @returns {Promise<import("./result.js").Done>} */
export async function translateTextFile(engine, file, { onProgress, ...options }) {
  const bytes = new Uint8Array(await file.arrayBuffer());
  const ending = /\.\w+$/.exec(file.name.toLowerCase())?.[0] ?? "";
  const { text, encode } = readBytes(bytes);
  const mark = text.startsWith("\ufeff") ? "\ufeff" : "";
  const body = text.slice(mark.length);
  const segments = findSegments(body, ending);
  const texts = [...new Set(segments.map((one) => one.text))];
  /** @type {Map<string, import("./result.js").Result>} */
  const results = new Map();
  for (let at = 0; at < texts.length; at += BATCH) {
    const some = texts.slice(at, at + BATCH);
    (await engine.translate(some, options)).forEach((result, number) => results.set(some[number], result));
    onProgress?.(results.size, texts.length);
  }
  const resultOf = (/** @type {Segment} */ one) =>
    /** @type {import("./result.js").Result} */ (results.get(one.text));
  const { filled, unfit } = fill(body, ending, segments, (one) => resultOf(one).text);
  const remarks = segments.flatMap((one) => {
    const form = unfit.has(one) ? ["left as it was: with its translation the file would have another form"] : [];
    const { text: written, check } = resultOf(one);
    return [...check, ...form].map((remark) => ({ line: one.line, source: one.text, text: written, remark }));
  });
  const name = file.name.replace(/(\.\w+)?$/, `_${options.target}$1`);
  return { name, content: encode(mark + filled), checks: remarks };
}

/** @param {Uint8Array} bytes */
function readBytes(bytes) {
  const wide = { "255,254": "utf-16le", "254,255": "utf-16be" }[bytes.slice(0, 2).join()];
  try {
    const text = new TextDecoder(wide ?? "utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
    const encode = (/** @type {string} */ written) => {
      if (!wide) return new TextEncoder().encode(written);
      const view = new DataView(new ArrayBuffer(2 * written.length));
      for (let at = 0; at < written.length; at += 1)
        view.setUint16(2 * at, written.charCodeAt(at), wide === "utf-16le");
      return new Uint8Array(view.buffer);
    };
    return { text, encode };
  } catch {
    throw new Error("The file is not in UTF-8. Save it as UTF-8.");
  }
}

/** The text of a file with the translations that fit, and the segments whose translation would give it another form.
 * @param {string} body @param {string} ending @param {Segment[]} segments @param {(one: Segment) => string} textOf */
export function fill(body, ending, segments, textOf) {
  const newline = body.includes("\r\n") ? "\r\n" : "\n";
  const apply = (/** @type {Segment[]} */ some) => {
    let end = 0;
    let written = "";
    for (const one of some.filter((each) => textOf(each) !== each.text)) {
      const text = one.write(textOf(one)).replaceAll("\r\n", "\n").replaceAll("\n", newline);
      written += body.slice(end, one.start) + text;
      end = one.end;
    }
    return written + body.slice(end);
  };
  const fits = (/** @type {Segment[]} */ some) => {
    const blank = some.filter((one) => !textOf(one).trim()).length;
    try {
      return findSegments(apply(some), ending).length === segments.length - blank;
    } catch {
      return false;
    }
  };
  /** @param {Segment[]} some @returns {Segment[]} */
  const findUnfit = (some) => {
    if (fits(some)) return [];
    const half = some.length >> 1;
    const found = half ? [...findUnfit(some.slice(0, half)), ...findUnfit(some.slice(half))] : some;
    return found.length ? found : some; // these fit one by one, but not together
  };
  const unfit = new Set(findUnfit(segments));
  return { filled: apply(segments.filter((one) => !unfit.has(one))), unfit };
}

/** What is to be translated in a text. @param {string} text @param {string} ending @returns {Segment[]} */
export function findSegments(text, ending) {
  const found = ending === ".txt" ? lineSegments(text) : subtitleSegments(text, ending === ".srt");
  return found.filter((one) => one.text.trim());
}

/** @param {string} text @returns {Segment[]} */
function lineSegments(text) {
  let start = 0;
  return text.split("\n").map((line, number) => {
    const inner = line.replace(/^\r+|\r+$/g, "");
    const begin = start;
    start += line.length + 1;
    const write = (/** @type {string} */ written) => written.replaceAll("\n", " ");
    return { start: begin, end: begin + inner.length, text: inner, line: number + 1, write };
  });
}

/** @param {string} text @param {boolean} isSubrip @returns {Segment[]} */
function subtitleSegments(text, isSubrip) {
  const times = [...text.matchAll(TIMES)];
  if (!times.length && text.trim() && (isSubrip || !text.startsWith("WEBVTT")))
    throw new Error("Found no line like 00:00:01,000 --> 00:00:02,000, expected subtitles.");
  const lineOf = (/** @type {number} */ at) => text.slice(0, at).split("\n").length;
  const starts = [0, ...times.map((time) => time.index + time[0].length)];
  const ends = [...times.map((time) => time.index), text.length];
  return starts.flatMap((start, number) => {
    const damaged = DAMAGED.exec(text.slice(start, ends[number]));
    if (damaged)
      throw new Error(`Line ${lineOf(start + damaged.index)}: found ${damaged[0].trim()}, expected a line of times.`);
    const blocks = start ? cueBlocks(text, start, ends[number], isSubrip) : [];
    return blocks.flatMap((block) =>
      cueTexts(text, ...block).map(([begin, end, longest]) => ({
        start: begin,
        end,
        line: lineOf(begin),
        ...cueText(text.slice(begin, end), longest, isSubrip),
      })),
    );
  });
}

/** The text between two lines of times, up to a blank line: in SubRip all such blocks, but not the next number.
 * @param {string} text @param {number} start @param {number} end @param {boolean} isSubrip
 * @returns {[number, number][]} */
function cueBlocks(text, start, end, isSubrip) {
  const first = start + text.slice(start, end).indexOf("\n") + 1;
  if (first === start) return [];
  if (!isSubrip) {
    const empty = /(?<![^\n])\r?(?![^\n])/.exec(text.slice(first, end));
    return [[first, empty ? first + empty.index : end]];
  }
  const number = end < text.length ? NUMBER.exec(text.slice(first - 1, end)) : null;
  const last = number ? Math.max(first, first - 1 + number.index) : end;
  return [...text.slice(first, last).matchAll(BLOCK)].map((block) => {
    const [from, to] = [first + block.index, first + block.index + block[0].trimEnd().length];
    const lost = from === first ? null : NUMBER_LINE.exec(text.slice(from, to)); // of a cue that has lost its times
    return [from + (lost?.[0].length ?? 0), to];
  });
}

/** Where each text of a cue is (of each speaker, without dash or name), and its longest line, if that matters.
 * @param {string} text @param {number} start @param {number} end @returns {[number, number, number | null][]} */
function cueTexts(text, start, end) {
  const lines = [...text.slice(start, end).matchAll(TEXT_LINE)].map((line) => [
    start + line.index,
    start + line.index + line[0].length,
  ]);
  const parts = lines.map((line) => text.slice(...line));
  const speakers = parts.map((part) => SPEAKER.exec(part));
  const apart = parts.map((part) => APART.test(part));
  const isDialogue = speakers.slice(1).some((speaker) => speaker?.groups?.dash);
  const names = (/** @type {number} */ at) => speakers[at] && (isDialogue || speakers[at]?.groups?.label);
  const begins = [...lines.keys()].filter(
    (at) => !at || names(at) || apart[at] || apart[at - 1] || VOICE.test(parts[at]),
  );
  return begins.flatMap((first, number) => {
    const following = begins[number + 1] ?? lines.length;
    let [begin, finish] = [lines[first][0], lines[following - 1][1]];
    if (names(first)) {
      begin += /** @type {RegExpExecArray} */ (speakers[first])[0].length;
      if (begin === lines[first][1] && following - first > 1) begin = lines[first + 1][0]; // a label on its own line
    }
    const tags = [...text.slice(begin, finish).matchAll(new RegExp(TAG, "gu"))].filter((tag) => tag[0][0] === "<");
    const closes = tags.filter((tag) => tag[0].startsWith("</")).length;
    const closing = closes > tags.length / 2 ? CLOSING_TAGS.exec(text.slice(begin, finish)) : null;
    if (closing) finish = begin + closing.index;
    if (!text.slice(begin, finish).trim()) return [];
    return [[begin, finish, following - first === 1 && begins.length > 1 ? null : LONGEST_LINE]];
  });
}

/** @param {string} raw @param {number | null} longest @param {boolean} isSubrip */
function cueText(raw, longest, isSubrip) {
  const lines = raw.split("\n").map((line) => line.trim());
  const inner = lines.filter(Boolean).join(" ");
  const outside = (/** @type {string} */ text, /** @type {(part: string) => string} */ change) =>
    text
      .split(new RegExp(`(${TAG})`, "u"))
      .map((part, at) => (at % 2 ? part : change(part)))
      .join("");
  const escape = (/** @type {string} */ part) =>
    part.replaceAll("-->", "→").replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
  return {
    text: isSubrip ? inner : outside(inner, readReferences),
    write: (/** @type {string} */ text) => writeLines(isSubrip ? text : outside(text, escape), longest),
  };
}

/** As browsers read them. @param {string} text */
const readReferences = (text) =>
  text.replace(/&[#\w]+;?/g, (sign) => new DOMParser().parseFromString(sign, "text/html").body.textContent ?? sign);

/** A longer text in two lines of about the same length; without `longest` one line that begins no dialogue.
 * @param {string} given @param {number | null} longest */
function writeLines(given, longest) {
  const text = given.replace(/[^\S\u00a0\u202f]+/gu, " ").replaceAll("-->", "→");
  if (longest === null) return text.replace(/^[-–— ]+/u, "") || ` ${text}`;
  const length = (/** @type {string} */ part) => [...part].length;
  let hidden = 0;
  const spaces = [];
  for (const found of text.matchAll(SPACE)) {
    if (found[1]) spaces.push([length(text.slice(0, found.index)) - hidden, found.index]);
    else hidden += length(found[0]);
  }
  const shown = length(text) - hidden;
  if (shown <= longest || !spaces.length) return text;
  const off = (/** @type {number[]} */ [place]) => Math.abs(place - shown / 2);
  const [, middle] = spaces.reduce((best, one) => (off(one) < off(best) ? one : best));
  return `${text.slice(0, middle)}\n${text.slice(middle + 1)}`;
}
