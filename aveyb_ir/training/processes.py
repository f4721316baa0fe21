"""Several processes that train one model, started by torchrun or accelerate.

Every process reads the same joined batch, embeds its own part of the texts, and computes the loss over the
embeddings of all. So the negatives of a query are the documents of the whole joined batch, each document is embedded
once, and what is computed does not depend on the number of processes, but for rounding.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
import torch.distributed as dist


@dataclass(frozen=True, slots=True)
class Processes:
    """How many processes train together, and which of them this is.

    Attributes:
        rank: this one's number, from 0.
        count: all of them.
    """

    rank: int = 0
    count: int = 1

    @classmethod
    def here(cls) -> "Processes":
        """What this process was started as."""
        if dist.is_available() and dist.is_initialized():
            return cls(dist.get_rank(), dist.get_world_size())
        return cls(int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1")))

    @property
    def is_main(self) -> bool:
        """Whether this process writes the files and speaks for all."""
        return self.rank == 0

    def own(self, num_rows: int) -> range:
        """The rows of a joined batch that this process embeds."""
        return range(self.rank, num_rows, self.count)

    def order(self, num_rows: int) -> list[int]:
        """The rows of a joined batch in the order in which `gather` puts them together."""
        return [row for rank in range(self.count) for row in range(rank, num_rows, self.count)]

    def gather(self, own: torch.Tensor, num_rows: int) -> torch.Tensor:
        """Put the rows of all processes together, in `order`; gradients reach the own rows only.

        Args:
            own: (rows, d), the rows of `own(num_rows)`.
            num_rows: of all processes together.
        """
        if self.count == 1:
            return own
        sizes = [len(range(rank, num_rows, self.count)) for rank in range(self.count)]
        sent = own.new_zeros(max(sizes), own.shape[1])
        sent[: len(own)] = own.detach()
        received = [torch.empty_like(sent) for _ in sizes]
        dist.all_gather(received, sent)
        parts = [part[:size] for part, size in zip(received, sizes, strict=True)]
        parts[self.rank] = own
        return torch.cat(parts)

    def summed(self, loss: torch.Tensor) -> torch.Tensor:
        """A loss of the same value whose gradients, averaged over the processes, are the sum of theirs.

        Every process has the whole loss but only its own rows' share of the gradients, and `DistributedDataParallel`
        takes the mean.
        """
        return loss if self.count == 1 else self.count * loss - (self.count - 1) * loss.detach()

    def wait(self) -> None:
        """Go on when all processes have come here."""
        if self.count > 1:
            dist.barrier()


@contextmanager
def joined_processes(device: str) -> Iterator[Processes]:
    """Connect the processes that torchrun or accelerate started; alone, there is nothing to connect.

    Args:
        device: what they train on: auto, cpu, cuda or a numbered one; GPUs talk through NCCL, CPUs through gloo.
    """
    if Processes.here().count == 1 or dist.is_initialized():
        yield Processes.here()
        return
    on_gpu = device != "cpu" and torch.cuda.is_available()
    if on_gpu:
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    dist.init_process_group("nccl" if on_gpu else "gloo")
    try:
        yield Processes.here()
    finally:
        dist.destroy_process_group()
