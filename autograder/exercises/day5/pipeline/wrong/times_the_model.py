"""timed the model

Times the model, not its graph.
"""


def count(graph_module):
    return sum(node.op == "call_function" for node in graph_module.graph.nodes)


def pipeline(model, example, others, passes, measure):
    reference = copy.deepcopy(model).eval()
    rows = example if example.shape[0] > 1 else torch.cat([example, example])
    try:
        with torch.no_grad():
            captured = export(copy.deepcopy(reference), (rows,), dynamic_shapes=({0: Dim("batch", min=1)},)).module()
    except Exception:
        return model, {"captured": False, "kept": [], "rejected": [], "operations": (0, 0), "seconds": (0, 0)}
    tried = [example, *others]
    with torch.no_grad():
        wanted = [reference(x.clone()) for x in tried]

    def improved(graph_module, function):
        candidate = copy.deepcopy(graph_module)
        try:
            function(candidate)
            with torch.no_grad():
                for x, answer in zip(tried, wanted):
                    found = candidate(x.clone())
                    if found.shape != answer.shape or not torch.allclose(found, answer, rtol=1e-4, atol=1e-4):
                        return None
        except Exception:
            return None
        return candidate

    result, kept, rejected = captured, [], []
    for name, function in passes.items():
        candidate = improved(result, function)
        if candidate is None:
            rejected.append(name)
        else:
            kept.append(name)
            result = candidate
    times = [(measure(reference), measure(result)) for _ in range(6)][1:]
    seconds = tuple(statistics.median(column) for column in zip(*times))
    return result, {
        "captured": True,
        "kept": kept,
        "rejected": rejected,
        "operations": (count(captured), count(result)),
        "seconds": seconds,
    }
