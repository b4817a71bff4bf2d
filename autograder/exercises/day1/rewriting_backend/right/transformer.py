"""Has a Transformer write the graph once more, call by call."""


class _Approximate(torch.fx.Transformer):
    def call_function(self, target, args, kwargs):
        if target is torch.nn.functional.gelu and kwargs.get("approximate", "none") == "none":
            kwargs = {**kwargs, "approximate": "tanh"}
        return super().call_function(target, args, kwargs)


def make_backend(compile_inner):
    def backend(graph_module, example_inputs):
        return compile_inner(_Approximate(graph_module).transform(), example_inputs)

    return backend
