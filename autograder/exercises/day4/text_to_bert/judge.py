"""Tokens and mask as they must be, a program that serves every batch and length, and a comparison that can fail."""

from __future__ import annotations

import math
from collections.abc import Iterator
from random import Random

import torch
from torch import fx, nn

from autograder.exchange.evidence import Case, Evidence, agrees
from autograder.exchange.graph_form import decode, run_flat
from autograder.exchange.graph_form.nodes import placeholders
from autograder.exercises.day4.models import POSITIONS, draw_text
from autograder.exercises.day4.text_to_bert.visible import OFFSET, SENTENCES, SPECIAL, VOCABULARY, build, model_inputs

MISCONCEPTIONS = {
    "no tensors": (
        "`encode_texts` must return a dictionary with the two tensors `input_ids` and `attention_mask`, both "
        "`int64` of shape (texts, tokens)."
    ),
    "mask of ones": (
        "Your mask says that every token counts. Rows that were filled up have `[PAD]` at their end: there the mask "
        "must be 0, or the model reads the filling as text."
    ),
    "texts cut short": (
        "You cut texts that fit: tokens are missing. Fill short texts up (`padding=True`) rather than cutting long "
        "ones down to them."
    ),
    "too long for the model": (
        "You hand on more tokens than the model has positions for. Cut what is longer than `most` "
        "(`truncation=True, max_length=most`)."
    ),
    "padded to the limit": (
        "You filled every row up to the limit. The model then computes on filling: fill up to the longest text only."
    ),
    "no special tokens": "The tokens `[CLS]` and `[SEP]` at the ends of each text are missing: the model expects them.",
    "other tokens": "These are not the tokens that the tokenizer gives for these texts.",
    "no exported program": "`export_bert` must return what `torch.export.export` returns, an `ExportedProgram`.",
    "range refused": (
        "`torch.export` refuses the dimensions that you gave: two sizes share a name but differ, or the model cannot "
        "keep what a range promises. Its message says which."
    ),
    "unreadable": "The graph of your program cannot be read back.",
    "lost the mask": (
        "Your program does not look at the mask: it was not an input when the model was exported, so that filling "
        "counts as text for ever. Export with `input_ids` and `attention_mask`."
    ),
    "exported in training mode": (
        "Two runs of your program on the same input differ: dropout is in its graph. The model came in training mode; "
        "put it into evaluation mode first."
    ),
    "froze the batch size": "Your program serves only as many texts as the example had: make dimension 0 dynamic.",
    "froze the length": "Your program serves only the length of the example: make dimension 1 dynamic, too.",
    "computes something else": "For some inputs your program does not compute what the model computes.",
    "compared with itself": (
        "`greatest_difference` finds nothing in a program that is wrong for certain. Compare the program with the "
        "*model*."
    ),
    "looked at one output only": (
        "`greatest_difference` overlooks a mistake in one of the outputs. BERT returns two tensors: compare both."
    ),
    "mean instead of the greatest": (
        "One number of many is off, and `greatest_difference` says less than by how much: a mean hides what one value "
        "does. Take the maximum."
    ),
    "forgot the sign": "A result that is too small counts, too: take the absolute value of each difference.",
    "wrong comparison": "`greatest_difference` does not return by how much the outputs differ at most.",
}


def hidden_cases(random: Random) -> list[Case]:
    """Other texts of the same words; of one of the cases a text is too long."""
    words = VOCABULARY[len(SPECIAL) :]
    cases = []
    for number in range(2):
        texts = [" ".join(random.choices(words, k=random.randint(3, 9))) for _ in range(random.randint(2, 3))]
        texts.append(" ".join(random.choices(words, k=20)))
        texts.append(random.choice(SENTENCES))
        parameters = {
            "texts": texts,
            "most": (POSITIONS, 15)[number],
            "seed": random.randrange(2**31),
            "exports": number == 0,
        }
        cases.append(Case(f"hidden {number}", parameters))
    return cases


def judge(case: Case, evidence: Evidence) -> Iterator[tuple[str, str]]:
    """The first thing that is wrong with the tokens, with the comparison, and with the program."""
    findings = [judge_tokens(case, evidence), judge_comparison(evidence)]
    if case.parameters["exports"]:
        findings.append(judge_program(case, evidence))
    for finding in findings:
        if first := next(finding, None):
            yield first
            return


def judge_tokens(case: Case, evidence: Evidence) -> Iterator[tuple[str, str]]:
    """Tokens and mask against those that the judge spells out."""
    tokens, mask = evidence.tensors.get("input_ids"), evidence.tensors.get("attention_mask")
    wanted = model_inputs(case)
    right_tokens, right_mask = wanted["input_ids"], wanted["attention_mask"]
    if tokens is None or mask is None or tokens.dim() != 2 or tokens.shape != mask.shape:
        yield "no tensors", f"(found {', '.join(evidence.tensors) or evidence.values['encoded']})"
    elif tokens.shape[0] != right_tokens.shape[0]:
        yield "no tensors", f"({tokens.shape[0]} rows for {right_tokens.shape[0]} texts)"
    elif not bool((tokens == 2).any()):
        yield "no special tokens", ""
    elif tokens.shape[1] > case.parameters["most"]:
        yield "too long for the model", f"({tokens.shape[1]} tokens, at most {case.parameters['most']})"
    elif tokens.shape[1] < right_tokens.shape[1]:
        yield "texts cut short", f"({tokens.shape[1]} tokens in a row, the longest text has {right_tokens.shape[1]})"
    elif tokens.shape[1] > right_tokens.shape[1]:
        yield "padded to the limit", f"({tokens.shape[1]} tokens, the longest text has {right_tokens.shape[1]})"
    elif not agrees(tokens, right_tokens):
        yield "other tokens", ""
    elif not agrees(mask, right_mask):
        yield ("mask of ones" if bool(mask.all()) else "other tokens"), f"(the mask has {int(mask.sum())} ones)"


def judge_comparison(evidence: Evidence) -> Iterator[tuple[str, str]]:
    """Whether the comparison finds what is wrong for certain."""
    found = {name: float(value) for name, value in evidence.values["differences"].items()}
    said = f"(it says {', '.join(f'{value:.3g}' for value in found.values())})"
    if found["none"] > 1e-4:
        yield "wrong comparison", said
        return
    noticed = {name: math.isclose(found[name], OFFSET, rel_tol=1e-2) for name in ("first", "last", "below")}
    if all(noticed.values()):
        return
    zero = {name for name in noticed if abs(found[name]) < 1e-6}
    if zero == set(noticed):
        yield "compared with itself", said
    elif zero & {"first", "last"}:
        yield "looked at one output only", said
    elif noticed["first"] and noticed["last"]:
        yield "forgot the sign", said
    elif 0 < abs(found["first"]) < OFFSET / 2:
        yield "mean instead of the greatest", said
    else:
        yield "wrong comparison", said


def judge_program(case: Case, evidence: Evidence) -> Iterator[tuple[str, str]]:
    """The program on inputs of the judge's own."""
    kind = evidence.values["kind"]
    if kind == "refused":
        yield "range refused", f"({str(evidence.values['text']).splitlines()[0][:200]})"
        return
    if kind == "unreadable":
        yield "unreadable", f"({evidence.values['text']})"
        return
    if kind != "program":
        yield "no exported program", f"(found a {kind})"
        return
    graph, model = decode(evidence.graphs["graph"]), build(case).eval()
    given = {str(node.target) for node in placeholders(graph)}
    if given != {"input_ids", "attention_mask"}:
        yield "lost the mask", f"(inputs: {', '.join(sorted(given)) or 'none'})"
        return
    example = model_inputs(case)["input_ids"].shape
    rows, length = int(example[0]), int(example[1])
    runs = outputs(graph, rows, length), outputs(graph, rows, length, seed=1)
    if runs[0] and runs[1] and not torch.equal(runs[0][0], runs[1][0]):
        yield "exported in training mode", ""
    elif not right(model, graph, rows, length):
        blind = outputs(graph, rows, length, ones=True)
        lost = runs[0] is not None and blind is not None and torch.equal(runs[0][0], blind[0])
        yield ("lost the mask" if lost else "computes something else"), f"(at {rows} texts of {length} tokens)"
    elif not right(model, graph, rows, length - 1):
        yield "froze the length", f"(right for {length}, not for {length - 1})"
    elif not right(model, graph, rows + 3, length):
        yield "froze the batch size", f"(right for {rows}, not for {rows + 3})"
    else:
        for batch, size in ((1, length), (8, 2), (2, POSITIONS)):
            if not right(model, graph, batch, size):
                yield "computes something else", f"(at {batch} texts of {size} tokens)"
                return


def outputs(
    graph: fx.GraphModule, rows: int, length: int, seed: int = 0, ones: bool = False
) -> list[torch.Tensor] | None:
    """What the graph gives for random text; `None` where it fails. With `ones`, every token counts."""
    tokens, mask = draw_text(rows, length, 100 * rows + length)
    try:
        return run_flat(graph, {"input_ids": tokens, "attention_mask": torch.ones_like(mask) if ones else mask}, seed)
    except Exception:  # a graph from outside fails in any way; it is not right then
        return None


def right(model: nn.Module, graph: fx.GraphModule, rows: int, length: int) -> bool:
    """Whether the graph gives both of the model's outputs for random text."""
    tokens, mask = draw_text(rows, length, 100 * rows + length)
    with torch.no_grad():
        wanted = model(input_ids=tokens, attention_mask=mask)
        found = outputs(graph, rows, length) or []
    return len(found) == len(wanted) and all(
        agrees(one, other, relative=1e-4, absolute=1e-4) for one, other in zip(found, wanted, strict=True)
    )
