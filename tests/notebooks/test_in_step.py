"""What is generated agrees with its source, without anything being executed."""

from pathlib import Path

from autograder.authoring import release
from autograder.course.course import Course
from autograder.course.sources import sources

COURSE = Course(Path(__file__).resolve().parents[2])


def test_every_source_is_built_and_nothing_else() -> None:
    assert sources(COURSE), "there is no authoring source at all"
    assert release.check(COURSE).stale == [], "run `make notebooks` and commit the result"
