"""The grammar of SCAN: every command there is, with the actions that it means.

Lake and Baroni 2018 (arXiv 1711.00350), figures 6 and 7. A phrase is something done once, a sentence is a
phrase once, twice or thrice, and a command is a sentence or two of them. Knows nothing of splits.
"""

from collections.abc import Iterator

PRIMITIVES = {"walk": ("I_WALK",), "look": ("I_LOOK",), "run": ("I_RUN",), "jump": ("I_JUMP",)}
TURNS = {"left": ("I_TURN_LEFT",), "right": ("I_TURN_RIGHT",)}

Actions = tuple[str, ...]


def commands() -> Iterator[tuple[str, Actions]]:
    """All 20,910 commands, each once."""
    once = list(_sentences())
    yield from once
    for first, first_actions in once:
        for second, second_actions in once:
            yield f"{first} and {second}", first_actions + second_actions
            yield f"{first} after {second}", second_actions + first_actions


def _sentences() -> Iterator[tuple[str, Actions]]:
    for phrase, actions in _phrases():
        yield phrase, actions
        yield f"{phrase} twice", 2 * actions
        yield f"{phrase} thrice", 3 * actions


def _phrases() -> Iterator[tuple[str, Actions]]:
    yield from PRIMITIVES.items()
    # "turn" alone does nothing and is no command; it only takes a direction.
    for verb, actions in {**PRIMITIVES, "turn": ()}.items():
        for side, turn in TURNS.items():
            yield f"{verb} {side}", turn + actions
            yield f"{verb} opposite {side}", 2 * turn + actions
            yield f"{verb} around {side}", 4 * (turn + actions)
