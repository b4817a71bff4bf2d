"""Writing the file, and the file of tensors beside it."""

from __future__ import annotations

import re
import stat
from pathlib import Path

import torch
from torch.utils._pytree import tree_leaves

from fxopt_core.capture.captured_graph import CapturedGraph
from fxopt_core.capture.errors import CaptureError
from fxopt_core.capture.result import Captured
from fxopt_workbench.files import replacing
from fxopt_workbench.standalone.graph_class import GraphClass, graph_class
from fxopt_workbench.standalone.lowering import without_module_calls
from fxopt_workbench.standalone.program import PROGRAM
from fxopt_workbench.standalone.store import TensorStore

_BLANK = re.compile(r"[ \t]+$", re.MULTILINE)


def save_standalone(captured: Captured, path: str | Path) -> tuple[Path, ...]:
    """Write a Python file that rebuilds every captured graph, runs each and compares with what it gave here.

    Run it with `python FILE`, in any process that has torch and safetensors: it prints for each graph the shapes
    of its inputs and outputs and the largest difference to the outputs recorded here, and exits with 1 where they
    disagree. It needs neither fxopt nor the model's code (but for the module that defines a custom operator, which it
    imports), and nothing is unpickled. Weights, example inputs and recorded outputs lie beside it in `FILE` with the
    ending `.safetensors`. Both files appear whole or not at all.

    Module calls in graphs from `symbolic_trace` are written as the functions that they run; for this Dynamo
    follows them, and is reset before and after.

    Args:
        captured: from `capture`, at least one graph.
        path: of the file, such as `graph.py`; both files are replaced where they exist.

    Returns:
        The files written.

    Raises:
        CaptureError: there is no graph, or a graph uses something that a file cannot hold; it says what.
        ValueError: `path` has the ending of the tensors' file.
        ModuleNotFoundError: safetensors is not installed.
        OSError: a file cannot be written.
    """
    try:
        from safetensors.torch import save_file
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f'a standalone file keeps its tensors with safetensors ({error}). Install it with: pip install "fxopt[hf]"',
            name=error.name,
        ) from error

    path = Path(path)
    tensors_path = path.with_suffix(".safetensors")
    if tensors_path == path:
        raise ValueError(f"{path}: expected a name for a Python file, such as {path.with_suffix('.py').name}.")
    if not captured.partitions:
        raise CaptureError(captured.method, "there is no graph to save.", "see graph_breaks for what prevented it.")

    store = TensorStore(captured.method)
    classes, entries = [], []
    for number, partition in enumerate(captured.partitions, start=1):
        written, entry = _graph(number, without_module_calls(partition, captured.method), captured, store)
        classes.append(written)
        entries.append(entry)
    imports = sorted({line for written in classes for line in written.imports} - {"import torch"})
    program = PROGRAM.substitute(
        how=f'method="{captured.method}", torch {torch.__version__}',
        caveats="".join(f"\n- {caveat}" for caveat in captured.caveats) or "\nnone",
        imports="\n".join(imports),
        tensors=repr(tensors_path.name),
        classes="\n\n".join(written.source for written in classes),
        entries="\n".join(entries),
    )
    with replacing(path) as text, replacing(tensors_path) as tensors:
        text.write_text(_BLANK.sub("", program), encoding="utf-8")
        save_file(store.tensors, tensors)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path, tensors_path


def _graph(number: int, partition: CapturedGraph, captured: Captured, store: TensorStore) -> tuple[GraphClass, str]:
    """The class of one graph, and the entry with which it is run."""
    if partition.example_inputs is None:
        raise CaptureError(
            captured.method,
            f"graph {number} was captured but never run, so it has no example inputs.",
            "call the compiled model once before saving.",
        )
    name = f"Graph{number}"
    summary = f"Graph {number} of {len(captured.partitions)} ({partition.role})."
    written = graph_class(name, partition.graph_module, partition.inputs, store, captured.method, summary)
    names = [one.source.removeprefix("self.") for one in partition.inputs]
    inputs = [
        store.expression(value, f"{name}.inputs.{source}")
        for source, value in zip(names, partition.example_inputs, strict=True)
    ]
    outputs = [
        store.expression(value, f"{name}.outputs.{index}")
        for index, value in enumerate(tree_leaves(partition.example_outputs))
    ]
    states = {
        device: store.expression(state, f"{name}.random.{device}") for device, state in partition.random_state.items()
    }
    entry = [
        "    check(",
        f"        {name}(),",
        *_list("inputs", inputs),
        *_list("expected", outputs),
        *(f"        {'cpu' if device == 'cpu' else 'cuda'}_random_state={text}," for device, text in states.items()),
        "    ),",
    ]
    return written, "\n".join(entry)


def _list(name: str, expressions: list[str]) -> list[str]:
    return [f"        {name}=[", *(f"            {text}," for text in expressions), "        ],"]
