"""The gradebook's database: SQLite in a file, or PostgreSQL by its URL. Imports no torch."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from alembic.script import ScriptDirectory
from alembic.util import CommandError
from nbgrader import api
from nbgrader.api import Base
from nbgrader.dbutil import ALEMBIC_DIR
from sqlalchemy import MetaData, create_engine, event, inspect, text
from sqlalchemy.engine import Connection, Engine, make_url
from sqlalchemy.exc import ArgumentError, NoSuchModuleError

from autograder.exchange.verdict import one_line
from autograder.records.trouble import DAMAGED, REMEDY, RecordsError, shown

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

    Raises:
        RecordsError: it is no URL of a database, or its driver is not installed.
    """
    try:
        address = make_url(url)
        if address.get_backend_name() not in ("sqlite", "postgresql"):
            raise ArgumentError("neither SQLite nor PostgreSQL")
        if address.get_backend_name() != "sqlite":
            return create_engine(address, connect_args={"connect_timeout": int(WAIT_SECONDS)})
        engine = create_engine(address, connect_args={"timeout": WAIT_SECONDS})
    except (ArgumentError, NoSuchModuleError, ValueError) as error:
        raise RecordsError(
            f"--database {one_line(url.partition('@')[0].partition(':')[0], 40)}…: no URL of a database "
            f"({one_line(error, 120)}); expected sqlite:////FOLDER/gradebook.db or postgresql://USER@HOST/NAME"
        ) from None
    except ModuleNotFoundError as error:
        raise RecordsError(f"{shown(url)}: {error.name} is not here: pip install 'fxopt[cluster]'") from None

    @event.listens_for(engine, "connect")
    def _opened(connection: Any, _: Any) -> None:
        # Transactions begin where we say so, not where Python's driver guesses.
        connection.isolation_level = None
        for setting in ("synchronous = FULL", "foreign_keys = ON"):
            connection.execute(f"PRAGMA {setting}")

    @event.listens_for(engine, "begin")
    def _begun(connection: Connection) -> None:
        # A transaction that reads first and writes later would fail, not wait, where another one wrote in between.
        writes = connection.get_execution_options().get(WRITE, False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    return engine


@contextmanager
def one_engine() -> Iterator[None]:
    """Let nbgrader's gradebooks share one engine for each database, as long as a run of grading lasts.

    nbgrader makes an engine for every step of every submission, nine of them; a new engine translates every query anew,
    and connects again. Its commits to SQLite, some forty a submission, do not wait for the disk: that is done by the
    next commit of ours to the same file, at the latest when the submission is noted as graded to its end.
    """
    made: dict[str, Engine] = {}
    make = api.create_engine

    def shared(url: str, **options: Any) -> Engine:
        if url not in made:
            made[url] = make(url, **options)
            if made[url].dialect.name == "sqlite":
                event.listen(made[url], "connect", _leave_the_disk_to_others)
        return made[url]

    api.create_engine = shared
    try:
        yield
    finally:
        api.create_engine = make
        for engine in made.values():
            engine.dispose()


def _leave_the_disk_to_others(connection: Any, _: Any) -> None:
    # With any other journal a file could be damaged by a loss of power.
    if connection.execute("PRAGMA journal_mode").fetchone()[0] == "wal":
        connection.execute("PRAGMA synchronous = NORMAL")


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


def prepare_tables(engine: Engine, metadata: MetaData, *, check: bool = False) -> None:
    """Make the tables that are missing, in one transaction.

    In an empty database these are all of nbgrader's, too: nbgrader would make them in several steps, and a kill between
    two of them leaves a gradebook that it refuses.

    Args:
        engine: the database.
        metadata: tables of ours; without any, only nbgrader's are made.
        check: whether to look through the whole database before, which a run of grading does once.

    Raises:
        RecordsError: the database holds something else than a gradebook of this nbgrader and of this fxopt.
    """
    url = engine.url.render_as_string(hide_password=False)
    if engine.dialect.name == "sqlite" and engine.url.database:
        _need_folder(Path(engine.url.database))
    with engine.connect() as connection:
        names = set(inspect(connection).get_table_names())
        if names and check:
            _check(connection, _tables(connection), metadata, url)
    if names and {table.name for table in metadata.sorted_tables} <= names:
        return
    with writing(engine) as connection:
        if not inspect(connection).get_table_names():
            Base.metadata.create_all(connection)
            connection.execute(text("CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL)"))
            connection.execute(text("INSERT INTO alembic_version VALUES (:version)"), {"version": nbgrader_schema()})
        metadata.create_all(connection)
    if engine.dialect.name == "sqlite":
        # Kept in the file, which until now may have been another program's. Readers then do not wait for the writer.
        opened = engine.raw_connection()
        try:
            opened.cursor().execute("PRAGMA journal_mode = WAL")
        finally:
            opened.close()


def make_nbgraders_tables(url: str) -> None:
    """Make nbgrader's tables in a new database, and none of ours.

    nbgrader would make them, too, and start a process of seconds to learn their version.
    """
    engine = connect(url)
    try:
        prepare_tables(engine, MetaData())
    finally:
        engine.dispose()


def _need_folder(file: Path) -> None:
    """SQLite says of every folder that is not there that it cannot open the file."""
    file.parent.mkdir(parents=True, exist_ok=True)


def _tables(connection: Connection) -> dict[str, set[str]]:
    """The names of the tables, and of the columns of each."""
    inspector = inspect(connection)
    columns = inspector.get_multi_columns()
    return {name: {str(column["name"]) for column in found} for (_, name), found in columns.items()}


def _check(connection: Connection, found: dict[str, set[str]], ours: MetaData, url: str) -> None:
    name = shown(url)
    if connection.dialect.name == "sqlite":
        state = connection.exec_driver_sql("PRAGMA quick_check(1)").scalar()
        if state != "ok":
            raise RecordsError(f"{name}: {DAMAGED.format(why=one_line(state, 120))}; {REMEDY}")
    theirs = {table.name: {column.name for column in table.columns} for table in Base.metadata.sorted_tables}
    if not set(theirs) & set(found):
        tables = ", ".join(sorted(found)[:4])
        raise RecordsError(
            f"{name}: this is another program's database (its tables: {one_line(tables, 120)}); name another one with "
            "--database, or move it away"
        )
    has = None
    if "alembic_version" in found:
        has = connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
    wanted = nbgrader_schema()
    if has != wanted:
        if has is None or _is_known(str(has)):
            raise RecordsError(
                f"{name}: this gradebook was made by an older nbgrader (its tables are of version {has or 'none'}, now "
                f"it is {wanted}); copy it to a safe place, run `nbgrader db upgrade`, and run this again"
            )
        raise RecordsError(
            f"{name}: this gradebook was made by another nbgrader (the installed one does not know version "
            f"{one_line(has, 40)} of its tables); install the nbgrader that made it, or put an older copy back"
        )
    own = {table.name: {column.name for column in table.columns} for table in ours.sorted_tables}
    for table, columns in (theirs | {name: columns for name, columns in own.items() if name in found}).items():
        missing = columns - found.get(table, set())
        if missing:
            what = "fxopt" if table in own else "nbgrader"
            raise RecordsError(
                f"{name}: this gradebook was made by another version of {what} (its table {table} lacks "
                f"{', '.join(sorted(missing)[:4])}); install the {what} that made it, or put a copy back"
            )


def _is_known(version: str) -> bool:
    try:
        return ScriptDirectory(ALEMBIC_DIR).get_revision(version) is not None
    except CommandError:
        return False
