import copy
import logging
import random

import pytest
import torch
from capture_models import BreaksInAHelper, Counting, LeavesAFunctionOut, Nested, PrintsInALoop, ThreeBreaks, line_of
from torch import nn

from fxopt_core import GraphOptimizer
from fxopt_core.capture import GraphExtractor, capture
from fxopt_core.capture.dynamo_log import without_repeated_warnings
from fxopt_core.capture.sources import readable_source


@pytest.fixture(scope="module")
def three_breaks():
    torch.manual_seed(0)
    return capture(ThreeBreaks().eval(), (torch.ones(2, 4),))


def test_each_break_separates_two_graphs(three_breaks):
    assert len(three_breaks.graphs) == 4
    assert [graph_break.line for graph_break in three_breaks.graph_breaks] == [
        line_of("PRINT"),
        line_of("ITEM"),
        line_of("BRANCH"),
    ]


def test_a_break_says_what_where_and_in_which_line(three_breaks):
    printing, item, branch = three_breaks.graph_breaks
    assert "`print`" in printing.reason
    assert "[GB0059]" in printing.reason
    assert printing.documentation.startswith("https://")
    assert any("print" in hint for hint in printing.hints)
    assert printing.file.endswith("capture_models.py")
    assert printing.source == 'print("halfway")  # PRINT'
    assert "Tensor.item()" in item.reason
    assert item.source.startswith("total = x.sum().item()")
    assert "Data-dependent branching" in branch.reason
    assert branch.source.startswith("if x.mean() > 0:")
    assert all(len(one.reason.splitlines()) == 1 for one in three_breaks.graph_breaks)
    assert not any(one.skips_function for one in three_breaks.graph_breaks)


def test_operation_counts_agree_with_reading_the_code(three_breaks):
    by_partition = [dict(counts) for counts in three_breaks.operation_counts_by_partition()]
    assert by_partition[0] == {"linear": 1, "add": 1}
    assert by_partition[1] == {"method:sum": 1}
    assert by_partition[2] == {"mul": 1, "method:mean": 1, "gt": 1}
    assert by_partition[3] in ({"relu": 1, "sub": 1}, {"sub": 1})
    assert three_breaks.operation_counts().total() == sum(sum(counts.values()) for counts in by_partition)


def test_placeholders_are_named_after_what_they_stand_for(three_breaks):
    inputs = {one.source: one for one in three_breaks.partitions[0].inputs}
    assert set(inputs) == {"self.layer.weight", "self.layer.bias", "x"}
    assert inputs["self.layer.weight"].kind == "parameter"
    assert inputs["self.layer.weight"].shape == (4, 4)
    assert (inputs["x"].kind, inputs["x"].shape, inputs["x"].dtype) == ("input", (2, 4), "float32")
    names = [node.name for node in three_breaks.graphs[0].graph.nodes if node.op == "placeholder"]
    assert [one.name for one in three_breaks.partitions[0].inputs] == names


def test_guards_speak_of_batch_size_type_and_line(three_breaks):
    on_input = three_breaks.guards[0]
    assert on_input.expression.startswith("x: Tensor, torch.float32")
    assert "size=[2, 4]" in on_input.expression
    assert on_input.kind == "TENSOR_MATCH"
    assert "linear" in on_input.source
    on_model = [guard for guard in three_breaks.guards if guard.expression.startswith("type(self) is")]
    assert [guard.expression for guard in on_model] == ["type(self) is capture_models.ThreeBreaks"]
    assert on_model[0].source == "x = self.layer(x) + 1"
    assert on_model[0].location.endswith(f"capture_models.py:{line_of('PRINT') - 1} in forward")


def test_guards_of_two_captures_are_equal_so_no_address_is_in_them():
    model = ThreeBreaks().eval()
    first, second = ([guard.expression for guard in capture(model, (torch.zeros(2, 4),)).guards] for _ in range(2))
    assert first == second
    assert any(expression.startswith("type(self) is ") for expression in first)


@pytest.mark.parametrize(
    ("source", "readable"),
    [
        ("L['self']._modules['fc']._parameters['weight']", "self.fc.weight"),
        ("L['self']._modules['layers']._modules['0']._buffers['mask']", "self.layers.0.mask"),
        ("L['x']", "x"),
        ("L['options']['scale']", "options['scale']"),
        ("G['__import_torch_dot_nn_dot_functional'].relu", "torch.nn.functional.relu"),
        ("G['__builtins_dict___15']['print']", "print"),
        ("L['___stack0']", "value 0 before the graph break"),
    ],
)
def test_sources_are_written_as_the_user_writes_them(source, readable):
    assert readable_source(source) == readable


def test_several_graphs_come_with_a_caveat(three_breaks):
    assert any("4 graphs" in caveat and "Python code between them" in caveat for caveat in three_breaks.caveats)
    assert not any("Python code" in caveat for caveat in capture(nn.ReLU(), (torch.ones(2),)).caveats)


def test_a_function_that_dynamo_gives_up_is_reported_though_dynamo_lists_no_reason():
    captured = capture(PrintsInALoop(), (torch.ones(3),))
    assert captured.graphs == ()
    (graph_break,) = captured.graph_breaks
    assert graph_break.line == line_of("LOOP")
    assert graph_break.skips_function
    cause, consequence = graph_break.reason.splitlines()
    assert "`print`" in cause
    assert "loop" in consequence
    assert any("left the function to Python" in caveat for caveat in captured.caveats)


def test_a_break_in_a_called_function_is_one_break_that_stopped_twice():
    captured = capture(BreaksInAHelper(), (torch.ones(3),))
    (graph_break,) = captured.graph_breaks
    assert (graph_break.line, graph_break.times) == (line_of("HELPER"), 2)
    assert [dict(counts) for counts in captured.operation_counts_by_partition()] == [
        {"add": 1},
        {"mul": 1},
        {"add": 1},
        {"mul": 1},
    ]


def test_the_callers_model_inputs_and_random_state_stay_as_they_are():
    model = Counting().train()
    before = copy.deepcopy(model.state_dict())
    example = torch.ones(3, 4)
    torch.manual_seed(7)
    random.seed(7)
    states = torch.get_rng_state(), random.getstate()
    captured = capture(model, (example,))
    assert captured.operation_counts()["dropout"] == 1
    assert torch.equal(torch.get_rng_state(), states[0])
    assert random.getstate() == states[1]
    assert model.state_dict().keys() == before.keys()
    assert all(torch.equal(model.state_dict()[name], before[name]) for name in before)
    assert model.training
    assert model.norm.training
    assert model.history == []
    assert torch.equal(example, torch.ones(3, 4))
    # What is recorded is the input before the graph changed it.
    recorded = captured.partitions[-1]
    position = [one.source for one in recorded.inputs].index("x")
    assert torch.equal(recorded.example_inputs[position], torch.ones(3, 4))


def test_a_reason_holds_no_address():
    (graph_break,) = capture(LeavesAFunctionOut(), (torch.ones(2),)).graph_breaks
    assert "LeavesAFunctionOut.kept_out" in graph_break.reason
    assert "0x" not in graph_break.reason


def test_code_that_dynamo_has_given_up_recompiling_is_captured_all_the_same():
    model = ThreeBreaks().eval()
    for _ in range(torch._dynamo.config.recompile_limit + 1):
        torch.compile(model, backend=GraphExtractor())(torch.ones(2, 4))
    assert len(capture(model, (torch.ones(2, 4),)).graphs) == 4


def test_keyword_inputs_and_nested_outputs():
    inputs = {"x": torch.tensor([[1.0, 2.0]]), "mask": torch.tensor([[True, False]])}
    captured = capture(Nested(), inputs)
    assert {one.source for one in captured.partitions[0].inputs} == {"x", "mask"}
    outputs = captured.partitions[0].example_outputs
    assert [value.tolist() for value in outputs] == [[[0.0, 2.0]], [[0.0, 4.0]], [0.0, 2.0]]


def test_recorded_example_reproduces_the_recorded_outputs(three_breaks):
    for partition in three_breaks.partitions:
        outputs = partition.graph_module(*partition.example_inputs)
        assert len(outputs) == len(partition.example_outputs)
        assert all(map(torch.equal, outputs, partition.example_outputs))


def test_dynamic_puts_symbols_in_place_of_sizes():
    captured = capture(nn.ReLU(), (torch.ones(6, 3),), dynamic=True)
    (tensor,) = [one for one in captured.partitions[0].inputs if one.shape is not None]
    assert all(isinstance(size, str) for size in tensor.shape)
    (fixed,) = capture(nn.ReLU(), (torch.ones(6, 3),), dynamic=False).partitions[0].inputs
    assert fixed.shape == (6, 3)


def test_log_settings_are_put_back_and_nothing_is_printed(capfd):
    names = [name for name in logging.root.manager.loggerDict if name.endswith((".__graph_breaks", ".__guards"))]
    assert names

    def settings():
        loggers = map(logging.getLogger, names)
        return [(logger.level, logger.propagate, list(logger.handlers)) for logger in loggers]

    logging.getLogger(names[0]).propagate = True
    before = settings()
    try:
        capture(ThreeBreaks(), (torch.ones(2, 4),))
        assert settings() == before
    finally:
        logging.getLogger(names[0]).propagate = False
    printed = capfd.readouterr()
    assert printed.out == "halfway\n"
    assert printed.err == ""


def test_the_extractor_is_a_backend_that_computes_the_same():
    torch._dynamo.reset()
    extractor = GraphExtractor()
    model = nn.Sequential(nn.Linear(3, 3), nn.ReLU())
    example = torch.randn(2, 3)
    compiled = torch.compile(model, backend=extractor)
    assert torch.equal(compiled(example), model(example))
    assert len(extractor.partitions) == len(extractor.graphs) == 1
    assert extractor.operation_counts() == {"linear": 1, "relu": 1}
    compiled(torch.randn(2, 3))
    assert len(extractor.partitions) == 1
    assert torch.equal(extractor.partitions[0].example_inputs[-1], example)
    torch._dynamo.reset()


def test_only_warnings_that_say_a_break_again_are_kept_back(caplog, monkeypatch):
    logger = logging.getLogger("torch._dynamo.variables.tensor")
    # A test before this one may have opened a gradebook, whose migrations switch off every logger there is, or made
    # Dynamo's logs quieter.
    monkeypatch.setattr(logger, "disabled", False)
    logger.addHandler(caplog.handler)
    try:
        with caplog.at_level(logging.WARNING, logger=logger.name):
            with without_repeated_warnings():
                logger.warning("Graph break from `Tensor.item()`, consider setting:")
                logger.warning("something else")
            logger.warning("Graph break from `Tensor.item()`, consider setting:")
    finally:
        logger.removeHandler(caplog.handler)
    messages = list(dict.fromkeys(record.getMessage() for record in caplog.records))
    assert messages == ["something else", "Graph break from `Tensor.item()`, consider setting:"]


@pytest.mark.parametrize("silenced", ["logging.disable", "a configuration"])
def test_breaks_and_guards_are_read_whatever_the_program_does_to_its_logs(silenced, three_breaks):
    loggers = [one for name, one in logging.root.manager.loggerDict.items() if name.startswith("torch._dynamo")]
    loggers = [one for one in loggers if isinstance(one, logging.Logger)]
    before = [one.disabled for one in loggers]
    try:
        if silenced == "logging.disable":
            logging.disable(logging.CRITICAL)
        else:
            # As `logging.config.dictConfig` does to all loggers that there are.
            for one in loggers:
                one.disabled = True
        captured = capture(ThreeBreaks().eval(), (torch.ones(2, 4),))
        assert [one.line for one in captured.graph_breaks] == [one.line for one in three_breaks.graph_breaks]
        assert len(captured.guards) == len(three_breaks.guards)
        assert captured.run(torch.ones(2, 4)).shape == three_breaks.run(torch.ones(2, 4)).shape
        assert all(one.disabled for one in loggers) == (silenced != "logging.disable")
        assert not loggers[0].isEnabledFor(logging.CRITICAL) or silenced != "logging.disable"
    finally:
        logging.disable(logging.NOTSET)
        for one, disabled in zip(loggers, before, strict=True):
            one.disabled = disabled


class Reverse(torch.autograd.Function):
    """The identity, with the gradient turned round."""

    @staticmethod
    def forward(context, x):
        return x.view_as(x)

    @staticmethod
    def backward(context, gradient):
        return -gradient


def test_that_gradients_of_gradients_end_is_told():
    def reversed_(x):
        return Reverse.apply(x * x).tanh()

    def second(function, x):
        (first,) = torch.autograd.grad(function(x).sum(), x, create_graph=True)
        return torch.autograd.grad(first.pow(2).sum(), x, allow_unused=True)[0]

    x = torch.ones(3, requires_grad=True)
    told = "Gradients of gradients end at the autograd.Function that is called here: return Reverse.apply"
    captured = capture(reversed_, (x,))
    assert any(one.startswith(told) for one in captured.caveats)
    lost = second(captured.run, x)
    assert lost is None or not torch.allclose(lost, second(reversed_, x))
    for example in (x, torch.ones(3)):
        caveats = GraphOptimizer(reversed_, (example,)).optimize("training").report.caveats
        assert any(one.startswith(told) for one in caveats), caveats
    assert not any("Gradients of gradients" in one for one in capture(torch.tanh, (x,)).caveats)
