"""The figures of `fxopt bench grading`: what the seconds of its runs come to."""

import pytest

from autograder.commands.bench_grading import figures_of


def test_shares_scaling_floor_and_ratio() -> None:
    seconds = {"fxopt, 1 job": 40.0, "fxopt, 2 jobs": 25.0, "fxopt, cluster of 2": 26.0, "stock nbgrader": 200.0}
    phases = {
        "starting": 8.0,
        "running": 12.0,
        "judging": 4.0,
        "processes and messages": 6.0,
        "gradebook, feedback, command": 10.0,
    }
    found = figures_of(seconds, 10, phases)
    assert found["seconds_each"]["stock nbgrader"] == pytest.approx(20.0)
    assert found["scaling_from_one_to_two_jobs"] == pytest.approx(1.6)
    assert found["overhead_of_a_local_cluster"] == pytest.approx(0.04)
    assert found["ratio"] == pytest.approx(8.0)
    assert found["ratio_one_job"] == pytest.approx(5.0)
    assert found["shares_of_one_job"]["running"] == pytest.approx(0.3)
    assert sum(found["shares_of_one_job"].values()) == pytest.approx(1.0)
    # Twelve seconds of cells and four of judging, on two processors: no grading of these can be quicker.
    assert found["floor"] == {"seconds_each": pytest.approx(0.8), "ratio": pytest.approx(25.0)}
    # With ten seconds of nbgrader's own besides.
    assert found["floor_with_nbgrader"] == {"seconds_each": pytest.approx(1.3), "ratio": pytest.approx(200 / 13)}
