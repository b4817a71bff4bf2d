"""The gradebook's database: SQLite in a file, or PostgreSQL by its URL. Imports no torch."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from alembic.script import ScriptDirectory
from nbgrader.api import Base
from nbgrader.dbutil import ALEMBIC_DIR
from sqlalchemy import MetaData, create_engine, event, inspect, text
from sqlalchemy.engine import Connection, Engine, make_url

WAIT_SECONDS = 30.0
"""How long a writer waits for another one of the same database before it gives up."""

WRITE = "fxopt_write"
"""Option of a connection whose transactions write."""

WRITE_LOCK = 0x66786F7074
"""Key of PostgreSQL's advisory lock under which one transaction at a time writes our tables ("fxopt" in ASCII)."""


def connect(url: str) -> Engine:
    """An engine for the gradebook's database; readers and one writer do not hold each other up.

    Args:
        url: `sqlite:////folder/gradebook.db`, or `postgresql+psycopg://user@host/name`.
    """
    address = make_url(url)
    if address.get_backend_name() != "sqlite":
        return create_engine(address)
    engine = create_engine(address, connect_args={"timeout": WAIT_SECONDS})

    @event.listens_for(engine, "connect")
    def _opened(connection: Any, _: Any) -> None:
        # Transactions begin where we say so, not where Python's driver guesses.
        connection.isolation_level = None
        for setting in ("journal_mode = WAL", "synchronous = FULL", "foreign_keys = ON"):
            connection.execute(f"PRAGMA {setting}")

    @event.listens_for(engine, "begin")
    def _begun(connection: Connection) -> None:
        # A transaction that reads first and writes later would fail, not wait, where another one wrote in between.
        writes = connection.get_execution_options().get(WRITE, False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    return engine


@contextmanager
def writing(engine: Engine) -> Iterator[Connection]:
    """A transaction that writes: one at a time, committed as a whole at the end, and not at all after an error."""
    with engine.connect().execution_options(**{WRITE: True}) as connection, connection.begin():
        if connection.dialect.name == "postgresql":
            connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": WRITE_LOCK})
        yield connection


def nbgrader_schema() -> str:
    """The version of nbgrader's tables that the installed nbgrader works with (of alembic's `alembic_version`)."""
    head = ScriptDirectory(ALEMBIC_DIR).get_current_head()
    assert head is not None
    return head


def prepare_tables(engine: Engine, metadata: MetaData) -> None:
    """Make the tables that are missing in one transaction: all of nbgrader's in an empty database, and ours.

    nbgrader would make its own in several steps, and a kill between two of them leaves a gradebook that it refuses.
    """
    ours = {table.name for table in metadata.sorted_tables}
    if ours <= set(inspect(engine).get_table_names()):
        return
    with writing(engine) as connection:
        if not inspect(connection).get_table_names():
            Base.metadata.create_all(connection)
            connection.execute(text("CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL)"))
            connection.execute(text("INSERT INTO alembic_version VALUES (:version)"), {"version": nbgrader_schema()})
        metadata.create_all(connection)
