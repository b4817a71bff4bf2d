"""The tasks of day 4, Hugging Face models."""

from autograder.tasks import Task

NOTEBOOK = "ex_04_huggingface_integration"
IMPORTS = ("transformers.models.bert.modeling_bert", "transformers.models.gpt2.modeling_gpt2")

TASKS = (
    Task(
        name="text_to_bert",
        day="day4",
        notebook=NOTEBOOK,
        title="From text to a verified exported BERT",
        provides=("encode_texts", "export_bert", "greatest_difference"),
        evidence="artefact",
        withheld=("fxopt_core.capture", "fxopt_core.verification"),
        checklist=("huggingface-models",),
        imports=IMPORTS,
    ),
)
