// The page of the search: what the address asks for, and what is typed, is looked for at once.
const MOST = 20;
const AROUND = 110; // characters of a text that are shown before and behind the first word that was found
const index = makeIndex(SECTIONS);
const field = document.querySelector(".find input");
const list = document.querySelector(".find-hits");

function show() {
  const question = field.value.trim();
  const hits = question ? find(index, question) : [];
  list.replaceChildren(...hits.slice(0, MOST).map((number) => item(SECTIONS[number], question)));
  const count = hits.length > MOST ? `The ${MOST} best of ${hits.length} sections.` : `${hits.length} sections.`;
  document.querySelector(".find-count").textContent = question ? (hits.length ? count : "Nothing has these words.") : "";
}

function item([address, title, pageTitle, text], question) {
  const [page, anchor] = address.split("#");
  const link = document.createElement("a");
  link.href = `${document.documentElement.dataset.content_root}${page}.html${anchor ? `#${anchor}` : ""}`;
  link.textContent = title;
  const where = document.createElement("small");
  where.textContent = pageTitle === title ? "" : pageTitle;
  const excerpt = document.createElement("p");
  excerpt.textContent = around(text, question);
  const line = document.createElement("li");
  line.append(link, " ", where, excerpt);
  return line;
}

/** The text around the first word of the question, or its start. */
function around(text, question) {
  const asked = new Set(words(question).filter((word) => !COMMON.has(word)));
  const found = [...text.matchAll(/[\p{L}\p{N}]+/gu)].find((word) => asked.has(words(word[0])[0]));
  const start = Math.max(0, (found ? found.index : 0) - AROUND);
  const end = start + 2 * AROUND;
  return `${start ? "… " : ""}${text.slice(start, end)}${end < text.length ? " …" : ""}`;
}

field.value = new URLSearchParams(location.search).get("q") || "";
field.addEventListener("input", show);
field.form.addEventListener("submit", (event) => event.preventDefault());
show();
