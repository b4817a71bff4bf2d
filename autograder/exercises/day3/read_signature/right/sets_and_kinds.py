"""Comprehensions over the specs, unused by what no node lists among its inputs."""


def read_signature(program):
    specs = program.graph_signature.input_specs
    read = {source.name for node in program.graph.nodes for source in node.all_input_nodes}
    by_kind = {
        key: {spec.arg.name: spec.target or spec.arg.name for spec in specs if spec.kind.name == kind}
        for key, kind in (("parameters", "PARAMETER"), ("buffers", "BUFFER"), ("inputs", "USER_INPUT"))
    }
    named = by_kind["parameters"] | by_kind["buffers"] | by_kind["inputs"]
    lists = {key: tuple(names.values()) for key, names in by_kind.items()}
    return lists | {"unused": {name for key, name in named.items() if key not in read}}
