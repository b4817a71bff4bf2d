"""The tasks of day 5, review: one program for each interview question, and the whole pipeline."""

from autograder.course.task import Task, WrittenTask

NOTEBOOK = "ex_05_end_to_end_pipeline"

TASKS = (
    Task(
        name="recompile_log",
        unit="day5",
        notebook=NOTEBOOK,
        title="Which guard failed, and what was compiled again?",
        provides=("recompile_log",),
        evidence="answer",
        withheld=("fxopt_core.capture", "torch._dynamo.testing"),
        checklist=("explain-dynamo",),
        compiles=True,
    ),
    Task(
        name="branch_evidence",
        unit="day5",
        notebook=NOTEBOOK,
        title="Tracing or scripting?",
        provides=("branch_evidence",),
        evidence="answer",
        withheld=("fxopt_core.capture", "fxopt_workbench.huggingface.coverage"),
        checklist=("extract-graphs",),
        compiles=True,
    ),
    Task(
        name="insert_after",
        unit="day5",
        notebook=NOTEBOOK,
        title="Change a graph",
        provides=("insert_after",),
        evidence="artefact",
        withheld=("fxopt_core.passes",),
        checklist=("write-passes",),
        compiles=True,
    ),
    Task(
        name="dynamic_sizes",
        unit="day5",
        notebook=NOTEBOOK,
        title="Which sizes may vary?",
        provides=("dynamic_sizes",),
        evidence="answer",
        withheld=("fxopt_core.capture",),
        checklist=("extract-graphs",),
        compiles=True,
    ),
    Task(
        name="pipeline",
        unit="day5",
        notebook=NOTEBOOK,
        title="The whole pipeline",
        provides=("pipeline",),
        evidence="artefact",
        instrument=True,
        measured=("range with an end",),
        withheld=("fxopt_core.optimizer", "fxopt_core.verification", "fxopt_core.benchmark"),
        seconds=120.0,
        checklist=("extract-graphs", "write-passes", "profile-compilation"),
        compiles=True,
    ),
    Task(
        name="choose_engine",
        unit="day5",
        notebook=NOTEBOOK,
        title="Choose an engine honestly",
        provides=("choose_engine",),
        evidence="instrument",
        instrument=True,
        withheld=("fxopt_workbench.engines", "fxopt_core.benchmark"),
        checklist=("profile-compilation",),
        compiles=True,
    ),
)

WRITTEN = (
    WrittenTask(
        name="deep_dive",
        unit="day5",
        notebook=NOTEBOOK,
        title="A technical deep dive",
        checklist=("technical-deep-dive",),
    ),
    WrittenTask(
        name="answer_compile",
        unit="day5",
        notebook=NOTEBOOK,
        title="How torch.compile works",
        checklist=("explain-dynamo",),
    ),
    WrittenTask(name="answer_tracing", unit="day5", notebook=NOTEBOOK, title="Tracing and scripting"),
    WrittenTask(name="answer_extract", unit="day5", notebook=NOTEBOOK, title="A graph from an arbitrary model"),
    WrittenTask(name="answer_graph", unit="day5", notebook=NOTEBOOK, title="What an FX graph is made of"),
    WrittenTask(name="answer_dynamic", unit="day5", notebook=NOTEBOOK, title="Dynamic shapes"),
)
