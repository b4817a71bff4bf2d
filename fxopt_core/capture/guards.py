"""Guards: what must still hold for a captured graph to be used again."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from fxopt_core.capture.sources import readable_source

_ENTRY = re.compile(r"^[|\s]*\+- (?P<kind>[A-Z][A-Z0-9_]*)(?:: (?P<text>.*))?$")
_HINT = re.compile(r"\s*\(HINT: .*\)$|\s+# \(unknown .*, please file a bug\)")
_PROVENANCE = re.compile(r"\s+# (?:(?P<source>.*?)\s+# )?(?P<place>\S*:\d+ in .*)$")
_DISPATCH_KEYS = re.compile(r" DispatchKeySet\([^)]*\),")
_TYPE_CHECK = re.compile(r"^___check_type_id\((?P<value>.*), \d+\), type=<class '(?P<type>.*)'>$")
_SAME_OBJECT = re.compile(r"^___check_obj_id\((?P<value>.*), \d+\), type=<class '(?P<type>.*)'>$")
_TENSOR_CHECK = re.compile(r"^check_tensor\((?P<value>.*?), (?P<type>\w+), (?P<rest>torch\..*)\)$")
_OF_THE_MODEL = re.compile(r"_(?:modules|parameters|buffers)\[|\['self'\]|_forward_hooks|_backward_hooks")
_OF_THE_PROGRAM = re.compile(r"\bG\[|^___|^utils_device|^torch\.")
_BOOKKEEPING = re.compile(r"_dynamo_\w+_indices|___dict_contains")


@dataclass(frozen=True)
class Guard:
    """One condition under which a captured graph may be used again.

    Attributes:
        expression: the condition, readable: `x: Tensor, torch.float32, …, size=[2, 4], …`,
            `type(self) is Net`. Memory addresses are left out, so that two runs agree.
        source: the user's line for whose sake it is checked; empty for conditions on the whole
            program (grad mode, default device).
        location: file (its end) and line of that source, and the function.
        kind: Dynamo's name for the check: `TENSOR_MATCH`, `TYPE_MATCH`, …
    """

    expression: str
    source: str
    location: str
    kind: str


def guards(messages: Iterable[str]) -> tuple[Guard, ...]:
    """Read the messages of Dynamo's `guards` log.

    Each guard once: first those on inputs, then on the model, then on the rest of the program, and last whether
    anything was marked as dynamic or overridden on an instance, of which there are many.
    """
    found: dict[Guard, int] = {}
    for message in messages:
        for line in message.splitlines():
            entry = _ENTRY.match(line)
            if entry is not None and entry["text"]:
                guard = _read(entry["kind"], entry["text"])
                found.setdefault(guard, _rank(entry["text"]))
    return tuple(sorted(found, key=lambda guard: found[guard]))


def _read(kind: str, text: str) -> Guard:
    text = _HINT.sub("", text)
    provenance = _PROVENANCE.search(text)
    expression = text[: provenance.start()] if provenance else text
    return Guard(
        expression=_readable(expression.strip()),
        source=(provenance["source"] or "").strip() if provenance else "",
        location=provenance["place"] if provenance else "",
        kind=kind,
    )


def _readable(expression: str) -> str:
    expression = _DISPATCH_KEYS.sub("", expression)
    if same_type := _TYPE_CHECK.match(expression):
        return f"type({readable_source(same_type['value'])}) is {same_type['type']}"
    if same_object := _SAME_OBJECT.match(expression):
        return f"{readable_source(same_object['value'])} is the same {same_object['type']}"
    if tensor := _TENSOR_CHECK.match(expression):
        return f"{readable_source(tensor['value'])}: {tensor['type']}, {tensor['rest']}"
    return readable_source(expression)


def _rank(text: str) -> int:
    text = _PROVENANCE.sub("", text)
    if _OF_THE_PROGRAM.search(text.removeprefix("___check_type_id(").removeprefix("___check_obj_id(")):
        rank = 2
    elif _OF_THE_MODEL.search(text):
        rank = 1
    else:
        rank = 0
    return rank + 3 * (_BOOKKEEPING.search(text) is not None)
