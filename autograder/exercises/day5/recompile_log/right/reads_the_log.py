"""A handler on the logger in which Dynamo reports recompilations, and a regular expression."""

import inspect
import logging
import re

import torch


class Message(logging.Handler):
    def emit(self, record):
        self.text = record.getMessage()


def recompile_log(function, calls):
    torch._dynamo.reset()
    compiled = torch.compile(function, backend="eager", dynamic=False)
    names = "|".join(inspect.signature(function).parameters)
    torch._logging.set_logs(recompiles=True)
    message = Message()
    logging.getLogger("torch._dynamo.guards.__recompiles").handlers = [message]
    log = []
    for arguments in calls:
        message.text = ""
        compiled(**arguments)
        if message.text:
            log.append(("recompiled", re.search(rf"0/0: .*?\b({names})\b", message.text)[1]))
        else:
            log.append(("reused" if log else "compiled", ""))
    return log
