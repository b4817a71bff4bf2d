"""The tasks of unit 2 of Inside PyTorch, tensors."""

from autograder.course.task import Task, WrittenTask

NOTEBOOK = "ex_12_tensors"

TASKS = (
    Task(
        name="strided_tensor",
        unit="u2",
        notebook=NOTEBOOK,
        title="A strided tensor",
        provides=("Strided",),
        evidence="answer",
        without=("torch",),
        checklist=("debug-internals",),
    ),
    Task(
        name="view_strides",
        unit="u2",
        notebook=NOTEBOOK,
        title="When view must refuse",
        provides=("view",),
        evidence="answer",
        without=("torch",),
        checklist=("debug-internals",),
    ),
    Task(
        name="common_elements",
        unit="u2",
        notebook=NOTEBOOK,
        title="Do two views meet?",
        provides=("common_element", "touched_twice"),
        evidence="answer",
        without=("torch",),
        checklist=("debug-internals",),
    ),
    Task(
        name="memory_formats",
        unit="u2",
        notebook=NOTEBOOK,
        title="Which memory format is it?",
        provides=("channels_last_strides", "formats_that_fit", "suggested_format"),
        evidence="answer",
        without=("torch",),
        checklist=("navigate-source",),
    ),
    Task(
        name="broadcast_strides",
        unit="u2",
        notebook=NOTEBOOK,
        title="Broadcasting is a choice of strides",
        provides=("broadcast",),
        evidence="answer",
        without=("torch",),
        checklist=("debug-internals",),
    ),
    Task(
        name="inside_a_tensor",
        unit="u2",
        notebook=NOTEBOOK,
        title="Inside a tensor, from C++",
        provides=("inside_source",),
        evidence="artefact",
        fresh=True,
        checklist=("cpp-extensions", "debug-internals"),
    ),
)

WRITTEN = (
    WrittenTask(name="explain_slow_kernel", unit="u2", notebook=NOTEBOOK, title="Same elements, much slower"),
    WrittenTask(name="explain_gather", unit="u2", notebook=NOTEBOOK, title="Why x[rows] is a copy"),
)
