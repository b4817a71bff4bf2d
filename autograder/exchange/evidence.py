"""What travels between the learner's side and the judge: cases one way, evidence the other way.

Both are plain data: JSON values, tensors (as safetensors) and graphs (in the JSON form of
`autograder.exchange.graph_form`). Nothing that travels is code, and nothing is unpickled. Imports torch only where
there are tensors: some tasks are graded where there is no torch.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import torch

    from autograder.exchange.graph_form import EncodedGraph


class EvidenceError(ValueError):
    """Bytes that came from the learner's side are not evidence; the message says what is wrong."""


@dataclass(frozen=True)
class Case:
    """One question that the probe puts to the learner's code.

    Attributes:
        name: shown to the learner for visible cases, never for hidden ones.
        parameters: JSON values from which the probe builds the inputs.
        tensors: tensor inputs.
        kept: JSON values that the judge has, and that never go to the learner's side while it is graded.
    """

    name: str
    parameters: dict[str, Any] = field(default_factory=dict)
    tensors: dict[str, torch.Tensor] = field(default_factory=dict)
    kept: dict[str, Any] = field(default_factory=dict)

    def to_message(self) -> tuple[dict[str, Any], bytes]:
        """Header and binary part of a message that carries this case, with what is kept."""
        header = {"name": self.name, "parameters": self.parameters, "kept": self.kept}
        return header, pack_tensors(self.tensors)

    @classmethod
    def from_message(cls, header: dict[str, Any], blob: bytes) -> Case:
        """The case that `to_message` packed."""
        return cls(header["name"], header["parameters"], unpack_tensors(blob), header.get("kept", {}))


class Instrument(Protocol):
    """What is asked. `record` is all that it was asked and answered, in order, as JSON."""

    record: list[Any]

    def answer(self, question: Any) -> Any:
        """The answer to one question.

        Raises:
            ValueError: there is no such question.
        """


@dataclass
class Evidence:
    """What the probe observed of the learner's code for one case.

    Attributes:
        values: JSON values.
        tensors: tensors by name.
        graphs: graphs by name, in their JSON form.
    """

    values: dict[str, Any] = field(default_factory=dict)
    tensors: dict[str, torch.Tensor] = field(default_factory=dict)
    graphs: dict[str, EncodedGraph] = field(default_factory=dict)

    def to_message(self) -> tuple[dict[str, Any], bytes]:
        """Header and binary part of a message that carries this evidence."""
        tensors = {f"value/{name}": tensor for name, tensor in self.tensors.items()}
        for graph_name, graph in self.graphs.items():
            tensors |= {f"graph/{graph_name}/{name}": tensor for name, tensor in graph.tensors.items()}
        documents = {name: graph.document for name, graph in self.graphs.items()}
        return {"values": self.values, "graphs": documents}, pack_tensors(tensors)

    @classmethod
    def from_message(cls, header: dict[str, Any], blob: bytes) -> Evidence:
        """The evidence that `to_message` packed. The bytes come from the learner's side: trust nothing.

        Raises:
            EvidenceError: the message does not have the form of evidence.
        """
        from autograder.exchange.graph_form import EncodedGraph

        values, documents = header.get("values"), header.get("graphs")
        if not isinstance(values, dict) or not isinstance(documents, dict):
            raise EvidenceError("the evidence has no values or graphs")
        tensors: dict[str, torch.Tensor] = {}
        graph_tensors: dict[str, dict[str, torch.Tensor]] = {name: {} for name in documents}
        for key, tensor in unpack_tensors(blob).items():
            kind, _, rest = key.partition("/")
            if kind == "value":
                tensors[rest] = tensor
                continue
            graph_name, _, name = rest.partition("/")
            if kind != "graph" or graph_name not in graph_tensors:
                raise EvidenceError(f"the evidence has a tensor {key!r} that belongs to nothing")
            graph_tensors[graph_name][name] = tensor
        graphs: dict[str, EncodedGraph] = {}
        for name, document in documents.items():
            if not isinstance(document, dict):
                raise EvidenceError(f"the graph {name!r} in the evidence is not a JSON object")
            graphs[name] = EncodedGraph(document, graph_tensors[name])
        return cls(values, tensors, graphs)


def pack_tensors(tensors: dict[str, torch.Tensor]) -> bytes:
    """Tensors as safetensors bytes; empty bytes for no tensors. Views are stored as contiguous CPU copies."""
    if not tensors:
        return b""
    from safetensors.torch import save

    return save({name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()})


def unpack_tensors(blob: bytes) -> dict[str, torch.Tensor]:
    """Tensors from safetensors bytes.

    Raises:
        EvidenceError: the bytes are not in the safetensors format.
    """
    if not blob:
        return {}
    from safetensors.torch import load

    try:
        return load(blob)
    except Exception as error:  # safetensors raises several unrelated types for malformed bytes
        raise EvidenceError(f"the tensors in the evidence cannot be read: {error}") from error


def agrees(found: Any, wanted: torch.Tensor, *, relative: float = 1e-5, absolute: float = 1e-8) -> bool:
    """Whether what came back is a tensor of the wanted shape and dtype with values as close as asked.

    Unlike `torch.allclose`, it answers for whatever a learner's code returned, also for what is no tensor.
    """
    import torch

    return (
        isinstance(found, torch.Tensor)
        and found.shape == wanted.shape
        and found.dtype == wanted.dtype
        and torch.allclose(found, wanted, rtol=relative, atol=absolute)
    )
