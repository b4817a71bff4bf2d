"""wrong for no steps

Chooses among the results of all numbers of steps but 0.
"""

import sys
from unittest import mock

from torch._subclasses.functional_tensor import FunctionalTensor


class Steps(int):
    """A number of steps that is known: `range`, `int` and `item` all take it."""

    def item(self) -> int:
        return int(self)


class ExportableModel(GivenModel):
    """Computes what `GivenModel` computes, in a form that `torch.export` accepts. The constructor is inherited."""

    def forward(self, x: torch.Tensor, steps: torch.Tensor) -> torch.Tensor:
        """(batch, width) and () to (batch, hidden)."""
        result = self.both_sides(x, Steps(1), ())
        for count in range(2, self.most_steps + 1):
            result = torch.where(steps == count, self.both_sides(x, Steps(count), ()), result)
        return result

    def both_sides(self, x: torch.Tensor, steps: Steps, decided: tuple) -> torch.Tensor:
        """What the given model answers for so many steps: each decision on a tensor becomes a `torch.where`."""
        file = GivenModel.forward.__code__.co_filename
        asked = []

        def deciding(original):
            def decide(tensor):
                if sys._getframe(1).f_code.co_filename != file:
                    return original(tensor)
                asked.append(tensor)
                return decided[len(asked) - 1] if len(asked) <= len(decided) else True

            return decide

        def item(tensor):
            return tensor if sys._getframe(1).f_code.co_filename == file else torch._C.TensorBase.item(tensor)

        with (
            mock.patch.object(torch.Tensor, "__bool__", deciding(torch.Tensor.__bool__)),
            mock.patch.object(FunctionalTensor, "__bool__", deciding(FunctionalTensor.__bool__)),
            mock.patch.object(torch.Tensor, "item", item),
        ):
            answer = GivenModel.forward(self, x, steps)
        if len(asked) <= len(decided):
            return answer
        condition = asked[len(decided)]
        yes, no = (self.both_sides(x, steps, (*decided, side)) for side in (True, False))
        return torch.where(condition, yes, no)
