"""How work is divided: rows and classes over processes, and the products of a step over threads."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import Tensor, distributed

T = TypeVar("T")


class JointError(ValueError):
    """An error that all processes raise together, so that none waits for another.

    Examples
    --------
    >>> raise JointError("no target column")
    Traceback (most recent call last):
    legendretron.training.layout.JointError: no target column
    """


@dataclass(frozen=True)
class Layout:
    """The part of one process in the work of all.

    Examples
    --------
    >>> Layout.alone().list_shards(3)
    [0, 1, 2]
    """

    rank: int
    n_processes: int
    device: torch.device
    data_rank: int  #: which of ``n_data`` groups of rows it works on
    n_data: int
    data_group: Any = None  #: process group of those that hold the same classes; None for all processes
    classes: Any = None  #: device mesh of those that work on the same rows; None if classes are not divided

    @classmethod
    def alone(cls, device: str | torch.device = "cpu") -> Layout:
        """One process that does everything."""
        return cls(0, 1, torch.device(device), 0, 1)

    @classmethod
    def join(cls, device: str | torch.device, class_parallel: int = 1) -> Layout:
        """The layout of the default process group, with classes divided over ``class_parallel`` processes."""
        rank, size = distributed.get_rank(), distributed.get_world_size()
        device = torch.device(device)
        if size % class_parallel:
            raise ValueError(
                f"class_parallel={class_parallel} must divide the number of processes, {size}; start a multiple of it."
            )
        if class_parallel == 1:
            return cls(rank, size, device, rank, size)
        from torch.distributed.device_mesh import init_device_mesh

        shape = (size // class_parallel, class_parallel)
        mesh = init_device_mesh(device.type, shape, mesh_dim_names=("rows", "classes"))
        return cls(
            rank, size, device, mesh.get_local_rank("rows"), shape[0], mesh.get_group("rows"), mesh["classes"]
        )  # fmt: skip

    @property
    def first(self) -> bool:
        """Whether this is the process that writes files and speaks."""
        return self.rank == 0

    @property
    def class_rank(self) -> int:
        """Which part of the classes it holds."""
        return 0 if self.classes is None else int(self.classes.get_local_rank())

    @property
    def n_class_parts(self) -> int:
        """How many parts of the classes there are."""
        return 1 if self.classes is None else int(self.classes.size())

    def list_shards(self, n_shards: int) -> list[int]:
        """The shards of the rows that this process reads."""
        return list(range(self.data_rank, n_shards, self.n_data))

    def sum_over_rows(self, tensor: Tensor) -> Tensor:
        """Sum over the processes that have different rows; the tensor itself if there is one."""
        if self.n_data == 1:
            return tensor
        total = tensor.clone()
        distributed.all_reduce(total, group=self.data_group)
        return total

    def gather(self, value: Any) -> list[Any]:
        """The values of all processes, in the order of their ranks; plain Python objects that are small."""
        if self.n_processes == 1:
            return [value]
        values: list[Any] = [None] * self.n_processes
        distributed.all_gather_object(values, value)
        return values

    def gather_at_first(self, value: Any) -> list[Any]:
        """The values of all processes on the first one; an empty list on the others."""
        if self.n_processes == 1:
            return [value]
        values: list[Any] | None = [None] * self.n_processes if self.first else None
        distributed.gather_object(value, values, dst=0)
        return values or []

    def broadcast(self, value: Any) -> Any:
        """The value of the first process, on every one."""
        if self.n_processes == 1:
            return value
        values = [value]
        distributed.broadcast_object_list(values, src=0, device=self.device if self.device.type == "cuda" else None)
        return values[0]

    def call(self, function: Callable[[], T]) -> T:
        """Call a function on every process; if it raises an error on some, all raise a :class:`JointError`."""
        if self.n_processes == 1:
            return function()
        result: T | None = None
        message = ""
        try:
            result = function()
        except (ValueError, OSError) as error:
            message = str(error) or repr(error)
        for other in self.gather(message):
            if other:
                raise JointError(other)
        return result  # type: ignore[return-value]


#: Multiplications in a step below which a second thread costs more than it saves.
_WORTH_A_THREAD = 2e7


def thread_count(multiplications: float, available: int) -> int:
    """Number of threads that pay off for a step of this size.

    Examples
    --------
    >>> thread_count(1e6, available=8), thread_count(1e8, available=8), thread_count(1e10, available=8)
    (1, 5, 8)
    """
    return max(1, min(available, int(multiplications / _WORTH_A_THREAD)))


class _Lowered:
    """The process's number of threads before the first of those inside ``threads_for`` entered."""

    lock = threading.Lock()
    inside = 0
    before = 1


@contextmanager
def threads_for(multiplications: float) -> Iterator[None]:
    """Set the number of threads inside, and restore the old one afterwards, also after an error.

    Several Python threads may be inside at once. Torch passes its number on to new Python threads, so one that enters
    second may already see the lowered number: what counts is the number before the first entered.
    """
    with _Lowered.lock:
        current = torch.get_num_threads()
        if _Lowered.inside == 0:
            _Lowered.before = current
        _Lowered.inside += 1
        wanted = thread_count(multiplications, _Lowered.before)
        if current != wanted:
            torch.set_num_threads(wanted)
    try:
        yield
    finally:
        with _Lowered.lock:
            _Lowered.inside -= 1
            torch.set_num_threads(current if _Lowered.inside else _Lowered.before)
