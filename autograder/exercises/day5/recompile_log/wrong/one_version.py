"""one version remembered

Believes that the newest version takes the place of the one before.
"""

import torch


def recompile_log(function, calls):
    log = [("compiled", "")]
    for previous, arguments in zip(calls, calls[1:]):
        torch._dynamo.reset()
        compiled = torch.compile(function, backend="eager", dynamic=False)
        compiled(**previous)
        try:
            with torch._dynamo.config.patch(error_on_recompile=True):
                compiled(**arguments)
            log.append(("reused", ""))
        except torch._dynamo.exc.RecompileError as error:
            [line] = [line for line in str(error).splitlines() if "- 0/0: " in line]
            words = line.replace("'", " ").split()
            log.append(("recompiled", next(word for word in words if word in arguments)))
    return log
