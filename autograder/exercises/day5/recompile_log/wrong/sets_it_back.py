"""wrong argument

Experiments from the wrong side: which argument compiles again when it is set back to what it was at first?
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
    for arguments, count in list(zip(calls, compilations(function, calls)))[1:]:
        if not count:
            log.append(("reused", ""))
            continue
        back = (
            name for name in arguments if compilations(function, [arguments, {**arguments, name: calls[0][name]}])[1]
        )
        log.append(("recompiled", next(back)))
    return log
