"""Linux confinement of one submission: fresh namespaces, private scratch space, no rights, a filter of system calls.

The warm process enters fresh namespaces for each submission and can then do nothing in its own any more; what runs a
learner's code gives up every right before it begins. Calls the kernel through ctypes, for Python has names for few of
these calls. Imports no torch.
"""

from __future__ import annotations

import ctypes
import os
import resource
import struct
import sys
from collections.abc import Sequence
from pathlib import Path

NEW_PROCESSES = 0x20000000
"""`unshare` and `setns`: process ids. Children made afterwards live in the new namespace; the caller does not."""

NEW_MOUNTS, NEW_HOST_NAME, NEW_IPC, NEW_USERS, NEW_NETWORK = 0x20000, 0x4000000, 0x8000000, 0x10000000, 0x40000000

SCRATCH = ("/tmp", "/dev/shm")
"""Folders that each submission gets empty and of its own, with a size: they lie in memory that no process owns."""

_READ_ONLY, _NO_SETUID, _NO_DEVICES, _NO_PROGRAMS = 1, 2, 4, 8
_REMOUNT, _BIND, _RECURSIVE, _PRIVATE = 0x20, 0x1000, 0x4000, 0x40000

_SET_DUMPABLE, _READ_BOUNDING, _DROP_BOUNDING = 4, 23, 24
_SET_SECCOMP, _NO_NEW_PRIVILEGES, _AMBIENT = 22, 38, 47
_FILTER_MODE, _CLEAR_AMBIENT = 2, 4

_library = ctypes.CDLL(None, use_errno=True)


def _call(name: str, *arguments: int | bytes | None) -> int:
    """Call a function of the C library.

    Raises:
        OSError: it failed; the message names it.
    """
    known = [ctypes.c_ulong(item) if isinstance(item, int) else item for item in arguments]
    result: int = getattr(_library, name)(*known)
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")
    return result


def fork_into_new_process_ids() -> int:
    """Fork, with the child as the first process of a fresh namespace of process ids: when it ends, all in it end.

    The kernel spares this first process every signal from inside for which it has no handler.

    Returns:
        As `os.fork`.

    Raises:
        OSError: the kernel refuses.
    """
    own = os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
    try:
        _call("unshare", NEW_PROCESSES)
        child = os.fork()
        if child:
            _call("setns", own, NEW_PROCESSES)
        return child
    finally:
        os.close(own)


def enter_new_namespaces(scratch_bytes: int, kept: Sequence[str] = ()) -> None:
    """Give this process (the first of its process ids) mounts, network, IPC and users of its own, and empty scratch.

    Args:
        scratch_bytes: size of each folder of `SCRATCH`.
        kept: folders inside those of `SCRATCH` that stay visible, as they are.

    Raises:
        OSError: the kernel refuses.
    """
    for kind in (NEW_MOUNTS, NEW_NETWORK, NEW_IPC, NEW_HOST_NAME):
        _call("unshare", kind)
    _call("mount", b"none", b"/", None, _RECURSIVE | _PRIVATE, None)
    opened = {folder: os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC) for folder in kept}
    for folder in SCRATCH:
        flags = _NO_SETUID | _NO_DEVICES
        _call("mount", b"tmpfs", folder.encode(), b"tmpfs", flags, f"size={scratch_bytes},mode=1777".encode())
    for folder, descriptor in opened.items():
        os.makedirs(folder, exist_ok=True)
        _call("mount", f"/proc/self/fd/{descriptor}".encode(), folder.encode(), None, _BIND | _RECURSIVE, None)
        os.close(descriptor)
    hidden = _NO_SETUID | _NO_DEVICES | _NO_PROGRAMS
    _call("mount", b"proc", b"/proc", b"proc", hidden, None)
    user, group = os.getuid(), os.getgid()
    writable = os.open("/proc", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        # Read-only on top: some settings of the kernel belong to whoever is user 0 outside, in any namespace.
        _call("mount", b"/proc", b"/proc", None, _BIND | _RECURSIVE, None)
        _call("mount", None, b"/proc", None, _REMOUNT | _BIND | _READ_ONLY | hidden, None)
        # Last: its rights do not reach the namespaces above any more.
        _call("unshare", NEW_USERS)
        for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
            file = os.open(f"self/{name}", os.O_WRONLY, dir_fd=writable)
            os.write(file, text.encode())
            os.close(file)
    finally:
        os.close(writable)
    os.chdir(SCRATCH[0])


def give_up_rights(program: bytes) -> None:
    """Give up all capabilities and the ways to new ones, hide this process's memory, and filter system calls.

    Children inherit all of it for good, but may show their own memory again (`show_own_memory`).

    Args:
        program: the filter, as libseccomp writes it; empty for none.

    Raises:
        OSError: the kernel refuses.
    """
    _call("prctl", _AMBIENT, _CLEAR_AMBIENT, 0, 0, 0)
    for capability in range(int(Path("/proc/sys/kernel/cap_last_cap").read_text()) + 1):
        if _call("prctl", _READ_BOUNDING, capability, 0, 0, 0):
            _call("prctl", _DROP_BOUNDING, capability, 0, 0, 0)
    # Version 3 of the interface, this process; three sets of 64 bits, all empty.
    header, nothing = struct.pack("Ii", 0x20080522, 0), bytes(24)
    _call("capset", header, nothing)
    _call("prctl", _SET_DUMPABLE, 0, 0, 0, 0)
    _call("prctl", _NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    if program:
        instructions = ctypes.create_string_buffer(program, len(program))
        described = struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(instructions))
        _call("prctl", _SET_SECCOMP, _FILTER_MODE, described, 0, 0)


def show_own_memory() -> None:
    """Let this process read its own files in /proc again, as Python and debuggers expect."""
    _call("prctl", _SET_DUMPABLE, 1, 0, 0, 0)


LIMITS: dict[str, int] = {
    "memory_bytes": resource.RLIMIT_AS,
    "file_bytes": resource.RLIMIT_FSIZE,
    "processes": resource.RLIMIT_NPROC,
    "open_files": resource.RLIMIT_NOFILE,
}
"""Limits of one process, by our names."""


def limit_resources(limits: dict[str, int]) -> None:
    """Apply limits of one process (keys of `LIMITS`); absent ones stay as they are. No core files, no locked memory."""
    for name, kind in LIMITS.items():
        if name in limits:
            resource.setrlimit(kind, (limits[name], limits[name]))
    for kind in (resource.RLIMIT_CORE, resource.RLIMIT_MEMLOCK):
        resource.setrlimit(kind, (0, 0))


def refusal_of_namespaces() -> str:
    """Why a submission cannot have namespaces of its own here, as the kernel says it; `""` when it can."""
    reader, writer = os.pipe()
    try:
        child = fork_into_new_process_ids()
        if child == 0:
            try:
                enter_new_namespaces(1 << 20)
                give_up_rights(b"")
            except OSError as error:
                os.write(writer, str(error).encode())
            finally:
                os._exit(0)
        os.waitpid(child, 0)
    except OSError as error:
        return str(error)
    finally:
        os.close(writer)
        said = os.read(reader, 1000).decode()
        os.close(reader)
    return said


def adopt_orphans() -> None:
    """Become the parent of what processes below leave behind, so that it can be found (Linux only)."""
    if sys.platform == "linux":
        set_child_subreaper = 36
        ctypes.CDLL(None).prctl(set_child_subreaper, 1, 0, 0, 0)
