// Ranks what the search finds: an answer of "How do I ...?" whose question has the words comes first.
var Scorer = {
  score: ([page, , anchor, , score]) => score + (page === "docs/howto" && anchor ? 100 : 0),
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
