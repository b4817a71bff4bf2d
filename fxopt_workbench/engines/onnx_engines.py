"""The engines that take a model as ONNX: ONNX Runtime and OpenVINO."""

from __future__ import annotations

import fcntl
import logging
import threading
import warnings
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch

from fxopt_workbench.engines.engine import Engine, RefusedError
from fxopt_workbench.engines.program import Program, Run, as_the_graph_gives_it, detached

MODEL = "model.onnx"
"""The file with the graph; its weights may lie beside it."""

PACKAGES = {"onnx": "onnx", "onnxscript": "onnxscript"}


def build_onnxruntime(program: Program, folder: Path, threads: int) -> Run:
    """A session of ONNX Runtime on the CPU."""
    import onnxruntime

    path = exported(program, folder)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    # Threads that wait for work at full speed would slow down whoever runs next.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    names = [one.name for one in session.get_inputs()]
    return _over_arrays(program, lambda arrays: session.run(None, dict(zip(names, arrays, strict=True))))


def build_openvino(program: Program, folder: Path, threads: int) -> Run:
    """A model that OpenVINO compiled for the CPU, in the precision of the graph."""
    import openvino

    core = openvino.Core()
    settings = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": threads}
    compiled = core.compile_model(core.read_model(str(exported(program, folder))), "CPU", settings)
    # One request at a time: its tensors are those of the last call.
    busy, request = threading.Lock(), compiled.create_infer_request()

    def call(arrays: list[np.ndarray]) -> list[np.ndarray]:
        with busy:
            found = request.infer(arrays, share_inputs=True, share_outputs=False)
            return [found[output] for output in compiled.outputs]

    return _over_arrays(program, call)


def _over_arrays(program: Program, call: Callable[[list[np.ndarray]], Sequence[np.ndarray]]) -> Run:
    """A call with arrays of NumPy as one with tensors, whose results lie in memory as the graph's own do."""
    facts = program.facts()

    def run(*tensors: torch.Tensor) -> list[torch.Tensor]:
        arrays = [tensor.detach().resolve_conj().resolve_neg().contiguous().numpy() for tensor in tensors]
        found = call(arrays)
        if len(found) != len(facts):
            raise RuntimeError(f"it gives {len(found)} results, expected {len(facts)}")
        results = [torch.from_numpy(np.ascontiguousarray(one)) if np.ndim(one) else torch.tensor(one) for one in found]
        return [as_the_graph_gives_it(*both) for both in zip(results, facts, strict=True)]

    return run


def exported(program: Program, folder: Path) -> Path:
    """The graph as ONNX, in a file beside the folders of the engines, which share it.

    Raises:
        RefusedError: something in the graph has no form in ONNX; the message says what.
    """
    place = folder.parent / "onnx"
    place.mkdir(exist_ok=True)
    path = place / MODEL
    with _alone(place / "lock"):
        if path.exists():
            return path
        logging.getLogger("torch.onnx").setLevel(logging.ERROR)
        graph = detached(program.graph)
        example = tuple(tensor.clone() for tensor in program.example)
        try:
            with torch.no_grad(), warnings.catch_warnings(action="ignore"):
                whole = torch.export.export(graph, example, strict=False)
                made: Any = torch.onnx.export(whole, dynamo=True, verbose=False)
                # The name appears last, so that a process that ends on the way leaves no half of a model.
                made.save(str(place / "half.onnx"), external_data=True)
        except Exception as error:  # whatever the exporter raises, the engine cannot be tried
            first = next(iter(str(error).strip().splitlines()), "")
            raise RefusedError(f"the graph has no form in ONNX: {type(error).__name__}: {first}") from error
        (place / "half.onnx").rename(path)
    return path


@contextmanager
def _alone(lock: Path) -> Any:
    """Let one process at a time in; another one's end, however it came, lets the next in."""
    with lock.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield


ENGINE_ONNXRUNTIME = Engine("onnxruntime", build_onnxruntime, {"onnxruntime": "onnxruntime", **PACKAGES}, artefact=True)

ENGINE_OPENVINO = Engine("openvino", build_openvino, {"openvino": "openvino", **PACKAGES}, artefact=True)
