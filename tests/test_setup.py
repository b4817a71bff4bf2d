"""`make setup`: installs once, again when it must, and never believes in an installation that failed.

A stand-in takes Python's place: it makes virtual environments of itself and writes down what uv and pip are asked to
install.
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
elif [ "$1 $2 $3" = "-m pip config" ]; then
    exec REAL "$@"
elif [ "$1 $2" = "-m pip" ] || [ "$1 $2" = "-m uv" ]; then
    echo "$@" >>"$STAND_IN_LOG"
    case " $STAND_IN_FAILS " in *" ${2} "*) echo "$2 knows no such package" >&2; exit 1 ;; esac
elif [ "$1" = -c ]; then
    exec REAL -c "import sys; sys.version_info = (*VERSION, 'final', 0)
$2"
else
    exec REAL "$@"
fi
"""


COURSE = "--editable .[hf,engines,lab,grade,cluster,site,dev,tested]"


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

    def environment(self) -> dict[str, str]:
        # pip is told nothing here, whatever this machine's pip is told.
        return {"HOME": str(self.root), "STAND_IN_LOG": str(self.log), "PIP_CONFIG_FILE": os.devnull}

    def setup(self, *arguments: str, fails: str = "", **pip_is_told: str) -> subprocess.CompletedProcess[str]:
        """`make setup`, where one or both of "pip uv" fail, with further variables of the environment."""
        path = f"{self.programs}{os.pathsep}{os.environ['PATH']}"
        environment = self.environment() | {"PATH": path, "STAND_IN_FAILS": fails} | pip_is_told
        command = ["make", "setup", *arguments]
        return subprocess.run(command, cwd=self.root, env=environment, capture_output=True, text=True, check=False)

    def installs(self) -> list[str]:
        """The commands that were to install the course."""
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        return [line for line in lines if line.endswith(COURSE)]


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path)


def test_one_command_installs_everything_once(checkout: Checkout) -> None:
    checkout.python("python3", (3, 12, 1))
    first = checkout.setup()
    assert first.returncode == 0, first.stderr
    assert "with Python 3.12.1" in first.stdout
    (install,) = checkout.installs()
    assert install.startswith("-m uv pip install --quiet --python .venv/bin/python ")
    assert "-m pip install -qq --disable-pip-version-check --only-binary :all: uv\n" in checkout.log.read_text()

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
    names = ("make", "bash", "cat", "ls", "mv", "rm", "mkdir", "cp", "dirname", "env")
    tools = {name: shutil.which(name) for name in names}
    for name, path in tools.items():
        assert path is not None
        (checkout.programs / name).symlink_to(path)
    environment = checkout.environment() | {"PATH": str(checkout.programs)}
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
    done = checkout.setup(fails="pip uv" if fails else "")
    assert (done.returncode != 0) == fails
    assert "Installing bubblewrap" in done.stdout.splitlines()[-1]
    assert "install -y -qq bubblewrap" in Path(f"{checkout.log}.apt").read_text(), "make ended before apt-get did"


@pytest.mark.parametrize("fails", ["pip", "pip uv"])
def test_a_failed_installation_is_said_and_tried_again(checkout: Checkout, fails: str) -> None:
    """pip installs uv, so without pip there is neither."""
    checkout.python("python3", (3, 12, 1))
    failed = checkout.setup(fails=fails)
    assert failed.returncode != 0
    assert "pip knows no such package" in failed.stderr
    assert "pip could not install the course" in failed.stderr
    assert len(checkout.installs()) == 1
    assert checkout.setup().returncode == 0
    assert len(checkout.installs()) == 2

    (checkout.root / "pyproject.toml").write_text("[project]\nname = 'other'\n")
    checkout.setup(fails=fails)
    (checkout.root / "pyproject.toml").write_text("[project]\n")
    checkout.setup()
    assert len(checkout.installs()) == 4, "what was half-upgraded is not taken for what it was before"


def test_where_uv_fails_pip_installs(checkout: Checkout) -> None:
    checkout.python("python3", (3, 12, 1))
    done = checkout.setup(fails="uv")
    assert done.returncode == 0, done.stderr
    assert "uv knows no such package" in done.stderr
    assert [line.split()[1] for line in checkout.installs()] == ["uv", "pip"]


def test_uv_installs_from_where_pip_would(checkout: Checkout) -> None:
    checkout.python("python3", (3, 12, 1))
    told = {"PIP_FIND_LINKS": "/some/wheels /other/wheels", "PIP_CONSTRAINT": "bounds.txt", "PIP_DEFAULT_TIMEOUT": "60"}
    assert checkout.setup(**told).stderr == ""
    (install,) = checkout.installs()
    assert install.startswith("-m uv ")
    assert "--find-links /some/wheels --find-links /other/wheels" in install
    assert "--constraint bounds.txt" in install
    assert "60" not in install


def test_where_uv_cannot_do_what_pip_is_told_pip_installs(checkout: Checkout) -> None:
    checkout.python("python3", (3, 12, 1))
    done = checkout.setup(PIP_NO_BINARY="numpy", PIP_FIND_LINKS="/some/wheels")
    assert done.returncode == 0
    assert done.stderr == "setup: pip is told no-binary, which is left to pip\n"
    (install,) = checkout.installs()
    assert install.startswith("-m pip ")
    assert "/some/wheels" not in install, "pip knows what it is told"


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
    (install,) = checkout.installs()
    assert install.startswith("-m pip install ")
    assert "--no-cache-dir --pre --editable" in install


def test_make_alone_says_what_there_is(checkout: Checkout) -> None:
    shown = subprocess.run(["make"], cwd=checkout.root, capture_output=True, text=True, check=True).stdout
    for target in ("lab", "setup", "test", "notebooks", "clean"):
        assert f"make {target}" in shown
