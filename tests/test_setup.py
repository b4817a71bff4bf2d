"""`make setup`: installs once, again when it must, and never believes in an installation that failed.

A stand-in takes Python's place: it makes virtual environments of itself and writes down what pip is asked to install.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

STAND_IN = """#!/bin/bash
if [ "$1 $2" = "-m venv" ]; then
    mkdir -p .venv/bin && cp "$0" .venv/bin/python && echo venv >>"$STAND_IN_LOG"
elif [ "$1 $2" = "-m pip" ]; then
    echo "$@" >>"$STAND_IN_LOG"
    [ -z "$STAND_IN_FAILS" ] || { echo "no such package" >&2; exit 1; }
elif [ "$1" = -c ]; then
    exec REAL -c "import sys; sys.version_info = (*VERSION, 'final', 0)
$2"
else
    exec REAL "$@"
fi
"""


class Checkout:
    """A folder with the Makefile, the set-up script and a `pyproject.toml`."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "check out"
        self.programs = folder / "programs"
        self.log = folder / "log"
        self.root.mkdir()
        self.programs.mkdir()
        shutil.copy(ROOT / "Makefile", self.root)
        shutil.copytree(ROOT / "scripts", self.root / "scripts")
        (self.root / "pyproject.toml").write_text("[project]\n")
        for name in ("chromium", "bwrap", "postgres"):
            self.program(name, "#!/bin/sh\n")
        for name in ("python3", "python3.13", "python3.12", "python3.11"):
            self.python(name, (3, 8, 1))

    def program(self, name: str, text: str) -> None:
        path = self.programs / name
        path.write_text(text)
        path.chmod(0o755)

    def python(self, name: str, version: tuple[int, int, int]) -> None:
        self.program(name, STAND_IN.replace("REAL", sys.executable).replace("VERSION", repr(version)))

    def setup(self, *arguments: str, fails: bool = False) -> subprocess.CompletedProcess[str]:
        environment = {
            "PATH": f"{self.programs}{os.pathsep}{os.environ['PATH']}",
            "HOME": str(self.root),
            "STAND_IN_LOG": str(self.log),
            "STAND_IN_FAILS": "yes" if fails else "",
        }
        command = ["make", "setup", *arguments]
        return subprocess.run(command, cwd=self.root, env=environment, capture_output=True, text=True, check=False)

    def installs(self) -> list[str]:
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        return [line for line in lines if " install " in line]


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path)


def test_one_pip_command_installs_everything_once(checkout: Checkout) -> None:
    checkout.python("python3", (3, 12, 1))
    first = checkout.setup()
    assert first.returncode == 0, first.stderr
    assert "with Python 3.12.1" in first.stdout
    (install,) = checkout.installs()
    assert install.endswith("--editable .[hf,engines,lab,grade,cluster,site,dev,tested]")

    second = checkout.setup()
    assert second.returncode == 0
    assert second.stdout == ""
    assert len(checkout.installs()) == 1

    (checkout.root / "pyproject.toml").write_text("[project]\nname = 'other'\n")
    checkout.setup()
    assert len(checkout.installs()) == 2
    assert checkout.log.read_text().count("venv\n") == 1


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere there is no bubblewrap to miss")
def test_a_system_package_that_is_missing_is_named_with_the_command_that_installs_it(checkout: Checkout) -> None:
    checkout.python("python3", (3, 12, 1))
    checkout.program("uname", "#!/bin/sh\necho Linux\n")
    # Neither root nor Debian: nothing is installed, and what is missing is told.
    checkout.program("id", "#!/bin/sh\necho 1000\n")
    script = checkout.root / "scripts" / "setup.sh"
    script.write_text(script.read_text().replace("/usr/lib/postgresql/", "/nowhere/"))
    for name in ("postgres", "bwrap"):
        (checkout.programs / name).unlink()
    tools = {name: shutil.which(name) for name in ("make", "bash", "cat", "ls", "mv", "rm", "mkdir", "cp", "dirname")}
    for name, path in tools.items():
        assert path is not None
        (checkout.programs / name).symlink_to(path)
    environment = {"PATH": str(checkout.programs), "HOME": str(checkout.root), "STAND_IN_LOG": str(checkout.log)}
    command = ["bash", "scripts/setup.sh"]
    done = subprocess.run(command, cwd=checkout.root, env=environment, capture_output=True, text=True, check=True)
    assert "Not installed here: bubblewrap postgresql (" in done.stdout
    assert "nstall" in done.stdout.splitlines()[-1]
    assert "postgresql" in done.stdout.splitlines()[-1]
    checkout.program("postgres", "#!/bin/sh\n")
    checkout.program("bwrap", "#!/bin/sh\n")
    done = subprocess.run(command, cwd=checkout.root, env=environment, capture_output=True, text=True, check=True)
    assert "Not installed" not in done.stdout


@pytest.mark.skipif(sys.platform != "linux", reason="apt-get is Debian's")
@pytest.mark.parametrize("fails", [False, True])
def test_debians_packages_are_installed_beside_pips_and_waited_for(checkout: Checkout, fails: bool) -> None:
    checkout.python("python3", (3, 12, 1))
    checkout.program("uname", "#!/bin/sh\necho Linux\n")
    checkout.program("id", "#!/bin/sh\necho 0\n")
    checkout.program("apt-get", '#!/bin/bash\n[ "$1" = update ] || { sleep 1; echo "$@" >>"$STAND_IN_LOG.apt"; }\n')
    # Whatever this machine is and has.
    script = checkout.root / "scripts" / "setup.sh"
    text = script.read_text().replace("/usr/lib/postgresql/", "/nowhere/")
    release = checkout.root / "os-release"
    release.write_text("ID=debian\n")
    script.write_text(text.replace("/etc/os-release", f"'{release}'").replace("have bwrap", "have no-such-bwrap"))
    done = checkout.setup(fails=fails)
    assert (done.returncode != 0) == fails
    assert "Installing bubblewrap" in done.stdout.splitlines()[-1]
    assert "install -y -qq bubblewrap" in Path(f"{checkout.log}.apt").read_text(), "make ended before apt-get did"


def test_a_failed_installation_is_said_and_tried_again(checkout: Checkout) -> None:
    checkout.python("python3", (3, 12, 1))
    failed = checkout.setup(fails=True)
    assert failed.returncode != 0
    assert "no such package" in failed.stderr
    assert "pip could not install the course" in failed.stderr
    assert checkout.setup().returncode == 0
    assert len(checkout.installs()) == 2

    (checkout.root / "pyproject.toml").write_text("[project]\nname = 'other'\n")
    checkout.setup(fails=True)
    (checkout.root / "pyproject.toml").write_text("[project]\n")
    checkout.setup()
    assert len(checkout.installs()) == 4, "what was half-upgraded is not taken for what it was before"


def test_an_old_python_is_named(checkout: Checkout) -> None:
    refused = checkout.setup()
    assert refused.returncode != 0
    assert "needs Python 3.11 or newer; python3 is Python 3.8.1" in refused.stderr
    assert checkout.installs() == []


def test_a_newer_python_beside_an_old_one_is_found(checkout: Checkout) -> None:
    checkout.python("python3.12", (3, 12, 7))
    assert "with Python 3.12.7" in checkout.setup().stdout


def test_the_python_asked_for_is_taken_or_refused(checkout: Checkout) -> None:
    checkout.python("python3", (3, 12, 1))
    checkout.python("another", (3, 13, 0))
    checkout.setup()
    assert "with Python 3.13.0" in checkout.setup("PYTHON=another").stdout
    assert len(checkout.installs()) == 2
    checkout.python("old", (3, 10, 2))
    assert "PYTHON=old is Python 3.10.2" in checkout.setup("PYTHON=old").stderr
    assert "PYTHON=absent does not run" in checkout.setup("PYTHON=absent").stderr


def test_further_arguments_reach_pip(checkout: Checkout) -> None:
    checkout.python("python3", (3, 12, 1))
    checkout.setup("PIP_ARGS=--no-cache-dir --pre")
    assert "--no-cache-dir --pre --editable" in checkout.installs()[0]


def test_make_alone_says_what_there_is(checkout: Checkout) -> None:
    shown = subprocess.run(["make"], cwd=checkout.root, capture_output=True, text=True, check=True).stdout
    for target in ("lab", "setup", "test", "notebooks", "clean"):
        assert f"make {target}" in shown
