"""The sentences of the card that show what the bundled model can and cannot do, each with correct translations.

They were written for the card; ``pack.py`` refuses one that is a training source. Only ``FIRST``, the README's first
example, is one, and the card says so.
"""

from collections.abc import Iterable

from augment import letters

from glassformer.text.corpus import Pair

FIRST = "I love you, too."

# All outputs that count as right: German often has several, and ``you`` is du, ihr or Sie.
RIGHT: dict[str, tuple[str, ...]] = {
    FIRST: (
        "Ich liebe dich auch.", "Ich liebe euch auch.", "Ich liebe Sie auch.",
        "Auch ich liebe dich.", "Auch ich liebe euch.", "Auch ich liebe Sie.",
    ),
    "Where is my coffee?": ("Wo ist mein Kaffee?",),
    "She is reading my letter.": ("Sie liest meinen Brief.", "Sie liest gerade meinen Brief."),
    "We are very hungry today.": (
        "Wir sind heute sehr hungrig.", "Wir haben heute großen Hunger.", "Wir haben heute sehr großen Hunger.",
        "Heute sind wir sehr hungrig.", "Heute haben wir großen Hunger.",
    ),
    "Can you help my brother?": (
        "Kannst du meinem Bruder helfen?", "Können Sie meinem Bruder helfen?", "Könnt ihr meinem Bruder helfen?",
    ),
    "The dog sleeps in my bed.": ("Der Hund schläft in meinem Bett.",),
    "My sister is a pilot.": ("Meine Schwester ist Pilotin.",),
    "He bought a new bicycle.": (
        "Er hat ein neues Fahrrad gekauft.", "Er kaufte ein neues Fahrrad.", "Er hat sich ein neues Fahrrad gekauft.",
        "Er kaufte sich ein neues Fahrrad.", "Er hat ein neues Rad gekauft.", "Er kaufte ein neues Rad.",
    ),
    "The water was too cold.": ("Das Wasser war zu kalt.",),
    "Thank you for the flowers.": ("Danke für die Blumen.", "Danke für die Blumen!", "Vielen Dank für die Blumen."),
    "I have no time tomorrow.": ("Ich habe morgen keine Zeit.", "Morgen habe ich keine Zeit."),
    "Do your parents speak German?": (
        "Sprechen deine Eltern Deutsch?", "Sprechen Ihre Eltern Deutsch?", "Sprechen eure Eltern Deutsch?",
        "Können deine Eltern Deutsch?", "Können Ihre Eltern Deutsch?", "Können eure Eltern Deutsch?",
    ),
    "Wednesday, May 7, 2031": ("Mittwoch, 7. Mai 2031",),
    "in 75 minutes": ("in 75 Minuten",),
    "Spain, Kenya, and Norway": ("Spanien, Kenia und Norwegen",),
    "7.35 kilometers": ("7,35 Kilometer",),
    "€1,257.08": ("1.257,08 €",),
    "The old man who lives next door feeds the birds every morning.": (
        "Der alte Mann, der nebenan wohnt, füttert jeden Morgen die Vögel.",
        "Der alte Mann von nebenan füttert jeden Morgen die Vögel.",
    ),
    "Although it was snowing, we walked to the lake and swam.": (
        "Obwohl es schneite, gingen wir zum See und schwammen.",
        "Obwohl es schneite, sind wir zum See gelaufen und geschwommen.",
    ),
    "If I had known that, I would have stayed at home.": (
        "Wenn ich das gewusst hätte, wäre ich zu Hause geblieben.",
        "Hätte ich das gewusst, wäre ich zu Hause geblieben.",
    ),
    "The committee postponed its decision.": (
        "Der Ausschuss verschob seine Entscheidung.", "Der Ausschuss hat seine Entscheidung verschoben.",
    ),
    "The bank of the river was muddy.": (
        "Das Ufer des Flusses war schlammig.", "Das Flussufer war schlammig.", "Das Ufer des Flusses war matschig.",
    ),
    "Plants turn light into sugar.": ("Pflanzen verwandeln Licht in Zucker.", "Pflanzen wandeln Licht in Zucker um."),
    "That is a storm in a teacup.": ("Das ist ein Sturm im Wasserglas.",),
    "Marie Curie was born in Warsaw in 1867.": (
        "Marie Curie wurde 1867 in Warschau geboren.", "Marie Curie wurde im Jahr 1867 in Warschau geboren.",
    ),
    "I wil cal you tomorow.": (
        "Ich rufe dich morgen an.", "Ich rufe Sie morgen an.", "Ich rufe euch morgen an.",
        "Ich werde dich morgen anrufen.", "Ich werde Sie morgen anrufen.", "Ich werde euch morgen anrufen.",
    ),
}  # fmt: skip


def find_training_sources(sentences: Iterable[str], pairs: Iterable[Pair]) -> list[str]:
    """The sentences that are sources of ``pairs``, compared by their letters as in ``pairs.py``."""
    known = {letters(pair) for pair in pairs}
    return [sentence for sentence in sentences if letters(Pair(sentence, "")) in known]
