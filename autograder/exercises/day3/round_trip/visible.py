"""The learner's side: a trained model, the visible cases, the probe with its fresh process, and what is shown."""

from __future__ import annotations

import builtins
import io
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import types
import warnings
from collections.abc import Iterator
from contextlib import chdir, contextmanager
from pathlib import Path
from typing import Any, NoReturn

import torch
from torch import nn

from autograder.exchange.evidence import Case, Evidence
from autograder.learner_side.mode import GRADING_VARIABLE

SECONDS = 60
"""Longest that the fresh process may run."""

MOST_CHARACTERS = 20_000
"""Longest program that the fresh process is given; what is beyond is cut off."""


class Scorer(nn.Module):
    """Two layers after a normalisation that was measured in training. Takes `x` of shape (batch, width), `float32`."""

    mean: torch.Tensor
    scale: torch.Tensor

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(width, 6), nn.Linear(6, 2)
        self.register_buffer("mean", torch.zeros(width))
        self.register_buffer("scale", torch.ones(width), persistent=False)  # state_dict leaves it out

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, width) to (batch, 2)."""
        return self.second(torch.tanh(self.first((x - self.mean) * self.scale)))


# As with a class that you write in a notebook, pickle finds it by this name, and only in the process that made it.
Scorer.__module__ = "__main__"


MOST_BYTES = 8 << 20
"""Largest file that goes on the trip; the programs of these models take some twenty thousand bytes."""


MANY_ROWS = 1000
"""From how many rows on PyTorch leaves out those in the middle when it prints a batch."""

EARLIER = b"This file was here before. " * 5000
"""What lies at the path in some cases when the model is saved. It is longer than what is written over it."""


def visible_cases() -> list[Case]:
    """One model, sent off with an example of three rows and asked about other batches."""
    parameters = {"width": 5, "batch": 3, "seed": 0}
    return [Case("batches of 3, 1 and 8", parameters, kept={"batches": [3, 1, 8], "seed": 1})]


def build(case: Case) -> tuple[Scorer, torch.Tensor]:
    """The trained model in eval mode, and the example."""
    given = case.parameters
    generator = torch.Generator().manual_seed(given["seed"])
    model = Scorer(given["width"]).eval()
    with torch.no_grad():
        for value in [*model.parameters(), *model.buffers()]:
            value.uniform_(-1.0, 1.0, generator=generator)
    return model, torch.randn(given["batch"], given["width"], generator=generator)


def make_ahead() -> None:
    """Save and load a program once, before a learner's code runs: what that imports is in memory then."""
    model, example = build(visible_cases()[0])
    sizes = {0: torch.export.Dim("batch", min=1)}
    file = io.BytesIO()
    torch.export.save(torch.export.export(model, (example,), dynamic_shapes=(sizes,)), file)
    file.seek(0)
    torch.export.load(file).module()(example)


def inputs_of(case: Case) -> list[torch.Tensor]:
    """The inputs that the fresh process is asked about; while a task is graded only the judge can make them.

    In some cases each comes again with two of its numbers in each other's place, or two of its rows. Sums are exact
    there, whatever their order, so that the two inputs have all of them in common.
    """
    generator = torch.Generator().manual_seed(case.kept["seed"])
    width = case.parameters["width"]
    inputs = [torch.randn(batch, width, generator=generator) for batch in case.kept["batches"]]
    if not case.kept.get("alike", False):
        return inputs
    inputs = [(64 * x).round() / 64 for x in inputs]
    return [*inputs, *(other for x in inputs for other in lookalikes(x))]


def lookalikes(x: torch.Tensor) -> Iterator[torch.Tensor]:
    """Inputs of the same shape that hold the same numbers: the first and the last row where they were, or a single row.

    Of a few rows the first two are exchanged, and the last two; of many, two in the middle.
    """
    rows = len(x)
    if rows == 1:
        yield x.flip(1)
        return
    for first in sorted({0, rows - 2} if rows < MANY_ROWS else {rows // 2}):
        order = list(range(rows))
        order[first : first + 2] = [first + 1, first]
        yield x[order]


def probe(case: Case, save_model: Any, make_loader: Any) -> Evidence:
    """Let the learner save the model; the file and the loader's source travel."""
    model, example = build(case)
    loader = make_loader()
    if not isinstance(loader, str):
        return Evidence({"stage": "loader", "text": type(loader).__name__})
    setattr(sys.modules["__main__"], "Scorer", Scorer)  # noqa: B010
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "model.pt2"
        if case.parameters.get("earlier file", False):
            path.write_bytes(EARLIER)
        try:
            with _left_behind():
                save_model(model, example.clone(), str(path))
        except Exception as error:
            if "constant (1)" not in str(error):
                raise  # what is no refusal of one row is the learner's to see as it is
            return Evidence({"stage": "exporting", "text": str(error).splitlines()[0][:200]})
        if not path.is_file() or path.stat().st_size == 0:
            return Evidence({"stage": "saving", "text": ""})
        if path.stat().st_size > MOST_BYTES:
            return Evidence({"stage": "too large", "text": f"{path.stat().st_size} bytes, {MOST_BYTES} at most"})
        content = torch.frombuffer(bytearray(path.read_bytes()), dtype=torch.uint8)
    return Evidence({"stage": "saved", "loader": loader[:MOST_CHARACTERS]}, {"file": content})


@contextmanager
def _left_behind() -> Iterator[None]:
    """What is written meanwhile, to anywhere but the path that was given, is gone afterwards.

    The file goes to another machine. What lies beside it, in the working folder or among temporary files, does not.
    """
    scratch = Path(tempfile.gettempdir())
    before = set(scratch.iterdir())
    with tempfile.TemporaryDirectory() as name, chdir(name):
        tempfile.tempdir = name
        try:
            yield
        finally:
            tempfile.tempdir = None
    if GRADING_VARIABLE in os.environ:  # elsewhere the folder belongs to others, too
        for path in set(scratch.iterdir()) - before:
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)


def fresh(case: Case) -> Evidence:
    """Run the loader on the file and on inputs that nobody has seen, in a fresh Python process and an empty folder."""
    inputs = [case.tensors[f"input{number}"] for number in range(case.parameters["inputs"])]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "model.pt2").write_bytes(case.tensors["file"].numpy().tobytes())
        torch.save(inputs, folder / "inputs.pt")
        # While grading, this process is the copy of one that has imported torch and never ran a learner's code.
        run = _run_in_a_copy if GRADING_VARIABLE in os.environ else _run_in_a_new_process
        code, said = run(case.parameters["loader"], ["model.pt2", "inputs.pt", "outputs.pt"], folder)
        if code is None:
            return Evidence({"stage": "running", "text": f"no end after {SECONDS} s"})
        if code != 0:
            return Evidence({"stage": "running", "text": said[-4000:]})
        if not (folder / "outputs.pt").is_file():
            return Evidence({"stage": "outputs", "text": "no file"})
        outputs = torch.load(folder / "outputs.pt", weights_only=True)
    if not isinstance(outputs, list) or not all(isinstance(output, torch.Tensor) for output in outputs):
        return Evidence({"stage": "outputs", "text": type(outputs).__name__})
    return Evidence({"stage": "done", "count": len(outputs)}, {f"output{i}": value for i, value in enumerate(outputs)})


def _environment() -> dict[str, str]:
    return {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR") if name in os.environ} | {
        "OMP_NUM_THREADS": "1"
    }


def _run_in_a_new_process(source: str, arguments: list[str], folder: Path) -> tuple[int | None, str]:
    """Exit code (`None` for no end) and standard error of a program that Python is started for."""
    try:
        finished = subprocess.run(
            [sys.executable, "-I", "-W", "ignore", "-c", source, *arguments],
            cwd=folder,
            env=_environment(),
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return None, ""
    return finished.returncode, finished.stderr


def _run_in_a_copy(source: str, arguments: list[str], folder: Path) -> tuple[int | None, str]:
    """The same in a copy of this process that has forgotten all but torch: importing torch takes most of a second."""
    with tempfile.TemporaryFile() as said:
        child = os.fork()
        if child == 0:
            _become_a_fresh_process(source, arguments, folder, said.fileno())
        limit = time.monotonic() + SECONDS
        while True:
            found, status = os.waitpid(child, os.WNOHANG)
            if found:
                break
            if time.monotonic() > limit:
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
                return None, ""
            time.sleep(0.005)
        said.seek(0)
        return os.waitstatus_to_exitcode(status), said.read().decode(errors="replace")


FORGOTTEN = ("autograder", "fxopt_core", "fxopt_workbench", "IPython", "ipykernel", "nbformat", "transformers")
"""Packages that a process that imports torch does not have; the fresh process must import them itself, or cannot."""


def _become_a_fresh_process(source: str, arguments: list[str], folder: Path, said: int) -> NoReturn:
    """Forget all but torch, run the source as `python -c` does, and end."""
    os.dup2(said, 2)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    code = 1
    try:
        sys.stdout = os.fdopen(1, "w", closefd=False)
        sys.stderr = os.fdopen(2, "w", buffering=1, closefd=False)
        os.chdir(folder)
        kept = _environment()
        os.environ.clear()
        os.environ.update(kept)
        sys.argv = ["-c", *arguments]
        for name in [name for name in sys.modules if name.partition(".")[0] in FORGOTTEN]:
            del sys.modules[name]
        sys.meta_path[:] = [one for one in sys.meta_path if type(one).__module__.partition(".")[0] not in FORGOTTEN]
        sys.path[:] = [path for path in sys.path if path.startswith((sys.prefix, sys.base_prefix))]
        for name in ("get_ipython", "display"):
            builtins.__dict__.pop(name, None)
        sys.excepthook, sys.displayhook = sys.__excepthook__, sys.__displayhook__
        warnings.simplefilter("ignore")
        main = types.ModuleType("__main__")
        main.__dict__["__builtins__"] = builtins
        sys.modules["__main__"] = main
        exec(compile(source, "<string>", "exec"), main.__dict__)
        code = 0
    except SystemExit as ending:
        code = ending.code if isinstance(ending.code, int) else int(ending.code is not None)
        if isinstance(ending.code, str):
            print(ending.code, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def show(case: Case, evidence: Evidence) -> list[Any]:
    """How far the round trip came."""
    values = evidence.values
    if values["stage"] != "done":
        last = [line for line in str(values["text"]).splitlines() if line.strip()][-3:]
        return ["\n".join([f"{case.name}: the trip ended at the stage {values['stage']!r}", *last])]
    (model, _), inputs = build(case), inputs_of(case)
    lines = [f"{case.name}: what came back from the fresh process"]
    for number, x in enumerate(inputs):
        output = evidence.tensors.get(f"output{number}")
        if output is not None and output.shape == (len(x), 2):
            with torch.no_grad():
                lines.append(f"  batch {len(x)}: largest difference {float((output - model(x)).abs().max()):.1e}")
        elif output is not None:
            lines.append(f"  batch {len(x)}: an output of shape {tuple(output.shape)}")
    return ["\n".join(lines)]
