"""The tasks of unit 3 of Inside PyTorch, the dispatcher."""

from autograder.course.task import Task, WrittenTask

NOTEBOOK = "ex_13_dispatcher"

TASKS = (
    Task(
        name="own_dispatcher",
        day="u3",
        notebook=NOTEBOOK,
        title="A dispatcher of your own",
        provides=("Dispatcher", "runtime_key", "below"),
        evidence="answer",
        without=("torch",),
        checklist=("debug-internals",),
    ),
    Task(
        name="predict_kernels",
        day="u3",
        notebook=NOTEBOOK,
        title="Which kernels run?",
        provides=("kernels",),
        evidence="answer",
        without=("torch",),
        checklist=("debug-internals",),
    ),
    Task(
        name="recording_mode",
        day="u3",
        notebook=NOTEBOOK,
        title="A mode that writes everything down",
        provides=("Recorder",),
        evidence="answer",
        checklist=("debug-internals",),
    ),
)

WRITTEN: tuple[WrittenTask, ...] = ()
