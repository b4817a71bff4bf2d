"""Every operator of mutation: an answer in, what stands there instead out, in this order."""

import textwrap

import pytest

from autograder.mutation.mutants import difference, edits
from autograder.mutation.operators import OPERATORS

CASES: list[tuple[str, str, list[str]]] = [
    ("comparison: boundary", "y = a < b", ["y = a <= b"]),
    ("comparison: boundary", "y = a <= b", ["y = a < b"]),
    ("comparison: boundary", "y = a > b >= c", ["y = a >= b >= c", "y = a > b > c"]),
    ("comparison: boundary", "y = a == b", []),
    ("comparison: negated", "y = a < b", ["y = a >= b"]),
    ("comparison: negated", "y = a not in b", ["y = a in b"]),
    ("comparison: negated", "y = a is None", ["y = a is not None"]),
    ("comparison: one side", "y = n == 1", ["y = n <= 1", "y = n >= 1"]),
    ("comparison: one side", "y = n != -1", ["y = n < -1", "y = n > -1"]),
    ("comparison: one side", "y = n == m", []),
    ("comparison: identity", "y = a == b", ["y = a is b"]),
    ("comparison: identity", "y = a is not b", ["y = a != b"]),
    ("comparison: identity", "y = a is None or type(a) is b or a == 'text'", []),
    ("and/or: swapped", "y = a and b", ["y = (a or b)"]),
    ("and/or: swapped", "y = a or b and c", ["y = (a and b and c)", "y = a or (b or c)"]),
    ("and/or: operand dropped", "y = a and b", ["y = b", "y = a"]),
    ("and/or: operand dropped", "y = (a or b) and c", ["y = c", "y = (a or b)", "y = b and c", "y = a and c"]),
    ("and/or: operand negated", "y = a and b < c", ["y = (not a) and b < c", "y = a and b >= c"]),
    ("not: dropped", "y = not a", ["y = a"]),
    ("condition: negated", "if a < b:\n    f()", ["if a >= b:"]),
    ("condition: negated", "while not a:\n    f()", ["while a:"]),
    ("condition: negated", "y = a if b and c else d", ["y = a if (not (b and c)) else d"]),
    ("condition: negated", "y = [a for a in b if a]", ["y = [a for a in b if (not a)]"]),
    ("condition: always", "if a:\n    f()\nelif b:\n    g()", ["if True:", "elif True:"]),
    ("condition: always", "y = [a for a in b if a]", ["y = [a for a in b if True]"]),
    ("condition: always", "while a:\n    f()", []),
    ("condition: never", "if a:\n    f()\nelif b:\n    g()", ["if False:", "elif False:"]),
    ("condition: never", "while a:\n    f()", ["while False:"]),
    ("number: off by one", "y = 0", ["y = 1", "y = (-1)"]),
    ("number: off by one", "y = x[-1]", ["y = x[-2]", "y = x[-0]"]),
    ("number: another", "y = 0.5", ["y = 1.0"]),
    ("number: another", "y = 0.0", ["y = 1.0"]),
    ("minus: dropped", "y = -a", ["y = a"]),
    ("arithmetic: another operator", "y = a + b", ["y = (a - b)"]),
    ("arithmetic: another operator", "y = a // b", ["y = (a * b)", "y = (a / b)"]),
    ("arithmetic: another operator", "y = a * b", ["y = (a // b)", "y = (a + b)"]),
    ("arithmetic: operand dropped", "y = a + b", ["y = a", "y = b"]),
    ("arithmetic: operands swapped", "y = a - b * c", ["y = (b * c) - a"]),
    ("arithmetic: operands swapped", "y = a + b", []),
    ("assignment: another operator", "a += b", ["a -= b", "a = b"]),
    ("assignment: another operator", "a |= b", ["a &= b", "a = b"]),
    ("truth: flipped", "y = f(a, b=True)", ["y = f(a, b=False)"]),
    ("truth: flipped", "y = zip(a, b, strict=True)", []),
    (
        "text: another",
        "y = node.op == 'call_module'",
        ["y = node.op == 'call_function'", "y = node.op == 'call_method'"],
    ),
    ("text: another", "y = x['kind']", ["y = x['xkind']"]),
    ("text: part dropped", "y = f'layer{i}_{j}'", ["y = f'layer_{j}'", "y = f'layer{i}_'"]),
    ("element: dropped", "y = (a, b)", ["y = (b,)", "y = (a,)"]),
    ("element: dropped", "y = [a]", ["y = []"]),
    ("element: dropped", "y = {a}", ["y = set()"]),
    ("element: dropped", "y = a in (b, c)", ["y = a in (c,)", "y = a in (b,)"]),
    ("element: dropped", "a, b = c", []),
    ("element: dropped", "for (a, b) in c:\n    pass", []),
    ("element: swapped", "y = a, b, c", ["y = b, a, c", "y = a, c, b"]),
    ("element: swapped", "a, b = c", ["b, a = c"]),
    ("element: swapped", "a, b = c, d", ["a, b = d, c"]),
    ("element: swapped", "for a, b in c:\n    pass", ["for b, a in c:"]),
    ("element: swapped", "y = a in (b, c) or isinstance(a, (b, c))", []),
    ("table: entry dropped", "y = {a: b, c: d}", ["y = {c: d}", "y = {a: b}"]),
    ("table: values swapped", "y = {a: b, c: d}", ["y = {a: d, c: b}"]),
    ("slice: bound dropped", "y = x[a:b]", ["y = x[:b]", "y = x[a:]"]),
    ("slice: bound dropped", "y = x[::-1]", ["y = x[:]"]),
    ("slice: dropped", "y = x[1:]", ["y = x"]),
    ("slice: dropped", "y = x[1]", []),
    ("call: dropped", "for a in reversed(b):\n    pass", ["for a in b:"]),
    ("call: dropped", "y = x.clone()", ["y = x"]),
    ("call: dropped", "y = copy.deepcopy(a + b)", ["y = (a + b)"]),
    ("call: dropped", "y = self.value(x)", ["y = x"]),
    ("call: dropped", "from torch.fx import node\ny = node.map_arg(a, f)", ["y = a"]),
    ("call: dropped", "def f(x):\n    return g(f(x))", ["return f(x)", "return g(x)"]),
    ("call: dropped", "f(x)", []),
    ("argument: dropped", "y = f(a, b, k=c)", ["y = f(a, k=c)", "y = f(a, b)"]),
    ("argument: dropped", "y = f(*a, **b)", ["y = f(**b)", "y = f(*a)"]),
    ("argument: dropped", "y = zip(a, strict=True)", []),
    ("argument: swapped", "y = f(a, b, c)", ["y = f(b, a, c)", "y = f(a, c, b)"]),
    ("argument: swapped", "y = f(a, k=b)", []),
    ("function: a look-alike", "y = all(a)", ["y = any(a)"]),
    ("function: a look-alike", "y = sorted(a, key=b)", ["y = list(a)"]),
    ("function: a look-alike", "y = min(a, b)", ["y = max(a, b)"]),
    ("function: a look-alike", "y = set()", ["y = list()"]),
    ("attribute: a look-alike", "y = node.args", ["y = node.kwargs"]),
    ("attribute: a look-alike", "y = graph.inserting_before(x)", ["y = graph.inserting_after(x)"]),
    ("attribute: a look-alike", "y = copy.deepcopy(x)", ["y = copy.copy(x)"]),
    ("range: off by one", "y = range(n)", ["y = range(1, n)", "y = range(n - 1)"]),
    ("range: off by one", "y = enumerate(n)", ["y = enumerate(n, 1)"]),
    ("range: off by one", "y = range(1, n)", []),
    ("decorator: dropped", "@a\n@b\ndef f():\n    pass", ["", ""]),
    ("statement: dropped", "a = b\nf(a)", ["pass", "pass"]),
    ("statement: dropped", "import a\n'text'\nassert b", ["pass"]),
    ("loop: dropped", "for a in b:\n    f(a)", ["pass"]),
    ("loop: one pass", "for a in b:\n    f(a)", ["f(a)\nbreak"]),
    ("loop: one pass", "while a:\n    f(a)", ["f(a)\nbreak"]),
    ("return: in the loop", "def f():\n    for a in b:\n        g()\n    h()\n    return a", ["g()\nreturn a"]),
    ("return: in the loop", "def f():\n    for a in b:\n        g()\n    return a", []),
    ("return: nothing", "def f():\n    if a:\n        return\n    return b", ["pass", "return None"]),
    ("return: goes on", "def f():\n    if a:\n        return b\n    elif c:\n        g()", ["pass"]),
    ("return: goes on", "def f():\n    if a:\n        return b\n    return c", []),
    ("else: dropped", "if a:\n    f()\nelse:\n    g()", ["pass"]),
    ("break: for continue", "for a in b:\n    break", ["continue"]),
    ("break: for continue", "for a in b:\n    continue", ["break"]),
    ("with: dropped", "with a:\n    f()", ["if True:"]),
    ("with: dropped", "with a, b as c:\n    f()", ["with b as c:", "with a:"]),
    ("try: handler dropped", "try:\n    f()\nexcept A:\n    g()", ["if True:"]),
    (
        "try: handler dropped",
        "try:\n    f()\nexcept A:\n    g()\nexcept B:\n    h()\nelse:\n    i()\nfinally:\n    j()",
        ["", "", "pass"],
    ),
    ("case: dropped", "match a:\n    case 1:\n        f()\n    case _:\n        g()", ["", ""]),
    ("raise: another exception", "raise ValueError('text')", ["raise RuntimeError('text')"]),
    ("raise: another exception", "raise RuntimeError", ["raise ValueError"]),
    (
        "raise: message without its first part",
        "raise E(f'layer {i}: {j}')",
        ["raise E(f'{i}: {j}')", "raise E(f'layer : {j}')"],
    ),
]


def after(operator: str, source: str) -> list[str]:
    return [difference(source, text)[2] for name, text in edits(source) if name == operator]


@pytest.mark.parametrize(("operator", "source", "expected"), CASES)
def test_what_an_operator_makes(operator: str, source: str, expected: list[str]) -> None:
    assert after(operator, source) == expected
    for _, text in edits(source):
        assert text != source


def test_every_operator_has_a_case_that_it_edits() -> None:
    assert {operator for operator, _, expected in CASES if expected} == set(OPERATORS)


def test_what_is_said_or_only_named_stays_as_it_is() -> None:
    source = textwrap.dedent(
        '''
        """A docstring with 1."""
        import a.b
        from c import d as e

        @given(1)
        def f(x: tuple[int, 1]) -> dict["key", 2]:
            """Another, with 2."""
            raise ValueError("a text " + str(3))
        '''
    )
    names = sorted(name for name, _ in edits(source))
    assert names == ["decorator: dropped", "raise: another exception", "statement: dropped"]
