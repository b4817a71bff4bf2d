"""A handler on the logger in which Dynamo reports recompilations, and a regular expression."""

import logging
import re

import torch


class Messages(logging.Handler):
    def __init__(self):
        super().__init__()
        self.texts = []

    def emit(self, record):
        self.texts.append(record.getMessage())


def recompile_log(function, calls):
    torch._dynamo.reset()
    compiled = torch.compile(function, backend="eager", dynamic=False)
    names = "|".join(calls[0])
    torch._logging.set_logs(recompiles=True)
    messages = Messages()
    logger = logging.getLogger("torch._dynamo.guards.__recompiles")
    others, logger.handlers = logger.handlers, [messages]
    try:
        log = []
        for arguments in calls:
            messages.texts.clear()
            compiled(**arguments)
            if messages.texts:
                log.append(("recompiled", re.search(rf"0/0: .*?\b({names})\b", messages.texts[0])[1]))
            else:
                log.append(("reused" if log else "compiled", ""))
        return log
    finally:
        logger.handlers = others
        torch._logging.set_logs()
