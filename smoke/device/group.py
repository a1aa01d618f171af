"""The processes of a job, one on each node or device, as torchrun, srun or mpirun start them.

They know each other by a store beside the collectives: what a broken collective spoils can still be
told, and who is missing has a name.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import re
import socket
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import TimeoutError as FutureTimeout
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, NoReturn

import torch
from torch import distributed

from smoke.device import capabilities
from smoke.engine import side_by_side
from smoke.engine.finding import fail

# Seconds in which all processes of a job come, and one operation ends: less than the suite's limit
# of silence, after which a check counts as hung.
LIMIT = 60.0
_LAST_WORDS = 10.0  # seconds in which the others tell how far they are
_IS_OVER = "over"  # the key in the store that ends the wait for who has not come
_ANSWER = 20.0  # seconds in which rank 0 answers one question, however busy it is
# Gloo and oneCCL raise plain errors, and NCCL wraps those of this rank's own device.
_OF_NETWORK = re.compile(r"gloo|ccl|connect|tim(ed |e)out|socket|broken pipe", re.I)
_OF_DEVICE = re.compile(r"cuda (error|failure)|out of memory", re.I)


class SilentError(RuntimeError):
    """Rank 0 does not answer, as a host without power: its connections stay open."""


def timely(act: Callable[[], Any], seconds: float) -> Any:
    """Do what may have no end of its own, as most calls of torch's store; SilentError after a time."""
    try:
        return side_by_side.begin(act).result(seconds)
    except FutureTimeout as error:
        raise SilentError(f"timed out after {seconds:.0f} s") from error


class Group:
    """The processes of a job, seen from one of them."""

    def __init__(self, launched: Mapping[str, str]) -> None:
        self.rank = int(launched["rank"])
        self.size = int(launched["size"])
        self.address = f"{launched['address']}:{launched['port']}"
        self._node = socket.gethostname()
        self._nodes: dict[int, str] = {}
        self._tells = 0
        self._is_silent = False
        self._store = self._open(launched)

    def _open(self, launched: Mapping[str, str]) -> Any:
        """Return torch's store, in which all processes of a job read and write; rank 0 has it."""
        try:
            store = distributed.TCPStore(
                launched["address"],
                int(launched["port"]),
                # torchrun has a store of its own.
                is_master=self.rank == 0 and launched["store"] == "own",
                wait_for_workers=False,
                timeout=dt.timedelta(seconds=LIMIT),
            )
        except (RuntimeError, OSError) as error:  # of torch 2.1, and of later ones
            reason = str(error).partition("\n")[0]
            if "EADDRINUSE" in str(error) or "already in use" in str(error):
                self._port_in_use(launched["port"], reason)
            self._no_network(f"rank 0 does not answer at {self.address}", reason)
        return distributed.PrefixStore(f"provision/{launched['store']}", store)

    def _ask(self, method: Callable[..., Any], *arguments: object) -> Any:
        """Call a method of the store; SilentError where rank 0 does not answer, or did not before."""
        if self._is_silent:
            raise SilentError("timed out before")
        try:
            return timely(partial(method, *arguments), _ANSWER)
        except SilentError:
            self._is_silent = True
            raise

    def join(self, device: torch.device) -> dict[int, str]:
        """Wait for all processes, and open the collectives; return the node of each rank."""
        self._nodes = self.told_by_all("node", self._node)
        # Otherwise NCCL's watchdog ends the process at the limit, and nobody is named.
        os.environ["TORCH_NCCL_BLOCKING_WAIT"] = "1"
        opened = partial(
            distributed.init_process_group,
            capabilities.backend(device),
            store=distributed.PrefixStore("collectives", self._store),
            rank=self.rank,
            world_size=self.size,
            timeout=dt.timedelta(seconds=LIMIT),
        )
        with self.step("open the collectives"):
            timely(opened, LIMIT + _ANSWER)
        return self._nodes

    @contextmanager
    def step(self, words: str) -> Iterator[None]:
        """Do one operation of all; if the network fails or time is up, name who does not answer.

        What this process's own device raises stays as it is: no other node is at fault.
        """
        try:
            yield
        except RuntimeError as error:
            if not _is_of_network(error):
                raise
            reason = f"{type(error).__name__}: {error}".partition("\n")[0]
            self._no_network(f"could not {words}: {self._silent()}", reason)

    def _silent(self) -> str:
        """Return which processes did not fail as this one did: they hang, have ended, or never came."""
        try:
            self._ask(self._store.set, f"failed/{self.rank}", "")
            self._wait("failed", _LAST_WORDS)
            names = ", ".join(map(self._name, self._without("failed")))
        except SilentError:
            return f"{self._name(0)} is silent"
        except RuntimeError:  # the store ends with rank 0
            return f"{self._name(0)} has ended"
        return f"{names} does not answer" if names else "all processes answer"

    def _without(self, topic: str) -> list[int]:
        """Return the ranks that have told nothing on a topic."""
        ranks = []
        for rank in range(self.size):
            if not self._ask(self._store.check, [f"{topic}/{rank}"]):
                ranks.append(rank)
        return ranks

    def _name(self, rank: int) -> str:
        node = self._nodes.get(rank)
        return f"rank {rank} on {node}" if node else f"rank {rank}"

    def told_by_all(self, about: str, fact: object) -> dict[int, Any]:
        """Tell the others a fact, and return theirs by rank, when all have told it."""
        self._tells += 1
        topic = f"{about}/{self._tells}"
        facts = {}
        with self.step("compare what all processes have"):  # the store ends with rank 0
            self._ask(self._store.set, f"{topic}/{self.rank}", json.dumps(fact))
            self._wait(topic, LIMIT, end=_IS_OVER)
            if absent := self._without(topic):
                self._part(absent)
                names = ", ".join(map(self._name, absent))
                self._no_network(f"{names} did not come within {LIMIT:.0f} s")
            if self._ask(self._store.check, [_IS_OVER]):
                self._no_network("another process has ended its wait for the group")
            for rank in range(self.size):
                text = self._ask(self._store.get, f"{topic}/{rank}")
                facts[rank] = json.loads(text)
        return facts

    def _part(self, absent: list[int]) -> None:
        """Let those who came later know that the time is up, before the store ends with rank 0."""
        present = [rank for rank in range(self.size) if rank not in absent]
        with suppress(
            RuntimeError
        ):  # rank 0 has ended, and what is to be said is known
            self._ask(self._store.set, _IS_OVER, "")
            self._ask(self._store.set, f"parts/{self.rank}", "")
            self._wait("parts", _LAST_WORDS, present)

    def _wait(
        self, topic: str, seconds: float, ranks: Iterable[int] = (), end: str = ""
    ) -> None:
        """Wait until some ranks, or all, have told something on a topic, or ``end`` is a key."""
        keys = [f"{topic}/{rank}" for rank in ranks or range(self.size)]
        until = time.monotonic() + seconds
        while not self._ask(self._store.check, keys) and time.monotonic() < until:
            if end and self._ask(self._store.check, [end]):
                return
            time.sleep(0.05)

    def leave(self) -> None:
        """Wait for the others, because rank 0 has the store, and close the collectives."""
        with suppress(RuntimeError):  # rank 0 has ended
            self._ask(self._store.set, f"end/{self.rank}", "")
            self._wait("end", _LAST_WORDS)
        if distributed.is_initialized():
            distributed.destroy_process_group()

    def _port_in_use(self, port: str, reason: str) -> NoReturn:
        """End the check of rank 0 without a verdict on its node."""
        fail(
            "port-in-use",
            f"port {port}, at which the processes meet, is in use on {self._node}",
            [f"rank {self.rank} of {self.size} on {self._node}", reason],
            cause="another program, or an earlier run that has not ended, listens on the port",
            remedy="end it, or set MASTER_PORT to a free port in all processes",
        )

    def _no_network(self, symptom: str, *evidence: str) -> NoReturn:
        """End the check without a verdict on this node: the fault can be on any."""
        fail(
            "network-failure",
            symptom,
            [f"rank {self.rank} of {self.size} on {self._node}", *evidence],
            cause="a process of the group did not start, has ended or hangs, or the network between "
            "the nodes does not pass its connections",
            remedy="look at the named node; set the network interface with NCCL_SOCKET_IFNAME, "
            "CCL_KVS_IFACE or GLOO_SOCKET_IFNAME, and open the ports between the nodes",
        )


def _is_of_network(error: RuntimeError) -> bool:
    """Return whether the store, a backend or a time-out raised an error, and not this rank's device."""
    if _OF_DEVICE.search(str(error)):
        return False
    if type(error).__name__.startswith("Dist"):  # torch's own, which 2.1 lacks in part
        return True
    return _OF_NETWORK.search(str(error)) is not None
