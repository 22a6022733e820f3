"""``python -m glassformer`` is the ``glassformer`` command."""

from glassformer.cli.main import main

if __name__ == "__main__":
    main()
