"""A readable label for each entry of a vocabulary: what a person sees in place of a token.

A space is shown as ▁, a byte that is only a part of a character as its hexadecimal value (⟨E3⟩), and a
character that cannot be seen as its code point (⟨U+200D⟩). Labels are for showing; they do not turn back
into text. Knows nothing of ids.
"""

SPACE_MARK = "▁"


def _byte_values() -> dict[str, int]:
    """Byte-level BPE's alphabet: the character that stands for each byte (Radford et al. 2019)."""
    shown = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = [value for value in range(256) if value not in shown]
    return {chr(value): value for value in shown} | {chr(256 + rank): value for rank, value in enumerate(hidden)}


_BYTE_VALUES = _byte_values()


def byte_label(entry: str) -> str:
    """The label of a byte-level entry such as ``Ġthe`` (▁the)."""
    raw = bytes(_BYTE_VALUES[character] for character in entry)
    return label(raw.decode("utf-8", "surrogateescape"))


def label(entry: str) -> str:
    """The label of an entry that is plain text; escaped bytes (U+DC80 to U+DCFF) are shown in hexadecimal."""
    return "".join(map(_visible, entry))


def _visible(character: str) -> str:
    if character == " ":
        return SPACE_MARK
    if "\udc80" <= character <= "\udcff":
        return f"⟨{ord(character) - 0xDC00:02X}⟩"
    return character if character.isprintable() else f"⟨U+{ord(character):04X}⟩"
