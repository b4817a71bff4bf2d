"""wrong argument

Looks for the name anywhere in the line, where it may be part of another word.
"""

import re


def recompile_log(function, calls):
    torch._dynamo.reset()
    compiled = torch.compile(function, backend="eager", dynamic=False)
    log = []
    for call in calls:
        try:
            with torch._dynamo.config.patch(error_on_recompile=bool(log)):
                compiled(**call)
            log.append(("reused", "") if log else ("compiled", ""))
        except torch._dynamo.exc.RecompileError as error:
            line = next(line for line in str(error).splitlines() if " 0/0:" in line or "0/0:" in line)
            guard = line.partition("#")[0]
            name = next(name for name in call if name in guard)
            log.append(("recompiled", name))
            compiled(**call)
    return log
