"""How large the core is: code lines of each room of `fxopt_core`, which never grow unnoticed.

A line counts when it holds code: docstrings, comments and blank lines do not.
"""

from __future__ import annotations

import ast
import io
import tokenize
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[1]

GOAL = 8_000
"""Code lines that the whole core is to have at most."""

MOST = {
    "(top)": 226,
    "benchmark": 296,
    # 144 more for what was read or lost without a word: a tensor's text, the steps of single rows, settings of torch,
    # backward passes of its own, modes that a failed call leaves on; and 53 of these watch what was folded. 8 more to
    # see whether the model itself agrees with itself.
    "capture": 2496,
    # 26 more to count the rows that an operator looks up or writes, and not the whole table.
    "costs": 465,
    # 10 more for a dense rewrite that is an eighth faster: what every match does is written out. 8 to tell what a pass
    # did that its log does not say.
    "graphs": 2185,
    # 39 more to take out a pass that changes the graph past the editor, to mark FLOPs that nobody knows, and to give
    # results weights of their own, which are the model's as they are by then.
    "optimizer": 623,
    # 8 more since a pass runs with the collector paused, and for checks that were missing: 17 since of two equal views
    # one may be given another shape, 14 since what stands for a view may be handed on as it is; and 2 so that only
    # rules that hand an input on are asked whether they may. 46 more: what is given in place of a pass, a name or an
    # analysis is named, constants know what switches a mode, and swapped weights are told.
    "passes": 3196,
    # 32 more to put back every mode, kernels of attention and hooks on saved tensors among them, and to name what is
    # no model.
    "verification": 1091,
}
"""Code lines that each room may have. When a room shrinks, the test asks for its new, smaller number here."""

SLACK = 10
"""So many lines may a room have fewer than its number says before the number has to follow."""

WITHOUT_CODE = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}


def code_lines(source: str) -> int:
    """How many lines of a module hold code."""
    documentation: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            first = node.body[0] if node.body else None
            if (
                isinstance(first, ast.Expr)
                and isinstance(first.value, ast.Constant)
                and isinstance(first.value.value, str)
            ):
                documentation |= set(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in WITHOUT_CODE:
            lines |= set(range(token.start[0], token.end[0] + 1))
    return len(lines - documentation)


def rooms() -> Counter[str]:
    """Code lines by room: the folders of `fxopt_core`, and `(top)` for its files outside any."""
    found: Counter[str] = Counter()
    package = ROOT / "fxopt_core"
    for path in package.rglob("*.py"):
        parts = path.relative_to(package).parts
        found[parts[0] if len(parts) > 1 else "(top)"] += code_lines(path.read_text())
    return found


def test_a_line_counts_when_it_holds_code() -> None:
    source = (
        '"""Doc\n\nmore."""\n\n# why\nx = (\n    1,  # one\n\n)\n\n\ndef f():\n    """Doc."""\n    return """a\nb"""\n'
    )
    assert code_lines(source) == 3 + 1 + 2
    assert code_lines('text = """not\na docstring"""\n') == 2


def test_the_core_only_shrinks() -> None:
    counted = rooms()
    print("\nCode lines of fxopt_core")
    for room, lines in sorted(counted.items()):
        print(f"{lines:6,}  {room} (at most {MOST.get(room, 0):,})")
    print(f"{counted.total():6,}  in all; the goal is {GOAL:,}")
    grown = {
        room: f"{lines} lines, at most {MOST.get(room, 0)}"
        for room, lines in counted.items()
        if lines > MOST.get(room, 0)
    }
    assert grown == {}, "a room of the core has grown: make it smaller again, or move what is not its business"
    loose = {room: counted[room] for room, most in MOST.items() if counted[room] < most - SLACK}
    assert loose == {}, "a room has shrunk: put these numbers into MOST, so that it stays so"
