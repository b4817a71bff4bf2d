"""The tasks of day 0, start here."""

from autograder.course.task import Task

NOTEBOOK = "ex_00_shapes_and_graphs"

TASKS = (
    Task(
        name="conv_output_shape",
        unit="day0",
        notebook=NOTEBOOK,
        title="The output shape of a convolution",
        provides=("conv_output_shape",),
        evidence="answer",
        without=("torch",),
        checklist=("shapes-and-graphs",),
        export="shapes",
    ),
    Task(
        name="count_parameters",
        unit="day0",
        notebook=NOTEBOOK,
        title="Counting parameters",
        provides=("count_parameters",),
        evidence="answer",
        without=("torch",),
        checklist=("shapes-and-graphs",),
        export="shapes",
    ),
    Task(
        name="memory_layout",
        unit="day0",
        notebook=NOTEBOOK,
        title="Strides and positions",
        provides=("strides_of", "position"),
        evidence="answer",
        without=("torch",),
        checklist=("shapes-and-graphs",),
        export="shapes",
    ),
    Task(
        name="check_stack",
        unit="day0",
        notebook=NOTEBOOK,
        title="Do these layers fit?",
        provides=("shapes_through",),
        evidence="answer",
        without=("torch",),
        checklist=("shapes-and-graphs",),
        export="shapes",
    ),
    Task(
        name="build_mlp",
        unit="day0",
        notebook=NOTEBOOK,
        title="A graph, node by node",
        provides=("build_mlp",),
        evidence="artefact",
        measured=("changed the layers",),
        withheld=(
            "fxopt_core.capture",
            "torch.fx._symbolic_trace.symbolic_trace",
            "torch.fx._symbolic_trace.Tracer.trace",
        ),
        checklist=("shapes-and-graphs", "extract-graphs"),
    ),
    Task(
        name="run_graph",
        unit="day0",
        notebook=NOTEBOOK,
        title="Run a graph yourself",
        provides=("run_graph",),
        evidence="answer",
        withheld=("torch.fx.interpreter",),
        checklist=("shapes-and-graphs", "extract-graphs"),
        export="graphs",
    ),
)
