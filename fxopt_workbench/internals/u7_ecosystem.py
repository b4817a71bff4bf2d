"""The demonstration of unit 7, *Ecosystem and deployment*, without Jupyter: one model, packaged in several ways.

Run it with `python -m fxopt_workbench.internals.u7_ecosystem`; `--calls 20 --without-cpp` makes it quicker. What was
compiled is kept beside Inductor's own cache, and taken from there the next time.
"""

from __future__ import annotations

import hashlib
import importlib.util
import logging
import os
import shutil
import subprocess
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from functools import partial
from io import StringIO
from pathlib import Path
from typing import Annotated, Any

import torch
import typer
from rich.console import Console
from torch import nn
from torch.export import Dim, ExportedProgram

from fxopt_core.benchmark.measuring import measure_interleaved
from fxopt_workbench.internals.profiling import profiled
from fxopt_workbench.tables import NONE, Table, format_bytes, format_seconds

WIDTH, LARGEST = 64, 64
"""Columns of the model's input, and the largest batch that is promised."""

RUNNER = Path(__file__).with_name("u7_runner.cpp")
"""The C++ program that runs a package."""


class MissingError(RuntimeError):
    """Something that a way of packaging needs is not here; the message says what, and how to get it."""


class Small(nn.Module):
    """Two layers, and two buffers that count the calls. Takes `x` of shape (batch, 64), `float32`."""

    calls: torch.Tensor
    scalar: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(WIDTH, 256), nn.Linear(256, 10)
        self.register_buffer("calls", torch.zeros(1, dtype=torch.int64))
        self.register_buffer("scalar", torch.zeros((), dtype=torch.int64))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """(batch, 64) to probabilities of shape (batch, 10), and how often it was called, counted twice."""
        self.calls.add_(1)
        self.scalar.add_(1)
        counted = torch.cat([self.calls, self.scalar.view(1)])
        return self.second(torch.relu(self.first(x))).softmax(-1), counted


def small() -> Small:
    """The model in eval mode; always the same weights."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return Small().eval()


def exported(model: nn.Module | None = None) -> ExportedProgram:
    """The program, for batches from 1 to `LARGEST`."""
    batch = Dim("batch", min=1, max=LARGEST)
    with torch.no_grad(), _quiet():
        return torch.export.export(model or small(), (torch.ones(3, WIDTH),), dynamic_shapes=({0: batch},))


@contextmanager
def _quiet() -> Any:
    """Without what exporters print and log."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings(), redirect_stdout(StringIO()), redirect_stderr(StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


# Packages


def cache_folder() -> Path:
    """Where compiled packages and programs are kept: beside Inductor's cache."""
    from torch._inductor.runtime.runtime_utils import cache_dir

    folder = Path(cache_dir()) / "fxopt_unit7"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _kept(name: str, parts: Sequence[str], make: Callable[[Path], None]) -> Path:
    """A file of the cache, made when it is not there; its name says what it was made of."""
    key = hashlib.sha256("\0".join([torch.__version__, *parts]).encode()).hexdigest()[:16]
    stem, _, suffix = name.partition(".")
    path = cache_folder() / (f"{stem}-{key}.{suffix}" if suffix else f"{stem}-{key}")
    if not path.exists():
        with tempfile.TemporaryDirectory(dir=cache_folder()) as scratch:
            made = Path(scratch) / name
            make(made)
            made.chmod(made.stat().st_mode | (0o111 if not suffix else 0))
            made.replace(path)  # at once: whoever looks meanwhile sees nothing or all of it
    return path


def with_aoti(program: ExportedProgram) -> Path:
    """The program compiled ahead of time: a package with a library, its constants and what describes them.

    Raises:
        MissingError: there is no C++ compiler.
    """
    _compiler()
    weights = "".join(hashlib.sha256(one.detach().numpy().tobytes()).hexdigest() for one in program.state_dict.values())

    def make(path: Path) -> None:
        with torch.no_grad(), _quiet():
            torch._inductor.aoti_compile_and_package(program, package_path=str(path))

    # Of the program only what is computed: its text also names the file and the line of each operator.
    parts = [program.graph_module.code, str(program.range_constraints), weights]
    return _kept("small.pt2", parts, make)


def _compiler() -> str:
    name = os.environ.get("CXX", "g++")
    if shutil.which(name) is None:
        raise MissingError(f"the C++ compiler {name!r} is not here: install g++ or clang, or name one in CXX")
    return name


def cpp_runner() -> Path:
    """The C++ program, built against the headers and libraries of the installed torch.

    Raises:
        MissingError: there is no C++ compiler.
        RuntimeError: it does not build; the message holds what the compiler said.
    """
    from torch.utils.cpp_extension import include_paths, library_paths

    compiler = _compiler()

    def make(path: Path) -> None:
        command = [compiler, "-std=c++20", "-O1", str(RUNNER), "-o", str(path)]
        command += [f"-I{folder}" for folder in include_paths()]
        for folder in library_paths():
            command += [f"-L{folder}", f"-Wl,-rpath,{folder}"]
        built = subprocess.run([*command, "-ltorch", "-ltorch_cpu", "-lc10"], capture_output=True, text=True)
        if built.returncode:
            raise RuntimeError(f"{compiler} does not build {RUNNER.name}: {built.stderr[:2000]}")

    return _kept("runner", [RUNNER.read_text(), compiler, *library_paths()], make)


_TRACE = ("frame #", "Exception raised from")
"""How the lines begin that say where in C++ an error arose."""


@dataclass(frozen=True)
class CppRun:
    """What the C++ program found.

    Attributes:
        output: the first result, of shape (batch, 10).
        loading: seconds to open the package.
        call: seconds of the quickest call.
        counted: how often the model says it was called, by each of its counters.
    """

    output: torch.Tensor
    loading: float
    call: float
    counted: tuple[int, int]


def run_in_cpp(package: Path, x: torch.Tensor, calls: int = 1, *, checked: bool = False) -> CppRun:
    """Run a package in the C++ program, where there is no Python.

    Args:
        package: the file.
        x: what each call gets.
        calls: how many calls to make.
        checked: whether the package compares its inputs with what it was compiled for.

    Raises:
        MissingError: there is no C++ compiler.
        RuntimeError: the program failed; the message holds the last line that it printed.
    """
    runner = cpp_runner()
    with tempfile.TemporaryDirectory() as name:
        source, target = Path(name) / "input", Path(name) / "output"
        source.write_bytes(x.contiguous().numpy().tobytes())
        words = [str(package), str(source), *map(str, x.shape), str(target), str(calls)]
        environment = os.environ | {"OMP_NUM_THREADS": "1", "AOTI_RUNTIME_CHECK_INPUTS": "1" if checked else "0"}
        done = subprocess.run([str(runner), *words], capture_output=True, text=True, env=environment)
        if done.returncode:
            lines = [line for line in done.stderr.splitlines() if line.strip() and not line.startswith(_TRACE)]
            raise RuntimeError(f"the C++ program ended with {done.returncode}: {lines[-1] if lines else 'nothing'}")
        loading, call, *counted = done.stdout.split()[-4:]
        output = torch.frombuffer(bytearray(target.read_bytes()), dtype=torch.float32).view(len(x), -1)
    return CppRun(output, float(loading), float(call), (int(counted[0]), int(counted[1])))


def absent(*packages: str) -> list[str]:
    """Those of some packages that are not installed."""
    return [name for name in packages if importlib.util.find_spec(name) is None]


def with_onnx(program: ExportedProgram) -> bytes:
    """The program as an ONNX model.

    Raises:
        MissingError: the extra `engines` is not installed.
    """
    if missing := absent("onnx", "onnxscript", "onnxruntime"):
        raise MissingError(f"not here: {', '.join(missing)}. They come with the extra `engines`.")
    with torch.no_grad(), _quiet():
        made: Any = torch.onnx.export(program, dynamo=True, verbose=False)
    content: bytes = made.model_proto.SerializeToString()
    return content


def with_executorch(program: ExportedProgram) -> bytes:
    """The program for ExecuTorch, with its portable kernels.

    Raises:
        MissingError: ExecuTorch is not installed.
    """
    if absent("executorch"):
        raise MissingError("not here: executorch. It comes with the extra `edge`.")
    with torch.no_grad(), _quiet():
        from executorch.exir import to_edge

        content: bytes = to_edge(program).to_executorch().buffer
    return content


# Running them


Run = Callable[[torch.Tensor], tuple[torch.Tensor, list[int]]]
"""Takes a batch and gives the probabilities, and how often the model says it was called, by each counter."""


@dataclass(frozen=True)
class Way:
    """One way to run the model.

    Attributes:
        name: for the table.
        size: bytes of what is shipped, or `None`.
        preparing: seconds until it could be called; a package that was in the cache is only opened.
        run: calls it; `None` where it runs in a process of its own.
        needs: what must be where it runs.
    """

    name: str
    size: int | None
    preparing: float
    run: Run
    needs: str


def _outputs(call: Callable[[torch.Tensor], Any]) -> Run:
    def run(x: torch.Tensor) -> tuple[torch.Tensor, list[int]]:
        with torch.no_grad():
            probabilities, counted = call(x)
        return torch.as_tensor(probabilities), torch.as_tensor(counted).tolist()

    return run


def way_eager() -> Way:
    """The model as it is."""
    start = time.perf_counter()
    model = small()
    size = sum(one.numel() * one.element_size() for one in model.state_dict().values())
    return Way("eager", size, time.perf_counter() - start, _outputs(model), "Python, torch, the class")


def way_program() -> Way:
    """The exported program, run by the interpreter of `torch.export`."""
    start = time.perf_counter()
    program = exported()
    with tempfile.NamedTemporaryFile(suffix=".pt2") as file, _quiet():
        torch.export.save(program, file.name)
        size = os.path.getsize(file.name)
    return Way("torch.export", size, time.perf_counter() - start, _outputs(program.module()), "Python, torch")


def way_compiled() -> Way:
    """`torch.compile`, whose first call compiles; nothing to ship."""
    start = time.perf_counter()
    torch._dynamo.reset()
    model = small()
    compiled = torch.compile(model, dynamic=True)
    with torch.no_grad(), _quiet():
        compiled(torch.ones(3, WIDTH))
    model.load_state_dict(small().state_dict())  # the call that compiled is not counted
    return Way("torch.compile", None, time.perf_counter() - start, _outputs(compiled), "Python, torch, a compiler")


def way_aoti() -> Way:
    """The AOTInductor package, called from Python."""
    start = time.perf_counter()
    package = with_aoti(exported())
    with _quiet():
        model = torch._inductor.aoti_load_package(str(package))
    taken = time.perf_counter() - start
    return Way("AOTInductor", package.stat().st_size, taken, _outputs(model), "libtorch; no Python")


def way_onnx() -> Way:
    """The ONNX model in ONNX Runtime."""
    start = time.perf_counter()
    content = with_onnx(exported())
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    [name] = [one.name for one in session.get_inputs()]
    taken = time.perf_counter() - start
    run = _outputs(lambda x: session.run(None, {name: x.numpy()})[:2])
    return Way("ONNX Runtime", len(content), taken, run, "ONNX Runtime; no torch")


def way_executorch() -> Way:
    """The program in ExecuTorch's runtime."""
    start = time.perf_counter()
    content = with_executorch(exported())
    with _quiet():
        from executorch.runtime import Runtime

        loaded = Runtime.get().load_program(content)
        method = loaded.load_method("forward")
    assert method is not None

    def call(x: torch.Tensor, kept: Any = (content, loaded)) -> Any:
        # The method reads both, and keeps neither alive.
        return method.execute([x])

    run = _outputs(call)
    return Way("ExecuTorch", len(content), time.perf_counter() - start, run, "ExecuTorch; no torch")


WAYS: dict[str, Callable[[], Way]] = {
    "eager": way_eager,
    "torch.export": way_program,
    "torch.compile": way_compiled,
    "AOTInductor": way_aoti,
    "ONNX Runtime": way_onnx,
    "ExecuTorch": way_executorch,
}


def counts(way: Way, times: int = 3) -> tuple[list[int], list[int]]:
    """What the model says, call after call, of how often it was called: by `calls`, and by `scalar`."""
    found = [way.run(torch.ones(2, WIDTH))[1] for _ in range(times)]
    return [one[0] for one in found], [one[1] for one in found]


def right_for(way: Way, batch: int) -> str:
    """Whether a batch of this size gets the right answer: `right`, `WRONG`, or `refused`."""
    x = torch.randn(batch, WIDTH, generator=torch.Generator().manual_seed(batch))
    with torch.no_grad():
        wanted, _ = small()(x)
    try:
        with _quiet():
            found, _ = way.run(x)
    except Exception:  # every runtime has errors of its own
        return "refused"
    return "right" if torch.allclose(found, wanted, atol=1e-5) else "WRONG"


def compare(chosen: Sequence[Way], calls: int, *, repeats: int = 7) -> Table:
    """Sizes, times and what is kept, of each way.

    Args:
        chosen: the ways.
        calls: how many calls each timed run makes.
        repeats: timed runs of each, in turn.

    Raises:
        ValueError: there is nothing to compare, or no call to make.
    """
    if not chosen or calls < 1:
        raise ValueError(f"at least one way and one call are needed, not {len(chosen)} and {calls}")
    x = torch.ones(8, WIDTH)
    state = {one.name: counts(one) for one in chosen}

    def several(run: Run) -> Callable[[], None]:
        def go() -> None:
            for _ in range(calls):
                run(x)

        return go

    times = measure_interleaved({one.name: several(one.run) for one in chosen}, warmup=2, repeats=repeats)
    rows = [
        (
            one.name,
            NONE if one.size is None else format_bytes(one.size),
            format_seconds(one.preparing),
            format_seconds(times[one.name].minimum / calls),
            *(" ".join(map(str, counted)) for counted in state[one.name]),
            right_for(one, 1),
            right_for(one, LARGEST + 1),
            one.needs,
        )
        for one in chosen
    ]
    headings = ("way", "size", "first", "a call", "counts", "scalar", "batch 1", f"batch {LARGEST + 1}", "needs")
    return Table("One model, shipped in several ways", headings, rows)


def main(
    calls: Annotated[int, typer.Option(min=1, help="Calls in each timed run.")] = 200,
    without_cpp: Annotated[bool, typer.Option(help="Leave out what needs a C++ compiler.")] = False,
    without_ranks: Annotated[bool, typer.Option(help="Leave out the two processes.")] = False,
) -> None:
    """Package the small model of unit 7 in every way there is here, and print sizes, times and a profile."""
    torch.set_num_threads(1)
    console = Console()
    chosen = []
    for name, make in WAYS.items():
        if without_cpp and name in ("torch.compile", "AOTInductor"):
            continue
        try:
            chosen.append(make())
        except MissingError as error:
            console.print(f"{name} is left out. {error}")
    console.print(compare(chosen, calls))
    if not without_cpp:
        found = run_in_cpp(with_aoti(exported()), torch.ones(8, WIDTH), calls)
        console.print(
            f"The same package in C++: opened in {format_seconds(found.loading)}, a call takes "
            f"{format_seconds(found.call)}, and after {calls} calls its counters say {found.counted}."
        )
    if not without_ranks:
        from fxopt_workbench.internals.u7_ranks import together

        for one in together([6, 2]):
            console.print(
                f"rank {one.rank} of 2, {one.rows} rows: gradient off by {one.off_by:.2g}, "
                f"{one.weighed_off_by:.2g} once the loss is weighed"
            )
    console.print(
        profiled({f"way: {one.name}": partial(one.run, torch.ones(8, WIDTH)) for one in chosen}),
        markup=False,
        highlight=False,
        soft_wrap=True,
    )


if __name__ == "__main__":
    typer.run(main)
