"""The tasks of day 3, model graph extraction."""

from autograder.tasks import Task

NOTEBOOK = "ex_03_model_export"

TASKS = (
    Task(
        name="read_signature",
        day="day3",
        notebook=NOTEBOOK,
        title="Read the signature of an exported program",
        provides=("read_signature",),
        evidence="answer",
        withheld=("fxopt_core.capture",),
        checklist=("extract-graphs",),
    ),
    Task(
        name="capture_outcomes",
        day="day3",
        notebook=NOTEBOOK,
        title="Predict, then measure, which method captures which model",
        provides=("predictions", "measure_capture"),
        evidence="answer",
        withheld=("fxopt_core.capture", "fxopt_core.coverage"),
        checklist=("extract-graphs",),
    ),
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
        name="dynamic_export",
        day="day3",
        notebook=NOTEBOOK,
        title="Export with dynamic batch and length, honestly",
        provides=("export_reader",),
        evidence="artefact",
        withheld=("fxopt_core.capture",),
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
    Task(
        name="round_trip",
        day="day3",
        notebook=NOTEBOOK,
        title="A round trip through disk, in a fresh process",
        provides=("save_model", "make_loader"),
        evidence="trace",
        withheld=("fxopt_core.capture",),
        checklist=("extract-graphs",),
    ),
    Task(
        name="extract_any",
        day="day3",
        notebook=NOTEBOOK,
        title="Three kinds of model through one function",
        provides=("extract",),
        evidence="artefact",
        withheld=("fxopt_core.capture", "fxopt_core.coverage"),
        checklist=("extract-graphs",),
    ),
)
