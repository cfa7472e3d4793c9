"""`Workers`: the processes that train one network together, and what they say to each other.

Rank 0 leads: it makes the run as a single process does, and tells the others what to do next. They
follow (`follow.py`). What they add up is added in a fixed order, so that the same parts of a batch
give the same sums on any number of workers that divides them evenly. Messages are numbers and JSON;
nothing is pickled.
"""

import json
import os
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch import distributed as dist

from gelgt.errors import GelgtError

# Followers wait as long as the leader takes to grow trees. One that dies closes its connection,
# which is noticed at once.
TIMEOUT = timedelta(days=7)
JOIN = timedelta(minutes=10)  # until all workers are there
STEP, MESSAGE = 1, 2  # kinds of orders
ASIDE = 7  # marks what is said while everyone works


class Workers:
    """This process among those that train together. torch.distributed must be initialised.

    Args:
        device: Where this worker computes; gradients on CUDA go through NCCL where every worker has
            a GPU of its own, and otherwise through the host.
    """

    def __init__(self, device: torch.device) -> None:
        self.rank, self.size = dist.get_rank(), dist.get_world_size()
        self.device, self.host = device, socket.gethostname()
        self.is_over = False
        self.orders = dist.new_group(backend="gloo", timeout=TIMEOUT)
        is_nccl = device.type == "cuda" and "nccl" in str(dist.get_backend_config())
        self.sums = dist.group.WORLD if is_nccl else self.orders
        self.is_direct = is_nccl or device.type == "cpu"

    @property
    def is_leader(self) -> bool:
        return self.rank == 0

    def mine(self, parts: int) -> range:
        """The parts of a batch, of so many, that this worker computes: some behind each other."""
        return _share(parts, self.rank, self.size)

    # Orders.
    def order_step(self) -> None:
        """Lead: everyone takes a step."""
        with self.lost():
            self._broadcast([STEP, 0])

    def order(self, **message: Any) -> None:
        """Lead: send a message to everyone."""
        content = json.dumps(message).encode()
        with self.lost():
            self._broadcast([MESSAGE, len(content)])
            dist.broadcast(_bytes(content), 0, self.orders)

    def end(self, is_whole: bool) -> None:
        """Lead: everyone may go. Said once."""
        if not self.is_over:
            self.is_over = True
            self.order(do="end", is_whole=is_whole)

    def heard(self) -> dict[str, Any] | None:
        """Follow: the next message; None for a step."""
        with self.lost():
            kind, length = self._broadcast([0, 0])
            if kind == STEP:
                return None
            content = torch.empty(length, dtype=torch.uint8)
            dist.broadcast(content, 0, self.orders)
        message: dict[str, Any] = json.loads(content.numpy().tobytes())
        self.is_over = message["do"] == "end"
        return message

    def _broadcast(self, numbers: list[int]) -> list[int]:
        sent = torch.tensor(numbers, dtype=torch.int64)
        dist.broadcast(sent, 0, self.orders)
        return [int(number) for number in sent]

    def tell_all(self, number: int) -> None:
        """Lead: send a number to each of the others, who may hear it at any time (`listen`)."""
        with self.lost():
            sent = [
                dist.isend(torch.tensor([number]), rank, self.orders, tag=ASIDE)
                for rank in range(1, self.size)
            ]
            for work in sent:
                if work is not None:
                    work.wait()

    def listen(self) -> Callable[[], int | None]:
        """Follow: what tells the number that the leader sends, None while it has not."""
        number = torch.zeros(1, dtype=torch.int64)
        with self.lost():
            work = dist.irecv(number, 0, self.orders, tag=ASIDE)
        return lambda: int(number) if work is None or work.is_completed() else None

    # Numbers.
    def spread(self, tensors: Sequence[Tensor]) -> None:
        """Everyone gets the leader's values, in place."""
        with self.lost(), torch.no_grad():
            for tensor in tensors:
                sent = tensor.detach().cpu().contiguous()
                dist.broadcast(sent, 0, self.orders)
                if not self.is_leader:
                    tensor.copy_(sent)

    def sum(self, flat: Tensor) -> Tensor:
        """(n,) the sum of everyone's tensor. Each worker adds up a stretch of it, all in the order
        of the ranks: two workers first, then two of these sums, as `tree_sum` does."""
        if self.size == 1:
            return flat
        sent = flat if self.is_direct else flat.cpu()
        length = -(-len(sent) // self.size)
        sent = torch.nn.functional.pad(sent, (0, length * self.size - len(sent)))
        theirs = torch.empty_like(sent)
        with self.lost():
            dist.all_to_all_single(theirs, sent, group=self.sums)
            added = tree_sum(list(theirs.view(self.size, length).unbind()))
            whole = torch.empty_like(sent)
            dist.all_gather(
                list(whole.view(self.size, length).unbind()), added.contiguous(), self.sums
            )
        return whole[: len(flat)].to(flat.device)

    def gather(self, values: NDArray[Any]) -> list[NDArray[Any]]:
        """Everyone's array, in the order of the ranks; they differ in length alone."""
        content = np.ascontiguousarray(values).tobytes()
        parts = self.gather_bytes(content)
        rest = values.shape[1:]
        return [np.frombuffer(part, values.dtype).reshape(-1, *rest) for part in parts]

    def agree(self, error: GelgtError | None = None, **facts: Any) -> list[dict[str, Any]]:
        """Lead: what everyone has to say, in the order of the ranks.

        Raises:
            GelgtError: the first error of a worker, with its rank and machine.
        """
        answers = self.answer(error, **facts)
        for answer in answers:
            if "error" in answer:
                raise _of_worker(answer)
        return answers

    def answer(self, error: GelgtError | None = None, **facts: Any) -> list[dict[str, Any]]:
        """Say something to everyone, errors too, and hear what they say."""
        said = facts if error is None else {"error": error.to_dict()}
        who = {"rank": self.rank, "host": self.host, "process": os.getpid()}
        content = json.dumps(who | said).encode()
        return [json.loads(part) for part in self.gather_bytes(content)]

    def gather_bytes(self, content: bytes) -> list[bytes]:
        """Everyone's bytes, in the order of the ranks."""
        with self.lost():
            sizes = [torch.zeros(1, dtype=torch.int64) for _ in range(self.size)]
            dist.all_gather(sizes, torch.tensor([len(content)]), self.orders)
            longest = max(1, max(int(size) for size in sizes))
            padded = torch.zeros(longest, dtype=torch.uint8)
            padded[: len(content)] = _bytes(content)
            parts = [torch.empty_like(padded) for _ in range(self.size)]
            dist.all_gather(parts, padded, self.orders)
        return [part[: int(size)].numpy().tobytes() for part, size in zip(parts, sizes)]

    def part(self) -> None:
        """Leave the others: after all of them have heard the last word, unless one is lost."""
        with suppress(RuntimeError):
            if self.is_over:
                dist.barrier(self.orders)
            del self.orders, self.sums
            dist.destroy_process_group()

    @contextmanager
    def lost(self) -> Iterator[None]:
        """A connection that breaks is a worker that died."""
        try:
            yield
        except (RuntimeError, dist.DistBackendError) as error:
            raise GelgtError(
                "worker_lost",
                f"Worker {self.rank} on {self.host} has lost the others: one of them has ended. "
                f"({str(error).strip().splitlines()[0][:200]})",
                hint="Its own message says why. Start again with --resume to go on from the last "
                "checkpoint.",
            ) from None


@contextmanager
def led(workers: Workers | None) -> Iterator[None]:
    """Whatever ends the leader's work, if it leads anybody, ends that of the others; followers do
    nothing here."""
    if workers is None or not workers.is_leader:
        yield
        return
    try:
        yield
    except BaseException as error:
        if not _is_lost(error):
            with suppress(GelgtError):
                workers.end(is_whole=False)
        raise
    workers.end(is_whole=True)


@contextmanager
def joined(device: str = "auto") -> Iterator[Workers | None]:
    """The workers that a launcher such as torchrun has started, for as long as the block runs; None
    where no launcher has.

    Args:
        device: As of `choose_device`.
    """
    if not all(name in os.environ for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR")):
        yield None
        return
    on = worker_device(device)
    is_ours = not dist.is_initialized()
    if is_ours:
        _meet(backend(on))
    workers = Workers(on)
    try:
        yield workers
    finally:
        if is_ours:
            workers.part()


def _meet(backend: str) -> None:
    """Find the other workers at the launcher's address.

    Raises:
        GelgtError: ``worker_lost``.
    """
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    host, port = os.environ["MASTER_ADDR"], int(os.environ.get("MASTER_PORT", "29500"))
    has_store = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"  # torchrun's own
    try:
        shared = dist.TCPStore(  # type: ignore[attr-defined]
            host, port, size, rank == 0 and not has_store, JOIN, True
        )
        # torchrun may keep the store when it starts workers again, with the addresses of the dead
        attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
        store = dist.PrefixStore(f"gelgt/{attempt}", shared)  # type: ignore[attr-defined]
        dist.init_process_group(backend, timeout=TIMEOUT, store=store, rank=rank, world_size=size)
    except RuntimeError as error:
        raise GelgtError(
            "worker_lost",
            f"Worker {rank} of {size} does not find the others at {host}:{port}. "
            f"({str(error).strip().splitlines()[0][:200]})",
            hint="Start all of them, with an address that all machines reach.",
        ) from None


def worker_device(device: str) -> torch.device:
    """The device of this worker: with several GPUs each has its own."""
    from gelgt.scoring.scorer import choose_device

    chosen = choose_device(device)
    if chosen.type != "cuda" or chosen.index is not None:
        return chosen
    local = int(os.environ.get("LOCAL_RANK", "0"))
    on = torch.device("cuda", local % torch.cuda.device_count())
    torch.cuda.set_device(on)
    return on


def backend(device: torch.device) -> str:
    """Of torch.distributed. NCCL refuses two workers on one GPU; they use the host."""
    local = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    has_own = device.type == "cuda" and torch.cuda.device_count() >= local
    return "cpu:gloo,cuda:nccl" if has_own and dist.is_nccl_available() else "gloo"


def tree_sum(parts: Sequence[Tensor]) -> Tensor:
    """Their sum: that of the first half and that of the second. Sums of halves that are made
    elsewhere give the same bits."""
    if len(parts) == 1:
        return parts[0]
    half = len(parts) // 2
    return tree_sum(parts[:half]) + tree_sum(parts[half:])


def _share(count: int, rank: int, size: int) -> range:
    return range(count * rank // size, count * (rank + 1) // size)


def shares(count: int, size: int) -> list[range]:
    """So many things in as many stretches as there are workers."""
    return [_share(count, rank, size) for rank in range(size)]


def _bytes(content: bytes) -> Tensor:
    return torch.frombuffer(bytearray(content or b"\0"), dtype=torch.uint8)[: len(content)]


def _is_lost(error: BaseException) -> bool:
    return isinstance(error, GelgtError) and error.code == "worker_lost"


def _of_worker(answer: dict[str, Any]) -> GelgtError:
    error = answer["error"]
    message = f"Worker {answer['rank']} on {answer['host']}: {error['message']}"
    return GelgtError(error["code"], message, hint=error.get("hint", ""))
