"""The tasks of unit 8 of Inside PyTorch, contributing."""

from autograder.course.task import Task, WrittenTask

NOTEBOOK = "ex_18_contributing"

TASKS = (
    Task(
        name="add_operator",
        unit="u8",
        notebook=NOTEBOOK,
        title="Add an operator",
        provides=("entries", "softcap_out"),
        evidence="answer",
        checklist=("navigate-source",),
        imports=("torchgen.gen",),
    ),
    Task(
        name="derivative_formula",
        unit="u8",
        notebook=NOTEBOOK,
        title="Its derivative",
        provides=("derivatives",),
        evidence="answer",
        checklist=("navigate-source", "autograd-mechanics"),
        imports=("torchgen.gen",),
    ),
    Task(
        name="operator_tests",
        unit="u8",
        notebook=NOTEBOOK,
        title="Its tests",
        provides=("sample_inputs", "reference"),
        evidence="answer",
        checklist=("debug-internals",),
    ),
    Task(
        name="first_bad_commit",
        unit="u8",
        notebook=NOTEBOOK,
        title="Who broke it?",
        provides=("first_bad",),
        evidence="instrument",
        instrument=True,
        checklist=("debug-internals",),
    ),
    Task(
        name="minimal_reproducer",
        unit="u8",
        notebook=NOTEBOOK,
        title="As small as it gets",
        provides=("shrink",),
        evidence="instrument",
        instrument=True,
        checklist=("debug-internals",),
    ),
)

WRITTEN = (
    WrittenTask(name="explain_commit_series", unit="u8", notebook=NOTEBOOK, title="A series that can be reviewed"),
    WrittenTask(name="explain_better_error", unit="u8", notebook=NOTEBOOK, title="An error message as a contribution"),
)
