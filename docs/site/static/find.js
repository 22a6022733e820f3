// Finds the sections that have any of the words of a question; rare words and those of headings count most.
// The page of the search runs it in the browser, docs/site/search.js in node.

const COMMON = new Set(
  ("a about all also am an and any are as at be been but by can could do does doing for from get give gets got had has have " +
    "he her his how i if in into is it its just like make me my need no not of on one or our out please should so some " +
    "than that the their them then there these they this those to too up us use used using want was way we what when " +
    "where which who why will with without would you your").split(" "),
);
// What people write for a word of these pages.
const SAME = Object.assign(Object.create(null), {
  licence: "license", licensed: "license", colour: "color", cite: "citation", citing: "citation", bibtex: "citation",
  crash: "stop", crashed: "stop", killed: "stop", stopped: "stop", continue: "resume", odt: "docx", cuda: "gpu",
  finetune: "tune", finetuning: "tune", huggingface: "hugging", heatmap: "map", picture: "map", rest: "http",
  server: "http", webservice: "http", endpoint: "http", container: "docker", slow: "fast", slowly: "fast", quick: "fast",
  company: "commercial", business: "commercial", sell: "commercial", computer: "machine", ablate: "silence",
  mute: "silence", subtitle: "srt", subtitles: "srt", oom: "memory",
}); // prettier-ignore
const K = 1.2;
const B = 0.6;
const IN_TITLE = 5;
const IN_PAGE_TITLE = 1.5;
const ALMOST = 0.5; // how much a word counts that only begins so, or has another letter

const stems = new Map();

/** The words of a text, without accents and endings, in the spelling of the pages. */
function words(text) {
  const found = text.toLowerCase().normalize("NFKD").replace(/\p{M}/gu, "").match(/[\p{L}\p{N}]+/gu) || [];
  return found.map((word) => {
    if (!stems.has(word)) stems.set(word, stem(SAME[word] || word));
    return stems.get(word);
  });
}

function stem(word) {
  if (word.length < 4 || /\d/.test(word)) return word;
  let short = word.replace(/ies$/, "y").replace(/([^su])s$/, "$1");
  if (short.length > 5) short = short.replace(/(ing|ed|er|ly|ion|ment)$/, "");
  return short.replace(/e$/, "").replace(/([b-df-hj-np-rtv-z])\1$/, "$1");
}

/** What the search needs of the sections: for each word where it stands, and how long texts are. */
function makeIndex(sections) {
  const places = new Map();
  const lengths = sections.map(([, title, pageTitle, text], number) => {
    const body = words(text);
    const counts = new Map();
    const add = (word, count) => counts.set(word, (counts.get(word) || 0) + count);
    body.forEach((word) => add(word, 1));
    const length = body.length;
    counts.forEach((count, word) => note(places, word, number).body = count);
    new Set(words(title)).forEach((word) => note(places, word, number).title = IN_TITLE);
    new Set(words(pageTitle)).forEach((word) => note(places, word, number).page = IN_PAGE_TITLE);
    return length;
  });
  const mean = lengths.reduce((sum, length) => sum + length, 0) / Math.max(1, lengths.length);
  return { sections, places, lengths, mean };
}

function note(places, word, number) {
  if (!places.has(word)) places.set(word, new Map());
  const of = places.get(word);
  if (!of.has(number)) of.set(number, { body: 0, title: 0, page: 0 });
  return of.get(number);
}

/** The numbers of the sections that have a word of the question, the best one first. */
function find(index, question) {
  const every = [...new Set(words(question))];
  const asked = every.filter((word) => !COMMON.has(word));
  const scores = new Map();
  let sum = 0;
  for (const word of asked.length ? asked : every) {
    const { known, share } = nearest(index, word);
    if (!known) continue;
    const of = index.places.get(known);
    const rarity = share * Math.log(1 + (index.sections.length - of.size + 0.5) / (of.size + 0.5));
    sum += rarity;
    of.forEach(({ body, title, page }, number) => {
      const long = 1 - B + (B * index.lengths[number]) / index.mean;
      const often = body / long + title + page;
      const [score, had] = scores.get(number) || [0, 0];
      scores.set(number, [score + (rarity * often * (K + 1)) / (K + often), had + rarity]);
    });
  }
  const rank = ([number, [score, had]]) => [number, (score * index.sections[number][4] * had) / sum];
  return [...scores].map(rank).sort((one, other) => other[1] - one[1] || one[0] - other[0]).map(([number]) => number);
}

/** The word as the pages have it, or one that begins so, or differs in one letter. */
function nearest(index, word) {
  if (index.places.has(word)) return { known: word, share: 1 };
  if (word.length < 4) return { known: null, share: 0 };
  const frequent = [...index.places.keys()].filter((other) => other.startsWith(word) || differsByOne(word, other));
  frequent.sort((one, other) => index.places.get(other).size - index.places.get(one).size);
  return { known: frequent[0] || null, share: ALMOST };
}

/** Whether a letter is put in, left out, changed, or two beside one another are exchanged. */
function differsByOne(one, other) {
  if (Math.abs(one.length - other.length) > 1) return false;
  let start = 0;
  while (start < one.length && one[start] === other[start]) start += 1;
  const [left, right] = [one.slice(start), other.slice(start)];
  return (
    left.slice(1) === right.slice(1) || left.slice(1) === right || left === right.slice(1) ||
    (left[0] === right[1] && left[1] === right[0] && left.slice(2) === right.slice(2))
  ); // prettier-ignore
}

if (typeof module !== "undefined") module.exports = { makeIndex, find, words };
