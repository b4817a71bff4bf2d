"""What a node may call: functions, methods and attributes that reach something else are refused by name."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hostile_graphs import assign, node, refused

from autograder.exchange.graph_form.targets import ATTRIBUTES, decode_function, functions, methods

FUNCTIONS = [
    "os.system", "posix.system", "subprocess.run", "builtins.eval", "builtins.exec", "builtins.open",
    "builtins.__import__", "builtins.setattr", "builtins.compile", "builtins.type", "builtins.globals",
    "builtins.print", "builtins.input", "operator.attrgetter", "operator.methodcaller", "operator.itemgetter",
    "operator.call", "torch.load", "torch.save", "torch.hub.load", "torch.jit.load", "torch.jit.script",
    "torch.compile", "torch.from_file", "torch.frombuffer", "torch.vmap", "torch.package.PackageImporter",
    "torch.classes.load_library", "torch.ops.load_library", "torch.ops.import_module",
    "torch.utils.cpp_extension.load_inline", "torch.storage._load_from_bytes", "torch.set_default_dtype",
    "torch.fork", "torch.import_ir_module", "torch.set_num_threads", "torch.manual_seed", "torch.cond",
    "torch.sparse_csr_tensor", "torch.func.grad", "torch.utils.checkpoint.checkpoint", "torch.Tensor",
    "torch.Tensor.numpy", "torch._C._jit_init", "torch.nn.functional.torch", "torch.nn.functional.importlib",
    "torch.nn.functional.Callable", "torch.linalg.sys", "torch.nn.functional.triplet_margin_with_distance_loss",
    "torch.nn.functional._verify_batch_size", "torch.ops.aten.from_file.default", "torch.ops.aten.save.default",
    "torch.ops.aten.save", "torch.ops.aten.set_.source_Storage", "torch.ops.aten.set_",
    "torch.ops.aten.set_data.default", "torch.ops.aten._sparse_coo_tensor_unsafe.default",
    "torch.ops.aten.__class__", "torch.ops.aten.add.__class__", "torch.ops.aten.add.Tensor.op", "torch.ops.aten",
    "torch.ops.prim.Print.default", "torch.ops.mkldnn.data_ptr.default",
    "torch.ops.inductor.resize_storage_bytes_.default", "torch.ops.symm_mem.get_remote_tensors.default",
    "torch.ops.higher_order.triton_kernel_wrapper_mutation", "torch.ops.higher_order.print",
    "torch.ops.higher_order.__class__", "torch.relu.__self__", "math.__loader__", "relu", "", None, 0,
    ["torch.relu"], {"torch.relu": 1}, "torch.relu\n", " torch.relu", "x" * 10_000,
]  # fmt: skip


@pytest.mark.parametrize("target", FUNCTIONS, ids=lambda target: ascii(target)[:60])
def test_functions_that_only_attackers_call(target: Any):
    refused(assign("relu", "target", target), "node 'relu': the function .* is not on the allow-list")


def test_every_function_of_the_allow_list_is_a_plain_function_of_a_known_place():
    places = {name.rpartition(".")[0] for name in functions()}
    assert {place.partition(".")[0] for place in places} == {"torch", "operator", "math", "builtins"}
    for name, function in functions().items():
        assert callable(function)
        assert "__" not in name
        assert decode_function(name, "") is function
    for word in (
        "load",
        "save",
        "file",
        "open",
        "exec",
        "eval",
        "import",
        "compile",
        "script",
        "fork",
        "pickle",
        "hub",
        "storage",
    ):
        found = {name.rpartition(".")[2] for name in functions() if word in name.rpartition(".")[2].split("_")}
        assert found <= {"lazy_load_decompositions"}, word
        assert word not in methods()


METHODS = [
    "numpy", "data_ptr", "const_data_ptr", "storage", "untyped_storage", "share_memory_", "apply_", "map_",
    "map2_", "register_hook", "register_post_accumulate_grad_hook", "backward", "set_", "new", "module_load",
    "as_subclass", "to_sparse", "to_mkldnn", "cuda", "record_stream", "retain_grad", "__reduce__", "__reduce_ex__",
    "__class__", "__getattribute__", "__array__", "__dlpack__", "_typed_storage", "_make_subclass", "format",
    "shape", "relu.__self__", "relu(); import os", "", None, 0,
]  # fmt: skip


@pytest.mark.parametrize("target", METHODS, ids=lambda target: ascii(target))
def test_methods_that_only_attackers_call(target: Any):
    refused(assign("add_", "target", target), "node 'add_': the method .* is not on the allow-list")


@pytest.mark.parametrize("value", ["text {0.__class__}", 3, None, [{"node": "relu"}]])
def test_methods_are_called_on_nodes_only(value: Any):
    refused(assign("add_", "args", [value]), "first argument of a method is the node")


@pytest.mark.parametrize(
    "name",
    [
        "__globals__",
        "__class__",
        "__dict__",
        "grad_fn",
        "_backward_hooks",
        "register_hook",
        "numpy",
        "names",
        "shape.x",
        "",
    ],
)
def test_getattr_escapes(name: str):
    assert name not in ATTRIBUTES
    refused(assign("getattr_1", "args", [{"node": "linear"}, name]), "may not be read")


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [
        ([{"node": "linear"}, {"node": "relu"}], {}),
        ([{"node": "linear"}], {}),
        ([], {}),
        ([{"node": "linear"}, "shape", None], {}),
        ([{"node": "linear"}, "shape"], {"default": 1}),
        (["text", "shape"], {}),
        ([{"node": "linear"}, {"tuple": ["shape"]}], {}),
    ],
)
def test_getattr_takes_a_node_and_a_literal_name(args: Any, kwargs: Any):
    def change(document: dict[str, Any], tensors: dict[str, torch.Tensor]) -> None:
        node(document, "getattr_1").update(args=args, kwargs=kwargs)

    refused(change, "getattr takes a node and the name of an attribute")
