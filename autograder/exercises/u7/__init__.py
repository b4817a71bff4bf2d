"""The tasks of unit 7 of Inside PyTorch, ecosystem and deployment."""

from autograder.course.task import Task, WrittenTask

NOTEBOOK = "ex_17_ecosystem"

TASKS = (
    Task(
        name="own_all_reduce",
        unit="u7",
        notebook=NOTEBOOK,
        title="An all-reduce of your own",
        provides=("all_reduce",),
        evidence="instrument",
        without=("torch",),
        instrument=True,
        checklist=("debug-internals",),
    ),
    Task(
        name="average_gradients",
        unit="u7",
        notebook=NOTEBOOK,
        title="Gradients of uneven batches",
        provides=("average_gradients",),
        evidence="instrument",
        without=("torch",),
        instrument=True,
        checklist=("debug-internals",),
    ),
    Task(
        name="own_exporter",
        unit="u7",
        notebook=NOTEBOOK,
        title="An exporter to ONNX",
        provides=("to_onnx",),
        evidence="artefact",
        fresh=True,
        withheld=(
            "torch.onnx._internal.exporter._core",
            "torch.onnx._internal.torchscript_exporter.utils",
        ),
        checklist=("navigate-source",),
        imports=("onnx", "onnxruntime"),
    ),
    Task(
        name="before_shipping",
        unit="u7",
        notebook=NOTEBOOK,
        title="What gets lost before it ships",
        provides=("losses",),
        evidence="answer",
        checklist=("debug-internals",),
        compiles=True,
    ),
)

WRITTEN = (
    WrittenTask(name="explain_choice_of_runtime", unit="u7", notebook=NOTEBOOK, title="Which runtime, and why"),
    WrittenTask(name="explain_slow_second_machine", unit="u7", notebook=NOTEBOOK, title="Two machines, no faster"),
)
