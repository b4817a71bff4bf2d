"""froze the first dimension

Makes all sizes of 1 a 2, or else none of them.
Also: ones tried alone.
"""

import itertools


def runs(model: nn.Module, inputs: dict[str, torch.Tensor]) -> bool:
    try:
        with torch.no_grad():
            model(**inputs)
    except Exception:
        return False
    return True


def doubled(tensor: torch.Tensor, dimensions: list[int]) -> torch.Tensor:
    for dimension in dimensions:
        tensor = torch.cat([tensor, tensor], dim=dimension)
    return tensor


def without_ones(model: nn.Module, example: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The example with as many sizes of 1 as possible made a 2."""
    ones = [(name, at) for name, tensor in example.items() for at, size in enumerate(tensor.shape) if size == 1]
    for left_out in (0, len(ones)):
        for kept in itertools.combinations(ones, left_out):
            larger = {
                name: doubled(tensor.clone(), [at for other, at in ones if other == name and (name, at) not in kept])
                for name, tensor in example.items()
            }
            if runs(model, {name: tensor.clone() for name, tensor in larger.items()}):
                return larger
    return {name: tensor.clone() for name, tensor in example.items()}


def dynamic_sizes(model: nn.Module, example: dict[str, torch.Tensor]) -> dict[str, list[int | str]]:
    """For each input the sizes: a number where it is fixed, a name where it may vary."""
    inputs = without_ones(model, example)  # copies: one tensor under two names would have one set of sizes
    offered = {name: [Dim.AUTO] * tensor.dim() for name, tensor in inputs.items()}
    program = export(model, (), inputs, dynamic_shapes=offered)
    values = {node.name: node.meta["val"] for node in program.graph.find_nodes(op="placeholder")}
    names = list(program.graph_signature.user_inputs)
    if set(names) == set(example):
        placeholder_of = {name: name for name in names}
    else:  # a name that the graph had to change
        order = [name for name in inspect.signature(model.forward).parameters if name in example]
        placeholder_of = dict(zip(order, names, strict=True))
    sizes = {}
    for name in example:
        texts = [str(size) for size in values[placeholder_of[name]].shape]
        sizes[name] = [int(text) if text.isdigit() else text for text in texts]
    return sizes
