"""One test of a figure, and one of what is named as unknown: write both for each operator of yours."""

import torch

from my_capstone.count_products import cost


def graph_of(function, *inputs):
    return torch.export.export(Model(function), inputs).run_decompositions().module()


class Model(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *inputs):
        return self.function(*inputs)


def test_a_product_of_matrices() -> None:
    graph_module = graph_of(torch.mm, torch.randn(3, 4), torch.randn(4, 5))
    assert cost(graph_module)["mm"] == (2 * 3 * 4 * 5, 4 * (12 + 20 + 15))


def test_what_is_not_known_is_named() -> None:
    assert cost(graph_of(torch.sin, torch.randn(3)))["sin"] is None
