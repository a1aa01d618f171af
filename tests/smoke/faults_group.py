"""Faults of one process of a job, which the others play in health; see `faults`."""

from __future__ import annotations

import sys
from unittest.mock import patch

# `faults` is a module of the tests, and at the top in the environment
faults = sys.modules[__name__.removesuffix("_group")]
fault, replaced, module = faults.fault, faults.replaced, faults.module
CHECK, DISTRIBUTED = "group.exchange", "torch.distributed"
SECONDS = {"LIMIT": 20.0, "_LAST_WORDS": 3.0, "_ANSWER": 8.0}


@replaced(CHECK, "wrong-numbers", DISTRIBUTED, "all_reduce", "group")
def a_process_contributes_wrong_numbers(all_reduce, tensor, **more):
    tensor += 1
    return all_reduce(tensor, **more)


@replaced(CHECK, "slow", DISTRIBUTED, "batch_isend_irecv", "group")
def a_process_is_slow(exchange, operations):
    module("time").sleep(0.5)
    return exchange(operations)


@fault(CHECK, "", "group")
def the_group_waits_for_seconds_only():
    with patch.multiple(module("smoke.device.group"), **SECONDS):
        yield


@fault(CHECK, "network-failure", "group")
def a_process_comes_later():
    module("time").sleep(4)
    with patch.multiple(module("smoke.device.group"), **SECONDS):
        yield


@fault(CHECK, "network-failure", "group")
def a_process_hangs():
    distributed, sleep = module(DISTRIBUTED), module("time").sleep
    with patch.object(distributed, "all_reduce", lambda *_, **__: sleep(60)):
        yield


@fault(CHECK, "network-failure", "group")
def the_first_process_ends():
    cls = module("smoke.device.group").Group
    told, leave = cls.told_by_all, module("os")._exit

    def told_by_all(group, about, facts):
        return leave(9) if about == "sums" else told(group, about, facts)

    with patch.object(cls, "told_by_all", told_by_all):
        yield


@fault(CHECK, "process-died", "group")
def the_first_process_stops():
    """As on a host without power: its connections stay open, and nothing comes from it."""
    cls, os = module("smoke.device.group").Group, module("os")
    later = f"sleep 25; kill -KILL {os.getpid()}"  # the others have ended by then
    told = cls.told_by_all

    def told_by_all(group, about, facts):
        if about == "sums":
            module("subprocess").Popen(["sh", "-c", later])
            os.kill(os.getpid(), module("signal").SIGSTOP)
        return told(group, about, facts)

    with patch.object(cls, "told_by_all", told_by_all):
        yield


@fault(CHECK, "port-in-use", "group")
def another_program_has_the_port():
    cls = module("smoke.device.group").Group
    meet = cls._open

    def _open(group, launched):
        with module("socket").create_server(("", int(launched["port"]))):
            return meet(group, launched)

    with patch.object(cls, "_open", _open):
        yield


@replaced(CHECK, "op-fails", DISTRIBUTED, "all_reduce", "group")
def a_process_has_a_broken_device(_, *__, **___):
    raise RuntimeError("CUDA error: uncorrectable ECC error encountered")
