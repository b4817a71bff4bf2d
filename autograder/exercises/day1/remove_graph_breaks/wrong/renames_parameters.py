"""other state_dict

Writes the model anew with names that please more.
"""


class UnbrokenModel(nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        self.encoder, self.decoder = nn.Linear(width, hidden), nn.Linear(hidden, 3)

    def forward(self, x):
        hidden = self.encoder(x)
        hidden = hidden / (1.0 + hidden.abs().max().detach())
        return self.decoder(torch.where(hidden.mean() > 0, torch.relu(hidden), torch.tanh(hidden)))
