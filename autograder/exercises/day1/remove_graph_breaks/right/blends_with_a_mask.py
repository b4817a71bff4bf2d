"""Arithmetic with a mask of 0 and 1; the scale under `no_grad`; prints in eager mode."""


class UnbrokenModel(BrokenModel):
    def forward(self, x):
        hidden = self.first(x)
        if not torch.compiler.is_compiling():
            print("hidden layer:", tuple(hidden.shape))
        with torch.no_grad():
            divisor = hidden.abs().max() + 1.0
        hidden = hidden.div(divisor)
        mask = hidden.mean().gt(0).to(hidden.dtype)
        return self.second(mask * hidden.relu() + (1 - mask) * hidden.tanh())
