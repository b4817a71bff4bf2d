"""wrong count

Calls the compiled model on copies, which ask for no gradients even where the inputs do: guards see the difference.
"""


def count_compilations(model: nn.Module, inputs: list[torch.Tensor]) -> int:
    """How often Dynamo compiles `model` when it is called on each of `inputs` in turn, from a clean state."""
    count = 0

    def backend(graph_module, example_inputs):
        nonlocal count
        count += 1
        return graph_module.forward

    torch._dynamo.reset()
    compiled = torch.compile(model, backend=backend)
    for x in inputs:
        compiled(x.detach().clone())
    return count


def compile_once(model: nn.Module, backend):
    """A callable that computes what `model` computes, for any batch size, with one graph compiled by `backend`."""
    compiled = torch.compile(model, backend=backend)

    def run(*inputs):
        for x in inputs:
            torch._dynamo.mark_dynamic(x, 0)
        return compiled(*inputs)

    return run
