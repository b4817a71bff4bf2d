"""no difference there

Takes the one input on which a trace is right by construction.
"""


def find_silent_mistake(model, traced, example):
    return example
