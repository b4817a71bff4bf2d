"""no argument

Hands on the whole message.
"""

import torch


def recompile_log(function, calls):
    torch._dynamo.reset()
    compiled = torch.compile(function, backend="eager", dynamic=False)
    compiled(**calls[0])
    log = [("compiled", "")]
    for arguments in calls[1:]:
        try:
            with torch._dynamo.config.patch(error_on_recompile=True):
                compiled(**arguments)
            log.append(("reused", ""))
        except torch._dynamo.exc.RecompileError as error:
            compiled(**arguments)
            log.append(("recompiled", str(error)))
    return log
