"""Prints the settings of this machine's pip as arguments of uv, one a line; exit code 3 where uv cannot follow one.

Run by `scripts/setup.sh`, with the Python of `.venv` and nothing installed. uv resolves and unpacks the packages of
the course in a tenth of pip's time, but does not read pip's configuration: the index of an institution, a folder of
wheels, a certificate. What is not understood here is left to pip, rather than installed from somewhere else.
"""

from __future__ import annotations

import ast
import subprocess
import sys

ARGUMENTS = {
    "index-url": "--default-index",
    "extra-index-url": "--extra-index-url",
    "find-links": "--find-links",
    "constraint": "--constraint",
    "cert": "--cert",
}
"""Settings of pip that decide what is installed or whom to trust, with the arguments of uv that say the same."""

NEUTRAL = {
    "default-timeout",
    "timeout",
    "retries",
    "disable-pip-version-check",
    "root-user-action",
    "progress-bar",
    "no-color",
    "quiet",
    "verbose",
    "no-input",
    "cache-dir",
    "config-file",
    "require-virtualenv",
    "no-warn-script-location",
    "break-system-packages",
}
"""Settings of pip that change nothing of what is installed."""

SECTIONS = ("global", "install", ":env:")
"""The sections of pip's configuration that `pip install` reads, the weaker ones first."""


def settings(listing: str) -> dict[str, str]:
    """What `pip install` goes by, from the output of `pip config list` (lines such as `global.find-links='/wheels'`).

    Raises:
        ValueError: a line is none of `pip config list`.
    """
    found: dict[str, dict[str, str]] = {section: {} for section in SECTIONS}
    for line in filter(None, map(str.strip, listing.splitlines())):
        key, equals, value = line.partition("=")
        section, dot, name = key.rpartition(".")
        if not equals or not dot:
            raise ValueError(f"not a line of `pip config list`: {line}")
        if section in SECTIONS:
            found[section][name] = str(ast.literal_eval(value))
    return {name: value for section in SECTIONS for name, value in found[section].items()}


def arguments(found: dict[str, str]) -> list[str]:
    """The same for uv.

    pip takes the best version of any index, and uv by default of the first index that knows a package: so uv is told to
    do as pip.

    Raises:
        ValueError: uv has no argument for one of the settings.
    """
    unknown = sorted(found.keys() - ARGUMENTS.keys() - NEUTRAL)
    if unknown:
        raise ValueError(f"pip is told {', '.join(unknown)}, which is left to pip")
    given = ["--index-strategy", "unsafe-best-match"]
    for name, value in found.items():
        for part in value.split() if name in ARGUMENTS else ():
            given += [ARGUMENTS[name], part]
    return given


if __name__ == "__main__":
    command = [sys.executable, "-m", "pip", "config", "list"]
    try:
        listing = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
        print("\n".join(arguments(settings(listing))))
    except (ValueError, SyntaxError, subprocess.CalledProcessError) as error:
        print(f"setup: {error}", file=sys.stderr)
        sys.exit(3)
