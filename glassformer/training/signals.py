"""SIGINT and SIGTERM make a training save and stop; a second signal stops it immediately."""

import os
import signal
from types import FrameType, TracebackType
from typing import Any, Self


class StopSignals:
    """Inside the block, ``received`` is the signal that arrived, if one did.

    It has no effect outside the main thread, where Python does not allow signal handlers.
    """

    def __init__(self) -> None:
        self.received: signal.Signals | None = None
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        for number in (signal.SIGINT, signal.SIGTERM):
            try:
                self._before[number] = signal.signal(number, self._handle)
            except ValueError:
                return self
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._restore()

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.received is None:
            self.received = signal.Signals(number)
            return
        # The second one does what it did before. The handlers stay in their places until then: Python complains of a
        # signal that arrives while its handler is being taken away.
        before = self._before.get(signal.Signals(number), signal.SIG_DFL)
        if callable(before):
            before(number, frame)
        else:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)

    def _restore(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before.clear()
