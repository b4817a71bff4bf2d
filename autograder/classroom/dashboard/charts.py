"""The dashboard's pictures: small SVG drawings, each beside a table that says the same. Imports no torch.

Colours come from the page's style sheet, which knows light and dark; what a colour says is also said by a pattern and
in words. Everything is put together by `Markup`, which escapes what it is given.
"""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from autograder.classroom.dashboard.data import RESULTS, Distribution, TaskResults

WIDTH = 760
ROW = 46
BAR = 20
PLOT = 170
HEAD = 38
"""Room above the bars of a distribution: for the median's label, and below it for a number on the highest bar."""

CLASSES = {"passed": "passed", "wrong": "wrong", "not written": "blank", "stopped or failed": "stopped"}
"""CSS classes of the parts of a bar."""

PATTERNS = Markup(
    '<svg class="patterns" aria-hidden="true" focusable="false" width="0" height="0"><defs>'
    '<pattern id="p-wrong" width="7" height="7" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
    '<rect class="fill wrong-base" width="7" height="7"/><rect class="fill wrong-line" width="2.6" height="7"/>'
    "</pattern>"
    '<pattern id="p-blank" width="7" height="7" patternUnits="userSpaceOnUse"><rect class="fill blank-base" width="7" '
    'height="7"/><circle class="fill blank-dot" cx="3.5" cy="3.5" r="1.3"/></pattern>'
    '<pattern id="p-stopped" width="8" height="8" patternUnits="userSpaceOnUse"><rect class="fill stopped-base" '
    'width="8" height="8"/><path class="stopped-line" d="M0 0L8 8M8 0L0 8"/></pattern></defs></svg>'
)
"""What the pictures of a page share; stands once in it."""


def success_chart(tasks: Sequence[TaskResults], name: str) -> Markup:
    """A bar for each task, divided by what became of it.

    Args:
        tasks: the tasks.
        name: identifies the picture in the page.
    """
    height = ROW * len(tasks)
    rows = Markup("").join(_row(task, place * ROW) for place, task in enumerate(tasks))
    told = "; ".join(f"{task.title}: {task.counts['passed']} of {task.of} passed" for task in tasks)
    return _picture(name, "What became of each task", told, height, rows)


def _row(task: TaskResults, top: int) -> Markup:
    share = 100 * task.counts["passed"] / task.of if task.of else 0
    head = Markup('<text class="label" x="0" y="{}">{}</text><text class="label end" x="{}" y="{}">{}</text>').format(
        top + 14, task.title, WIDTH, top + 14, f"{share:.0f} % passed"
    )
    parts, left = [], 0.0
    for result in RESULTS:
        count = task.counts[result]
        if not count:
            continue
        width = WIDTH * count / task.of
        parts.append(
            Markup('<rect class="part {}" x="{}" y="{}" width="{}" height="{}"><title>{}</title></rect>').format(
                CLASSES[result], f"{left:.1f}", top + 20, f"{max(width - 1.5, 1):.1f}", BAR, f"{result}: {count}"
            )
        )
        if width > 26:
            parts.append(
                Markup(
                    '<rect class="chip" x="{}" y="{}" width="{}" height="14" rx="3"/>'
                    '<text class="count" x="{}" y="{}">{}</text>'
                ).format(
                    f"{left + width / 2 - 5 - 4 * len(str(count)):.1f}",
                    top + 23,
                    10 + 8 * len(str(count)),
                    f"{left + width / 2:.1f}",
                    top + 34,
                    count,
                )
            )
        left += width
    return head + Markup("").join(parts)


def distribution_chart(found: Distribution, name: str) -> Markup:
    """Bars for how many students reached how many points; a line marks the median."""
    highest = max((count for *_, count in found.bins), default=0) or 1
    step = WIDTH / len(found.bins)
    parts = []
    for place, (low, _, count) in enumerate(found.bins):
        height = PLOT * count / highest
        left, top = place * step, HEAD + PLOT - height
        if count:
            parts.append(
                Markup('<rect class="part points" x="{}" y="{}" width="{}" height="{}"/>').format(
                    f"{left + 3:.1f}", f"{top:.1f}", f"{step - 6:.1f}", f"{height:.1f}"
                )
            )
            parts.append(
                Markup('<text class="count" x="{}" y="{}">{}</text>').format(
                    f"{left + step / 2:.1f}", f"{top - 5:.1f}", count
                )
            )
        parts.append(
            Markup('<text class="tick" x="{}" y="{}">{}</text>').format(f"{left:.1f}", HEAD + PLOT + 18, f"{low:g}")
        )
    parts.append(
        Markup('<text class="tick end" x="{}" y="{}">{}</text>').format(WIDTH, HEAD + PLOT + 18, f"{found.most:g}")
    )
    parts.append(Markup('<line class="axis" x1="0" y1="{0}" x2="{1}" y2="{0}"/>').format(HEAD + PLOT + 1, WIDTH))
    told = f"{sum(count for *_, count in found.bins)} students"
    if found.median is not None:
        at = f"{WIDTH * min(1.0, found.median / found.most if found.most else 0):.1f}"
        end = " end" if found.median > found.most / 2 else ""
        parts.append(
            Markup(
                '<line class="median" x1="{0}" y1="2" x2="{0}" y2="{1}"/><text class="median-label{2}" x="{3}" y="12">'
                "median {4}</text>"
            ).format(at, HEAD + PLOT + 1, end, f"{float(at) + (-6 if end else 6):.1f}", f"{found.median:g}")
        )
        told += f", median {found.median:g} of {found.most:g} points"
    return _picture(name, "How the points are spread", told, HEAD + PLOT + 26, Markup("").join(parts))


def _picture(name: str, title: str, told: str, height: int, content: Markup) -> Markup:
    return Markup(
        '<div class="drawn" tabindex="0" role="group" aria-label="{3}">'
        '<svg class="chart" role="img" aria-labelledby="{0}-title {0}-told" viewBox="-1 -4 {1} {2}" '
        'preserveAspectRatio="xMinYMin meet"><title id="{0}-title">{3}</title><desc id="{0}-told">{4}</desc>{5}</svg>'
        "</div>"
    ).format(name, WIDTH + 2, height + 6, title, told, content)
