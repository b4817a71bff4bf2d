"""The tasks of day 3, model graph extraction."""

from autograder.tasks import Task

NOTEBOOK = "ex_03_model_export"

TASKS = (
    Task(
        name="silent_mistake",
        day="day3",
        notebook=NOTEBOOK,
        title="Find the input on which a trace is silently wrong",
        provides=("find_silent_mistake",),
        evidence="artefact",
        withheld=("fxopt_core.capture", "fxopt_core.verification"),
        checklist=("extract-graphs",),
    ),
    Task(
        name="exportable_control_flow",
        day="day3",
        notebook=NOTEBOOK,
        title="Make control flow on data exportable",
        provides=("ExportableModel",),
        evidence="artefact",
        checklist=("extract-graphs",),
    ),
)
