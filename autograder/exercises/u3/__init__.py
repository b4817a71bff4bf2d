"""The tasks of unit 3 of Inside PyTorch, the dispatcher."""

from autograder.course.task import Task, WrittenTask

NOTEBOOK = "ex_13_dispatcher"

TASKS = (
    Task(
        name="own_dispatcher",
        unit="u3",
        notebook=NOTEBOOK,
        title="A dispatcher of your own",
        provides=("Dispatcher", "runtime_key", "below"),
        evidence="answer",
        without=("torch",),
        checklist=("debug-internals",),
    ),
    Task(
        name="predict_kernels",
        unit="u3",
        notebook=NOTEBOOK,
        title="Which kernels run?",
        provides=("kernels",),
        evidence="answer",
        without=("torch",),
        checklist=("debug-internals",),
    ),
    Task(
        name="recording_mode",
        unit="u3",
        notebook=NOTEBOOK,
        title="A mode that writes everything down",
        provides=("Recorder",),
        evidence="answer",
        checklist=("debug-internals",),
        imports=("torch._dynamo",),
    ),
    Task(
        name="toy_backend",
        unit="u3",
        notebook=NOTEBOOK,
        title="A device of your own",
        provides=("Fixed",),
        evidence="answer",
        checklist=("debug-internals",),
    ),
    Task(
        name="composite_or_explicit",
        unit="u3",
        notebook=NOTEBOOK,
        title="One formula, two operators",
        provides=("define", "seen_by_each_stage"),
        evidence="answer",
        measured=(
            *("open is opaque", "open is not composite", "whole is taken apart", "not compiled", "no formula"),
            *("other schema", "no meta", "other shape on meta", "input handed back on meta"),
        ),
        checklist=("debug-internals",),
        imports=("torch._dynamo.backends.common",),
        compiles=True,
    ),
)

WRITTEN = (
    WrittenTask(name="explain_unexpected_key", unit="u3", notebook=NOTEBOOK, title="An error that names a key"),
    WrittenTask(name="explain_new_backend", unit="u3", notebook=NOTEBOOK, title="What a new backend has to write"),
)
