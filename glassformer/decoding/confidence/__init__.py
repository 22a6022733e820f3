"""How sure a translation is."""
