"""left something behind

Writes the weights to a second file, beside the one that travels.
"""


def save_model(model, example, path):
    several = example.repeat(2, 1)
    program = torch.export.export(model, (several,), dynamic_shapes=({0: torch.export.Dim("batch", min=1)},))
    torch.export.save(program, path)
    torch.save(dict(program.state_dict), path + ".weights")


def make_loader():
    return "\n".join(
        [
            "import sys",
            "import torch",
            "program_path, inputs_path, outputs_path = sys.argv[1:]",
            "run = torch.export.load(program_path).module()",
            "run.load_state_dict(torch.load(program_path + '.weights'), strict=False)",
            "torch.save([run(x).detach() for x in torch.load(inputs_path)], outputs_path)",
        ]
    )
