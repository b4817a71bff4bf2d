"""What the workbench adds to `capture`: more methods, more ways for `auto`, and Dynamo's log in words."""

from fxopt_core.capture.extensions import Extension, Method
from fxopt_workbench.capturing.aot import capture_with_aot_autograd
from fxopt_workbench.capturing.explaining import explain
from fxopt_workbench.capturing.search import ways
from fxopt_workbench.capturing.symbolic import capture_with_symbolic_trace
from fxopt_workbench.torchscript.capture import capture_with_jit_script, capture_with_jit_trace

EXTENSION = Extension(
    methods={
        "symbolic_trace": Method(
            capture_with_symbolic_trace,
            'method="dynamo" breaks the graph at such a place instead of failing. Or take the decision on data out of '
            "the model, or express it as a tensor operation (torch.where).",
            compared=True,
        ),
        "aot": Method(
            capture_with_aot_autograd,
            'method="dynamo" captures without lowering to ATen, which tells whether Dynamo or AOTAutograd fails.',
        ),
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
    ways=ways,
    explain=explain,
)
"""Loaded through the entry-point group `fxopt.capture_strategies`."""
