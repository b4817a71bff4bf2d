#!/usr/bin/env bash
# Sets the course up: a virtual environment in .venv with everything installed, and three Debian packages.
#
# Run by `make setup`, which `make lab` and `make test` call. It is fast when there is nothing to do: a stamp in .venv holds
# what the environment was built from, and is written only after an installation that succeeded.
#
# Environment:
#   PYTHON    the Python to build .venv with (default: the first of python3, python3.13, python3.12, python3.11 that is 3.11+)
#   PIP_ARGS  further arguments for pip, for example an index of CPU-only builds of torch; pip then installs, and not uv
#
# Runs on bash 3.2 (macOS).
set -euo pipefail
cd "$(dirname "$0")/.."

VENV=.venv
STAMP=$VENV/.fxopt-setup
EXTRAS=hf,engines,lab,grade,cluster,site,dev,tested

say() { printf '%s\n' "$*"; }
fail() {
    printf 'setup: %s\n' "$@" >&2
    exit 1
}

# Prints the version of a Python ("3.12.1"); fails when it does not run at all.
version_of() { "$1" -c 'import sys; print("%d.%d.%d" % sys.version_info[:3])' 2>/dev/null; }
new_enough() { "$1" -c 'import sys; sys.exit(sys.version_info[:2] < (3, 11))' 2>/dev/null; }

# Sets `python` to the Python that the environment is built with.
choose_python() {
    local candidate found=""
    if [ -n "${PYTHON:-}" ]; then
        version_of "$PYTHON" >/dev/null || fail "PYTHON=$PYTHON does not run."
        new_enough "$PYTHON" || fail "PYTHON=$PYTHON is Python $(version_of "$PYTHON"); the course needs Python 3.11 or newer."
        python=$PYTHON
        return
    fi
    for candidate in python3 python3.13 python3.12 python3.11; do
        version_of "$candidate" >/dev/null || continue
        if new_enough "$candidate"; then
            python=$candidate
            return
        fi
        [ -n "$found" ] || found="python3 is Python $(version_of "$candidate")"
    done
    fail "the course needs Python 3.11 or newer; ${found:-no python3 was found on PATH}." \
        "Install a newer Python, or name one: make setup PYTHON=/path/to/python3.12"
}

# One line that changes when the environment must be built anew: what is installed, with which Python, for which checkout.
wanted_stamp() {
    "$VENV/bin/python" - "$EXTRAS" "${PIP_ARGS:-}" <<'PYTHON_CODE'
import hashlib, pathlib, sys
content = hashlib.sha256(pathlib.Path("pyproject.toml").read_bytes()).hexdigest()
print(content, sys.version.split()[0], pathlib.Path.cwd(), *sys.argv[1:])
PYTHON_CODE
}

# Whether .venv works, and was built with the Python that is asked for.
environment_fits() {
    [ -x "$VENV/bin/python" ] && new_enough "$VENV/bin/python" || return 1
    [ -z "${PYTHON:-}" ] || [ "$(version_of "$PYTHON")" = "$(version_of "$VENV/bin/python")" ]
}

# Byte code of what lies in some folders and changed, on all cores; pip compiles on one.
compile_to_byte_code() {
    local folder
    for folder in "$@"; do
        [ -d "$folder" ] || continue
        # Packages hold files for other versions of Python, which cannot be compiled, and tests; nobody imports either here.
        "$VENV/bin/python" -m compileall -qq -j 0 -x '/tests?/' "$folder" || continue
    done
}

# Installs with uv, which takes a tenth of pip's time; fails where pip must do it.
install_with_uv() {
    local line settings
    [ -z "${PIP_ARGS:-}" ] || return 1
    # pip would take PIP_ARGS, which is ours, for one of its settings.
    settings=$(env -u PIP_ARGS "$VENV/bin/python" scripts/pip_settings.py) || return 1
    "$VENV/bin/python" -m pip install -qq --disable-pip-version-check --only-binary :all: uv || return 1
    set --
    while IFS= read -r line; do
        set -- "$@" "$line"
    done <<<"$settings"
    "$VENV/bin/python" -m uv pip install --quiet --python "$VENV/bin/python" "$@" --editable ".[$EXTRAS]"
}

install_with_pip() {
    # One pip command, so that torch is resolved together with all else. PIP_ARGS is split into words on purpose.
    # shellcheck disable=SC2086
    "$VENV/bin/python" -m pip install -qq --no-compile --disable-pip-version-check ${PIP_ARGS:-} --editable ".[$EXTRAS]"
}

install_packages() {
    if environment_fits; then
        if [ -f "$STAMP" ] && [ "$(cat "$STAMP")" = "$(wanted_stamp)" ]; then
            return
        fi
        rm -f "$STAMP"
    else
        # Absent, broken (its Python was removed), or built with another Python than the one asked for.
        choose_python
        say "Creating $VENV with Python $(version_of "$python")"
        "$python" -m venv --clear "$VENV" ||
            fail "'$python -m venv' failed. On Debian and Ubuntu it is a package of its own: apt-get install python3-venv"
    fi
    say "Installing the course into $VENV (the first time this takes some minutes: torch is large)"
    install_with_uv || install_with_pip ||
        fail "pip could not install the course; its message is above. Mend the cause and run 'make setup' again."
    compile_to_byte_code "$VENV"/lib/python*/site-packages
    wanted_stamp >"$STAMP.new"
    mv "$STAMP.new" "$STAMP"
    say "Installed."
}

have() { command -v "$1" >/dev/null 2>&1; }
have_browser() {
    have chromium || have chromium-browser || have google-chrome || have google-chrome-stable ||
        [ -x "/Applications/Chromium.app/Contents/MacOS/Chromium" ] ||
        [ -x "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome" ]
}
# Debian keeps PostgreSQL's server off the path, in a folder for each version.
have_postgresql() { have postgres || ls /usr/lib/postgresql/*/bin/postgres >/dev/null 2>&1; }
distribution() { if [ -r /etc/os-release ]; then (. /etc/os-release && printf '%s' "${ID:-}"); fi; }

# Chromium (for the browser test), bubblewrap (the sandbox in which submissions are graded) and PostgreSQL (tests of a
# gradebook on a server).
install_system_packages() {
    local missing=""
    have_browser || missing="chromium"
    # bubblewrap exists for Linux only; elsewhere grading falls back to a process with limits, and says so.
    if [ "$(uname -s)" = Linux ] && ! have bwrap; then missing="${missing:+$missing }bubblewrap"; fi
    have_postgresql || missing="${missing:+$missing }postgresql"
    [ -n "$missing" ] || return 0

    if [ "$(distribution)" = debian ] && [ "$(id -u)" = 0 ]; then
        say "Installing $missing with apt-get"
        # shellcheck disable=SC2086
        if apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq $missing >/dev/null; then
            return 0
        fi
        # A lesson can be read without any of them, so this stops nobody; the tests that need them fail and say so.
        say "setup: apt-get could not install: $missing (its message is above). Run later: apt-get install $missing" >&2
        return 0
    fi
    say "Not installed here: $missing (chromium: the browser test; bubblewrap: the sandbox for grading; postgresql: tests" \
        "of a gradebook on a server)."
    case "$(uname -s)/$(distribution)" in
        Darwin/*)
            case "$missing" in *chromium*) say "  To install: brew install --cask chromium" ;; esac
            case "$missing" in *postgresql*) say "  To install: brew install postgresql" ;; esac
            ;;
        */debian) say "  To install: sudo apt-get install $missing" ;;
        */ubuntu)
            case "$missing" in *bubblewrap*) say "  To install: sudo apt-get install bubblewrap" ;; esac
            case "$missing" in *postgresql*) say "  To install: sudo apt-get install postgresql" ;; esac
            case "$missing" in *chromium*) say "  To install: sudo snap install chromium" ;; esac
            ;;
        */fedora) say "  To install: sudo dnf install ${missing/postgresql/postgresql-server}" ;;
        *) say "  Install with this system's package manager: $missing" ;;
    esac
}

# Side by side: one waits for the network while the other computes. What the first says is shown when both are done, and
# it is waited for where the other fails.
exec 3< <(install_system_packages)
trap 'cat <&3' EXIT
install_packages
# Where Python is told to write no byte code, every process would compile the course anew.
compile_to_byte_code fxopt_core fxopt_workbench autograder
