// Asks the built site's own search ten questions and prints the first hit of each: node docs/site/search.js build/site
// Ends with 1 if one of them is not the page that answers it.
const fs = require("fs");
const path = require("path");
const vm = require("vm");

const QUESTIONS = {
  "how do I resume": "docs/howto#how-do-i-resume-a-training",
  "ensemble models": "docs/howto#how-do-i-ensemble-models",
  "fine-tune a model": "docs/howto#how-do-i-fine-tune-a-model",
  "get gradients": "docs/howto#how-do-i-get-gradients",
  "attention heads": "docs/howto#how-do-i-see-attention-heads",
  "silence a head": "docs/howto#how-do-i-silence-a-head",
  "out of memory": "docs/howto#out-of-memory",
  "which model size": "docs/howto#which-model-size",
  "translate a file": "docs/howto#how-do-i-translate-a-file",
  "translate faster": "docs/howto#how-do-i-translate-faster",
};

const site = process.argv[2];
const nothing = () => ({});
const scope = {
  console, URLSearchParams, Map, Set, setTimeout, _: (text) => text, _ready: () => {},
  SPHINX_HIGHLIGHT_ENABLED: false, location: { search: "" },
  document: { documentElement: { dataset: { content_root: "" } }, addEventListener: () => {}, querySelector: nothing,
              getElementById: nothing, createElement: nothing, readyState: "complete" },
};
scope.window = scope;
vm.createContext(scope);
for (const name of ["documentation_options.js", "language_data.js", "searchtools.js"]) {
  vm.runInContext(fs.readFileSync(path.join(site, "_static", name), "utf8"), scope);
}
vm.runInContext(fs.readFileSync(path.join(site, "searchindex.js"), "utf8"), scope);

let wrong = 0;
for (const [question, expected] of Object.entries(QUESTIONS)) {
  scope.question = question;
  const found = vm.runInContext("Search._performSearch(...Search._parseQuery(question))", scope);
  const hits = found.map(([page, , anchor]) => page + (anchor || "")).reverse(); // the page shows the last one first
  const rank = hits.indexOf(expected) + 1;
  wrong += rank !== 1;
  console.log(`${question.padEnd(20)} rank ${rank || "-"} of ${hits.length}   first: ${hits[0]}`);
}
process.exit(wrong ? 1 : 0);
