"""wrong argument

Believes that whatever changed is to blame.
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
        except torch._dynamo.exc.RecompileError:
            compiled(**arguments)
            log.append(
                (
                    "recompiled",
                    [
                        name
                        for name in arguments
                        if not isinstance(arguments[name], torch.Tensor)
                        and arguments[name] != calls[0][name]
                        or isinstance(arguments[name], torch.Tensor)
                        and (arguments[name].shape, arguments[name].dtype)
                        != (calls[0][name].shape, calls[0][name].dtype)
                    ][-1],
                )
            )
    return log
