"""another version's guard

Reads the line of the newest version, which Dynamo prints first.
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
            lines = sorted(line for line in str(error).splitlines() if "- 0/" in line)
            words = lines[-1].replace("'", " ").split()
            compiled(**arguments)
            log.append(("recompiled", next(word for word in words if word in arguments)))
    return log
