"""What a warm process does once, so that no task's process needs to: imports, and first uses of the compiler.

PyTorch's compiler imports parts of itself, and fills tables, when it is first used; a task that compiles one small
function spends most of its time on that. A forked process finds done what was done before the fork. Nothing here may
be seen by a learner's code afterwards: compiled code is forgotten, counters are set back, no random number is drawn.
"""

from __future__ import annotations

import logging
import sys
import warnings
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr, redirect_stdout, suppress
from functools import partial
from importlib import import_module
from io import StringIO

import autograder
from autograder.course.task import Task
from autograder.course.tasks import all_tasks, capstone_tasks
from autograder.learner_side.withheld import WithheldImportError
from autograder.learner_side.worker import describe_error

COURSE = (
    "fxopt_workbench",
    "fxopt_core.graphs",
    "fxopt_core.verification",
    "fxopt_core.costs",
    "fxopt_core.capture",
    "fxopt_core.passes",
    "fxopt_core.optimizer",
    "fxopt_workbench.structure",
    "fxopt_workbench.pictures",
    "fxopt_workbench.results",
)
"""Packages of the course that cells and probes of tasks that compile import, as far as no task withholds them."""


def tasks_in_view() -> list[Task]:
    """The tasks whose folders are in the view."""
    return [task for task in (*all_tasks(), *capstone_tasks().values()) if (task.folder / "visible.py").is_file()]


def import_ahead(tasks: Sequence[Task]) -> None:
    """Import the learner's tools, the probes of tasks, what they import, and our packages where a task compiles."""
    for tool in autograder.__all__:  # every notebook's first cell asks for some of them
        getattr(autograder, tool)
    withheld = {name for task in tasks for name in task.withheld}
    course = COURSE if any(task.compiles for task in tasks) else ()
    names = [name for name in course if not any(f"{name}.".startswith(f"{other}.") for other in withheld)]
    names += [name for task in tasks for name in task.imports]
    names += [f"{task.module}.visible" for task in tasks]
    for name in dict.fromkeys(names):
        # A package whose part is withheld may not be importable; whoever needs it is told so then.
        with suppress(ImportError, AttributeError):
            import_module(name)


def make_ahead(tasks: Sequence[Task]) -> None:
    """Let the probes make what they are going to need for their visible cases, where that takes long: `make_ahead`."""
    for task in tasks:
        make = getattr(sys.modules.get(f"{task.module}.visible"), "make_ahead", None)
        if make is not None:
            import torch

            # What is made has seeds of its own; whatever it draws besides is put back.
            with torch.random.fork_rng(devices=[]):
                make()


def first_uses() -> None:
    """Use each way into PyTorch's compiler once, then forget what came of it."""
    import torch
    import torch._dynamo
    from torch._dynamo.utils import counters
    from torch.fx.experimental.proxy_tensor import make_fx

    class Small(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = torch.nn.Linear(2, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.relu(self.linear(x)) + x.sum()

    def broken(x: torch.Tensor) -> torch.Tensor:
        if x.sum() > 0:
            return x + 1
        return x - 1

    def as_it_is(graph: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> Callable[..., object]:
        return graph.forward

    def look_up_effects() -> None:
        from fxopt_core.graphs.effects import effects_of

        # Tables of what each function and operator of PyTorch does.
        for graph in (torch.fx.symbolic_trace(model).graph, make_fx(model)(example).graph):
            for node in graph.nodes:
                effects_of(node)

    def export() -> None:
        batch = torch.export.Dim("batch", min=2)
        torch.export.export(model, (example,), dynamic_shapes={"x": {0: batch}}).run_decompositions()

    state = torch.random.get_rng_state()
    model, example = Small(), torch.ones(3, 2)
    uses: list[Callable[[], object]] = [
        lambda: torch.fx.symbolic_trace(model)(example),
        lambda: model(example).sum().backward(),
        lambda: make_fx(model)(example),
        *(partial(torch.compile(model, backend=as_it_is, dynamic=dynamic), example) for dynamic in (False, True)),
        lambda: torch.compile(broken, backend=as_it_is)(example),
        lambda: torch.compile(model, backend="aot_eager")(example),
        export,
        look_up_effects,
    ]
    for use in uses:
        try:
            use()
        except Exception as error:
            # What a task withholds PyTorch may need, too: then this use is none in these tasks.
            if not isinstance(error, ImportError) and describe_error(error)["raised"] != WithheldImportError.__name__:
                raise
    torch._dynamo.reset()
    counters.clear()
    torch.random.set_rng_state(state)


def rehearse() -> None:
    """Do all of it, silently. What fails here fails again where it matters, and is reported there."""
    silent = StringIO()
    with warnings.catch_warnings(), redirect_stdout(silent), redirect_stderr(silent):
        warnings.simplefilter("ignore")
        tasks = tasks_in_view()
        import_ahead(tasks)
        level = logging.root.manager.disable
        logging.disable(logging.CRITICAL)
        try:
            make_ahead(tasks)
            if any(task.compiles for task in tasks):
                first_uses()
        finally:
            logging.disable(level)
