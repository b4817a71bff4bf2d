"""What is put off is there when somebody needs it, and nobody else pays for it."""

import subprocess
import sys
from pathlib import Path

import pytest

from autograder.exchange.deferring import PACKAGE

READS = """
import sys
import autograder
import nbformat
import jsonschema

assert "lark" not in sys.modules
nbformat.validate(nbformat.v4.new_notebook())
assert "lark" not in sys.modules, "reading a notebook built the parsers"
"""

ASKS = """
checker = jsonschema.FormatChecker(["iri"])
assert checker.conforms("https://example.org/\\u00fc", "iri")
assert not checker.conforms("no address", "iri")
assert "lark" in sys.modules
import rfc3987_syntax
from rfc3987_syntax.syntax_helpers import is_valid_syntax
assert rfc3987_syntax.is_valid_syntax is is_valid_syntax
"""


@pytest.mark.parametrize("more", ["", ASKS], ids=["notebooks are read", "an address is checked"])
def test_parsers_of_addresses_are_built_when_an_address_is_checked(more: str) -> None:
    pytest.importorskip(PACKAGE, reason="jsonschema goes without, and so there is nothing to put off")
    done = subprocess.run([sys.executable, "-c", READS + more], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_stand_in_grader_of_the_tests_builds_none() -> None:
    """Many tests start it, each time as a new process."""
    here = str(Path(__file__).parent)
    code = f"import sys; sys.path.insert(0, {here!r}); import stub_grader; sys.exit('lark' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_without_the_package_nothing_stands_in_for_it() -> None:
    code = f"""
import importlib.util, sys
really = importlib.util.find_spec
importlib.util.find_spec = lambda name, *rest: None if name == {PACKAGE!r} else really(name, *rest)
import autograder
assert {PACKAGE!r} not in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
