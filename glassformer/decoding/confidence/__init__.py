"""How sure a translation is: a few numbers of it, and what they are worth."""
