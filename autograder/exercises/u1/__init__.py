"""The tasks of unit 1 of Inside PyTorch, architecture."""

from autograder.course.task import Task, WrittenTask

NOTEBOOK = "ex_11_architecture"

TASKS = (
    Task(
        name="tape_engine",
        unit="u1",
        notebook=NOTEBOOK,
        title="An engine with a tape",
        provides=("Value",),
        evidence="answer",
        without=("torch",),
        measured=("path by path", "keeps constants"),
        checklist=("autograd-mechanics",),
    ),
    Task(
        name="static_graph",
        unit="u1",
        notebook=NOTEBOOK,
        title="An engine with a graph",
        provides=("Graph", "gradients", "program"),
        evidence="artefact",
        without=("torch",),
        checklist=("autograd-mechanics",),
    ),
    Task(
        name="find_your_way",
        unit="u1",
        notebook=NOTEBOOK,
        title="Find your way",
        provides=("facts",),
        evidence="answer",
        checklist=("navigate-source",),
        imports=("yaml",),
    ),
    Task(
        name="layers_of_a_call",
        unit="u1",
        notebook=NOTEBOOK,
        title="The layers of a call",
        provides=("take_apart",),
        evidence="answer",
        checklist=("navigate-source", "debug-internals"),
        imports=("torch._dynamo",),
    ),
    Task(
        name="own_module",
        unit="u1",
        notebook=NOTEBOOK,
        title="A module framework of your own",
        provides=("Module", "Parameter", "Tensor"),
        evidence="answer",
        without=("torch",),
        measured=("state changed",),
        checklist=("debug-internals",),
    ),
)

WRITTEN = (
    WrittenTask(name="explain_two_engines", unit="u1", notebook=NOTEBOOK, title="What a graph makes easy, and hard"),
    WrittenTask(name="explain_first_place", unit="u1", notebook=NOTEBOOK, title="Where would you look first?"),
)
