"""The ``glassformer`` command, also as ``python -m glassformer``."""

import signal
import sys


def main() -> None:
    """Load the command line and run it. Ctrl-C ends the process while it loads."""
    handler = signal.getsignal(signal.SIGINT)
    if handler is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from glassformer.cli.main import main as run
    from glassformer.cli.main import repeat_interrupt

    sys.unraisablehook = repeat_interrupt
    signal.signal(signal.SIGINT, handler)
    run()


if __name__ == "__main__":
    main()
