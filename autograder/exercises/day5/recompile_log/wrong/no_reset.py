"""earlier runs leak in

Believes that `torch.compile` begins with nothing.
"""

import torch

compiled_functions = {}


def recompile_log(function, calls):
    compiled = compiled_functions.setdefault(function, torch.compile(function, backend="eager", dynamic=False))
    log = []
    for arguments in calls:
        try:
            with torch._dynamo.config.patch(error_on_recompile=True):
                compiled(**arguments)
            log.append(("reused" if log or function in seen else "compiled", ""))
        except torch._dynamo.exc.RecompileError as error:
            [line] = [line for line in str(error).splitlines() if "- 0/0: " in line]
            words = line.replace("'", " ").split()
            compiled(**arguments)
            log.append(("recompiled", next(word for word in words if word in arguments)))
    seen.add(function)
    return log


seen = set()
