"""A learner's own model, as `module:factory`: what comes in, and what is said when it does not."""

import sys

import pytest
import torch

from fxopt_workbench import zoo

HEAD = "import torch\nfrom torch import nn\n\n"


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Write a module `mine` in the current folder; it is forgotten afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "mine", raising=False)

    def make(source):
        (tmp_path / "mine.py").write_text(HEAD + source)

    yield make
    for name in [name for name in sys.modules if name.split(".")[0] == "mine"]:
        del sys.modules[name]


def test_a_model_from_the_current_folder(write):
    write("def build():\n    '''Mine: one layer.\n\n    More.'''\n    return nn.Linear(3, 2), (torch.randn(4, 3),)\n")
    chosen, again = zoo.build("mine:build", "cpu"), zoo.build("mine:build", "cpu")
    assert chosen.description == "Mine: one layer."
    assert not chosen.model.training
    assert chosen.model(*chosen.example_inputs).shape == (4, 2)
    assert torch.equal(chosen.model.weight, again.model.weight)
    assert not torch.equal(chosen.model.weight, zoo.build("mine:build", "cpu", seed=1).model.weight)
    shapes_only = zoo.build("mine:build", "meta", torch.float16)
    assert {shapes_only.model.weight.device.type, shapes_only.example_inputs[0].device.type} == {"meta"}
    assert shapes_only.model.weight.dtype == shapes_only.example_inputs[0].dtype == torch.float16


def test_a_model_from_a_package_whose_factory_is_an_attribute_and_whose_inputs_have_names(tmp_path, write):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "__init__.py").write_text("")
    (tmp_path / "mine" / "inner.py").write_text(
        HEAD + "class Models:\n    @staticmethod\n    def small():\n"
        "        from mine import helper\n        return nn.Linear(3, 2), {'input': helper.example()}\n"
    )
    (tmp_path / "mine" / "helper.py").write_text(HEAD + "def example():\n    return torch.ones(1, 3)\n")
    chosen = zoo.build("mine.inner:Models.small", "cpu")
    assert chosen.model(**chosen.example_inputs).shape == (1, 2)
    assert chosen.description == "Made by mine.inner:Models.small."


@pytest.mark.parametrize(
    ("name", "source", "message"),
    [
        ("mine:", "", "'mine:' is not of the form module:factory; expected, say, mypackage.mymodule:build"),
        ("a/b.py:build", "", "is not of the form module:factory"),
        ("absent_package.deep:build", "", "there is no module 'absent_package', neither installed nor in"),
        ("mine.deep:build", "", "there is no module 'mine.deep'"),
        (
            "mine:build",
            "import absent_package\n",
            "cannot be imported: ModuleNotFoundError: No module .*mine.py, line 4",
        ),
        ("mine:build", "def broken(:\n", r"mine cannot be imported: SyntaxError: .* \(mine.py, line 4\)\.$"),
        ("mine:build", "1 / 0\n", r"cannot be imported: ZeroDivisionError: division by zero \(mine.py, line 4\)"),
        (
            "mine:biuld",
            "def build(): pass\n",
            r"mine has no 'biuld'; expected .*\(model, example_inputs\)\. Did you mean 'build'",
        ),
        (
            "mine:nothing_like_it",
            "from inspect import signature\ndef _help(): pass\ndef build(): pass\ndef large(): pass\n",
            r"mine has no 'nothing_like_it'; expected the name of a function .*\. Its functions are build, large\.$",
        ),
        ("mine:build", "build = 3\n", "is of the type int; expected a function without arguments"),
        ("mine:build", "build = nn.ReLU()\n", "is of the type ReLU; expected a function without arguments"),
        (
            "mine:build",
            "def build(size, *more, deep=1): pass\n",
            "mine:build needs 'size'; expected a function without",
        ),
        ("mine:build", "raise SystemExit(2)\n", r"mine cannot be imported: SystemExit: 2 \(mine.py, line 4\)\.$"),
        ("mine:build", "build = type('F', (), {'__call__': lambda s: nn.no_such})()\n", r"\(mine.py, line 4\)\.$"),
        ("math:hypot", "", r"the factory math:hypot returned a float; expected"),
        ("builtins:iter", "", r"the factory builtins:iter failed: TypeError: [^()]*\.$"),
        ("mine:build", "def build():\n    return 1 / 0\n", r"ZeroDivisionError: division by zero \(mine.py, line 5\)"),
        ("mine:build", "def build():\n    return nn.ReLU()\n", "returned a ReLU; expected a pair"),
        ("mine:build", "def build():\n    return 1, 2, 3\n", "returned a tuple of 3; expected a pair"),
        ("mine:build", "def build():\n    return torch.relu, ()\n", "returned a model of the type builtin.*; expected"),
        (
            "mine:build",
            "def build():\n    return nn.ReLU(), torch.ones(2)\n",
            r"returned example inputs of the type Tensor \(a single tensor x is given as \(x,\)\); expected",
        ),
        (
            "mine:build",
            "def build():\n    return nn.ReLU(), {1: 2}\n",
            r"inputs with the keywords \[1\]; expected",
        ),
    ],
)
def test_what_is_wrong_is_said(write, name, source, message):
    write(source)
    with pytest.raises(zoo.OwnModelError, match=message) as caught:
        zoo.build(name, "cpu")
    assert "\n" not in str(caught.value)
