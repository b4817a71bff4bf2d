"""wrong argument

Sets one argument back at a time until the first version fits; where several are new, it takes the first of all.
"""

import torch


def compilations(function, calls):
    compiled = [0]

    def backend(graph_module, example_inputs):
        compiled[-1] += 1
        return graph_module.forward

    torch._dynamo.reset()
    run = torch.compile(function, backend=backend, dynamic=False)
    for arguments in calls:
        compiled.append(0)
        run(**arguments)
    return compiled[1:]


def recompile_log(function, calls):
    log = [("compiled", "")]
    first = calls[0]
    for arguments, count in list(zip(calls, compilations(function, calls)))[1:]:
        if not count:
            log.append(("reused", ""))
            continue
        alone = [name for name in first if not compilations(function, [first, {**arguments, name: first[name]}])[1]]
        log.append(("recompiled", [*alone, *arguments][0]))
    return log
