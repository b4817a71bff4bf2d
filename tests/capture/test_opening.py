"""Pieces of a batch at once: right where they are treated alike, never taken where they are not."""

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensor
from torch._subclasses.functional_tensor import FunctionalTensor

from fxopt_core.capture import capture
from fxopt_core.capture.extensions import Adapted
from fxopt_workbench.huggingface.batch_pieces import PiecesAtOnce, opened
from fxopt_workbench.huggingface.positions import places_of_patches, places_of_tokens, windows_of_patches

AT_ONCE = "pieces of a batch at once"


class Pieces(nn.Module):
    """Rows of so many for each example, split, treated one by one, and put together again."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, rows: torch.Tensor, sizes: torch.Tensor) -> torch.Tensor:
        return torch.cat([self.piece(piece) for piece in rows.split(sizes.tolist())])

    def piece(self, rows: torch.Tensor) -> torch.Tensor:
        return self.layer(rows).relu()


class Numbered(Pieces):
    """Where each piece begins counts too: of two pieces there is one such number besides 0."""

    def forward(self, rows: torch.Tensor, sizes: torch.Tensor) -> torch.Tensor:
        starts = nn.functional.pad(sizes.cumsum(0)[:-1], (1, 0))
        return super().forward(rows, sizes) + starts.sum()


class Centred(Pieces):
    """Each row less the mean of its piece."""

    def piece(self, rows: torch.Tensor) -> torch.Tensor:
        return rows - rows.mean(0)


class Attending(Pieces):
    """Attention among the rows of each piece, of two heads."""

    mask = False

    def piece(self, rows: torch.Tensor) -> torch.Tensor:
        raise NotImplementedError

    def forward(self, rows: torch.Tensor, sizes: torch.Tensor) -> torch.Tensor:
        heads = self.layer(rows).unflatten(-1, (2, 2)).transpose(0, 1).unsqueeze(0)
        pieces = [torch.split(one, sizes.tolist(), dim=2) for one in (heads, heads * 2, rows.expand(1, 2, -1, -1))]
        attend = nn.functional.scaled_dot_product_attention
        return torch.cat([attend(q, k, v, is_causal=self.mask) for q, k, v in zip(*pieces, strict=True)], dim=2)


class Causal(Attending):
    mask = True


def given(*sizes: int) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(sum(sizes), 4, generator=torch.Generator().manual_seed(len(sizes))), torch.tensor(sizes)


@pytest.mark.parametrize("kind", [Pieces, Attending, Numbered])
def test_a_loop_over_pieces_becomes_a_graph_for_any_number_of_them(kind):
    model = kind()
    captured = capture(model, given(3, 3), "auto", dynamic=True)
    assert captured.adaptations[0] == AT_ONCE
    assert not captured.specialised
    assert captured.attempts[-1].strategy == ("export, sizes unseen" if kind is Numbered else "export")
    for sizes in ((3, 3), (1, 5), (2, 4, 3, 5), (0, 7, 2)):
        torch.testing.assert_close(captured.run(*given(*sizes)), model(*given(*sizes)))
    rows, sizes = given(3, 3)
    for wrong in (sizes + 1, sizes - 1, torch.tensor([7, -1])):
        with pytest.raises((RuntimeError, AssertionError)):
            captured.run(rows, wrong)


@pytest.mark.parametrize("kind", [Centred, Causal])
def test_pieces_that_are_not_treated_row_by_row_are_never_taken_at_once(kind):
    model = kind()
    captured = capture(model, given(3, 3), "auto", dynamic=True)
    assert AT_ONCE not in captured.adaptations
    assert captured.specialised
    torch.testing.assert_close(captured.run(*given(3, 3)), model(*given(3, 3)))


@pytest.mark.parametrize("sizes", [(6,), (6, 0)])
def test_an_example_of_one_piece_shows_nothing(sizes):
    assert opened(Adapted(Pieces()), given(*sizes), {}) is None
    assert opened(Adapted(Pieces()), given(5, 1), {}) is not None


def test_a_model_without_pieces_and_a_function_are_left_alone():
    assert opened(Adapted(nn.Linear(4, 4)), (torch.ones(2, 4),), {}) is None
    assert opened(Adapted(lambda rows, sizes: torch.cat(rows.split(sizes.tolist()))), given(3, 3), {}) is None


def test_numbers_are_read_when_somebody_looks():
    with PiecesAtOnce() as pieces:
        numbers = torch.tensor([2, 3]).tolist()
        assert torch.tensor([[2], [3]]).tolist() == [[2], [3]]
        assert [len(numbers), *numbers, numbers[-1], sum(numbers)] == [2, 2, 3, 3, 5]
        assert [len(one) for one in torch.arange(5).split([2, 3])] == [2, 3]
        assert not pieces.reasons
        (whole,) = torch.arange(5).split(numbers)
    assert len(whole) == 5
    assert list(pieces.reasons) == [AT_ONCE]


def test_nothing_of_torch_or_transformers_stays_changed():
    from transformers import vision_utils

    before = FakeTensor.tolist, FunctionalTensor.tolist, vision_utils.get_vision_position_ids
    with PiecesAtOnce():
        assert vision_utils.get_vision_position_ids is not before[2]
    with pytest.raises(RuntimeError), PiecesAtOnce():
        torch.ones(2) + torch.ones(3)
    assert (FakeTensor.tolist, FunctionalTensor.tolist, vision_utils.get_vision_position_ids) == before
    assert torch.tensor([1]).tolist() == [1]


@pytest.mark.parametrize("temporal", [False, True])
@pytest.mark.parametrize("merge", [1, 2, torch.tensor([2, 1, 2])])
def test_places_of_patches_are_those_of_transformers(merge, temporal):
    from transformers.vision_utils import get_vision_position_ids

    grids = torch.tensor([[1, 4, 6], [2, 8, 2], [3, 2, 2]])
    expected = get_vision_position_ids(grids, merge, temporal)
    assert torch.equal(places_of_patches(grids, merge, temporal), expected)
    with PiecesAtOnce() as pieces:
        from transformers import vision_utils

        assert torch.equal(vision_utils.get_vision_position_ids(grids, merge, include_temporal=temporal), expected)
        own = {"position_ids": grids}
        assert vision_utils.get_vision_position_ids(grids, merge, kwargs=own) is grids
    assert list(pieces.reasons) == ["places of patches at once"]


@pytest.mark.parametrize("merge", [1, 2])
@pytest.mark.parametrize("side", [1, 2, 3])
def test_windows_of_patches_are_those_of_transformers(merge, side):
    from transformers import vision_utils

    grids = torch.tensor([[1, 4, 6], [2, 8, 2], [3, 2, 2], [1, 12, 10]])
    sizes = grids, merge, side * merge * 7, 7
    expected = vision_utils.get_vision_window_index(*sizes)
    for one, other in zip(windows_of_patches(grids, merge, side), expected, strict=True):
        assert torch.equal(one, other)
        assert one.dtype == other.dtype
    with PiecesAtOnce() as pieces:
        for one, other in zip(vision_utils.get_vision_window_index(*sizes), expected, strict=True):
            assert torch.equal(one, other)
        own = {"window_index": grids, "cu_window_seqlens": grids}
        assert vision_utils.get_vision_window_index(*sizes, kwargs=own)[0] is grids
    assert list(pieces.reasons) == ["windows of patches at once"]


def rows_of(*rows: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Kinds of tokens (`t` text, `i` image) and the mask (`.` is padding) of rows of equal length."""
    kinds = torch.tensor([["t.i".index(one) // 2 for one in row] for row in rows])
    return kinds, torch.tensor([[one != "." for one in row] for row in rows]).long()


@pytest.mark.parametrize(
    "family", ["qwen2_vl", "qwen2_5_vl", "qwen3_vl", "glm4v", "ernie4_5_vl_moe", "paddleocr_vl", "cosmos3_edge"]
)
@pytest.mark.parametrize("masked", [True, False])
def test_places_of_tokens_are_those_of_transformers(family, masked):
    model = tokens_model(family)
    rows = (
        ("ttiiiitttii", "iitiiiiiiti", "ttttttttttt") if not masked else ("..iiiitt.ii", "iitiiiiiit.", "t..........")
    )
    kinds, mask = rows_of(*rows)
    grids = torch.tensor([[1, 4, 4], [1, 2, 4], [1, 4, 2], [3, 4, 2], [1, 2, 2]])
    grids = grids if not masked else grids[:4]
    given = {"image_grid_thw": grids, "attention_mask": mask if masked else None}
    expected = model.get_rope_index(kinds + 5, kinds, **given)
    for one, other in zip(places_of_tokens(kinds, grids, 2, given["attention_mask"]), expected, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=0, check_dtype=False)
    with PiecesAtOnce(model) as pieces:
        for one, other in zip(model.get_rope_index(kinds + 5, kinds, **given), expected, strict=True):
            torch.testing.assert_close(one, other, rtol=0, atol=0)
        assert list(pieces.reasons) == ["places of tokens at once"]
    assert "get_rope_index" not in vars(model)


def tokens_model(family):
    """The part of a model that places tokens, without its layers."""
    from importlib import import_module
    from types import SimpleNamespace

    module = import_module(f"transformers.models.{family}.modeling_{family}")
    kind = next(one for one in vars(module).values() if isinstance(one, type) and "get_rope_index" in vars(one))

    class Placing(nn.Module):
        get_rope_index = kind.get_rope_index
        get_vision_position_ids = kind.get_vision_position_ids

    model = Placing()
    model.config = SimpleNamespace(
        vision_config=SimpleNamespace(spatial_merge_size=2, tokens_per_second=2, temporal_merge_size=2)
    )
    return model


@pytest.mark.parametrize(
    ("row", "grid"), [("tii", [1, 4, 4]), ("tiiiii", [1, 4, 4]), ("...", [1, 4, 4]), ("tiitii", [1, 2, 4])]
)
def test_tokens_that_do_not_fit_the_grids_have_no_places(row, grid):
    kinds, mask = rows_of(row)
    with pytest.raises((RuntimeError, IndexError)):
        places_of_tokens(kinds, torch.tensor([grid]), 2, mask)


def test_tokens_of_videos_are_left_to_the_model():
    model = tokens_model("qwen2_vl")
    kinds, grids = torch.tensor([[0, 2, 2, 0, 1]]), torch.tensor([[2, 2, 2]])
    given = {"image_grid_thw": torch.tensor([[1, 2, 2]]), "video_grid_thw": grids}
    expected = model.get_rope_index(kinds, kinds, **given)
    with PiecesAtOnce(model) as pieces:
        for one, other in zip(model.get_rope_index(kinds, kinds, **given), expected, strict=True):
            assert torch.equal(one, other)
        assert not pieces.reasons
    with pytest.raises(RuntimeError):
        places_of_tokens(kinds, given["image_grid_thw"], 2, None)
