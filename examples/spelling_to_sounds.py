"""Words to sounds: a model of made-up words says ten new ones, and shows which letter each sound was read from.

    python examples/spelling_to_sounds.py [DIRECTORY] [UPDATES]

They are spelled as in Spanish: ch, ll, qu and ñ are one sound, h is none, and c and g have two, by what follows.
"""

import random
import re
import sys
from pathlib import Path

from rich.console import Console

from glassformer import Translator
from glassformer.training.reporting.display import open_display
from glassformer.training.request.arguments import TrainRequest
from glassformer.training.train import train

ONSETS = {"ch": "t͡ʃ", "ll": "ʎ", "qu": "k", "c": "k", "h": "", "ñ": "ɲ", "j": "x", "v": "b", "z": "θ", "g": "ɡ"}
ONSETS |= dict(zip("tmpdflsbn", "tmpdflsbn", strict=True))
TEN = ["chocelo", "quiñama", "hallido", "zobefe", "cimicola", "vujaque", "llegaho", "ñachico", "gaduze", "joquitema"]


def sounds(word: str) -> str:
    soft = re.sub("g(?=[ei])", "j", re.sub("c(?=[ei])", "z", word))
    return " ".join(filter(None, (ONSETS.get(each, each) for each in re.findall("ch|ll|qu|.", soft))))


def main(place: Path, updates: str) -> None:
    draw, words = random.Random(1), set[str]()
    while len(words) < 1000:
        onsets = draw.choices(list(ONSETS), k=draw.randint(2, 4))
        words.add("".join(one + draw.choice("ei" if one == "qu" else "aeiou") for one in onsets))
    place.mkdir(parents=True, exist_ok=True)
    pairs = place / "sounds.train"
    pairs.write_text("".join(f"{word}\t{sounds(word)}\n" for word in sorted(words - set(TEN))), encoding="utf-8")
    settings = [f"train.max_updates={updates}"]
    with open_display(Console()) as display:
        train(TrainRequest.make(run=place / "run", data={"pairs": str(pairs)}, overrides=settings), display)
    for word, one in zip(TEN, Translator.load(place / "run").translate(TEN, attention=True), strict=True):
        written, read = one.hypotheses[0].tokens, one.source_tokens
        links = " ".join(f"{written[sound]}←{read[letter]}" for letter, sound in one.links() or ())
        print(f"{'right' if one.text == sounds(word) else 'wrong'}  {word:10} {one.text:20} {links}")


if __name__ == "__main__":
    main(Path((sys.argv[1:] or ["runs/sounds"])[0]), (sys.argv[2:] or ["1000"])[0])
