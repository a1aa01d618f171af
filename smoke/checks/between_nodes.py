"""What one rank exchanges with all others; `smoke.between` names the wrong and the slow of them."""

from __future__ import annotations

import datetime as dt
import json
import os
import platform
import statistics
import time
from typing import Any

import torch
from torch import distributed

from smoke.device import capabilities, devices
from smoke.engine.launchers import NoVerdict, Place, partners

COUNT = 2**20  # numbers of four bytes that a pair exchanges, and all ranks add up
ROUNDS = 4  # the first one sets up connections


class Group:
    """All ranks, as one of them sees them: their collectives, and a store that rank 0 keeps."""

    def __init__(self, place: Place, accelerator: str, seconds: float) -> None:
        self._place, self._limit = place, dt.timedelta(seconds=seconds)
        os.environ["SMOKE_DEVICE"] = str(place.local)  # read by smoke.device
        self._device = devices.of(accelerator)
        back_end = capabilities.backend(self._device)
        if back_end is None:
            raise NoVerdict(f"this torch has no collectives for {accelerator}")
        try:
            self._meet()
            if module := devices.backend(self._device):
                module.set_device(self._device)
            distributed.init_process_group(
                back_end,
                store=distributed.PrefixStore("group", self._store),
                rank=place.rank,
                world_size=place.size,
                timeout=self._limit,
            )
        except RuntimeError as error:
            raise NoVerdict(str(error).splitlines()[0]) from error

    def _meet(self) -> None:
        """Wait for all ranks; NoVerdict names those that do not come."""
        place, host = self._place, os.environ.get("SLURMD_NODENAME", platform.node())
        address = place.address, place.port, place.size, place.serves
        self._store = distributed.TCPStore(
            *address, timeout=self._limit, wait_for_workers=False
        )
        self._store.set(f"host {place.rank}", host)
        until = time.monotonic() + self._limit.total_seconds()
        missing = list(range(place.size))
        while missing and time.monotonic() < until:
            missing = [r for r in missing if not self._store.check([f"host {r}"])]
            time.sleep(0.05)
        if missing:
            raise NoVerdict(f"rank {', '.join(map(str, missing))} did not come")

    def results(self) -> list[dict[str, Any]]:
        """Return what each rank found, in order; NoVerdict where one does not tell."""
        place = self._place
        try:
            found = {
                "host": self._store.get(f"host {place.rank}").decode(),
                "pairs": self._exchange(),
                **self._add_up(),
            }
            self._store.set(f"result {place.rank}", json.dumps(found))
            texts = [self._store.get(f"result {r}") for r in range(place.size)]
        except RuntimeError as error:  # a rank that ended, or a network that failed
            raise NoVerdict(str(error).splitlines()[0]) from error
        return [json.loads(text) for text in texts]

    def _exchange(self) -> dict[int, dict[str, float]]:
        """Exchange tensors with each other rank; the best rate in GB/s, and how many are wrong."""
        own = pattern(self._place.rank, self._device)
        pairs: dict[int, dict[str, float]] = {}
        for other in partners(self._place.rank, self._place.size):
            right = pattern(other, self._device)
            rates, wrong = [], 0
            for _ in range(ROUNDS):
                got = torch.zeros_like(right)
                devices.synchronize(self._device)
                began = time.perf_counter()
                sent = distributed.P2POp(distributed.isend, own, other)
                received = distributed.P2POp(distributed.irecv, got, other)
                for work in distributed.batch_isend_irecv([sent, received]):
                    work.wait()
                devices.synchronize(self._device)
                rates.append(got.nbytes / 1e9 / (time.perf_counter() - began))
                wrong += int((got != right).sum())
            pairs[other] = {"rate": max(rates), "wrong": wrong}
        return pairs

    def _add_up(self) -> dict[str, float]:
        """Add up the tensors of all ranks; the rate in GB/s, and how many sums are wrong."""
        size = self._place.size
        right = sum(pattern(rank, self._device) for rank in range(size))
        rates, wrong = [], 0
        for _ in range(ROUNDS):
            sums = pattern(self._place.rank, self._device)
            devices.synchronize(self._device)
            began = time.perf_counter()
            distributed.all_reduce(sums)
            devices.synchronize(self._device)
            rates.append(sums.nbytes / 1e9 / (time.perf_counter() - began))
            wrong += int((sums != right).sum())
        return {"sum_rate": statistics.median(rates[1:]), "wrong_sums": wrong}

    def leave(self) -> None:
        """End together: rank 0 keeps the store until all have read it."""
        self._store.set(f"left {self._place.rank}", "")
        if self._place.rank == 0:
            for rank in range(self._place.size):
                self._store.get(f"left {rank}")
        distributed.destroy_process_group()


def pattern(rank: int, device: torch.device) -> torch.Tensor:
    """Return the tensor of a rank: whole numbers, of which float32 has the sums of 16,000 ranks."""
    numbers = torch.arange(COUNT, device=device) * 31 + rank * 7
    return numbers.remainder(1021).float()
