"""The capstone: a package of the learner's own, with a pass. It is no day: nothing of it lies in a notebook."""

from autograder.tasks import Task

TASK = Task(
    name="own_pass",
    day="capstone",
    notebook="capstone_guide",
    title="A pass of your own",
    provides=("registered_passes",),
    evidence="artefact",
    seconds=240.0,
    checklist=("write-passes",),
)
