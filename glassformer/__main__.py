"""``python -m glassformer`` is the ``glassformer`` command."""

from glassformer.cli import main

if __name__ == "__main__":
    main()
