"""The learner's side: a small GPT-2, texts that come one size after the other, the probe and what the check shows."""

from __future__ import annotations

from collections.abc import Callable
from textwrap import wrap
from typing import Any

import torch
from torch import fx, nn

from autograder.exchange.evidence import Case, Evidence
from autograder.exchange.graph_form import GraphFormatError, encode
from autograder.exercises.day4.models import WORDS, build_transformer

KEPT_GRAPHS = 2
"""How many graphs may reach the backend; so many are kept for the judge."""

INPUTS = ("input_ids", "attention_mask")


def visible_cases() -> list[Case]:
    """Rows and length change one after the other, and one text comes alone. (Each graph takes Dynamo a second.)"""
    return [Case("five batches", {"sizes": [[2, 5], [3, 5], [3, 7], [1, 9], [4, 10]], "seed": 0, "called": "by name"})]


def build(case: Case, seed: int = 0) -> nn.Module:
    """The case's GPT-2, in evaluation mode. It takes `input_ids` and `attention_mask` and returns a plain tuple.

    Another `seed` than 0 gives another model of the same form. Where the case says so, the tuple has a second tensor.
    """
    model = build_transformer("gpt2", layers=1, inner=20, seed=case.parameters["seed"] + seed)
    return WithAverages(model).eval() if case.parameters.get("averages") else model


class WithAverages(nn.Module):
    """A GPT-2 that returns the average state of each text, too, behind the states."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model, self.config = model, model.config

    def forward(
        self, input_ids: torch.Tensor, attention_mask: torch.Tensor | None = None, **others: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """The states of shape (rows, length, width), and (rows, width)."""
        (states,) = self.model(input_ids, attention_mask=attention_mask, **others)
        return states, states.mean(dim=1)


def draw_batch(rows: int, length: int, seed: int, filling: str = "left") -> tuple[torch.Tensor, torch.Tensor]:
    """Tokens and mask, `int64` of shape (rows, length): filled up on the left, as for models that write on.

    All rows but the first hold filling, and each has at least two tokens that count. With `right` as `filling` it is on
    the right and consists of words, and token 0 stands in the texts; with `none` all texts are equally long. With
    `left everywhere` and `right everywhere` the first row holds filling, too.
    """
    side, _, everywhere = filling.partition(" ")
    generator = torch.Generator().manual_seed(seed)
    tokens = torch.randint(3, WORDS, (rows, length), generator=generator)
    mask = torch.ones(rows, length, dtype=torch.int64)
    for row in range(0 if everywhere else 1, 1 if side == "none" else rows):
        mask[row, : int(torch.randint(1, length - 1, (1,), generator=generator))] = 0
    if side != "right":
        return tokens * mask, mask
    tokens[:, 0] = 0
    return tokens, mask.flip(1)


def make_ahead() -> None:
    """Compile the model once, before a learner's code runs: what Dynamo imports and looks up is in memory then."""
    case = visible_cases()[0]
    compiled = torch.compile(build(case), backend=lambda graph_module, _: graph_module.forward, dynamic=True)
    tokens, mask = batches(case)[0]
    with torch.no_grad():
        compiled(tokens, attention_mask=mask)
    torch._dynamo.reset()


def batches(case: Case) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """The case's inputs, one pair for each call."""
    sizes = case.parameters["sizes"]
    fillings = case.parameters.get("fillings", ["left"] * len(sizes))
    return [
        draw_batch(rows, length, number, filling)
        for number, ((rows, length), filling) in enumerate(zip(sizes, fillings, strict=True))
    ]


class Recorder:
    """A backend that keeps the graphs that reach it, and what they are called with the first time.

    Attributes:
        graphs: in the order in which they came.
        ran: how often a graph ran during the call that is under way.
        roles: for each graph, what each of its arguments is: `input_ids`, `attention_mask`, `rows`, `length`, or
            `value` (with the value itself, as for a parameter).
        current: the inputs of the call that is under way; `None` before the first one.
    """

    def __init__(self) -> None:
        self.graphs: list[fx.GraphModule] = []
        self.ran = 0
        self.roles: dict[int, list[tuple[str, Any]]] = {}
        self.current: tuple[torch.Tensor, torch.Tensor] | None = None

    def __call__(self, graph_module: fx.GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
        """Keep the graph; return what runs it and notes its first arguments."""
        number = len(self.graphs)
        self.graphs.append(graph_module)

        def run(*arguments: Any) -> Any:
            self.ran += 1
            if self.current is not None:  # a call of the learner's own, to warm up, has other inputs
                self.roles.setdefault(number, [self._role(value, *self.current) for value in arguments])
            return graph_module(*arguments)

        return run

    def _role(self, value: Any, tokens: torch.Tensor, mask: torch.Tensor) -> tuple[str, Any]:
        rows, length = tokens.shape
        if isinstance(value, torch.Tensor):
            for name, given in zip(INPUTS, (tokens, mask), strict=True):
                if value.shape == given.shape and torch.equal(value.to(given.dtype), given):
                    return name, str(value.dtype).removeprefix("torch.")
            return "value", value
        # Batches of as many rows as tokens do not occur: it is clear which of the two a number is.
        return {rows: "rows", length: "length"}.get(int(value), "value"), value


def probe(case: Case, compile_gpt2: Any) -> Evidence:
    """Let the learner compile for a backend that records, and call the result with every batch."""
    torch._dynamo.reset()
    recorder = Recorder()
    evidence = Evidence({"refused": "", "graphs": [], "ran": [], "kept": []})
    called = case.parameters.get("called", "by position")
    with torch.no_grad():
        model = build(case)
        compiled = compile_gpt2(model, recorder)
        for number, inputs in enumerate(batches(case)):
            recorder.current, recorder.ran = inputs, 0
            try:
                output, kept = _called(compiled, inputs, called)
            except Exception as error:
                # A dimension that was declared and cannot vary is reported by exceptions of private kinds.
                if not type(error).__module__.startswith("torch."):
                    raise
                evidence.values["refused"] = f"{type(error).__name__}: {error}"[:3000]
                break
            if isinstance(output, torch.Tensor):
                evidence.tensors[f"output{number}"] = output
            evidence.values["graphs"].append(len(recorder.graphs))
            evidence.values["ran"].append(recorder.ran)
            evidence.values["kept"].append(kept)
            if not isinstance(output, torch.Tensor) or not recorder.ran or len(recorder.graphs) > KEPT_GRAPHS:
                break  # it is wrong whatever comes now, and each further graph takes Dynamo a second
        else:
            # Somebody else compiles another model, too; what was compiled before still serves, and is still the first.
            compile_gpt2(build(case, seed=1), lambda graph_module, _: graph_module.forward)
            before, recorder.ran = len(recorder.graphs), 0
            last, _ = _called(compiled, batches(case)[0], called)
            if isinstance(last, torch.Tensor):
                evidence.tensors["last"] = last
            evidence.values["compiled again"] = len(recorder.graphs) - before
            evidence.values["ran again"] = recorder.ran
            if case.parameters.get("another backend"):
                evidence.values["reached"] = _reached(case, compile_gpt2, model, compiled, recorder)
            del recorder.graphs[before:]
    torch._dynamo.reset()
    evidence.values["compilations"] = len(recorder.graphs)
    evidence.values["sizes"] = [_sizes_of(graph) for graph in recorder.graphs]
    evidence.values["arguments"] = [
        _note(evidence, number, recorder.roles.get(number, [])) for number in range(len(recorder.graphs))
    ]
    for number, graph in enumerate(recorder.graphs[:KEPT_GRAPHS]):
        try:
            evidence.graphs[str(number)] = encode(graph)
        except GraphFormatError:  # the judge says what is missing
            continue
    return evidence


def _reached(case: Case, compile_gpt2: Any, model: nn.Module, first: Any, recorder: Recorder) -> list[list[bool]]:
    """Whether graphs of each backend run in a call of each function, once the same model is compiled for another."""
    backends = (recorder, Recorder())
    second = compile_gpt2(model, backends[1])
    reached = []
    for function in (first, second):
        for backend in backends:
            backend.ran = 0
        _called(function, batches(case)[0], case.parameters.get("called", "by position"))
        reached.append([bool(backend.ran) for backend in backends])
    return reached


def _called(compiled: Any, inputs: tuple[torch.Tensor, torch.Tensor], called: str) -> tuple[Any, bool]:
    """What one call of the learner's function returns, and whether it left the inputs as they were: it gets copies."""
    tokens, mask = [value.clone() for value in inputs]
    if called == "by name":
        output = compiled(attention_mask=mask, input_ids=tokens)
    else:
        output = compiled(tokens, attention_mask=mask) if called == "the mask by name" else compiled(tokens, mask)
    return output, torch.equal(tokens, inputs[0]) and torch.equal(mask, inputs[1])


def _note(evidence: Evidence, number: int, roles: list[tuple[str, Any]]) -> list[Any]:
    """The roles of a graph's arguments as plain data; tensors that belong to no input go to the evidence's tensors."""
    noted: list[Any] = []
    for place, (role, value) in enumerate(roles):
        if role == "value" and isinstance(value, torch.Tensor):
            evidence.tensors[f"graph{number}.{place}"] = value
            noted.append([role, None])
        else:
            noted.append([role, value if isinstance(value, (str, float)) else int(value)])
    return noted


def _sizes_of(graph: fx.GraphModule) -> list[str]:
    """Rows and length of the first argument of two dimensions and whole numbers: each a number, or `any`."""
    for node in graph.graph.find_nodes(op="placeholder"):
        value = node.meta.get("example_value")
        if isinstance(value, torch.Tensor) and value.dim() == 2 and not value.dtype.is_floating_point:
            return [str(size) if isinstance(size, int) else "any" for size in value.shape]
    return []


def show(case: Case, evidence: Evidence) -> list[Any]:
    """How many graphs there were after each call, and which sizes each of them serves."""
    values = evidence.values
    lines = [f"{case.name}: graphs that reached the backend"]
    for (rows, length), graphs, ran in zip(case.parameters["sizes"], values["graphs"], values["ran"], strict=False):
        lines.append(f"  after {rows} x {length:2}: {graphs}{'' if ran else '  (no graph ran in this call)'}")
    for number, sizes in enumerate(values["sizes"]):
        lines.append(f"  graph {number + 1} is made for {' x '.join(sizes) or 'something else than the two inputs'}")
    for line in values["refused"].splitlines()[:3]:
        lines += wrap(line, 100, max_lines=3, placeholder=" …")
    return ["\n".join(lines)]
