"""A decision as tables, as JSON, and as a picture of bars with its text twin."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from fxopt_workbench.engines.engine import EAGER
from fxopt_workbench.tables import NONE, Table, format_seconds

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from fxopt_workbench.engines.decision import Decision, Trial

_HATCHES = ("", "//", "..", "xx", "\\\\", "--")
# Okabe and Ito's palette for colour-blind readers, https://jfly.uni-koeln.de/color/
_COLOURS = ("#999999", "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9")


def settings(decision: Decision) -> str:
    """Where and how it was measured, in one sentence."""
    rounds = max((len(one.seconds) for one in decision.trials), default=0)
    threads = f"{decision.threads} thread" + ("s" if decision.threads != 1 else "")
    return (
        f"Measured on the example inputs, {decision.device}, {threads} each, in {rounds} rounds in turn; "
        f"{decision.spent:.0f} s of {decision.budget:.0f} s were spent, set-up included. Values may be off by "
        f"{decision.tolerance.relative:.2g} of the largest."
    )


def tables(decision: Decision) -> Sequence[Table]:
    """What was taken and why, and a row for each engine."""
    rows = []
    for trial in decision.trials:
        speed, spread = _speed_up(decision, trial)
        timed = trial.measurement
        setup = NONE if trial.setup_seconds is None else format_seconds(trial.setup_seconds)
        rows.append(
            (
                trial.engine,
                setup,
                NONE if timed is None else format_seconds(timed.median),
                NONE if timed is None else format_seconds(timed.interquartile_range),
                speed,
                spread,
                NONE if trial.largest_error is None else f"{trial.largest_error:.2g}",
                _outcome(decision, trial),
            )
        )
    headings = ("engine", "set-up", "median", "spread", "eager = 1", "middle half", "largest error", "outcome")
    notes = (settings(decision), *(f"{one.engine}: {one.caveat}." for one in decision.trials if one.caveat))
    title = f"Engine: {decision.taken}, since {decision.why}."
    return (Table(title, headings, rows, notes, ("outcome",)),)


def _outcome(decision: Decision, trial: Trial) -> str:
    if trial.engine == decision.taken:
        return "taken"
    if trial.refusal:
        return f"refused: {trial.refusal}"
    return "right, not taken" if trial.seconds else "not timed"


def _speed_up(decision: Decision, trial: Trial) -> tuple[str, str]:
    eager = next((one for one in decision.trials if one.engine == EAGER), None)
    ratios = trial.speed_up(eager) if eager is not None else None
    if ratios is None:
        return NONE, NONE
    low, middle, high = ratios
    return f"{middle:.2f}×", f"{low:.2f} to {high:.2f}"


def document(decision: Decision) -> dict[str, Any]:
    """Everything as JSON values, in seconds."""
    eager = next((one for one in decision.trials if one.engine == EAGER), None)
    trials = []
    for trial in decision.trials:
        ratios = trial.speed_up(eager) if eager is not None else None
        timed = trial.measurement
        trials.append(
            {
                "engine": trial.engine,
                "setup_seconds": trial.setup_seconds,
                "seconds": list(trial.seconds),
                "median_seconds": timed and timed.median,
                "quartiles_seconds": timed and list(timed.quartiles),
                "speed_up": ratios and {"median": ratios[1], "quartiles": [ratios[0], ratios[2]]},
                "largest_error": trial.largest_error,
                "refusal": trial.refusal or None,
                "caveat": trial.caveat or None,
            }
        )
    return {
        "taken": decision.taken,
        "why": decision.why,
        "trials": trials,
        "tolerance": {"relative": decision.tolerance.relative, "absolute": decision.tolerance.absolute},
        "budget_seconds": decision.budget,
        "spent_seconds": decision.spent,
        "threads": decision.threads,
        "device": decision.device,
        "versions": decision.versions,
        "program": decision.program,
    }


def plot(decision: Decision) -> Figure:
    """A bar for each engine that was timed: how long a call takes, with the middle half of the rounds as a whisker.

    Bars differ in hatching as well as in colour, and say their figures. `alt_text` says the same in words.
    """
    # pyplot, so that a notebook shows the figure; closed, so that it shows it once.
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(8, 1.5 + 0.6 * max(1, len(decision.measured))), layout="constrained")
    for place, trial in enumerate(reversed(decision.measured)):
        milliseconds = [1000 * one for one in trial.seconds]
        middle = statistics.median(milliseconds)
        low, high = (1000 * one for one in trial.measurement.quartiles) if trial.measurement else (middle, middle)
        axes.barh(
            place,
            middle,
            color=_COLOURS[place % len(_COLOURS)],
            hatch=_HATCHES[place % len(_HATCHES)],
            edgecolor="black",
            xerr=[[max(0.0, middle - low)], [max(0.0, high - middle)]],
            capsize=4,
        )
        axes.annotate(
            f" {_speed_up(decision, trial)[0]}",
            (max(middle, high), place),
            va="center",
            xytext=(6, 0),
            textcoords="offset points",
        )
    names = [one.engine + (" (taken)" if one.engine == decision.taken else "") for one in reversed(decision.measured)]
    axes.set_yticks(range(len(names)), names)
    axes.margins(x=0.15)
    axes.set(xlabel="ms a call (shorter is faster); whiskers: middle half of the rounds", title=decision.device)
    pyplot.close(figure)
    return figure


def alt_text(decision: Decision) -> str:
    """The picture of `plot` in words."""
    sentences = ["How long a call takes with each engine, the fastest first."]
    for trial in decision.measured:
        timed = trial.measurement
        if timed is None:
            continue
        speed, spread = _speed_up(decision, trial)
        low, high = map(format_seconds, timed.quartiles)
        taken = ", taken" if trial.engine == decision.taken else ""
        sentences.append(
            f"{trial.engine}: {format_seconds(timed.median)} ({low} to {high}), {speed} as fast as eager "
            f"({spread}){taken}."
        )
    refused = [f"{one.engine} ({one.refusal})" for one in decision.trials if one.refusal]
    sentences += [f"Refused: {'; '.join(refused)}."] if refused else []
    return " ".join(sentences)
