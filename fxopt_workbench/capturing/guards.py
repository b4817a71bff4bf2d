"""Dynamo's guards in words: what must still hold for a captured graph to be used again."""

from __future__ import annotations

import re

from fxopt_core.capture.dynamo_log import Guard
from fxopt_core.capture.sources import readable_source

_HINT = re.compile(r"\s*\(HINT: .*\)$|\s+# \(unknown .*, please file a bug\)")
_PROVENANCE = re.compile(r"\s+# (?:(?P<source>.*?)\s+# )?(?P<place>\S*:\d+ in .*)$")
_DISPATCH_KEYS = re.compile(r" DispatchKeySet\([^)]*\),")
_TYPE_CHECK = re.compile(r"^___check_type_id\((?P<value>.*), \d+\), type=<class '(?P<type>.*)'>$")
_SAME_OBJECT = re.compile(r"^___check_obj_id\((?P<value>.*), \d+\), type=<class '(?P<type>.*)'>$")
_TENSOR_CHECK = re.compile(r"^check_tensor\((?P<value>.*?), (?P<type>\w+), (?P<rest>torch\..*)\)$")
_OF_THE_MODEL = re.compile(r"_(?:modules|parameters|buffers)\[|\['self'\]|_forward_hooks|_backward_hooks")
_OF_THE_PROGRAM = re.compile(r"\bG\[|^___|^utils_device|^torch\.")
_BOOKKEEPING = re.compile(r"_dynamo_\w+_indices|___dict_contains")


def explain_guards(guards: tuple[Guard, ...]) -> tuple[Guard, ...]:
    """Guards as Dynamo wrote them, readable.

    Each guard once: first those on inputs, then on the model, then on the rest of the program, and last whether
    anything was marked as dynamic or overridden on an instance, of which there are many.
    """
    found: dict[Guard, int] = {}
    for guard in guards:
        found.setdefault(_explained(guard), _rank(guard.expression))
    return tuple(sorted(found, key=lambda guard: found[guard]))


def _explained(guard: Guard) -> Guard:
    text = _HINT.sub("", guard.expression)
    provenance = _PROVENANCE.search(text)
    expression = text[: provenance.start()] if provenance else text
    return Guard(
        expression=_readable(expression.strip()),
        kind=guard.kind,
        source=(provenance["source"] or "").strip() if provenance else "",
        location=provenance["place"] if provenance else "",
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
