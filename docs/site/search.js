// Asks the site's search the questions of questions.json, and prints the first hit of each.
//
//   node docs/site/search.js SECTIONS.js        ends with 1 if one of them is not the page that answers it
const fs = require("fs");
const path = require("path");
const { makeIndex, find } = require("./static/find.js");

const source = fs.readFileSync(process.argv[2], "utf8");
const sections = JSON.parse(source.slice(source.indexOf("["), source.lastIndexOf("]") + 1));
const questions = JSON.parse(fs.readFileSync(path.join(__dirname, "questions.json"), "utf8"));
const index = makeIndex(sections);

let wrong = 0;
for (const [question, expected] of Object.entries(questions)) {
  const hits = find(index, question).map((number) => sections[number][0]);
  const rank = hits.indexOf(expected) + 1;
  wrong += rank !== 1;
  console.log(`${question.padEnd(42)} rank ${rank || "-"} of ${hits.length}   first: ${hits[0]}`);
}
process.exit(wrong ? 1 : 0);
