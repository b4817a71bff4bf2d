"""Instruments that are not in the learner's process: a clock or a device that a probe asks, and somebody else holds.

What a learner's function does with a clock can only be believed if the clock lies outside: inside, whoever wants to
can read the script that it follows, or write down calls that never were. While a task is graded the questions go
through the channel to the judge, which answers them one by one and keeps the record; no reading is known before it was
asked for. In a check there is nobody outside, and the instrument is held here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from autograder.exchange.channel import Channel, MalformedMessageError
from autograder.exchange.evidence import Instrument

Ask = Callable[[Any], Any]
"""Takes a question (JSON) and gives the answer (JSON)."""

_channel: Channel | None = None


def connect(channel: Channel | None) -> None:
    """From now on questions go through this channel; `None`: to an instrument in this process."""
    global _channel
    _channel = channel


def held(make: Callable[[], Instrument]) -> tuple[Ask, list[Any]]:
    """How to ask the instrument of the running case, and its record: an empty list where it is held outside.

    Args:
        make: makes the instrument, where it is not held outside.
    """
    if _channel is not None:
        return _through(_channel), []
    instrument = make()
    return instrument.answer, instrument.record


def _through(channel: Channel) -> Ask:
    def ask(question: Any) -> Any:
        channel.send({"asked": question})
        answer = channel.receive().header
        if "answer" not in answer:
            raise MalformedMessageError("no answer came to a question")
        return answer["answer"]

    return ask
