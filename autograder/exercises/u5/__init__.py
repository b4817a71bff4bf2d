"""The tasks of unit 5 of Inside PyTorch, operators in C++."""

from autograder.course.task import Task, WrittenTask

NOTEBOOK = "ex_15_operators"

TASKS = (
    Task(
        name="longest_run",
        unit="u5",
        notebook=NOTEBOOK,
        title="A first operator",
        provides=("longest_run_source",),
        evidence="artefact",
        fresh=True,
        checklist=("cpp-extensions",),
    ),
    Task(
        name="soft_clip",
        unit="u5",
        notebook=NOTEBOOK,
        title="TensorIterator and vector code",
        provides=("soft_clip_source",),
        evidence="artefact",
        measured=("several passes",),
        fresh=True,
        checklist=("cpp-extensions",),
        compiles=True,
    ),
    Task(
        name="gaussian",
        unit="u5",
        notebook=NOTEBOOK,
        title="Gradients, and a kernel without data",
        provides=("gaussian_source",),
        evidence="artefact",
        measured=("opcheck fails",),
        fresh=True,
        checklist=("cpp-extensions",),
        imports=("torch._dynamo.backends.common",),
        compiles=True,
    ),
    Task(
        name="silu_dropout",
        unit="u5",
        notebook=NOTEBOOK,
        title="An activation and dropout in one loop",
        provides=("silu_dropout_source",),
        evidence="artefact",
        measured=(
            "several passes",
            "not tagged",
        ),
        fresh=True,
        checklist=("cpp-extensions",),
        compiles=True,
    ),
    Task(
        name="stable_decay",
        unit="u5",
        notebook=NOTEBOOK,
        title="Built once, for releases to come",
        provides=("stable_decay_source",),
        evidence="artefact",
        fresh=True,
        checklist=("cpp-extensions",),
    ),
)

WRITTEN = (
    WrittenTask(name="explain_two_bindings", unit="u5", notebook=NOTEBOOK, title="A function or an operator?"),
    WrittenTask(name="explain_new_release", unit="u5", notebook=NOTEBOOK, title="The next release breaks it"),
)
