"""What grows between two snapshots, and what would be freed, by the rules of reference counting."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from autograder.exchange.evidence import Case, Evidence
from autograder.exercises.u6.find_leak.model import FLAWS, find_leak, one_count
from autograder.exercises.u6.find_leak.visible import leaky

MISCONCEPTIONS = {
    "asked PyTorch": "Your function asks PyTorch. The snapshots hold all that it needs.",
    "not the form": (
        "Return a dictionary: `garbage` is a whole number, `holders` a dictionary from names to whole numbers."
    ),
    "no garbage": (
        "What no variable leads to is garbage, even if other objects refer to it. Follow the references from the "
        "variables; the rest is garbage."
    ),
    "cycles only": "What hangs on a cycle that nobody reaches is garbage as well, not only the cycle itself.",
    "replaced counts": (
        "An object that lets go of one thing for each new one does not grow. Compare how many references it has before "
        "and after."
    ),
    "bytes compared": (
        "A holder has more *references* than before. How many bytes they lead to does not decide whether it grows."
    ),
    "only new ones count": (
        "An object that has more references than before is a holder, also if they lead to what was there before. Then "
        "its value is 0."
    ),
    "holders not in use": "A holder is in use in both snapshots: garbage that refers to much is garbage, no holder.",
    "new holders": "A holder was there before. What is new itself is what is held.",
    "held directly only": (
        "When an object is freed it lets go of what it refers to, and that may be freed in turn: follow the chain."
    ),
    "shared counted": (
        "What somebody else refers to is not freed. Count references down, and free an object when none is left."
    ),
    "cycles freed": (
        "Letting go of a cycle frees nothing *at once*: its parts refer to one another. Only the collector frees it."
    ),
    "zeros left out": "A holder that would free nothing is a holder all the same: its value is 0.",
    "names compared": (
        "A second reference to the same object is one more reference: compare how many references there are, not to "
        "how many objects."
    ),
    "only new ones freed": (
        "An object that is freed lets go of what it refers to, also of what was there in `before`: that may be freed "
        "in turn, and counts."
    ),
    "new to the holder": (
        "The holder lets go of the objects that aren't in `before`. One that was there, and that only this holder did "
        "not refer to, stays."
    ),
    "old ones dropped too": "Ask what goes if the holder lets go of the *new* objects; it keeps the older ones.",
    "variables forgotten": "What a variable holds is not freed, although the holder lets go of it.",
    "garbage holds nothing": (
        "Garbage still refers to what it referred to: until the collector has run, that is not freed."
    ),
    "references counted once": (
        "An object that refers to another one twice has two references to it. Letting go means letting go of both."
    ),
    "counts not put back": (
        "The references that you counted down for one holder are still missing when you come to the next. What a "
        "holder would free is asked of each by itself: begin with a fresh count."
    ),
    "wrong garbage": "Another number of bytes is garbage.",
    "wrong holders": "Other objects hold what grows, or other bytes would be freed.",
}

FEATURES = (
    "losses",
    "numbers",
    "last",
    "cycle",
    "held cycle",
    "hooks",
    "cache",
    "variable",
    "shared with garbage",
    "twice",
    "grows inside",
    "old friends",
    "replaced by more",
    "smaller and more",
    "larger",
    "wrapped anew",
    "handed over",
)


def hidden_cases(random: Random) -> list[Case]:
    """One case for each rule that is easily forgotten, then random loops."""
    fixed = [
        leaky("several lists", ["losses", "hooks", "numbers"], (512, 9000)),
        leaky("replaced", ["last", "last", "replaced by more", "smaller and more", "larger"], (100, 2000)),
        leaky("cycles that are held", ["held cycle", "cycle"], (300, 5000)),
        leaky("held by others", ["cache", "variable"], (128, 7000)),
        leaky("held by garbage", ["shared with garbage", "losses"], (64, 3000)),
        leaky("twice", ["twice", "grows inside", "wrapped anew"], (32, 1000)),
        leaky("nothing new", ["old friends", "numbers", "handed over", "held cycle"], (16, 400)),
        leaky("many steps", ["losses", "hooks"], (24, 640), steps=60),
        forgotten_list("a list that nobody reaches"),
    ]
    for number in range(4):
        chosen = random.choices(FEATURES, k=random.randint(2, 5))
        sizes = random.randrange(8, 4096, 8), random.randrange(4096, 2**20, 8)
        fixed.append(leaky(f"random {number}", chosen, sizes, random.randint(1, 4)))
    # The last one: what fails there has been told of every other mistake before.
    fixed.append(long_chain("a long chain", random.randint(1020, 1060)))
    return fixed


def long_chain(name: str, length: int) -> Case:
    """A list gets a loss whose graph is a chain that is deeper than Python's stack."""
    case = leaky(name, ["losses", "numbers"], (24, 640))
    objects = case.parameters["after"]["objects"]
    for number in range(length):
        objects[f"link {number}"] = {"bytes": 8 + number % 3, "refers_to": [f"link {number + 1}"]}
    objects[f"link {length}"] = {"bytes": 4096, "refers_to": []}
    objects["losses"]["refers_to"].append("link 0")
    return case


def forgotten_list(name: str) -> Case:
    """Objects that nobody reaches, one of which still grows: a callback of a cycle, say."""
    case = leaky(name, ["losses", "cycle"], (40, 800))
    for number, key in enumerate(("before", "after")):
        objects = case.parameters[key]["objects"]
        objects["lost list"] = {"bytes": 56, "refers_to": ["lost list"]}
        for place in range(2 + number):
            objects[f"lost part {place}"] = {"bytes": 600, "refers_to": []}
            objects["lost list"]["refers_to"].append(f"lost part {place}")
        # The collector's callbacks can bring something back: in use after the step, and not before it.
        objects["revived"] = {"bytes": 72, "refers_to": ["revived"] * (1 + number)}
        objects["trainer"]["refers_to"] += ["revived"] * number
        # In use before the step and garbage after it, with one more reference: no holder. And what only garbage
        # referred to before, and the trainer alone does now: it was there, though nobody reached it.
        objects["dropped"] = {"bytes": 80, "refers_to": ["dropped", *(["lost part 2"] * number)]}
        objects["dug up"] = {"bytes": 90, "refers_to": []}
        objects["trainer"]["refers_to"] += ["dug up" if number else "dropped"]
        objects["lost list"]["refers_to"] += ["dug up"] * (1 - number)
    return case


def judge(case: Case, evidence: Evidence) -> Iterator[tuple[str, str]]:
    """The misconception behind a wrong answer."""
    before, after = case.parameters["before"], case.parameters["after"]
    garbage, holders = evidence.values["garbage"], evidence.values["holders"]
    if garbage is None or holders is None or None in holders.values():
        yield "not the form", f"(found {garbage} and {str(holders)[:200]})"
        return
    found = {"garbage": garbage, "holders": holders}
    right = find_leak(before, after)
    if found == right:
        if evidence.values["torch_calls"]:
            yield "asked PyTorch", f"(it called {', '.join(evidence.values['torch_calls'])})"
        return
    flaw = next((one for one in FLAWS if find_leak(before, after, one) == found), None)
    if flaw is None and garbage == right["garbage"] and holders in one_count(before, after, right["holders"]):
        flaw = "counts not put back"
    off = next(what for what in ("garbage", "holders") if found[what] != right[what])
    yield flaw or f"wrong {off}", f"({off}: found {str(found[off])[:200]}, wanted {str(right[off])[:200]})"
