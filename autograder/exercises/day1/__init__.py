"""The tasks of day 1, the compile stack."""

from autograder.course.task import Task

NOTEBOOK = "ex_01_torch_compile_basics"

TASKS = (
    Task(
        name="record_graphs",
        day="day1",
        notebook=NOTEBOOK,
        title="Record every captured graph",
        provides=("GraphRecorder",),
        evidence="artefact",
        measured=(
            "example outputs baked in",
            "returned nothing callable",
        ),
        withheld=("fxopt_core.capture", "torch._dynamo.testing", "torch._dynamo.debug_utils"),
        checklist=("extract-graphs",),
        export="graphs",
    ),
    Task(
        name="operation_histogram",
        day="day1",
        notebook=NOTEBOOK,
        title="A histogram of operations over partitions",
        provides=("operation_histogram",),
        evidence="answer",
        withheld=("fxopt_core.capture",),
        checklist=("extract-graphs",),
        export="graphs",
    ),
    Task(
        name="remove_graph_breaks",
        day="day1",
        notebook=NOTEBOOK,
        title="Remove graph breaks",
        provides=("UnbrokenModel",),
        evidence="artefact",
        measured=("eager mode differs",),
        checklist=("explain-dynamo",),
    ),
    Task(
        name="stop_recompilations",
        day="day1",
        notebook=NOTEBOOK,
        title="Count compilations, then stop them",
        provides=("count_compilations", "compile_once"),
        evidence="artefact",
        withheld=("torch._dynamo.testing",),
        checklist=("explain-dynamo",),
    ),
    Task(
        name="measure_compile_cost",
        day="day1",
        notebook=NOTEBOOK,
        title="Measure compile cost against steady state",
        provides=("measure", "break_even_calls"),
        evidence="instrument",
        instrument=True,
        withheld=("fxopt_core.benchmark", "torch.utils.benchmark"),
        checklist=("profile-compilation",),
        export="measuring",
    ),
    Task(
        name="rewriting_backend",
        day="day1",
        notebook=NOTEBOOK,
        title="A backend that rewrites one operation",
        provides=("make_backend",),
        evidence="artefact",
        measured=(
            "compiled at every call",
            "compiled code thrown away",
            "example inputs not passed on",
            "forgot recompile",
            "returned nothing callable",
        ),
        checklist=("explain-dynamo",),
        export="backends",
    ),
)
