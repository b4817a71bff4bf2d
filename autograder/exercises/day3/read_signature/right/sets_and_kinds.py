"""Comprehensions over the specs, unused by what no node lists among its inputs."""


def read_signature(program):
    specs = program.graph_signature.input_specs
    read = {source.name for node in program.graph.nodes for source in node.all_input_nodes}
    by_kind = {
        key: tuple(spec.target or spec.arg.name for spec in specs if spec.kind.name == kind)
        for key, kind in (("parameters", "PARAMETER"), ("buffers", "BUFFER"), ("inputs", "USER_INPUT"))
    }
    return by_kind | {"unused": {spec.target or spec.arg.name for spec in specs if spec.arg.name not in read}}
