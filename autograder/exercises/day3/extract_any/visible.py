"""The learner's side: three kinds of model with three kinds of call, the visible cases, the probe and what is shown."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.export import ExportedProgram
from torch.nn.functional import scaled_dot_product_attention
from torch.utils._pytree import tree_map

from autograder.exchange.evidence import Case, Evidence
from autograder.exchange.graph_form import GraphFormatError, encode
from autograder.exchange.ranges import promised_ranges


class Images(nn.Module):
    """A convolutional network: one positional input, one output. Its batch normalisation has been trained."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.layer, self.norm = nn.Conv2d(3, channels, 3, padding=1), nn.BatchNorm2d(channels)
        self.head = nn.Linear(channels, 4)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """(batch, 3, 8, 8) to (batch, 4)."""
        return self.head(torch.relu(self.norm(self.layer(images))).mean(dim=(2, 3)))


class Encoder(nn.Module):
    """Attention with a mask: keyword inputs, a dictionary of outputs."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.words, self.project = nn.Embedding(30, 2 * channels), nn.Linear(2 * channels, 6 * channels)
        self.dropout = nn.Dropout(0.2)

    def forward(self, tokens: torch.Tensor, mask: torch.Tensor) -> dict[str, torch.Tensor]:
        """Tokens and mask, (batch, 6) each, to the hidden states (batch, 6, width) and their mean (batch, width)."""
        query, key, value = self.project(self.words(tokens)).unsqueeze(1).chunk(3, dim=-1)
        seen = (mask > 0)[:, None, None, :]
        hidden = self.dropout(scaled_dot_product_attention(query, key, value, attn_mask=seen)).squeeze(1)
        return {"hidden": hidden, "mean": hidden.mean(dim=1)}


class Detector(nn.Module):
    """Reads a list of feature maps and returns boxes and scores; where they lie on a grid comes from the shapes."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.boxes, self.scores = nn.Conv2d(channels, 2, 1), nn.Conv2d(channels, 1, 1)

    def forward(self, features: list[torch.Tensor], scale: float = 1.0) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        """Maps (batch, channels, 4, 4) and (batch, channels, 2, 2) to boxes (batch, 20, 2) and scores (batch, 20)."""
        boxes, scores = [], []
        for feature in features:
            grid = torch.arange(feature.shape[-1], device=feature.device, dtype=feature.dtype)
            boxes.append((scale * self.boxes(feature) + grid).flatten(2))
            scores.append(self.scores(feature).flatten(1))
        return torch.cat(boxes, dim=2).transpose(1, 2), {"scores": torch.cat(scores, dim=1).sigmoid()}


class Weighted(nn.Module):
    """Inputs that nest, numbers among them, and modules within modules that are each in a mode of their own."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(4, channels), nn.BatchNorm1d(channels), nn.Dropout(0.4))
        self.outer = nn.Sequential(nn.Sequential(nn.Dropout(0.4), nn.Linear(channels, 3)), nn.Tanh())

    def forward(self, power: int, pair: tuple[torch.Tensor, dict[str, torch.Tensor]], flip: bool = False) -> Any:
        """A number, a tensor (batch, 4) with a dictionary of (batch, 1), and a switch, to (batch, 3) and (batch,)."""
        signal, more = pair
        hidden = self.inner(signal) ** power + more["bias"]
        result = self.outer(-hidden if flip else hidden)
        return [result, {"total": hidden.sum(dim=1)}]


class Noise(nn.Module):
    """Adds noise in training, as a module that somebody wrote, of no kind that PyTorch has."""

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        """Any shape to the same shape."""
        return hidden + torch.rand_like(hidden) if self.training else hidden


class Homemade(nn.Module):
    """A mode that no layer of PyTorch knows of, and a buffer that counts the calls of the model itself."""

    calls: torch.Tensor

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.layer, self.noise = nn.Linear(4, channels), Noise()
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))

    def forward(self, signal: torch.Tensor) -> torch.Tensor:
        """(batch, 4) to (batch, channels)."""
        if not torch.compiler.is_compiling():
            self.calls += 1
        return self.noise(nn.functional.dropout(torch.tanh(self.layer(signal)), 0.4, self.training))


MODELS: dict[str, type[nn.Module]] = {
    "weighted": Weighted,
    "images": Images,
    "encoder": Encoder,
    "detector": Detector,
    "homemade": Homemade,
}


def make_ahead() -> None:
    """Export each kind of model once, before a learner's code runs: what the exporter imports is in memory then."""
    batch = torch.export.Dim("batch", min=1)
    for case in visible_cases():
        call = as_call(case, draw_inputs(case, case.parameters["batch"], 0))
        sizes = tree_map(lambda value: {0: batch} if isinstance(value, torch.Tensor) else None, call)
        args, kwargs = ((), call) if isinstance(call, dict) else (call, {})
        torch.export.export(build(case).eval(), args, kwargs, dynamic_shapes=sizes).run_decompositions()


def visible_cases() -> list[Case]:
    """Each kind of model once."""
    return [
        Case("a convolutional network", {"model": "images", "channels": 5, "batch": 2, "training": True, "seed": 0}),
        Case("an attention encoder", {"model": "encoder", "channels": 4, "batch": 3, "training": False, "seed": 1}),
        Case("a detector", {"model": "detector", "channels": 3, "batch": 2, "training": True, "seed": 2}),
    ]


def build(case: Case) -> nn.Module:
    """The model, with parameters and buffers that are not those of a new one, in the case's mode."""
    given = case.parameters
    generator = torch.Generator().manual_seed(given["seed"])
    model = MODELS[given["model"]](given["channels"])
    with torch.no_grad():
        for name, value in [*model.named_parameters(), *model.named_buffers()]:
            if value.is_floating_point():
                value.uniform_(0.5 if "running_var" in name else -1.0, 1.0, generator=generator)
            else:  # batches that a normalisation has seen
                value.fill_(7)
    model.train(given["training"])
    if given.get("frozen"):
        model.get_submodule("norm").eval().requires_grad_(False)
    for name, training in given.get("modes", {}).items():
        model.get_submodule(name).training = training
    return model


def draw_inputs(case: Case, batch: int, seed: int) -> dict[str, torch.Tensor]:
    """Inputs by the names that they have in an exported graph."""
    generator = torch.Generator().manual_seed(seed)
    given = case.parameters
    if given["model"] == "images":
        return {"images": torch.randn(batch, 3, 8, 8, generator=generator)}
    if given["model"] == "encoder":
        mask = (torch.rand(batch, 6, generator=generator) > 0.4).float()
        mask[:, 0] = 1.0
        return {"tokens": torch.randint(30, (batch, 6), generator=generator), "mask": mask}
    if given["model"] == "homemade":
        return {"signal": torch.randn(batch, 4, generator=generator)}
    if given["model"] == "weighted":
        shapes = {"pair_0": (batch, 4), "pair_1_bias": (batch, 1)}
        return {name: torch.randn(shape, generator=generator) for name, shape in shapes.items()}
    sizes = {"features_0": 4, "features_1": 2}
    return {
        name: torch.randn(batch, given["channels"], size, size, generator=generator) for name, size in sizes.items()
    }


def as_call(case: Case, inputs: dict[str, torch.Tensor]) -> tuple[Any, ...] | dict[str, Any]:
    """The inputs as a learner gets them: a tuple of positional or a dictionary of keyword arguments."""
    kind = case.parameters["model"]
    if kind == "images":
        return (inputs["images"],)
    if kind == "homemade":
        return (inputs["signal"],)
    if kind == "encoder":
        return {"mask": inputs["mask"], "tokens": inputs["tokens"]}  # not in the order of forward
    if kind == "weighted":
        pair = (inputs["pair_0"], {"bias": inputs["pair_1_bias"]})
        given = case.parameters
        if given["positional"]:
            return (given["power"], pair, given["flip"])
        return {"flip": given["flip"], "pair": pair, "power": given["power"]}
    if case.parameters.get("positional"):
        return ([inputs["features_0"], inputs["features_1"]], case.parameters["scale"])
    scale = {"scale": case.parameters["scale"]} if "scale" in case.parameters else {}
    return {"features": [inputs["features_0"], inputs["features_1"]], **scale}


@contextmanager
def in_training(model: nn.Module) -> Iterator[None]:
    """The model with the weights that it has some steps of training earlier; then with its own again, in place."""
    weights = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(-0.5).add_(0.1)
    try:
        yield
    finally:
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                parameter.copy_(weights[name])


def probe(case: Case, extract: Any) -> Evidence:
    """Let the learner extract; the graph travels, and whether the model is as it was.

    In some cases the model is extracted twice, and is trained in between. The second graph travels.
    """
    model = build(case)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    modes = {name: module.training for name, module in model.named_modules()}
    trained = [parameter.requires_grad for parameter in model.parameters()]
    call = as_call(case, draw_inputs(case, case.parameters["batch"], case.parameters["seed"]))
    try:
        if case.parameters.get("again", False):
            with in_training(model):
                extract(model, call)
        program = extract(model, call)
    except Exception as error:
        if "non-tensor type" not in str(error):
            raise  # what is no refusal of a number is the learner's to see as it is
        return Evidence({"kind": "size of a number", "text": str(error)[:1000]})
    if not isinstance(program, ExportedProgram):
        return Evidence({"kind": type(program).__name__})
    after = model.state_dict()
    values: dict[str, Any] = {
        "kind": "program",
        "modes_changed": [name for name, module in model.named_modules() if module.training != modes[name]],
        "modes_lost": [name for name, module in model.named_modules() if modes[name] and not module.training],
        "state_kept": list(after) == list(before) and all(alike(value, after[name]) for name, value in before.items()),
        "trained_kept": trained == [parameter.requires_grad for parameter in model.parameters()],
        "ranges": promised_ranges(program),
    }
    try:
        return Evidence(values, graphs={"graph": encode(program.module())})
    except GraphFormatError as error:
        return Evidence(values | {"kind": "unreadable", "text": str(error)[:500]})


def alike(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether two tensors are the same in dtype, shape and values (`torch.equal` alone takes 1 in any dtype for 1)."""
    return one.dtype == other.dtype and torch.equal(one, other)


def show(case: Case, evidence: Evidence) -> list[Any]:
    """The learner's graph."""
    from autograder.exchange.graph_form import decode
    from fxopt_workbench.pictures import draw

    return [draw(decode(graph), title=f"{case.name}, extracted") for graph in evidence.graphs.values()]
