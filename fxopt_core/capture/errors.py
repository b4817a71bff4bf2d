"""What goes wrong when a model is captured."""

from __future__ import annotations


def sentence(text: str) -> str:
    """A text with a full stop, unless it ends like a sentence already."""
    return text if text.endswith((".", "!", "?", "…")) else f"{text}."


class CaptureError(RuntimeError):
    """A capture method could not turn a model into a graph.

    Attributes:
        method: the method that was asked for.
        failure: what failed, in one line, with the user's file and line where known.
        advice: what to try instead.
    """

    def __init__(self, method: str, failure: str, advice: str) -> None:
        super().__init__(f'capture(method="{method}") failed: {sentence(failure)} Try this: {advice}')
        self.method = method
        self.failure = failure
        self.advice = advice


class RefusedInputError(CaptureError, ValueError, AssertionError):
    """A captured graph does not hold for the call that was made. (An `AssertionError` too: so are torch's own checks.)

    Attributes:
        name: what differs from the captured call, such as `the dtype of x`.
        expected: what the graph holds for.
        found: what came instead.
        advice: what to do.
    """

    def __init__(self, name: str, expected: str, found: str, advice: str) -> None:
        RuntimeError.__init__(self, f"{name}: expected {expected}, as at capture; got {found}. {advice}")
        self.method = "call"
        self.failure = f"{name}: expected {expected}, as at capture; got {found}."
        self.name, self.expected, self.found, self.advice = name, expected, found, advice
