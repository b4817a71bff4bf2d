"""Tokens and mask as they must be, a program that serves every batch and length, and a comparison that can fail."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from random import Random

import torch
from torch import fx, nn

from autograder.exchange.evidence import Case, Evidence, agrees
from autograder.exchange.graph_form import ENCODED_VALUE, decode, run_flat
from autograder.exchange.graph_form.nodes import placeholders
from autograder.exercises.day4.models import POSITIONS, WORDS, draw_text
from autograder.exercises.day4.text_to_bert.visible import (
    SENTENCES,
    SPECIAL,
    VOCABULARY,
    as_wanted,
    build,
    model_inputs,
    positions_of,
    vocabulary_of,
    wanted_difference,
)

MOST_TEXTS = 64
"""The number of texts up to which the task asks for."""

WIDTH = 16
"""Of the states of the case's model."""

MISCONCEPTIONS = {
    "no tensors": (
        "`encode_texts` must return a dictionary with the two tensors `input_ids` and `attention_mask`, both "
        "`int64` of shape (texts, tokens)."
    ),
    "mask of ones": (
        "Your mask says that every token counts. Rows that were filled up have `[PAD]` at their end: there the mask "
        "must be 0, or the model reads the filling as text."
    ),
    "mask made of the tokens": (
        "Your mask is 0 wherever the token is `[PAD]`. A text may say `[PAD]` itself, and there the token counts. The "
        "tokenizer knows which tokens it added: take its `attention_mask`."
    ),
    "texts cut short": (
        "You cut texts that fit: tokens are missing. Fill short texts up (`padding=True`) rather than cutting long "
        "ones down to them."
    ),
    "too long for the model": (
        "You hand on more tokens than the model has positions for. Cut what is longer than `most` "
        "(`truncation=True, max_length=most`). Count tokens, not words: a word may be several."
    ),
    "split at blanks": (
        "You split the texts at blanks and look up what lies between them. A tokenizer splits further: in "
        "`graph,graph` there are three tokens. Hand whole texts to the tokenizer."
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
    "mask from the tokens": (
        "Your program makes a mask of its own, out of the tokens. What counts is the caller's to say: a row may be "
        "filled with any token, and `[PAD]` may be part of a text. Hand `attention_mask` on to the model."
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
    "overlooked NaN": (
        "A number is `nan` in what one of the two returns, the program or the model, and `greatest_difference` says "
        "that both are close. A comparison with `nan` is never true, so Python's `max` can lose it: take the "
        "maximum with torch."
    ),
    "range too narrow": (
        "The model is right for more sizes than your program promises: every number of texts from 1 to 64, and every "
        "length from 2 to what it can read. A program refuses what it does not promise."
    ),
    "forgot the sign": "A result that is too small counts, too: take the absolute value of each difference.",
    "added both outputs up": (
        "`greatest_difference` adds up what it finds in the two outputs. It asks for the greatest difference: take "
        "the larger one."
    ),
    "no float": (
        "`greatest_difference` must return a float. A tensor of one number is none: take `float(…)` or `.item()` of it."
    ),
    "changed the inputs": (
        "Your code changed `inputs`: afterwards the dictionary, or a tensor in it, is not what it was. Whoever hands "
        "it in goes on with it, so work on a copy."
    ),
    "wrong comparison": "`greatest_difference` does not return by how much the outputs differ at most.",
}


SWAPPED = "NaN in the model"
"""The change for which the altered program stands in the place of the model."""


def hidden_cases(random: Random) -> list[Case]:
    """Other texts of the same words, some of them too long, one of these without a single blank."""
    words = VOCABULARY[len(SPECIAL) :]

    def offset() -> float:
        return round(random.choice([-1, 1]) * random.uniform(0.05, 3), 3)

    small, large = 0.1, round(random.uniform(1, 3), 3)
    offsets = {
        "none": [],
        "first": [[0, random.random(), offset()]],
        "inside": [[0, 0.0, offset()]],
        "last": [[1, random.random(), offset()]],
        "both": [[0, random.random(), small], [1, random.random(), -large]],
        "two in one row": [[0, 0.0, large], [0, 0.004, -small]],
        "two alike in one row": [[0, 0.0, 1.0], [0, 0.004, -1.0]],
        "both, the first more": [[0, random.random(), -large], [1, random.random(), small]],
        "NaN in the first": [[0, random.random(), None]],
        "NaN in the last": [[1, random.random(), None]],
        "NaN beside": [[0, 0.0, None], [0, 1.0, large], [1, 0.0, small]],
        SWAPPED: [[0, random.random(), None]],
        "the last of three": [[0, 0.0, small], [2, random.random(), -large]],
        "the only one": [[0, random.random(), large]],
    }
    cases = []
    for number in range(2):
        texts = [" ".join(random.choices(words, k=random.randint(3, 9))) for _ in range(random.randint(2, 3))]
        texts.append(" ".join(random.choices(words, k=20)))
        texts.append(random.choice(SENTENCES))
        texts[0] = f"{texts[0]} [PAD] {words[0]}"
        parameters = {
            "texts": texts,
            "most": (POSITIONS, 15)[number],
            "seed": random.randrange(2**31),
            "exports": number == 0,
            **({"positions": POSITIONS + 16} if number == 0 else {}),  # not those of the model that the check shows
            "offsets": offsets,
            "swapped": [SWAPPED],
            "outputs": {"the last of three": 3, "the only one": 1},
        }
        cases.append(Case(f"hidden {number}", parameters))
    others = ["the zebra reads", "", "no graph", "the zebra reads"]
    # What blanks separate is no token: one word of many pieces, and pieces that no blank separates.
    joined = ["-".join(random.sample(words, 9)), f"{words[0]},{words[1]}  {words[2]}.", "no graph"]
    for name, texts in (
        ("hidden other numbers", others),
        ("hidden one text", ["no graph no pass"]),
        ("hidden words of several tokens", joined),
    ):
        parameters = {"texts": texts, "most": 15, "seed": 3, "exports": False, "offsets": {}, "first word": 11}
        cases.append(Case(name, parameters))
    return cases


def judge(case: Case, evidence: Evidence) -> Iterator[tuple[str, str]]:
    """The first thing that is wrong with the tokens, with the comparison, and with the program."""
    findings = [judge_tokens(case, evidence), judge_comparison(case, evidence)]
    if case.parameters["exports"]:
        findings.append(judge_program(case, evidence))
    if not evidence.values["kept"]:
        findings.append(iter([("changed the inputs", "")]))
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
    elif not bool((tokens == vocabulary_of(case).index("[CLS]")).any()):
        yield "no special tokens", ""
    elif not agrees(tokens, right_tokens) and agrees(tokens, model_inputs(case, str.split)["input_ids"]):
        yield "split at blanks", f"({tokens.shape[1]} tokens in a row, the longest text has {right_tokens.shape[1]})"
    elif tokens.shape[1] > case.parameters["most"]:
        yield "too long for the model", f"({tokens.shape[1]} tokens, at most {case.parameters['most']})"
    elif tokens.shape[1] < right_tokens.shape[1]:
        yield "texts cut short", f"({tokens.shape[1]} tokens in a row, the longest text has {right_tokens.shape[1]})"
    elif tokens.shape[1] > right_tokens.shape[1]:
        yield "padded to the limit", f"({tokens.shape[1]} tokens, the longest text has {right_tokens.shape[1]})"
    elif not agrees(tokens, right_tokens):
        yield "other tokens", ""
    elif not agrees(mask, right_mask):
        name = "mask of ones" if bool(mask.all()) else "other tokens"
        pad = vocabulary_of(case).index("[PAD]")
        name = "mask made of the tokens" if torch.equal(mask, (tokens != pad).long()) else name
        yield name, f"(the mask has {int(mask.sum())} ones)"


def judge_comparison(case: Case, evidence: Evidence) -> Iterator[tuple[str, str]]:
    """Whether the comparison finds what is wrong for certain."""
    found = {name: float(value) for name, value in evidence.values["differences"].items()}
    changes = case.parameters["offsets"]
    wanted = {name: wanted_difference(changes[name]) for name in changes}
    missed = [name for name in changes if not as_wanted(found[name], wanted[name])]
    if not missed:
        if others := [kind for kind in evidence.values["kinds"] if kind != "float"]:
            yield "no float", f"(found a {others[0]})"
        return
    finite = [name for name in changes if math.isfinite(wanted[name])]
    told = next((name for name in missed if name in finite), missed[0])
    said = f"({_told(changes[told])}: it says {found[told]:.3g})"
    if not set(missed) & set(finite):
        yield "overlooked NaN", said
        return
    rows, length = model_inputs(case)["input_ids"].shape
    finite = [name for name in finite if name not in case.parameters.get("outputs", {})]  # what has two outputs
    sizes = [int(rows * length) * WIDTH, int(rows) * WIDTH]
    fits = {
        name
        for name, mistaken in COMPARISONS
        if all(math.isclose(found[one], mistaken(changes[one], sizes), rel_tol=1e-2, abs_tol=1e-4) for one in finite)
    }
    yield (next(iter(fits)) if len(fits) == 1 else "wrong comparison"), said


Changes = list[list[float]]


def _of(changes: Changes, output: int) -> list[float]:
    return [offset for place, _, offset in changes if place == output]


def _mean(changes: Changes, sizes: list[int], output: int) -> float:
    return sum(map(abs, _of(changes, output))) / sizes[output]


COMPARISONS: tuple[tuple[str, Callable[[Changes, list[int]], float]], ...] = (
    ("compared with itself", lambda changes, sizes: 0.0),
    ("looked at one output only", lambda changes, sizes: max(map(abs, _of(changes, 0)), default=0.0)),
    ("looked at one output only", lambda changes, sizes: max(map(abs, _of(changes, 1)), default=0.0)),
    ("forgot the sign", lambda changes, sizes: max([0.0, *_of(changes, 0), *_of(changes, 1)])),
    ("forgot the sign", lambda changes, sizes: -min([0.0, *_of(changes, 0), *_of(changes, 1)])),
    ("mean instead of the greatest", lambda changes, sizes: max(_mean(changes, sizes, i) for i in range(2))),
    ("mean instead of the greatest", lambda changes, sizes: sum(_mean(changes, sizes, i) for i in range(2)) / 2),
    (
        "mean instead of the greatest",
        lambda changes, sizes: sum(map(abs, _of(changes, 0) + _of(changes, 1))) / sum(sizes),
    ),
    (
        "added both outputs up",
        lambda changes, sizes: sum(max(map(abs, _of(changes, i)), default=0.0) for i in range(2)),
    ),
)
"""What each mistake says of a program with these changes, in outputs of these sizes."""


def _told(changes: list[list[float]]) -> str:
    off = [f"output {output} is off by {'NaN' if offset is None else offset}" for output, _, offset in changes]
    return ", ".join(off) or "nothing is off"


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
    tokens, mask = draw_text(rows, length, 100 * rows + length)
    inputs = {"input_ids": tokens, "attention_mask": mask}
    runs = outputs(graph, inputs), outputs(graph, inputs, seed=1)
    if runs[0] and runs[1] and not torch.equal(runs[0][0], runs[1][0]):
        yield "exported in training mode", ""
    elif not right(model, graph, rows, length):
        blind = outputs(graph, inputs | {"attention_mask": torch.ones_like(mask)})
        lost = runs[0] is not None and blind is not None and torch.equal(runs[0][0], blind[0])
        yield ("lost the mask" if lost else "computes something else"), f"(at {rows} texts of {length} tokens)"
    elif not right(model, graph, rows, length - 1):
        yield "froze the length", f"(right for {length}, not for {length - 1})"
    elif not right(model, graph, rows + 3, length):
        yield "froze the batch size", f"(right for {rows}, not for {rows + 3})"
    else:
        for batch, size in ((1, length), (8, 2), (2, positions_of(case))):
            if not right(model, graph, batch, size):
                yield "computes something else", f"(at {batch} texts of {size} tokens)"
                return
        if not right(model, graph, rows, length, filled_otherwise):
            yield "mask from the tokens", f"(at {rows} texts of {length} tokens, filled with other tokens than [PAD])"
            return
        yield from promised(graph, evidence.values["ranges"], positions_of(case))


def promised(graph: fx.GraphModule, ranges: dict[str, list[int | None]], positions: int) -> Iterator[tuple[str, str]]:
    """What the ranges say of the sizes: a program refuses what they leave out, though its graph would compute it."""
    for node in placeholders(graph):
        shape = node.meta.get(ENCODED_VALUE, {}).get("shape")
        for size, name, least, most in zip(shape, ("texts", "length"), (1, 2), (MOST_TEXTS, positions), strict=True):
            if type(size) is int:
                yield ("froze the batch size" if name == "texts" else "froze the length"), f"(input {node.target})"
                return
            low, high = ranges.get(str(size), [None, None])
            # torch writes 2 where it has seen no other size, and the program takes 1 all the same.
            if (low or 0) > max(2, least) or (high is not None and high < most):
                yield "range too narrow", f"({name} from {low} to {high}; yours)"
                return


def outputs(graph: fx.GraphModule, inputs: dict[str, torch.Tensor], seed: int = 0) -> list[torch.Tensor] | None:
    """What the graph gives for these inputs; `None` where it fails."""
    try:
        return run_flat(graph, inputs, seed)
    except Exception:  # a graph from outside fails in any way; it is not right then
        return None


def filled_otherwise(rows: int, length: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Random tokens and a mask that cannot be told from them: `[PAD]` stands in a text, words in the filling."""
    _, mask = draw_text(rows, length, seed)
    tokens = torch.randint(3, WORDS, (rows, length), generator=torch.Generator().manual_seed(seed))
    tokens[:, 0] = 0
    return tokens, mask


def right(
    model: nn.Module,
    graph: fx.GraphModule,
    rows: int,
    length: int,
    draw: Callable[[int, int, int], tuple[torch.Tensor, torch.Tensor]] = draw_text,
) -> bool:
    """Whether the graph gives both of the model's outputs for random text."""
    tokens, mask = draw(rows, length, 100 * rows + length)
    with torch.no_grad():
        wanted = model(input_ids=tokens, attention_mask=mask)
    found = outputs(graph, {"input_ids": tokens, "attention_mask": mask}) or []
    return len(found) == len(wanted) and all(
        agrees(one, other, relative=1e-4, absolute=1e-4) for one, other in zip(found, wanted, strict=True)
    )
