"""loader is no text

Returns a function where the source of a program is asked for.
"""


def save_model(model, example, path):
    sizes = ({0: torch.export.Dim("batch", min=1)},)
    torch.export.save(torch.export.export(model, (example,), dynamic_shapes=sizes), path)


def make_loader():
    return torch.export.load
