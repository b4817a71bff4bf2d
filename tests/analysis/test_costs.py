"""FLOPs, bytes, parameters and live memory against what can be counted by hand, and against a real run."""

from __future__ import annotations

import operator
import re
import threading
import time
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.nn.attention.flex_attention import flex_attention
from torch.utils import flop_counter
from torch.utils.flop_counter import FlopCounterMode, register_flop_formula

from fxopt_core.capture import CaptureError, capture
from fxopt_core.costs import Analysis, Cost, analyze_graph, record_allocations
from fxopt_core.costs.counting import FORMULAS, Counter, may_contract, qualified_name
from fxopt_workbench import zoo
from fxopt_workbench.structure.groups import Group, grouped
from fxopt_workbench.structure.model_costs import analyze


class Calls(nn.Module):
    """A model of one function."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: torch.Tensor) -> Any:
        return self.function(*inputs)


def cost(function: Any, *inputs: torch.Tensor) -> Cost:
    return analyze(Calls(function), inputs).total


def t(*shape: int, **options: Any) -> torch.Tensor:
    return torch.ones(*shape, **options)


@pytest.mark.parametrize(
    ("function", "inputs", "flops"),
    [
        # Batch, rows, columns, inner length, each multiply-add as two.
        (torch.mm, (t(3, 5), t(5, 7)), 2 * 3 * 7 * 5),
        (torch.matmul, (t(2, 1, 3, 5), t(4, 5, 7)), 2 * 2 * 4 * 3 * 7 * 5),
        (torch.matmul, (t(6, 3, 5), t(5)), 2 * 6 * 3 * 5),
        (torch.mv, (t(3, 5), t(5)), 2 * 3 * 5),
        (torch.dot, (t(5), t(5)), 2 * 5),
        (torch.addmm, (t(7), t(3, 5), t(5, 7)), 2 * 3 * 7 * 5),
        (torch.addmv, (t(3), t(3, 5), t(5)), 2 * 3 * 5),
        (torch.addbmm, (t(3, 7), t(2, 3, 5), t(2, 5, 7)), 2 * 2 * 3 * 7 * 5),
        (lambda c, a, b: (c + 1).addmm_(a, b), (t(3, 7), t(3, 5), t(5, 7)), 2 * 3 * 7 * 5),
        (lambda c, a, b: (c + 1).baddbmm_(a, b), (t(2, 3, 7), t(2, 3, 5), t(2, 5, 7)), 2 * 2 * 3 * 7 * 5),
        (torch._int_mm, (t(32, 16, dtype=torch.int8), t(16, 8, dtype=torch.int8)), 2 * 32 * 8 * 16),
        (torch.baddbmm, (t(2, 3, 7), t(2, 3, 5), t(2, 5, 7)), 2 * 2 * 3 * 7 * 5),
        (functional.linear, (t(2, 3, 5), t(7, 5), t(7)), 2 * 2 * 3 * 7 * 5),
        (lambda a, b: torch.einsum("bij,bkj->bik", a, b), (t(2, 3, 5), t(2, 7, 5)), 2 * 2 * 3 * 7 * 5),
        # Groups: each output channel sees a quarter of the inputs.
        (lambda x, w: functional.conv2d(x, w, groups=4), (t(2, 8, 9, 9), t(12, 2, 3, 3)), 2 * (2 * 12 * 7 * 7) * 2 * 9),
        (
            lambda x, w: functional.conv2d(x, w, stride=2, padding=1),
            (t(1, 3, 8, 8), t(4, 3, 3, 3)),
            2 * (4 * 4 * 4) * 3 * 9,
        ),
        (functional.conv1d, (t(2, 3, 10), t(4, 3, 3)), 2 * (2 * 4 * 8) * 3 * 3),
        # Transposed: each input element meets each weight of its channel.
        (
            lambda x, w: functional.conv_transpose2d(x, w, stride=2),
            (t(1, 3, 5, 5), t(3, 4, 2, 2)),
            2 * (3 * 5 * 5) * 4 * 4,
        ),
        # Queries by keys, then weights by values.
        (
            functional.scaled_dot_product_attention,
            (t(2, 4, 6, 8), t(2, 4, 10, 8), t(2, 4, 10, 8)),
            2 * 2 * (2 * 4 * 6 * 10 * 8),
        ),
        # Queries that share keys and values: each query meets each key all the same.
        (
            lambda q, k, v: functional.scaled_dot_product_attention(q, k, v, enable_gqa=True),
            (t(1, 8, 6, 16), t(1, 2, 6, 16), t(1, 2, 6, 16)),
            2 * 2 * (8 * 6 * 6 * 16),
        ),
        (flex_attention, (t(1, 2, 128, 16), t(1, 2, 128, 16), t(1, 2, 128, 16)), 2 * 2 * (2 * 128 * 128 * 16)),
        # A multiply-add of complex numbers is four of real ones.
        (lambda a, b: torch.complex(a, a) @ torch.complex(b, b), (t(3, 5), t(5, 7)), 4 * 2 * 3 * 5 * 7),
        (
            lambda a, b, s: torch._scaled_mm(a, b.t(), s, s, out_dtype=torch.bfloat16),
            (t(16, 32).to(torch.float8_e4m3fn), t(64, 32).to(torch.float8_e4m3fn), t(1)),
            2 * 16 * 64 * 32,
        ),
        # The weight lies transposed: 32 rows of 64.
        (
            torch._weight_int8pack_mm,
            (t(4, 64, dtype=torch.bfloat16), t(32, 64, dtype=torch.int8), t(32, dtype=torch.bfloat16)),
            2 * 4 * 64 * 32,
        ),
        # Each of 8 x 8 places takes two coordinates, each from three.
        (lambda x: functional.affine_grid(x, [2, 3, 8, 8], align_corners=False), (t(2, 2, 3),), 2 * 2 * 64 * 2 * 3),
        # Counts none: nothing is contracted.
        (lambda x: torch.softmax(x.relu() * 2, -1).sum(), (t(3, 5),), 0),
    ],
)
def test_flops_by_hand(function: Any, inputs: tuple[torch.Tensor, ...], flops: int) -> None:
    assert cost(function, *inputs).flops == flops
    assert cost(function, *inputs).uncounted == ()


@pytest.mark.parametrize(("kind", "gates"), [(nn.RNN, 1), (nn.GRU, 3), (nn.LSTM, 4)])
def test_recurrent_layers(kind: Any, gates: int) -> None:
    analysis = analyze(kind(8, 16, num_layers=2, bidirectional=True).eval(), (t(5, 3, 8),))
    first, second = 16 * (8 + 16), 16 * (32 + 16)
    assert analysis.total.flops == 2 * (5 * 3) * gates * 2 * (first + second)
    assert analysis.total.uncounted == ()


@pytest.mark.parametrize(
    ("function", "inputs", "name"),
    [
        (torch.cdist, (t(30, 4), t(40, 4)), "aten._euclidean_dist.default"),
        (torch.fft.rfft, (t(4, 8),), "aten._fft_r2c.default"),
        (functional.bilinear, (t(2, 5), t(2, 7), t(3, 5, 7)), "aten._trilinear.default"),
        (torch.linalg.solve, (torch.eye(4), t(4, 2)), "aten._linalg_solve_ex.default"),
        (torch.matrix_exp, (t(4, 4),), "aten.linalg_matrix_exp.default"),
        (functional.pdist, (t(5, 4),), "aten._pdist_forward.default"),
    ],
)
def test_products_without_a_formula_are_named(function: Any, inputs: tuple[torch.Tensor, ...], name: str) -> None:
    total = cost(function, *inputs)
    assert (total.flops, total.uncounted) == (0, (name,))


def test_grouped_products_in_all_their_forms() -> None:
    half = torch.bfloat16
    one, two, three = t(16, 16, dtype=half), t(2, 16, 8, dtype=half), t(2, 6, 16, dtype=half)
    offsets = torch.tensor([8, 16], dtype=torch.int32)

    def grouped(a: torch.Tensor, b: torch.Tensor, *ends: torch.Tensor) -> torch.Tensor:
        return functional.grouped_mm(a, b, offs=ends[0] if ends else None)

    assert cost(grouped, one, two, offsets).flops == 2 * 16 * 16 * 8, "rows of one matrix, each with one of several"
    assert cost(grouped, three, two).flops == 2 * 2 * 6 * 16 * 8, "matrix by matrix"
    assert cost(grouped, three, one, offsets).flops == 2 * 6 * 16 * 16, "columns of one, each with one of several"
    assert cost(grouped, one, t(16, 8, dtype=half), offsets).flops == 2 * 16 * 16 * 8, "a run of the inner length each"


ROWS = torch.tensor([7, 0, 7])
ROW = 4 * 6
TABLE = 1000 * ROW
"""Bytes of a row, and of a table of a thousand."""


@pytest.mark.parametrize(
    ("function", "inputs", "read", "written"),
    [
        (lambda w, i: functional.embedding(i, w), (ROWS,), 3 * ROW, 3 * ROW),
        (lambda w, i: w[i], (ROWS,), 3 * ROW, 3 * ROW),
        (lambda w, i: w[i, :2], (ROWS,), 3 * 8, 3 * 8),
        (lambda w, i: w[:, i], (torch.tensor([1, 5]),), 2 * 4000, 2 * 4000),
        (lambda w, i: w.index_select(0, i), (ROWS,), 3 * ROW, 3 * ROW),
        (lambda w, i: w.index_select(1, i), (torch.tensor([1, 5]),), 2 * 4000, 2 * 4000),
        (lambda w, i: w.gather(0, i), (torch.zeros(2, 6, dtype=torch.int64),), 2 * ROW, 2 * ROW),
        (lambda w, i: w.take(i), (ROWS,), 3 * 4, 3 * 4),
        (lambda w, i: torch.ops.aten._unsafe_index.Tensor(w, [i]), (ROWS,), 3 * ROW, 3 * ROW),
        # No more than there is.
        (lambda w, i: w[i], (torch.zeros(2000, dtype=torch.int64),), TABLE, 2 * TABLE),
    ],
)
def test_of_a_table_counts_what_is_looked_up(
    function: Any, inputs: tuple[torch.Tensor, ...], read: int, written: int
) -> None:
    (index,) = inputs
    total = cost(function, t(1000, 6), index)
    assert (total.bytes_read, total.bytes_written) == (read + 8 * index.numel(), written)


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize("grad", [True, False])
def test_a_bag_counts_the_rows_that_it_looks_up(mode: str, grad: bool) -> None:
    bags = torch.tensor([[7, 0, 7, 5], [1, 2, 3, 4]])
    model = nn.EmbeddingBag(1000, 6, mode=mode).requires_grad_(grad)
    with torch.set_grad_enabled(grad):
        analysis = analyze(model, (bags,))
    (read,) = (node.cost.bytes_read for node in analysis.nodes if "embedding_bag" in node.operation)
    # Eight rows for two bags, the numbers of the rows, and where each bag begins.
    assert read == 8 * ROW + 8 * 8 + 2 * 8
    # No more than there is, in a run without a graph.
    with Counter() as counted, torch.set_grad_enabled(grad):
        model(torch.zeros(2, 4000, dtype=torch.int64))
    assert TABLE <= counted.cost.bytes_read <= TABLE + 8 * 8000 + 100


VALUES, COLUMN, EACH = t(3, 6), t(3), ROWS[:, None].expand(3, 6)
MASK = torch.zeros(1000, dtype=torch.bool)


@pytest.mark.parametrize(
    ("function", "read", "written"),
    [
        # Of the table, the rows that three indices name; beside it are read the indices and what is put there.
        (lambda w: w.index_copy_(0, ROWS, VALUES), 24 + 3 * ROW, 3 * ROW),
        (lambda w: w.index_fill_(0, ROWS, 2.0), 24, 3 * ROW),
        (lambda w: w.index_add_(0, ROWS, VALUES, alpha=2), 3 * ROW + 24 + 3 * ROW, 3 * ROW),
        (lambda w: w.index_add_(-2, ROWS, VALUES), 3 * ROW + 24 + 3 * ROW, 3 * ROW),
        (lambda w: w.index_reduce_(0, ROWS, VALUES, "amax"), 3 * ROW + 24 + 3 * ROW, 3 * ROW),
        (lambda w: w.index_put_((ROWS,), VALUES), 24 + 3 * ROW, 3 * ROW),
        (lambda w: w.index_put_((ROWS,), VALUES, accumulate=True), 3 * ROW + 24 + 3 * ROW, 3 * ROW),
        (lambda w: w.index_put_((ROWS, ROWS % 6), COLUMN), 24 + 24 + 12, 12),
        (lambda w: operator.setitem(w.view(10, 100, 6), (slice(None), ROWS), COLUMN[:, None]), 24 + 12, 10 * 3 * ROW),
        (lambda w: w.scatter_(0, EACH, VALUES), 24 + 3 * ROW, 3 * ROW),
        (lambda w: w.scatter_(0, EACH, 2.0), 24, 3 * ROW),
        (lambda w: w.scatter_(0, EACH, VALUES, reduce="add"), 3 * ROW + 24 + 3 * ROW, 3 * ROW),
        (lambda w: w.scatter_add_(0, EACH, VALUES), 3 * ROW + 24 + 3 * ROW, 3 * ROW),
        (lambda w: w.scatter_reduce_(0, EACH, VALUES, "sum"), 3 * ROW + 24 + 3 * ROW, 3 * ROW),
        (lambda w: w.put_(ROWS, COLUMN), 24 + 12, 12),
        (lambda w: torch.embedding_renorm_(w, ROWS, 1.0, 2.0), 3 * ROW + 24, 3 * ROW),
        # A slice is copied into, as ever.
        (lambda w: w[:3].copy_(VALUES), 3 * ROW, 3 * ROW),
        # All that a mask lies over, and no more than there is.
        (lambda w: w.index_put_((MASK,), COLUMN[0]), 1000 + 4, TABLE),
        (lambda w: w.index_fill_(0, ROWS.repeat(1000), 2.0), 24 * 1000, TABLE),
    ],
)
def test_in_place_counts_the_rows_that_indices_name(function: Any, read: int, written: int) -> None:
    counted = CountsInPlace()
    with counted, torch.no_grad():
        function(t(1000, 6))
    assert (counted.cost.bytes_read, counted.cost.bytes_written) == (read, written)


class CountsInPlace(Counter):
    """Leaves out what makes the operands."""

    def count(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
        if func.overloadpacket.__name__.endswith("_"):
            super().count(func, args, kwargs, result)


@pytest.mark.parametrize(
    ("function", "inputs", "read", "written"),
    [
        (torch.add, (t(3, 5), t(3, 5)), 2 * 60, 60),
        (torch.relu, (t(3, 5, dtype=torch.bfloat16),), 30, 30),
        (lambda x: x + x, (t(3, 5),), 60, 60),
        # An expanded row is one row in memory.
        (lambda x, y: x.expand(3, 5) * y, (t(5), t(3, 5)), 20 + 60, 60),
        # Views cost nothing, a copy into another order does.
        (lambda x: x.reshape(5, 3).t().unsqueeze(0)[:, 1:], (t(3, 5),), 0, 0),
        (lambda x: x.t().contiguous(), (t(3, 5),), 60, 60),
        # Four rows of a table of a thousand.
        (functional.embedding, (torch.tensor([1, 2, 3, 3]), t(1000, 5)), 4 * 8 + 4 * 20, 4 * 20),
        (lambda x: torch.zeros(3, 5), (t(1),), 0, 60),
        (lambda x: torch.zeros_like(x), (t(3, 5),), 0, 60),
        # In place: read and overwritten, or only overwritten.
        (lambda x: (x + 1).mul_(2), (t(3, 5),), 2 * 60, 2 * 60),
        (lambda x, y: torch.empty_like(x).copy_(y), (t(3, 5), t(3, 5)), 60, 60),
    ],
)
def test_bytes_by_hand(function: Any, inputs: tuple[torch.Tensor, ...], read: int, written: int) -> None:
    total = cost(function, *inputs)
    assert (total.bytes_read, total.bytes_written) == (read, written)


def test_intensity_is_flops_over_bytes() -> None:
    total = cost(torch.mm, t(16, 32), t(32, 8))
    assert total.intensity == 2 * 16 * 32 * 8 / (4 * (16 * 32 + 32 * 8 + 16 * 8))


@torch.library.custom_op("fxopt_test_costs::twice", mutates_args=())
def twice(x: torch.Tensor) -> torch.Tensor:
    return x * 2


@twice.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)


@torch.library.custom_op("fxopt_test_costs::product", mutates_args=())
def product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return a @ b


@product.register_fake
def _(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return a.new_empty(a.shape[0], b.shape[1])


def test_what_has_no_formula_is_named() -> None:
    analysis = analyze(Calls(lambda x: torch.linalg.inv(twice(x) @ x)), (t(4, 4),))
    assert analysis.total.flops == 2 * 4 * 4 * 4
    assert analysis.total.uncounted == ("fxopt_test_costs.twice.default", "aten.linalg_inv_ex.default")
    assert "No formula, so FLOPs not counted: fxopt_test_costs.twice.default" in str(analysis)
    assert "fxopt_test_costs.twice.default" in analysis._repr_mimebundle_()["text/html"]


def aten_operators() -> dict[str, Any]:
    names = {name.removeprefix("aten::").partition(".")[0] for name in torch._C._dispatch_get_all_op_names()}
    packets = {name: getattr(torch.ops.aten, name, None) for name in sorted(names) if "::" not in name}
    return {name: packet for name, packet in packets.items() if packet is not None}


def reaches_the_dispatcher(packet: Any) -> list[Any]:
    """The overloads of an operator that are not taken apart into others first."""
    overloads = [getattr(packet, name) for name in packet.overloads()]
    own = [one for one in overloads if torch._C._dispatch_has_kernel(one.name())]
    key = "CompositeImplicitAutograd"
    return [one for one in own if not torch._C._dispatch_has_kernel_for_dispatch_key(one.name(), key)]


ATEN = {name: found for name, packet in aten_operators().items() if (found := reaches_the_dispatcher(packet))}
"""PyTorch's own operators that a counter can meet, with their overloads."""

MULTIPLIES = re.compile(
    "linalg|cholesky|lu_solve|ormqr|geqrf|triangular_solve|spsolve|fft_|cdist|pdist|euclidean|trilinear|rnn|lstm|gru|"
    "conv|mm|linear|attention|transformer|multi_head|matmul|mv$|mv_$|dot|grid_generator|combination|sparse_matmul"
)
"""In the names of operators that multiply matrices, and of some others."""

OTHERS = re.compile(
    "_thnn_fused_|gamma|upsample_|convert_|reorder|_pack|cumm|dummy|freq|linalg_cross|"
    "linalg_vector_norm|linalg__powsum|check_errors|addcmul|comm|hamming"
)
"""The others: element by element, along a dimension, or a change of layout."""


def multiplies(name: str) -> bool:
    return bool(MULTIPLIES.search(name)) and not OTHERS.search(name)


def counted(one: Any) -> bool:
    return one.overloadpacket in flop_counter.flop_registry or qualified_name(one) in FORMULAS


def test_no_operator_that_multiplies_matrices_counts_zero_in_silence() -> None:
    """Every operator of this PyTorch by name: a formula, or named as not counted."""
    products = set(filter(multiplies, ATEN))
    assert len(products) > 100
    silent = [name for name in products if not any(counted(one) or may_contract(one) for one in ATEN[name])]
    assert silent == []
    for name in """
        mm addmm bmm baddbmm addbmm mv addmv dot vdot _int_mm _scaled_mm _scaled_mm_v2 _grouped_mm _scaled_grouped_mm
        _scaled_grouped_mm_v2 _weight_int8pack_mm _weight_int4pack_mm linear convolution _cudnn_rnn mkldnn_rnn_layer
        _scaled_dot_product_flash_attention _scaled_dot_product_efficient_attention _flash_attention_forward
        _scaled_dot_product_cudnn_attention _scaled_dot_product_flash_attention_for_cpu _efficient_attention_forward
    """.split():
        assert counted(ATEN[name][0]), name
    for name in """
        _cdist_forward _euclidean_dist _pdist_forward _fft_r2c _fft_c2c _trilinear _foreach_mm _linalg_svd linalg_inv_ex
        _transformer_encoder_layer_fwd _native_multi_head_attention _cudnn_attention_forward conv_tbc ormqr
        _compute_linear_combination _sparse_addmm cholesky_solve _linalg_solve_ex linalg_matrix_exp matmul_backward
    """.split():
        assert may_contract(ATEN[name][0]), name


def test_what_works_element_by_element_or_makes_a_view_is_known_to_multiply_nothing() -> None:
    harmless = 0
    for name, overloads in ATEN.items():
        if any(one.is_view or {torch.Tag.pointwise, torch.Tag.reduction} & set(one.tags) for one in overloads):
            harmless += 1
            assert not any(map(may_contract, overloads)), name
    assert harmless > 300
    for name in """
        native_layer_norm _softmax max_pool2d_with_indices upsample_bilinear2d gelu_ cumsum cummax _foreach_add_ topk
        embedding _embedding_bag index_put scatter_add native_dropout bernoulli randn_like grid_sampler_2d histc sort
        native_batch_norm_backward elu_backward as_strided_copy constant_pad_nd _thnn_fused_lstm_cell
    """.split():
        assert not any(map(may_contract, ATEN[name])), name
    unread = [name for name in ATEN if not multiplies(name) and any(map(may_contract, ATEN[name]))]
    # What nobody meets in a model: PyTorch's own tests, packing of weights, insides of nested tensors.
    rare = re.compile(
        "test_|foobar|ctc_loss|nested|pack|semi_structured|cslt|reorder|_cudnn_|mem_eff|_sdp_|_copy$|dual"
    )
    assert [name for name in unread if not rare.search(name)] == []


def test_an_operator_that_nobody_has_read_is_not_counted_as_nothing() -> None:
    """What a later PyTorch brings is unknown until someone has looked at it, whatever it is called."""
    library = torch.library.Library("aten", "FRAGMENT")
    try:
        library.define("_fused_gate_and_norm(Tensor x) -> Tensor")
        assert may_contract(torch.ops.aten._fused_gate_and_norm.default)
    finally:
        library._destroy()


def test_a_formula_that_the_user_registers_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flop_counter, "flop_registry", dict(flop_counter.flop_registry))
    inputs = (t(3, 5), t(5, 7))

    def program(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return product(a, b)

    assert cost(program, *inputs).uncounted == ("fxopt_test_costs.product.default",)

    @register_flop_formula(torch.ops.fxopt_test_costs.product)
    def _(a: Any, b: Any, *, out_shape: Any = None, **_: Any) -> int:
        return 2 * a[0] * a[1] * b[1]

    assert (cost(program, *inputs).flops, cost(program, *inputs).uncounted) == (2 * 3 * 5 * 7, ())


def test_a_branch_on_data_is_named_and_not_guessed() -> None:
    def either(x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, lambda x: x @ x, lambda x: x + 1, (x,))

    assert cost(either, t(3, 3)).uncounted == ("cond",)


def test_what_runs_in_a_context_counts() -> None:
    def mixed(x: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            return x @ x

    (node,) = [node for node in analyze(Calls(mixed), (t(4, 4),)).nodes if node.cost.flops]
    assert node.cost.flops == 2 * 4 * 4 * 4
    assert node.dtype == torch.bfloat16


def real_flops(model: nn.Module, inputs: Any) -> int:
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        model(**inputs) if isinstance(inputs, dict) else model(*inputs)
    return counter.get_total_flops()


def test_flops_are_those_of_a_real_run() -> None:
    chosen = zoo.build("simple", "cpu")
    expected = real_flops(chosen.model, chosen.example_inputs)
    assert expected > 1e7
    assert analyze(chosen.model, chosen.example_inputs).total.flops == expected


def test_attention_that_torch_does_not_count_is_added() -> None:
    pytest.importorskip("transformers")
    chosen = zoo.build("bert", "cpu")
    counted = analyze(chosen.model, chosen.example_inputs).total.flops
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        # As matrix products, which torch counts.
        assert counted == real_flops(chosen.model, chosen.example_inputs)
    assert counted > real_flops(chosen.model, chosen.example_inputs), "torch counts no fused attention on the CPU"


@pytest.mark.parametrize("method", ["dynamo", "aot", "export"])
@pytest.mark.parametrize("dynamic", [None, True])
def test_every_level_of_graph_agrees(method: str, dynamic: bool | None) -> None:
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 36, 10)).eval()
    partition = capture(model, (t(2, 3, 8, 8),), method, dynamic=dynamic).partitions[0]
    parameters = {one.name: one.source for one in partition.inputs if one.kind == "parameter"}
    analysis = analyze_graph(partition.graph_module, parameters)
    assert analysis.total.flops == 2 * (2 * 4 * 36) * 27 + 2 * 2 * 144 * 10
    assert analysis.parameters == sum(parameter.numel() for parameter in model.parameters())


def test_module_nodes_and_attributes_of_a_graph() -> None:
    traced = torch.fx.symbolic_trace(nn.Sequential(nn.Linear(5, 7), nn.Linear(7, 2)))
    with pytest.raises(ValueError, match="'input_1' carries no value"):
        analyze_graph(traced)
    next(iter(traced.graph.nodes)).meta["val"] = t(3, 5)
    analysis = analyze_graph(traced)
    assert [node.cost.flops for node in analysis.nodes] == [2 * 3 * 5 * 7, 2 * 3 * 7 * 2]
    assert [node.parameters for node in analysis.nodes] == [("0.weight", "0.bias"), ("1.weight", "1.bias")]
    assert analysis.parameters == 42 + 16


def test_tied_parameters_are_one() -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Embedding(11, 3), nn.Linear(3, 11, bias=False)
            self.second.weight = self.first.weight

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.second(self.first(x))

    analysis = analyze(Tied(), (torch.tensor([1, 2]),))
    assert analysis.parameters == 33
    assert Group("all", analysis.nodes).parameters(analysis.parameter_elements) == 33
    assert analysis.held_bytes == 4 * 33 + 2 * 8


def test_attributes_of_a_graph_are_held_and_not_made() -> None:
    class Own(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.ones(7, 5))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x @ self.weight.t()

    traced = torch.fx.symbolic_trace(Own())
    next(iter(traced.graph.nodes)).meta["val"] = t(3, 5)
    analysis = analyze_graph(traced)
    assert (analysis.parameters, analysis.held_bytes) == (35, 4 * (35 + 15))
    assert analysis.peak.live_bytes == 4 * 3 * 7, "the product; a view of the weight is none of the graph's making"


def test_modules_are_summed_as_far_as_they_are_too_many() -> None:
    blocks = [nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 3)) for _ in range(20)]
    analysis = analyze(nn.Sequential(*blocks), (t(2, 3),))
    assert [group.name for group in grouped(analysis, "module")] == [str(number) for number in range(20)]
    assert len(grouped(analysis, "module", 2)) == 60


def test_sums_over_modules_and_operations_are_the_whole() -> None:
    model = nn.Sequential(nn.Sequential(nn.Linear(5, 7), nn.ReLU()), nn.Linear(7, 2))
    analysis = analyze(model, (t(3, 5),))
    modules = {group.name: group.cost.flops for group in grouped(analysis, "module")}
    assert modules == {"0.0": 2 * 3 * 5 * 7, "0.1": 0, "1": 2 * 3 * 7 * 2}
    assert [group.name for group in grouped(analysis, "module", 1)] == ["0", "1"]
    for groups in (grouped(analysis, by) for by in ("module", "operation", "node")):
        assert sum((group.cost for group in groups), Cost()) == analysis.total
        assert analysis.total.bytes > 0
    assert [group.name for group in grouped(analysis, "operation")] == ["aten.linear.default", "aten.relu.default"]
    with pytest.raises(ValueError, match="by is 'layer'; expected one of node, module, operation"):
        grouped(analysis, "layer")


def test_the_model_and_its_inputs_stay_as_they_are() -> None:
    model = nn.Sequential(nn.Linear(5, 7), nn.BatchNorm1d(7))
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    inputs = (t(3, 5),)
    analyze(model, inputs)
    assert type(inputs[0]) is torch.Tensor
    assert type(model[0].weight) is nn.Parameter
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    assert "running_mean" in model[1]._buffers
    assert model(t(3, 5)).isfinite().all()


def test_sizes_that_depend_on_data_are_refused() -> None:
    with pytest.raises(
        ValueError, match=r"the size of 'nonzero' .* depends on data; costs need sizes that are known. Capture the"
    ):
        analyze(Calls(lambda x: x.nonzero() * 2), (t(3, 5),))


def test_what_export_cannot_follow_is_a_capture_error(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(CaptureError, match="analyze_graph"):
        analyze(Calls(lambda x: x + 1 if x.sum() > 0 else x), (t(3, 5),))
    assert "def forward" not in capfd.readouterr().err


def test_what_cannot_be_copied_is_a_capture_error() -> None:
    model = nn.Linear(5, 7)
    model.lock = threading.Lock()
    with pytest.raises(CaptureError, match="cannot pickle"):
        analyze(model, (t(3, 5),))


def test_live_memory_by_hand() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        a = x + 1  # 400 bytes
        view = a.t()
        b = torch.cat([x, x])  # 800; a lives on in its view
        c = b.sum()  # 4
        return view * c  # 400

    analysis = analyze(Calls(program), (t(10, 10),))
    assert [(node.name, node.live_bytes) for node in analysis.nodes] == [
        ("add", 400),
        ("t", 400),
        ("cat", 1200),
        ("sum_1", 1204),
        ("mul", 804),
    ]
    assert (analysis.peak.name, analysis.peak.live_bytes) == ("sum_1", 1204)
    assert analysis.held_bytes == 400


def test_a_base_outlives_its_view_and_inputs_do_not_count() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        a = x + 1  # 400 bytes
        top = a[0].sum()  # 4
        return x.t() * a * top  # twice 400, a being alive in the first

    live = {node.name: node.live_bytes for node in analyze(Calls(program), (t(10, 10),)).nodes}
    assert live == {"add": 400, "select": 400, "sum_1": 404, "t": 404, "mul": 804, "mul_1": 804}


def allocated(analysis_of: nn.Module, inputs: tuple[torch.Tensor, ...]) -> tuple[Analysis, int]:
    """The analysis, and the peak of a real run of the same graph, values being freed after their last use."""
    (partition,) = capture(analysis_of, inputs, "export").partitions
    assert partition.example_inputs is not None
    values = partition.example_inputs
    interpreter = torch.fx.Interpreter(partition.graph_module)
    with torch.no_grad():
        _, record = record_allocations(lambda: interpreter.run(*values))
    return analyze_graph(partition.graph_module), record.peak_bytes()


def test_live_memory_is_what_a_run_allocates() -> None:
    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.up, self.down, self.norm = nn.Linear(64, 256), nn.Linear(256, 64), nn.LayerNorm(64)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            first, second = self.norm(x).chunk(2)
            hidden = functional.gelu(self.up(torch.cat([second, first])))
            return self.down(hidden).view_as(x) + x.transpose(0, 1).contiguous().transpose(0, 1)

    analysis, peak = allocated(Block().eval(), (torch.randn(32, 16, 64),))
    assert peak >= 2 * 32 * 16 * 256 * 4
    assert analysis.peak.live_bytes == peak
    assert analysis.peak.name == "gelu"


def test_live_memory_of_a_zoo_model_is_near_what_a_run_allocates() -> None:
    chosen = zoo.build("simple", "cpu")
    analysis, peak = allocated(chosen.model, chosen.example_inputs)
    # Convolutions take some workspace of their own.
    assert analysis.peak.live_bytes <= peak <= 1.1 * analysis.peak.live_bytes


def test_a_model_without_memory_is_analysed_as_on_the_cpu() -> None:
    def build() -> tuple[nn.Module, torch.Tensor]:
        return nn.TransformerDecoderLayer(64, 4, batch_first=True).eval(), torch.ones(2, 8, 64)

    with torch.device("meta"):
        model, x = build()
    real, y = build()
    analysis = analyze(model, (x, x))
    assert analysis == analyze(real, (y, y))
    assert analysis.parameters == sum(parameter.numel() for parameter in real.parameters())
    assert all(parameter.device.type == "meta" for parameter in model.parameters())


def gpt2_xl(layers: int) -> tuple[nn.Module, dict[str, torch.Tensor]]:
    transformers = pytest.importorskip("transformers")
    config = transformers.GPT2Config(n_embd=1600, n_layer=layers, n_head=25, use_cache=False)
    with torch.device("meta"):
        return transformers.GPT2LMHeadModel(config).eval(), {"input_ids": torch.zeros(1, 1024, dtype=torch.int64)}


def test_an_analysis_allocates_nothing_of_the_size_of_the_model() -> None:
    model, inputs = nn.Linear(2000, 2000), (t(2000, 2000),)
    analysis, record = record_allocations(lambda: analyze(model, inputs))
    assert analysis.held_bytes > 3e7
    assert record.peak_bytes() < 1e5


def test_gpt2_xl_is_analysed_in_seconds() -> None:
    model, inputs = gpt2_xl(48)
    start = time.process_time()
    analysis = analyze(model, inputs)
    # About four seconds of the processor; what else runs on the machine does not count.
    assert time.process_time() - start < 30
    # Source of the parameters: Radford et al. 2019 and their repository, openai/gpt-2: "1.5B".
    assert analysis.parameters == 1_557_611_200
    block = 2 * 1024 * 12 * 1600**2 + 2 * 2 * 1024**2 * 1600
    assert analysis.total.flops == 48 * block + 2 * 1024 * 1600 * 50257
    assert analysis.held_bytes > 6e9
