"""The tasks of unit 4 of Inside PyTorch, autograd."""

from autograder.course.task import Task, WrittenTask

NOTEBOOK = "ex_14_autograd"

TASKS = (
    Task(
        name="own_engine",
        unit="u4",
        notebook=NOTEBOOK,
        title="Run the recorded graph yourself",
        provides=("run_backward",),
        evidence="answer",
        measured=(
            "recorded the backward pass",
            "closed to autograd",
            "autograd left off",
            "autograd left off after an error",
            "autograd switched on",
            "an error hidden",
        ),
        checklist=("autograd-mechanics",),
    ),
    Task(
        name="in_place_errors",
        unit="u4",
        notebook=NOTEBOOK,
        title="The error that raises, and the one that doesn't",
        provides=("diagnose",),
        evidence="answer",
        measured=("leaves touched",),
        checklist=("autograd-mechanics", "debug-internals"),
    ),
    Task(
        name="custom_function",
        unit="u4",
        notebook=NOTEBOOK,
        title="A derivative of your own",
        provides=("Quantize",),
        evidence="answer",
        measured=("no function", "not noticed", "input overwritten"),
        checklist=("autograd-mechanics",),
        imports=("torch._dynamo",),
    ),
    Task(
        name="checkpointing",
        unit="u4",
        notebook=NOTEBOOK,
        title="Keep less, compute twice",
        provides=("checkpoint",),
        evidence="answer",
        measured=(
            "nothing computed again",
            "inner results kept",
            "computed again and again",
            "computed again too early",
        ),
        withheld=("torch.utils.checkpoint",),
        checklist=("autograd-mechanics",),
    ),
    Task(
        name="forward_mode",
        unit="u4",
        notebook=NOTEBOOK,
        title="Forwards",
        provides=("Dual", "jvp_by_two_backward_passes"),
        evidence="answer",
        measured=("an input touched",),
        withheld=(
            "torch.autograd.forward_ad.make_dual",
            "torch.autograd.functional.jacobian",
            "torch.autograd.functional.jvp",
            "torch._functorch.eager_transforms._jvp_with_argnums",
            "torch._functorch.eager_transforms.linearize",
        ),
        checklist=("autograd-mechanics",),
    ),
)

WRITTEN = (
    WrittenTask(name="explain_lost_gradient", unit="u4", notebook=NOTEBOOK, title="The gradient that never came"),
    WrittenTask(name="explain_direction", unit="u4", notebook=NOTEBOOK, title="Forwards or backwards?"),
)
