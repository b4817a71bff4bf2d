"""loud, not silent

Takes an error of the trace for a mistake, and tries what is answered first.
"""


def candidates(example):
    batch, length, width = example.shape
    generator = torch.Generator().manual_seed(0)
    for magnitude in (1.0, 0.03, 10.0, 40.0, 150.0, 500.0, 1000.0):
        for steps in (length, length + 1, 2 * length, 1):
            noise = torch.rand(batch, steps, width, generator=generator)
            for values in (noise, -noise, torch.ones_like(noise), -torch.ones_like(noise)):
                yield magnitude * values


def find_silent_mistake(model, traced, example):
    for x in candidates(example):
        try:
            found = traced(x)
        except RuntimeError:
            return x
        wanted = model(x)
        if found.shape != wanted.shape or not torch.allclose(found, wanted, rtol=1e-4, atol=1e-4):
            return x
    return None
