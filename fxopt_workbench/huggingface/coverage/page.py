"""The results as one HTML file that needs nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from fxopt_workbench.huggingface.coverage.checks import CHECKS, CHECKS_MEAN
from fxopt_workbench.huggingface.coverage.rows import (
    DENOMINATORS,
    EAGER,
    NOT_RUN,
    VERDICTS,
    Row,
    count_causes,
    count_verdicts,
    eager_title,
    shown_error,
)

_HEAD = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Coverage of capture</title><style>
body { font: 15px/1.4 system-ui, sans-serif; margin: 2rem; color: #1c2330; background: #fff; }
table { border-collapse: collapse; margin: 1rem 0; } th, td { padding: .25rem .6rem; text-align: left; }
td { vertical-align: top; }
th { position: sticky; top: 0; background: #eef1f6; } tr:nth-child(even) td { background: #f8f9fb; }
td.number { text-align: right; font-variant-numeric: tabular-nums; }
#rows td:first-child { min-width: 9rem; max-width: 12rem; overflow-wrap: anywhere; }
td.reason { min-width: 20rem; max-width: 45rem; overflow-wrap: anywhere; }
.general, .runs { color: #12633a; } .specialised { color: #7a5200; } .partitioned { color: #4b3a8f; }
.wrong { color: #b00020; font-weight: 700; }
.failed { color: #555; } input { font: inherit; padding: .4rem; width: 28rem; max-width: 90vw; }
</style></head><body><h1>Coverage of capture</h1>
"""

_SEARCH = """<p><label>Search <input id="search" type="search" autofocus
placeholder="several words: bert export wrong"></label> <output id="shown" aria-live="polite"></output></p>
"""

_SCRIPT = """<script>
const rows = Array.from(document.querySelectorAll("#rows tbody tr"));
const texts = rows.map(row => row.textContent.toLowerCase());
function search() {
  const words = document.getElementById("search").value.toLowerCase().split(/\\s+/).filter(Boolean);
  let shown = 0;
  rows.forEach((row, index) => {
    const fits = words.every(word => texts[index].includes(word));
    row.hidden = !fits;
    shown += fits;
  });
  document.getElementById("shown").textContent = shown + " of " + rows.length + " rows";
}
document.getElementById("search").addEventListener("input", search);
search();
</script></body></html>
"""


def coverage_page(rows: Sequence[Row]) -> str:
    """An HTML page: verdicts per method with both denominators, why types do not run, and every row, with a search.

    Args:
        rows: of `run_coverage`.
    """
    counts = "".join(
        f"<tr>{_cells([escape(method), *(str(count.verdicts.get(one, 0)) for one in VERDICTS), *count.shares()])}</tr>"
        for method, count in count_verdicts(rows).items()
    )
    causes = "".join(
        f"<tr><td>{escape(cause)}</td><td class=number>{number}</td>"
        f"<td class=reason>{escape(NOT_RUN.get(cause.partition(':')[0], ''))}</td></tr>"
        for cause, number in count_causes(rows).items()
    )
    meanings = "".join(f"<dt class={name}>{name}</dt><dd>{escape(meaning)}</dd>" for name, meaning in VERDICTS.items())
    headings = ["type", "method", "verdict", "outcome", "graphs", "nodes", "seconds"]
    headings += [check.replace("_", " ") for check in CHECKS]
    return (
        _HEAD
        + f"<p>{escape(eager_title(rows))}</p>"
        + _table("summary", ["method", *VERDICTS, *DENOMINATORS], counts)
        + f"<dl>{meanings}</dl><p>{escape(CHECKS_MEAN)}</p>"
        + _table("causes", ["not run because", "types", "that is"], causes)
        + _SEARCH
        + _table("rows", [*headings, "reason", "code"], "\n".join(_row(row) for row in rows))
        + _SCRIPT
    )


def _table(name: str, headings: Sequence[str], body: str) -> str:
    head = "".join(f"<th scope=col>{escape(one)}</th>" for one in headings)
    return f'<table id="{name}"><thead><tr>{head}</tr></thead><tbody>\n{body}\n</tbody></table>\n'


def _cells(values: Sequence[str]) -> str:
    return f"<td>{values[0]}</td>" + "".join(f"<td class=number>{value}</td>" for value in values[1:])


def _row(row: Row) -> str:
    refusals = [value for name, value in row.details.items() if name.endswith("_refused")]
    reason = "; ".join(dict.fromkeys(filter(None, [row.cause, row.reason, *refusals])))
    numbers = ["", ""] if row.method == EAGER else [str(row.graphs), str(row.nodes)]
    numbers += [f"{row.seconds:.1f}", *(shown_error(row, check) for check in CHECKS)]
    return (
        f"<tr><td>{escape(row.type)}</td><td>{escape(row.method)}</td><td class={row.verdict}>{row.verdict}</td>"
        f"<td>{row.outcome}</td>{''.join(f'<td class=number>{one}</td>' for one in numbers)}"
        f"<td class=reason>{escape(reason)}</td><td>{escape(row.code)}</td></tr>"
    )
