"""How results show themselves. The core holds data; a package that draws plugs in and makes tables of it."""

from __future__ import annotations

from collections.abc import Collection
from functools import cache
from importlib.metadata import entry_points
from typing import Any


@cache
def _presenter() -> Any | None:
    """The module under the entry point `tables` of the group `fxopt.displays`; `None` where nothing draws."""
    found = entry_points(group="fxopt.displays", name="tables")
    return next((one.load() for one in found), None)


class Displayable:
    """A result that prints, and shows itself in a notebook, as tables.

    `fxopt_workbench` makes the tables (`fxopt_workbench.tables.tables_of`). Where it is absent, a result prints as the
    data that it is.
    """

    def __str__(self) -> str:
        presenter = _presenter()
        return repr(self) if presenter is None else presenter.as_text(self)

    def as_json(self) -> dict[str, Any]:
        """Everything as JSON values: names, numbers, lists and dictionaries; no infinity and no NaN.

        Raises:
            TypeError: this kind of result has no such form, or the package that knows it is absent.
        """
        presenter = _presenter()
        if presenter is None:
            raise TypeError(f"nothing installed writes {type(self).__name__} as JSON; fxopt_workbench does.")
        document: dict[str, Any] = presenter.as_json(self)
        return document

    def _repr_mimebundle_(
        self, include: Collection[str] | None = None, exclude: Collection[str] | None = None
    ) -> dict[str, str]:
        """What a notebook shows, in the kinds (MIME types) that it asks for."""
        presenter = _presenter()
        bundle = {"text/plain": str(self)} | ({} if presenter is None else {"text/html": presenter.as_html(self)})
        return choose_kinds(bundle, include, exclude)


def choose_kinds(
    bundle: dict[str, str], include: Collection[str] | None, exclude: Collection[str] | None
) -> dict[str, str]:
    """What of a bundle of MIME types a front end asked for, as `_repr_mimebundle_` must."""
    wanted = bundle if include is None else include
    return {kind: content for kind, content in bundle.items() if kind in wanted and kind not in (exclude or ())}
