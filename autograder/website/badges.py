"""Links that open the course on somebody else's machine. Words, no images: those would come from another server."""

from __future__ import annotations

import re

_REPOSITORY = re.compile(r"https://github\.com/([\w.-]+)/([\w.-]+?)(?:\.git)?/?")


def badges_for(repository: str | None) -> str:
    """Markdown with a link to the course in Codespaces and one to it on Binder; `""` without a repository.

    Raises:
        ValueError: this is no address of a repository on GitHub, the only place that both services read.
    """
    if repository is None:
        return ""
    found = _REPOSITORY.fullmatch(repository)
    if found is None:
        raise ValueError(
            f"--repository {repository}: expected an address such as https://github.com/OWNER/NAME, "
            "which is what Codespaces and Binder open"
        )
    owner, name = found.groups()
    return (
        f"[Open in a codespace](https://codespaces.new/{owner}/{name}) · "
        f"[Open on Binder](https://mybinder.org/v2/gh/{owner}/{name}/HEAD?urlpath=lab/tree/workspace/Start.md)\n"
    )
