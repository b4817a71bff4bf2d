import pytest
import torch
from torch import nn

from fxopt_core.capture import CaptureError, capture
from fxopt_workbench.standalone import save_standalone
from fxopt_workbench.torchscript.script_graph import ScriptGraph


class Halves(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x):
        if bool(x.sum() > 0):
            x = torch.relu(x)
        return self.layer(x)


@pytest.mark.parametrize(
    ("method", "operations"),
    [("jit.trace", {"aten::relu": 1}), ("jit.script", {"prim::If": 1, "aten::relu": 1, "aten::sum": 1})],
)
def test_operations_are_counted_in_the_torchscript_graph(method, operations):
    captured = capture(Halves(), (torch.ones(2, 4),), method)
    assert captured.level == "torchscript"
    counts = captured.operation_counts()
    assert counts["aten::linear"] == 1
    assert {name: counts[name] for name in operations} == operations
    assert not {name for name in counts if name.startswith("prim::")} - {"prim::If"}
    (partition,) = captured.partitions
    assert isinstance(partition, ScriptGraph)
    assert [(one.source, one.shape) for one in partition.inputs] == [("x", (2, 4))]
    assert "deprecated" in captured.caveats[0]


@pytest.mark.parametrize("method", ["jit.trace", "jit.script"])
def test_a_torchscript_graph_is_never_taken_for_an_fx_graph(method, tmp_path):
    captured = capture(Halves(), (torch.ones(2, 4),), method)
    for use in (lambda: captured.graphs, lambda: save_standalone(captured, tmp_path / "graph.py")):
        with pytest.raises(CaptureError, match="TorchScript graph, which is not an FX graph") as raised:
            use()
        assert raised.value.method == method
        assert "script.save" in raised.value.advice
    assert list(tmp_path.iterdir()) == []


def test_a_function_with_keywords_can_be_traced():
    captured = capture(lambda x, y: x * 2 + y, {"y": torch.ones(2), "x": torch.zeros(2)}, "jit.trace")
    assert captured.run(torch.ones(2), torch.zeros(2)).tolist() == [2.0, 2.0]
