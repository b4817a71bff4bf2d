"""The tasks of day 2, FX graphs."""

from autograder.tasks import Task

NOTEBOOK = "ex_02_fx_graph_manipulation"

TASKS = (
    Task(
        name="walk_graph",
        day="day2",
        notebook=NOTEBOOK,
        title="Shared values and the critical path",
        provides=("shared_values", "critical_path"),
        evidence="answer",
        checklist=("extract-graphs",),
    ),
    Task(
        name="replace_relu",
        day="day2",
        notebook=NOTEBOOK,
        title="Replace an activation in all its forms",
        provides=("replace_relu",),
        evidence="artefact",
        checklist=("write-passes",),
    ),
    Task(
        name="remove_dead_code",
        day="day2",
        notebook=NOTEBOOK,
        title="Remove what nobody needs",
        provides=("remove_dead_code",),
        evidence="artefact",
        withheld=("fxopt_core.passes.dead_code",),
        checklist=("write-passes",),
    ),
    Task(
        name="merge_duplicates",
        day="day2",
        notebook=NOTEBOOK,
        title="Compute once what is computed twice",
        provides=("find_duplicates", "merge_duplicates"),
        evidence="artefact",
        withheld=(
            "fxopt_core.passes.common_subexpressions",
            "torch.fx.passes.dialect.common.cse_pass",
            "torch._functorch.compile_utils",
        ),
        checklist=("write-passes",),
    ),
    Task(
        name="fold_constants",
        day="day2",
        notebook=NOTEBOOK,
        title="Compute beforehand what never changes",
        provides=("fold_constants",),
        evidence="artefact",
        withheld=("fxopt_core.passes.constant_folding", "torch.fx.experimental.const_fold"),
        checklist=("write-passes",),
    ),
    Task(
        name="fold_batchnorm",
        day="day2",
        notebook=NOTEBOOK,
        title="Fold a BatchNorm into the convolution before it",
        provides=("folded_weights", "fold_batchnorm"),
        evidence="artefact",
        withheld=(
            "fxopt_core.passes.conv_batchnorm_folding",
            "fxopt_core.passes.batchnorm_arithmetic",
            "torch.nn.utils.fusion",
            "torch.fx.experimental.optimization",
        ),
        checklist=("write-passes",),
    ),
    Task(
        name="write_a_pass",
        day="day2",
        notebook=NOTEBOOK,
        title="Make it a pass",
        provides=("MergePass",),
        evidence="artefact",
        withheld=("fxopt_core.passes.common_subexpressions",),
        checklist=("write-passes",),
    ),
)
