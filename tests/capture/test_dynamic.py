import pytest
import torch
from torch import nn

from fxopt_core.capture import CaptureError, RefusedInputError, capture


class Masked(nn.Module):
    def forward(self, x, mask):
        return (x * mask).sum(1)


def example():
    return {"x": torch.randn(3, 5), "mask": torch.ones(3, 5)}


DYNAMIC = {"x": {0: ("batch", 2, 64), 1: ("length", 2, 512)}, "mask": {0: "batch", 1: "length"}}


@pytest.mark.parametrize("method", ["export", "dynamo", "aot", "auto"])
def test_the_result_says_which_sizes_are_open_and_their_ranges(method):
    captured = capture(Masked(), example(), method, dynamic=DYNAMIC)
    assert [(one.name, one.minimum, one.maximum) for one in captured.symbols] == [("batch", 2, 64), ("length", 2, 512)]
    assert captured.symbols[0].places == ("dimension 0 of x", "dimension 0 of mask")
    sizes = [one.shape for one in captured.partitions[0].inputs if one.source in ("x", "mask")]
    assert sizes == [tuple(one.in_graph for one in captured.symbols)] * 2


@pytest.mark.parametrize("method", ["export", "dynamo", "auto"])
def test_other_sizes_run_and_sizes_out_of_range_fail_loudly(method):
    captured = capture(Masked(), example(), method, dynamic=DYNAMIC)
    for batch, length in ((2, 2), (7, 9), (64, 512)):
        x, mask = torch.randn(batch, length), torch.randint(0, 2, (batch, length)).float()
        assert torch.equal(captured.run(x, mask=mask), Masked()(x, mask))
    with pytest.raises(ValueError, match=r"dimension 'batch' \(dimension 0 of x\) is 65; expected 2 to 64"):
        captured.run(torch.ones(65, 5), torch.ones(65, 5))
    with pytest.raises(ValueError, match=r"'batch'.*is 6 in one place and 7 in another"):
        captured.run(torch.ones(6, 5), torch.ones(7, 5))


def test_running_marks_nothing_on_the_callers_tensors():
    captured = capture(Masked(), example(), "dynamo", dynamic=DYNAMIC)
    x = torch.randn(4, 4)
    captured.run(x, torch.ones(4, 4))
    assert vars(x) == {}


def test_a_fixed_size_is_refused_without_dynamic():
    captured = capture(Masked(), example(), "export")
    assert captured.symbols == ()
    with pytest.raises(RefusedInputError, match=r"the size of x in dimension 0: expected 3, as at capture; got 4"):
        captured.run(torch.ones(4, 5), torch.ones(4, 5))
    assert "x.size() == [3, 5]" in [guard.expression for guard in captured.guards]


def test_export_says_what_it_guards():
    captured = capture(Masked(), example(), "export", dynamic=DYNAMIC)
    guards = [guard.expression for guard in captured.guards]
    assert guards[:4] == [
        "x.size() == [batch, length]",
        "mask.size() == [batch, length]",
        "2 <= batch <= 64",
        "2 <= length <= 512",
    ]


class FixesTheBatch(nn.Module):
    def forward(self, x, mask):
        return x + torch.ones(3, 1)


class AsksForTen(nn.Module):
    def forward(self, x, mask):
        return x + 1 if x.shape[0] > 10 else x - 1


class AsksForOne(nn.Module):
    def forward(self, x, mask):
        return x + 1 if x.shape[0] == 1 else x - 1


@pytest.mark.parametrize("method", ["export", "dynamo", "aot", "auto"])
@pytest.mark.parametrize(
    ("model", "reason"),
    [(FixesTheBatch, "the model fixes it to 3"), (AsksForTen, "leave only 2 <= batch and batch <= 10")],
)
def test_a_range_that_does_not_hold_names_the_dimension_and_the_reason(model, reason, method, caplog):
    with pytest.raises(CaptureError, match=r"'batch'.*2 to 64.*does not hold its range") as raised:
        capture(model(), example(), method, dynamic=DYNAMIC)
    assert reason in raised.value.failure
    # Dynamo logs a page for each such error.
    assert [one.getMessage() for one in caplog.records if one.levelname == "ERROR"] == []


@pytest.mark.parametrize("method", ["export", "auto"])
def test_a_range_that_torch_export_takes_without_a_word_is_tried_at_its_smallest(method):
    """torch.export takes every size for 2 or more, also where the range begins at 1."""
    dynamic = {"x": {0: ("batch", 1, 64)}, "mask": {0: "batch"}}
    with pytest.raises(CaptureError, match="the sizes batch = 1: DIFFERS"):
        capture(AsksForOne(), example(), method, dynamic=dynamic)
    captured = capture(Masked(), example(), method, dynamic=dynamic)
    assert captured.symbols[0].minimum == 1
    assert captured.run(torch.ones(1, 5), torch.ones(1, 5)).tolist() == [5.0]


@pytest.mark.parametrize("method", ["dynamo", "aot"])
def test_dynamo_takes_no_range_from_one(method):
    with pytest.raises(CaptureError, match=r"'batch'.*sizes 0 and 1 apart"):
        capture(Masked(), example(), method, dynamic={"x": {0: ("batch", 1, 64)}, "mask": {0: "batch"}})


@pytest.mark.parametrize("method", ["export", "dynamo", "aot"])
def test_dimensions_that_the_model_needs_to_be_equal_want_one_name(method):
    class Squared(nn.Module):
        def forward(self, x):
            return x @ x

    apart = {"x": {0: ("rows", 2, 9), 1: ("columns", 2, 9)}}
    with pytest.raises(CaptureError, match=r"'rows'.*'columns'.*equal"):
        capture(Squared(), (torch.ones(3, 3),), method, dynamic=apart)
    together = {"x": {0: ("size", 2, 9), 1: "size"}}
    (symbol,) = capture(Squared(), (torch.ones(3, 3),), method, dynamic=together).symbols
    assert (symbol.name, symbol.maximum) == ("size", 9)


@pytest.mark.parametrize("method", ["export", "dynamo"])
def test_dimensions_of_equal_size_in_the_example_vary_apart(method):
    captured = capture(Masked(), {"x": torch.randn(3, 3), "mask": torch.ones(3, 3)}, method, dynamic=DYNAMIC)
    assert [one.name for one in captured.symbols] == ["batch", "length"]
    assert captured.run(torch.ones(4, 6), torch.ones(4, 6)).tolist() == [6.0] * 4


def test_nested_inputs_have_paths():
    class Nested(nn.Module):
        def forward(self, batch, more):
            return batch["a"] + more[0]

    dynamic = {"batch['a']": {0: ("n", 2, 9)}, "more[0]": {0: "n"}}
    captured = capture(Nested(), ({"a": torch.ones(3)}, [torch.ones(3)]), "export", dynamic=dynamic)
    assert captured.symbols[0].name == "n" or captured.symbols[0].maximum == 9
    assert captured.run({"a": torch.ones(4)}, [torch.ones(4)]).tolist() == [2.0] * 4
    with pytest.raises(ValueError, match=r"dimension 0 of batch\['a'\]\) is 10"):
        captured.run({"a": torch.ones(10)}, [torch.ones(10)])


@pytest.mark.parametrize(
    ("dynamic", "error", "message"),
    [
        ({"msk": {0: ("b", 2, 9)}}, ValueError, "'msk'.*Did you mean 'mask'"),
        ({"x": {2: ("b", 2, 9)}}, ValueError, "x has 2 dimensions.*no 2"),
        ({"x": {0: ("b", 4, 9)}}, ValueError, "example inputs do not fit.*is 3; expected 4 to 9"),
        ({"x": {0: "b"}}, ValueError, "'b' has no range"),
        ({"x": {0: ("b", 2, 9)}, "mask": {0: ("b", 2, 8)}}, ValueError, "'b' has two ranges"),
        ({"x": {0: ("b", 2, 9), 1: "b"}}, ValueError, "is 3 in one place and 5 in another"),
        ({"x": {0: ("b", 9, 2)}}, ValueError, "9 to 2 is no range"),
        ({"x": {0: 3}}, TypeError, r"dynamic\['x'\]\[0\] is 3; expected such as"),
        ({"x": ["b"]}, TypeError, r"dynamic\['x'\] is"),
        (["x"], TypeError, "of type list; expected such as"),
    ],
)
def test_dynamic_of_another_form_is_refused(dynamic, error, message):
    with pytest.raises(error, match=message):
        capture(Masked(), example(), "export", dynamic=dynamic)


def test_a_number_without_limits_has_none():
    def scaled(x, number):
        return x * number.item()

    captured = capture(scaled, (torch.ones(3), torch.tensor(2)), "export")
    (one,) = captured.symbols
    assert (one.minimum, one.maximum, one.places) == (None, None, ("result of item",))
    assert not [guard.expression for guard in captured.guards if guard.kind == "RANGE"]
    assert "any" in str(captured)
