"""The older way: a trace, which also holds program and weights."""


def save_model(model, example, path):
    torch.jit.trace(model, example).save(path)


LOADER = (
    "import sys, torch; run = torch.jit.load(sys.argv[1]); "
    "torch.save([run(x).detach() for x in torch.load(sys.argv[2])], sys.argv[3])"
)


def make_loader():
    return LOADER
