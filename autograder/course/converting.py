"""Running nbgrader's converters, which log what went wrong and forget it. Imports no torch."""

from __future__ import annotations

import logging
import warnings
from typing import Any

from nbgrader.api import InvalidEntry
from nbgrader.converters.base import BaseConverter
from sqlalchemy.exc import DBAPIError, SAWarning


class TellsWhy(BaseConverter):
    """A converter that keeps the exception that ended a submission; put it first among the base classes.

    Attributes:
        cause: the first exception, or `None`.
    """

    cause: Exception | None = None

    def init_destination(self, assignment_id: str, student_id: str) -> bool:
        """As nbgrader's."""
        return bool(self._kept(super().init_destination, assignment_id, student_id))

    def init_assignment(self, assignment_id: str, student_id: str) -> None:
        """As nbgrader's."""
        self._kept(super().init_assignment, assignment_id, student_id)

    def convert_single_notebook(self, notebook_filename: str) -> None:
        """As nbgrader's."""
        self._kept(super().convert_single_notebook, notebook_filename)

    def set_permissions(self, assignment_id: str, student_id: str) -> None:
        """As nbgrader's."""
        self._kept(super().set_permissions, assignment_id, student_id)

    def _kept(self, step: Any, *arguments: Any) -> Any:
        try:
            return step(*arguments)
        except Exception as error:
            self.cause = self.cause or error
            raise


def convert(converter: TellsWhy) -> None:
    """Run a converter without its log.

    Raises:
        Exception: what really went wrong, where nbgrader would say that its log tells.
    """
    # The second is what nbgrader's gradebook tells of an error before it raises another one.
    loggers = converter.log, logging.getLogger("tornado.application")
    before = [logger.disabled for logger in loggers]
    for logger in loggers:
        logger.disabled = True
    try:
        with warnings.catch_warnings():
            # nbgrader reads a new submission before it adds it to its session, which SQLAlchemy remarks on.
            warnings.filterwarnings("ignore", "Object of type <Submitted", category=SAWarning)
            converter.start()
    except Exception as error:
        cause = converter.cause or error
        if isinstance(cause, InvalidEntry):
            cause = _of_the_database(cause) or cause
        if cause is error:
            raise
        raise cause from error
    finally:
        for logger, was in zip(loggers, before, strict=True):
            logger.disabled = was


def _of_the_database(error: BaseException | None) -> Exception | None:
    """The error of the database in whose place nbgrader raised this one."""
    while error is not None:
        if isinstance(error, DBAPIError):
            return error
        error = error.__cause__ or error.__context__
    return None


__all__ = ["TellsWhy", "convert"]
