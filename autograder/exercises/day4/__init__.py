"""The tasks of day 4, Hugging Face models."""

from autograder.course.task import Task

NOTEBOOK = "ex_04_huggingface_integration"
IMPORTS = ("transformers.models.bert.modeling_bert", "transformers.models.gpt2.modeling_gpt2")

TASKS = (
    Task(
        name="text_to_bert",
        unit="day4",
        notebook=NOTEBOOK,
        title="From text to a verified exported BERT",
        provides=("encode_texts", "export_bert", "greatest_difference"),
        evidence="artefact",
        withheld=("fxopt_core.capture", "fxopt_core.verification"),
        checklist=("huggingface-models",),
        imports=IMPORTS,
    ),
    Task(
        name="find_attention",
        unit="day4",
        notebook=NOTEBOOK,
        title="Find every attention block by its structure",
        provides=("find_attention",),
        evidence="answer",
        withheld=(
            "fxopt_core.passes.attention_fusion",
            "fxopt_core.passes.attention_reading",
            "fxopt_workbench.structure",
            "fxopt_core.graphs.matching",
        ),
        checklist=("huggingface-models", "extract-graphs"),
        imports=IMPORTS,
        export="graphs",
    ),
    Task(
        name="fuse_attention",
        unit="day4",
        notebook=NOTEBOOK,
        title="Replace attention that is written out by SDPA",
        provides=("fuse_attention",),
        evidence="artefact",
        measured=("forgot recompile",),
        withheld=(
            "fxopt_core.passes.attention_fusion",
            "fxopt_core.passes.attention_reading",
            "fxopt_core.optimizer",
        ),
        checklist=("huggingface-models", "write-passes"),
        imports=IMPORTS,
    ),
    Task(
        name="layer_costs",
        unit="day4",
        notebook=NOTEBOOK,
        title="What each layer costs, counted and by formula",
        provides=("layer_formula", "layer_costs"),
        evidence="answer",
        withheld=("fxopt_core.costs", "torch.utils.flop_counter"),
        checklist=("huggingface-models",),
        imports=IMPORTS,
    ),
    Task(
        name="dynamic_gpt2",
        unit="day4",
        notebook=NOTEBOOK,
        title="GPT-2 compiled once for every batch and length",
        provides=("compile_gpt2",),
        evidence="artefact",
        measured=("no states",),
        withheld=("torch._dynamo.testing",),
        checklist=("huggingface-models", "explain-dynamo"),
        imports=(*IMPORTS, "torch._dynamo", "torch.fx.experimental.symbolic_shapes"),
    ),
    Task(
        name="compile_profile",
        unit="day4",
        notebook=NOTEBOOK,
        title="What compiling costs, what it gives, and when it pays",
        provides=("compile_profile", "break_even", "cheapest"),
        evidence="instrument",
        instrument=True,
        withheld=("fxopt_core.benchmark", "torch.utils.benchmark"),
        checklist=("profile-compilation",),
        imports=IMPORTS,
    ),
)
