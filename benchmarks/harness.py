"""What all benchmarks share: contestants in turns, peak memory, processes of their own, cases and their records."""

from __future__ import annotations

import argparse
import inspect
import json
import os
import platform
import resource
import shlex
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import NoneType
from typing import Any, NamedTuple, get_args

import torch

from legendretron._internal.files import write_atomically
from legendretron._internal.provenance import provenance
from legendretron.experiments.store import round_floats


class Times(NamedTuple):
    """Milliseconds a call: the median over all rounds, and the quartiles as a measure of spread."""

    median: float
    lower: float
    upper: float

    @classmethod
    def of(cls, rounds: list[float]) -> Times:
        if len(rounds) < 2:
            return cls(rounds[0], rounds[0], rounds[0])
        lower, median, upper = statistics.quantiles(rounds, n=4, method="inclusive")
        return cls(median, lower, upper)

    def columns(self, calls: int = 1) -> dict[str, Any]:
        """For the record, of one of several ``calls`` that were timed together."""
        median, lower, upper = (float(f"{part / calls:.4g}") for part in self)
        return {"ms": median, "quartiles": [lower, upper]}


def take_turns(
    contestants: dict[str, Callable[[], Any]], rounds: int, seconds: float, device: str = "cpu"
) -> dict[str, Times]:
    """Time each contestant in alternating rounds of about so many seconds.

    Whatever else the machine is doing then hits all of them alike. On the CPU it is the processor's time, so that other
    programs count for less; on CUDA the time until the device has finished.
    """

    def timed(call: Callable[[], Any], calls: int) -> float:
        clock = time.process_time if device == "cpu" else time.perf_counter
        if device != "cpu":
            torch.cuda.synchronize()
        began = clock()
        for _ in range(calls):
            call()
        if device != "cpu":
            torch.cuda.synchronize()
        return 1e3 * (clock() - began) / calls

    calls = {}
    for name, call in contestants.items():
        timed(call, 1)  # compiled functions are compiled, or read from disk, by their first call
        calls[name] = max(1, int(1e3 * seconds / max(timed(call, 1), 1e-4)))
    found: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(rounds):
        for name, call in contestants.items():
            found[name].append(timed(call, calls[name]))
    return {name: Times.of(times) for name, times in found.items()}


def peak_mb() -> float:
    """Most memory that this process has held so far; that of ``resource`` may be its parent's."""
    try:
        status = Path("/proc/self/status").read_text()
        return float(next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM"))) / 1e3
    except (OSError, StopIteration):
        unit = 1e6 if sys.platform == "darwin" else 1e3  # bytes there, kilobytes elsewhere
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit


class Process(NamedTuple):
    """What a process has taken, and what it printed."""

    seconds: float
    processor_seconds: float
    peak_gb: float
    output: str


def run_process(*words: object, threads: int = 1, **environment: str) -> Process:
    """Run ``python`` with some words, and measure the whole process, Python and libraries included."""
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads), **environment}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    began = time.perf_counter()
    process = subprocess.Popen([sys.executable, *map(str, words)], stdout=subprocess.PIPE, env=environment)
    assert process.stdout is not None
    output = process.stdout.read().decode()
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if status:
        raise SystemExit(f"{shlex.join(map(str, words))} failed: {output}")
    return Process(time.perf_counter() - began, used.ru_utime + used.ru_stime, used.ru_maxrss / 1e6, output)


def call_apart(function: Callable[..., Any], *arguments: object) -> Any:
    """What a function of a benchmark returns, as JSON, in a process of its own, so that its peak memory is known."""
    file = Path(function.__code__.co_filename)
    code = f"import json, {file.stem}; print(json.dumps({file.stem}.{function.__name__}(*{arguments!r})))"
    return json.loads(run_process("-c", code, PYTHONPATH=str(file.parent)).output.splitlines()[-1])


def run_cases(*cases: Callable[..., dict[str, Any]]) -> None:
    """The command line of a file of cases, ``python FILE CASE --option VALUE``, which writes the record of one to ``--out``.

    A case is a function that returns what it has measured. Its parameters are the options, and its docstring says what it
    measures, beside what, and how. A file of a single case needs no ``CASE``.
    """
    known, words = {case.__name__: case for case in cases}, sys.argv[1:]
    asked = cases[0].__name__ if len(cases) == 1 else words.pop(0) if words else ""
    if asked not in known:
        about = (f"  {name}: {inspect.getdoc(case).splitlines()[0]}" for name, case in known.items())
        raise SystemExit("\n".join([f"usage: python {sys.argv[0]} CASE [--help] [--option VALUE ...]", *about]))
    parser = argparse.ArgumentParser(description=inspect.getdoc(known[asked]).splitlines()[0])
    parser.add_argument("--out", type=Path, help="JSON file to write")
    for name, parameter in inspect.signature(known[asked], eval_str=True).parameters.items():
        flag, default = f"--{name.replace('_', '-')}", parameter.default
        if isinstance(default, list):
            parser.add_argument(flag, default=default, nargs="+", type=type(default[0]))
        elif isinstance(default, bool):
            parser.add_argument(flag, action="store_true")
        else:
            kinds = [kind for kind in get_args(parameter.annotation) or [parameter.annotation] if kind is not NoneType]
            parser.add_argument(flag, default=None if default is parameter.empty else default, type=kinds[0],
                                required=default is parameter.empty)  # fmt: skip
    options = vars(parser.parse_args(words))
    out, load = options.pop("out"), os.getloadavg()[0]
    torch.set_num_threads(1)
    torch.manual_seed(0)
    found = known[asked](**options)
    record = {
        "command": _command(asked if len(cases) > 1 else "", options, parser),
        "seed": 0,
        **found,
        "load": {"processors": os.cpu_count(), "before": round(load, 1), "after": round(os.getloadavg()[0], 1)},
        "processor": platform.processor() or platform.machine(),
        **provenance(options.get("device", "cpu")),
    }
    text = json.dumps(round_floats(record), indent=1) + "\n"
    if out:
        write_atomically(out, text.encode())
    elif "rows" not in found:
        print(text, end="")


def _command(case: str, options: dict[str, Any], parser: argparse.ArgumentParser) -> str:
    """The command, with what is not at its default; folders and files of users are ``DIR``."""
    words = ["python", f"benchmarks/{Path(sys.argv[0]).name}", *([case] if case else [])]
    for name, value in options.items():
        if value == parser.get_default(name):
            continue
        words.append(f"--{name.replace('_', '-')}")
        if value is not True:
            values = value if isinstance(value, list) else [value]
            words += ["DIR" if isinstance(one, Path) else str(one) for one in values]
    return "OMP_NUM_THREADS=1 " + shlex.join(words)


def show(row: dict[str, Any]) -> dict[str, Any]:
    """Print a row as soon as it is measured, and return it."""
    print(*(f"{name} {value:,.4g}" if isinstance(value, float) else value for name, value in row.items()), flush=True)
    return row
