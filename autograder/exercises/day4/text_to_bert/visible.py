"""The learner's side: a tokenizer, a small BERT as training left it, the visible cases, the probe and the display."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from textwrap import wrap
from typing import Any

import torch
from torch import nn
from torch.export import Dim, ExportedProgram, export

from autograder.exchange.evidence import Case, Evidence
from autograder.exchange.graph_form import GraphFormatError, encode
from autograder.exchange.ranges import promised_ranges
from autograder.exercises.day4.models import POSITIONS, build_transformer

NAN = float("nan")

SENTENCES = (
    "the graph is the program",
    "a pass rewrites the graph and keeps what it computes",
    "measure first",
    "the mask says which tokens count and which only fill the row",
    "a compiler reads the graph",
    "no graph no pass",
    "the program reads tokens and the tokens are numbers",
)
"""The text from which the vocabulary is taken; cases are made of its words."""

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]")
VOCABULARY = (*SPECIAL, *sorted({word for sentence in SENTENCES for word in sentence.split()}))
OFFSETS = {
    "none": [],
    "first": [[0, 1.0, 0.25]],
    "inside": [[0, 0.0, 0.25]],
    "last": [[1, 1.0, 0.25]],
    "below": [[0, 1.0, -0.25]],
}
"""Programs that are off for certain: for each its changes, as output, place (0 to 1), and what is added there."""


def build_tokenizer(words: Sequence[str] = VOCABULARY) -> Any:
    """A tokenizer of words, numbered in this order, that puts `[CLS]` before each text and `[SEP]` behind it."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    numbers = {word: number for number, word in enumerate(words)}
    tokenizer = Tokenizer(models.WordLevel(numbers, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    ends = [(name, numbers[name]) for name in ("[CLS]", "[SEP]")]
    tokenizer.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=ends)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]"
    )


def visible_cases() -> list[Case]:
    """Texts of different lengths, and one that is longer than the model can read."""
    long = " ".join(SENTENCES[:4] * 3)
    return [
        _case("three short texts", SENTENCES[:3], most=32, seed=0, exports=True),
        _case("one text is too long", [SENTENCES[2], long, SENTENCES[4]], most=16, seed=1, exports=False),
    ]


def _case(name: str, texts: Sequence[str], **more: Any) -> Case:
    return Case(name, {"texts": list(texts), "offsets": OFFSETS, **more})


def make_ahead() -> None:
    """Export a model once, before a learner's code runs: what the exporter imports and looks up is in memory then."""
    case = visible_cases()[0]
    inputs = model_inputs(case)
    sizes = {0: Dim("batch", min=1), 1: Dim("length", min=2, max=32)}
    export(build(case).eval(), (), inputs, dynamic_shapes=dict.fromkeys(inputs, sizes))
    build_tokenizer()


def build(case: Case) -> nn.Module:
    """The case's model, in training mode as training left it."""
    return build_transformer("bert", layers=1, seed=case.parameters["seed"], positions=positions_of(case)).train()


def positions_of(case: Case) -> int:
    """How many tokens a text may have in the case's model."""
    return int(case.parameters.get("positions", POSITIONS))


def vocabulary_of(case: Case) -> tuple[str, ...]:
    """The words of the case's tokenizer, in the order of their numbers."""
    first = case.parameters.get("first word", 0)
    return VOCABULARY[first:] + VOCABULARY[:first]


def pieces(text: str) -> list[str]:
    """A text as the tokenizer takes it apart: letters by themselves, signs by themselves, `[PAD]` whole."""
    return re.findall(r"\[PAD\]|\w+|[^\w\s]+", text)


def model_inputs(case: Case, split: Callable[[str], list[str]] = pieces) -> dict[str, torch.Tensor]:
    """The texts of the case as tokens and mask, both `int64` of shape (texts, longest), taken apart by `split`."""
    numbers = {word: number for number, word in enumerate(vocabulary_of(case))}
    pad, unknown, begin, end = (numbers[word] for word in SPECIAL)
    rows = [
        [begin, *(numbers.get(word, unknown) for word in split(text))][: case.parameters["most"] - 1]
        for text in case.parameters["texts"]
    ]
    rows = [[*row, end] for row in rows]
    longest = max(map(len, rows))
    tokens = torch.tensor([row + [pad] * (longest - len(row)) for row in rows])
    mask = torch.tensor([[1] * len(row) + [0] * (longest - len(row)) for row in rows])
    return {"input_ids": tokens, "attention_mask": mask}


def probe(case: Case, encode_texts: Any, export_bert: Any, greatest_difference: Any) -> Evidence:
    """Let the learner encode, export and compare: with a program that is right, and with one that is not."""
    given = case.parameters
    encoded = encode_texts(build_tokenizer(vocabulary_of(case)), list(given["texts"]), given["most"])
    evidence = Evidence({"encoded": type(encoded).__name__, "kind": "program"})
    for name in ("input_ids", "attention_mask"):
        value = encoded[name] if hasattr(encoded, "keys") and name in encoded else None
        if isinstance(value, torch.Tensor):
            evidence.tensors[name] = value
    inputs = model_inputs(case)
    _compare(case, evidence, greatest_difference, inputs)
    evidence.values["kept"] = _same(inputs, model_inputs(case))
    # Exporting takes a second, and asks the same of every text; what is wrong already is wrong without it.
    if not given["exports"] or not _right_so_far(case, evidence):
        return evidence
    try:
        program = export_bert(build(case), inputs)
    except NotImplementedError:
        raise
    except Exception as error:
        # torch.export refuses with many types of its own; what is no refusal is the learner's to see as it is.
        if not type(error).__module__.startswith("torch."):
            raise
        evidence.values |= {"kind": "refused", "text": f"{type(error).__name__}: {error}"[:6000]}
        return evidence
    evidence.values["kept"] &= _same(inputs, model_inputs(case))
    if not isinstance(program, ExportedProgram):
        evidence.values["kind"] = type(program).__name__
        return evidence
    evidence.values["ranges"] = promised_ranges(program)
    try:
        evidence.graphs["graph"] = encode(program.module(check_guards=False))
    except GraphFormatError as error:
        evidence.values |= {"kind": "unreadable", "text": str(error)[:500]}
    return evidence


def _same(inputs: dict[str, torch.Tensor], wanted: dict[str, torch.Tensor]) -> bool:
    return inputs.keys() == wanted.keys() and all(torch.equal(inputs[name], wanted[name]) for name in wanted)


class _Module(nn.Module):
    """A program in the place of the model: so the model's side can be the one that holds NaN."""

    def __init__(self, program: Callable[..., tuple[torch.Tensor, ...]]) -> None:
        super().__init__()
        self.program = program

    def forward(self, **arguments: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """What the program returns."""
        return self.program(**arguments)


def _compare(case: Case, evidence: Evidence, greatest_difference: Any, inputs: dict[str, torch.Tensor]) -> None:
    """What the learner's comparison says of a faithful program, and of some that are not.

    Programs and models return the model's outputs, and where the case says so a third one, or the first one alone.
    """
    bert = build(case).eval()
    kinds = set()

    def run(name: str, changes: list[list[float]]) -> float:
        count = case.parameters.get("outputs", {}).get(name, 2)

        def returned(**arguments: torch.Tensor) -> tuple[torch.Tensor, ...]:
            first, second = bert(**arguments)
            return (first, second, first - 1)[:count]

        def program(**arguments: torch.Tensor) -> tuple[torch.Tensor, ...]:
            outputs = tuple(output.clone() for output in returned(**arguments))
            for output, place, offset in changes:
                flat = outputs[int(output)].view(-1)
                flat[int(place * (flat.numel() - 1))] += NAN if offset is None else offset
            return outputs

        model: nn.Module = bert if count == 2 else _Module(returned)
        with torch.no_grad():
            swapped = name in case.parameters.get("swapped", ())
            value = greatest_difference(*((model, _Module(program)) if swapped else (program, model)), inputs)
        kinds.add("float" if isinstance(value, (int, float)) else type(value).__name__)
        return float(value)

    found = {name: run(name, changes) for name, changes in case.parameters["offsets"].items()}
    evidence.values["differences"] = {
        name: value if math.isfinite(value) else str(value) for name, value in found.items()
    }
    evidence.values["kinds"] = sorted(kinds)


def wanted_difference(changes: list[list[float]]) -> float:
    """What a right comparison says of a program with these changes; infinity where a number has become NaN."""
    return max((math.inf if offset is None else abs(offset) for _, _, offset in changes), default=0.0)


def as_wanted(found: float | str, wanted: float) -> bool:
    """Whether a difference is the wanted one, but for rounding. Of NaN, anything will do that is no number."""
    value = float(found)
    if not math.isfinite(wanted):
        return not math.isfinite(value) and value != -math.inf
    return math.isclose(value, wanted, rel_tol=1e-2, abs_tol=1e-4)


def _right_so_far(case: Case, evidence: Evidence) -> bool:
    tokens = all(
        name in evidence.tensors and torch.equal(evidence.tensors[name], value)
        for name, value in model_inputs(case).items()
    )
    offsets, found = case.parameters["offsets"], evidence.values["differences"]
    return tokens and all(as_wanted(found[name], wanted_difference(changes)) for name, changes in offsets.items())


def show(case: Case, evidence: Evidence) -> list[Any]:
    """The tokens, the program's inputs, and what the comparison says."""
    lines = [f"{case.name}: what your code made of it"]
    lines += [f"  {name}: shape {tuple(value.shape)}" for name, value in evidence.tensors.items()]
    for graph in evidence.graphs.values():
        for node in graph.document["modules"][-1]["nodes"]:
            if node["op"] == "placeholder" and node["value"]:
                lines.append(f"  the program's input {node['name']}: {tuple(node['value']['shape'])}".replace("'", ""))
    for name, value in evidence.values["differences"].items():
        changes = case.parameters["offsets"][name]
        off = [f"output {output} off by {'NaN' if offset is None else offset}" for output, _, offset in changes]
        lines.append(f"  greatest_difference of {', '.join(off) or 'a faithful program'}: {float(value):.3g}")
    if "text" in evidence.values:
        for line in evidence.values["text"].splitlines()[:5]:
            lines += wrap(line, 100, max_lines=3, placeholder=" …")
    return ["\n".join(lines)]
