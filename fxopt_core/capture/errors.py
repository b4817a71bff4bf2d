"""What goes wrong when a model is captured."""

from __future__ import annotations


class CaptureError(RuntimeError):
    """A capture method could not turn a model into a graph.

    Attributes:
        method: the method that was asked for.
        failure: what failed, in one line, with the user's file and line where known.
        advice: what to try instead.
    """

    def __init__(self, method: str, failure: str, advice: str) -> None:
        super().__init__(f'capture(method="{method}") failed: {failure} Try this: {advice}')
        self.method = method
        self.failure = failure
        self.advice = advice
