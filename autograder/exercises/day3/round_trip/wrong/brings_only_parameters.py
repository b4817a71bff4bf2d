"""buffers lost

Brings the source of the class along, and what is trained.
"""


def save_model(model, example, path):
    torch.save({"width": model.first.in_features, "state": dict(model.named_parameters())}, path)


LOADER = """
import sys, torch
from torch import nn
program_path, inputs_path, outputs_path = sys.argv[1:]

class Scorer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.first, self.second = nn.Linear(width, 6), nn.Linear(6, 2)
        self.register_buffer("mean", torch.zeros(width))
        self.register_buffer("scale", torch.ones(width), persistent=False)

    def forward(self, x):
        return self.second(torch.tanh(self.first((x - self.mean) * self.scale)))

saved = torch.load(program_path)
model = Scorer(saved["width"])
model.load_state_dict(saved["state"], strict=False)
torch.save([model(x).detach() for x in torch.load(inputs_path)], outputs_path)
"""


def make_loader():
    return LOADER
