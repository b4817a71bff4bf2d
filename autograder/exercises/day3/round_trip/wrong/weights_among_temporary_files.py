"""left something behind

Keeps the weights in the folder for temporary files, which does not travel either.
"""

import os
import tempfile

WEIGHTS = os.path.join(tempfile.gettempdir(), "weights_of_the_scorer.pt")


def save_model(model, example, path):
    several = example.repeat(2, 1)
    program = torch.export.export(model, (several,), dynamic_shapes=({0: torch.export.Dim("batch", min=1)},))
    torch.export.save(program, path)
    torch.save(dict(program.state_dict), WEIGHTS)


def make_loader():
    return "\n".join(
        [
            "import sys",
            "import torch",
            "program_path, inputs_path, outputs_path = sys.argv[1:]",
            "run = torch.export.load(program_path).module()",
            f"run.load_state_dict(torch.load({WEIGHTS!r}), strict=False)",
            "torch.save([run(x).detach() for x in torch.load(inputs_path)], outputs_path)",
        ]
    )
