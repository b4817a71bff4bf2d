"""The system calls that a learner's processes are refused, as a program for the kernel's filter (seccomp).

libseccomp writes the program here, on the grading side; the worker hands it to the kernel and needs no library for it.
A refused call fails with "Operation not permitted", as it would for lack of rights, so that code which only tries goes
on. Everything that is not named here is allowed: the sandbox's own walls hold it. Imports no torch.
"""

from __future__ import annotations

import errno
import socket
import tempfile
from dataclasses import dataclass
from functools import cache

REFUSED = """
ptrace process_vm_readv process_vm_writev process_madvise pidfd_getfd kcmp
unshare setns
mount umount2 pivot_root chroot mount_setattr move_mount open_tree fsopen fsmount fsconfig fspick
name_to_handle_at open_by_handle_at fanotify_init quotactl
keyctl add_key request_key
shmget shmat shmctl msgget msgsnd msgrcv msgctl semget semop semtimedop semctl mq_open
bpf perf_event_open userfaultfd io_uring_setup io_uring_enter io_uring_register
init_module finit_module delete_module kexec_load kexec_file_load reboot swapon swapoff acct syslog
settimeofday clock_settime clock_adjtime adjtimex ioperm iopl modify_ldt vhangup
""".split()
"""Refused whatever their arguments are: reaching into other processes, other namespaces, mounting, keys, memory that no
process owns (System V, message queues), and what only administers a machine or has a history of faults."""

NEW_NAMESPACES = (
    0x00000080,  # time
    0x00020000,  # mounts
    0x02000000,  # control groups
    0x04000000,  # host name
    0x08000000,  # System V objects and message queues
    0x10000000,  # users
    0x20000000,  # processes
    0x40000000,  # network
)
"""Flags of `clone` that make a namespace."""

ADDRESS_FAMILIES = (socket.AF_UNIX, socket.AF_INET, socket.AF_INET6)
"""Kinds of sockets that are allowed; some others (`AF_VSOCK`) reach out of every namespace."""


@dataclass(frozen=True)
class Filter:
    """A filter for the kernel.

    Attributes:
        program: instructions of the kernel's packet filter; empty when there is no filter here.
        absent: why there is no filter, or which calls this libseccomp is too old to know; `""` when all is refused.
    """

    program: bytes
    absent: str = ""


@cache
def learner_filter() -> Filter:
    """The filter for learners' processes, as far as one can be made here."""
    try:
        import pyseccomp
    except (ImportError, OSError, RuntimeError) as error:
        return Filter(b"", f"libseccomp is not here ({error}): install the system package `libseccomp2`")
    refuse = pyseccomp.ERRNO(errno.EPERM)
    made = pyseccomp.SyscallFilter(pyseccomp.ALLOW)
    unknown = []
    for name in REFUSED:
        try:
            made.add_rule(refuse, name)
        except (OSError, ValueError):
            unknown.append(name)
    for flag in NEW_NAMESPACES:
        made.add_rule(refuse, "clone", pyseccomp.Arg(0, pyseccomp.MASKED_EQ, flag, flag))
    # Its flags lie in memory, which a filter cannot read. "Not implemented" makes the C library take `clone` instead.
    made.add_rule(pyseccomp.ERRNO(errno.ENOSYS), "clone3")
    # Limits of another process, the one that starts tasks above all; a process names itself with 0.
    made.add_rule(refuse, "prlimit64", pyseccomp.Arg(0, pyseccomp.NE, 0))
    for family in range(max(ADDRESS_FAMILIES) + 1):
        if family not in ADDRESS_FAMILIES:
            made.add_rule(refuse, "socket", pyseccomp.Arg(0, pyseccomp.EQ, family))
    made.add_rule(refuse, "socket", pyseccomp.Arg(0, pyseccomp.GT, max(ADDRESS_FAMILIES)))
    with tempfile.TemporaryFile() as file:
        made.export_bpf(file)
        file.seek(0)
        program = file.read()
    return Filter(program, f"this libseccomp does not know {', '.join(unknown)}" if unknown else "")
