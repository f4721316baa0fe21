"""Blocks encoded by several processes, one for each device, and given back in order."""

import signal
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any

import torch

from aveyb_ir.encoding.blocks import Block
from aveyb_ir.encoding.encoder import Encoder
from aveyb_ir.encoding.granularity import EncodedTexts, Granularity, encode_texts
from aveyb_ir.errors import AveybError, ModelError

# Seconds for a process whose pipe has closed to end.
_TIME_TO_END = 10


def encode_in_workers(
    encoder: Encoder, devices: Sequence[str], blocks: Iterator[Block], granularity: Granularity, token_budget: int
) -> Iterator[tuple[Block, EncodedTexts]]:
    """Encode each block in one of the processes and yield all in order.

    Every process loads the model that `encoder` was loaded from; processes on CPU share this one's threads. One block
    is read ahead of those that are being encoded.

    Raises:
        AveybError: A process failed or died; the message names the shard.
        ModelError: What the processes load is not what `encoder` is.
        ValueError: `encoder` was given a loaded model.
    """
    setups = [_Setup.of(encoder, device, list(devices), granularity, token_budget) for device in devices]
    with _started(setups) as workers:
        pending: deque[tuple[Block, _Worker]] = deque()
        for worker, block in zip(workers, blocks, strict=False):
            worker.send(block)
            pending.append((block, worker))
        upcoming = next(blocks, None)
        while pending:
            block, worker = pending.popleft()
            encoded = worker.receive(block)
            if upcoming is not None:
                worker.send(upcoming)
                pending.append((upcoming, worker))
            yield block, encoded
            upcoming = None if upcoming is None else next(blocks, None)


@dataclass(frozen=True)
class _Setup:
    """What a process needs to make the same vectors as this one."""

    source: str
    fingerprint: str
    device: str
    dtype: str
    max_length: int | None
    truncate_dim: int | None
    compiled: bool
    token_budget: int
    granularity: Granularity
    num_threads: int

    @classmethod
    def of(
        cls, encoder: Encoder, device: str, devices: list[str], granularity: Granularity, token_budget: int
    ) -> "_Setup":
        if encoder.source is None:
            raise ValueError(
                f"devices is {devices}, but the encoder was given a loaded model; expected one that other processes "
                "can load: save the model and make the Encoder from its folder."
            )
        return cls(
            source=encoder.source,
            fingerprint=encoder.fingerprint,
            device=device,
            dtype=str(encoder.model.dtype).removeprefix("torch."),
            max_length=encoder.max_length,
            truncate_dim=encoder.model.truncate_dim,
            compiled=encoder.compiled,
            token_budget=token_budget,
            granularity=granularity,
            num_threads=max(1, torch.get_num_threads() // len(devices)),
        )

    def load(self) -> Encoder:
        encoder = Encoder(
            self.source,
            device=self.device,
            dtype=self.dtype,
            max_length=self.max_length,
            truncate_dim=self.truncate_dim,
            token_budget=self.token_budget,
            compile=self.compiled,
        )
        if encoder.fingerprint != self.fingerprint:
            raise ModelError(
                f"{self.source} has fingerprint {encoder.fingerprint}; expected {self.fingerprint}, that of the "
                "encoder loaded from there: it was changed since. Save the changed model and use its folder."
            )
        return encoder


class _Worker:
    """One process, seen from outside: takes a block at a time."""

    def __init__(self, setup: _Setup) -> None:
        context = get_context("spawn")  # CUDA does not survive a fork
        self._device = setup.device
        self._connection, other_end = context.Pipe()
        self._process = context.Process(target=_work, args=(other_end, setup), daemon=True)
        self._process.start()
        other_end.close()  # so that either side notices the other's end

    def send(self, block: Block) -> None:
        with suppress(OSError):  # a process that has ended says why when its answer is read
            self._connection.send(block.texts)

    def receive(self, block: Block) -> EncodedTexts:
        place = f"The process on {self._device} that encoded shard {block.number}"
        try:
            answer: EncodedTexts | Exception = self._connection.recv()
        except (EOFError, OSError) as error:
            self._process.join(_TIME_TO_END)
            raise AveybError(
                f"{place} ended with exit code {self._process.exitcode}, expected its vectors; see its messages above, "
                "and run again to go on from there: memory may have run out."
            ) from error
        if isinstance(answer, AveybError):
            raise answer
        if isinstance(answer, Exception):
            raise AveybError(
                f"{place} failed, expected its vectors: {type(answer).__name__}: {answer}; run again to go on there."
            ) from answer
        return answer

    def end(self) -> None:
        self._connection.close()
        self._process.terminate()
        self._process.join()


@contextmanager
def _started(setups: Sequence[_Setup]) -> Iterator[list[_Worker]]:
    with ExitStack() as ends:
        workers = []
        for setup in setups:
            workers.append(_Worker(setup))
            ends.callback(workers[-1].end)
        yield workers


def _work(connection: "Connection[Any, Any]", setup: _Setup) -> None:
    """Answer blocks of texts with vectors, or with the error that ends this process, until the parent is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent is interrupted too, and ends this process
    torch.set_num_threads(setup.num_threads)
    with suppress(EOFError, OSError):
        try:
            encoder = setup.load()
            while True:
                connection.send(encode_texts(encoder, connection.recv(), setup.granularity))
        except Exception as error:  # whatever it is, the parent has to say it
            connection.send(error)
