"""Takes the peak as `.data`, prints it in eager mode, and has a Python `if` there."""


class UnbrokenModel(BrokenModel):
    def forward(self, x):
        hidden = self.first(x)
        peak = hidden.abs().max().data
        hidden = hidden.div(peak.add(1.0))
        if torch.compiler.is_compiling():
            hidden = torch.lerp(hidden.tanh(), hidden.relu(), hidden.mean().gt(0).float())
        else:
            print("peak:", peak, "mean:", hidden.mean())
            hidden = hidden.relu() if hidden.mean() > 0 else hidden.tanh()
        return self.second(hidden)
