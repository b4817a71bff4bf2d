"""The tasks of unit 6 of Inside PyTorch, memory and profiling."""

from autograder.course.task import Task, WrittenTask

NOTEBOOK = "ex_16_memory"

TASKS = (
    Task(
        name="caching_allocator",
        unit="u6",
        notebook=NOTEBOOK,
        title="A caching allocator",
        provides=("CachingAllocator",),
        evidence="answer",
        without=("torch",),
        checklist=("debug-internals",),
    ),
    Task(
        name="read_snapshot",
        unit="u6",
        notebook=NOTEBOOK,
        title="Reserved, and yet out of memory",
        provides=("report", "serves"),
        evidence="answer",
        without=("torch",),
        checklist=("debug-internals",),
    ),
    Task(
        name="peak_memory",
        unit="u6",
        notebook=NOTEBOOK,
        title="The peak of a training step",
        provides=("peak",),
        evidence="answer",
        withheld=("fxopt_core.costs", "torch._inductor.memory", "torch._inductor.fx_passes.memory_estimator"),
        checklist=("debug-internals",),
        imports=(
            "torch._dynamo",
            "torch._decomp.decompositions",
            "torch._refs",
            "torch.fx.experimental.symbolic_shapes",
            "torch.fx.experimental.proxy_tensor",
        ),
        compiles=True,
    ),
    Task(
        name="find_leak",
        unit="u6",
        notebook=NOTEBOOK,
        title="Find the leak",
        provides=("find_leak",),
        evidence="answer",
        without=("torch",),
        checklist=("debug-internals",),
    ),
    Task(
        name="read_trace",
        unit="u6",
        notebook=NOTEBOOK,
        title="Name the bottleneck",
        provides=("diagnose",),
        evidence="answer",
        without=("torch",),
        checklist=("debug-internals",),
    ),
)

WRITTEN = (
    WrittenTask(name="explain_oom", unit="u6", notebook=NOTEBOOK, title="Out of memory after an hour"),
    WrittenTask(name="explain_trace", unit="u6", notebook=NOTEBOOK, title="What mixed precision would change"),
)
