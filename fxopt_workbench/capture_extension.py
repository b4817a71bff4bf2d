"""What the workbench adds to `capture`: HuggingFace's adapters, the recorder as the last resort, and TorchScript."""

from fxopt_core.capture.extensions import Extension, Method
from fxopt_workbench.huggingface.adapters import adapted_models, returned_cache
from fxopt_workbench.huggingface.batch_pieces import opened
from fxopt_workbench.recording import capture_with_recorder
from fxopt_workbench.torchscript.capture import capture_with_jit_script, capture_with_jit_trace

EXTENSION = Extension(
    methods={
        "jit.trace": Method(
            capture_with_jit_trace,
            'method="export" gives a checked graph where this deprecated one fails.',
            takes_sizes=False,
            compared=True,
        ),
        "jit.script": Method(
            capture_with_jit_script,
            'TorchScript compiles a subset of Python; method="export" or method="dynamo" know more of it.',
            takes_sizes=False,
            compared=True,
        ),
    },
    last_resort={"recorder": capture_with_recorder},
    adapt=adapted_models,
    unreturnable=returned_cache,
    open_sizes=opened,
)
"""Loaded through the entry-point group `fxopt.capture_strategies`."""
