"""first graph only

Remembers that it has rewritten, and takes that for all graphs.
"""


def make_backend(compile_inner):
    done = set()

    def backend(graph_module, example_inputs):
        for node in graph_module.graph.nodes:
            if done and node.graph not in done:
                break
            done.add(node.graph)
            if getattr(node.target, "__name__", "") == "gelu" and node.kwargs.get("approximate", "none") == "none":
                node.kwargs = {**node.kwargs, "approximate": "tanh"}
        graph_module.recompile()
        return compile_inner(graph_module, example_inputs)

    return backend
