"""The command line that comparisons share: what to run, where, and what to write."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path

from legendretron.experiments import Experiment, Resources, render, sweep


def run_from_command_line(
    experiment: Experiment,
    *,
    description: str,
    data_help: str,
    groups: Mapping[str, Sequence[str]],
    noises: Mapping[str, float] | None = None,
) -> None:
    """Run what the command line asks for, and write the report.

    Parameters
    ----------
    experiment : Experiment
        Of which the command line can ask for a part.
    description, data_help : str
        For ``--help``.
    groups : dict
        Words for several models.
    noises : dict, optional
        Noise levels by their names.
    """
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--data", type=Path, help=data_help)
    parser.add_argument("--out", type=Path, default=Path("results") / experiment.name)
    parser.add_argument("--jobs", type=int, default=1, help="processes, of one thread each")
    parser.add_argument("--splits", type=int)
    parser.add_argument("--datasets", nargs="+", choices=experiment.datasets)
    if noises is not None:
        parser.add_argument("--noises", nargs="+", choices=list(noises))
    parser.add_argument("--models", nargs="+", choices=[*experiment.models, *groups])
    parser.add_argument("--render", action="store_true", help="run nothing, and write the report of what is there")
    options = parser.parse_args()
    asked_noises = None if noises is None else options.noises
    part = experiment.narrowed(
        datasets=options.datasets,
        models=None
        if options.models is None
        else [name for word in options.models for name in groups.get(word, [word])],
        seeds=options.splits,
        noise=None if noises is None or asked_noises is None else [noises[name] for name in asked_noises],
    )
    jobs = f" --jobs {options.jobs}" if options.jobs != 1 else ""  # what runs at once may slow each other down
    state = sweep(
        part,
        options.out,
        Resources(options.data),
        n_jobs=options.jobs,
        render_only=options.render,
        command=f"python benchmarks/{experiment.name}.py --data DIR{jobs}",
        on_progress=lambda state, finished: print(
            f"{state.before + state.now} of {state.total} runs"
            + (f", {finished.batch.dataset}, {finished.batch.model}: {finished.seconds:.1f} s" if finished else ""),
            flush=True,
        ),
    )
    for problem in [
        *state.skipped.values(),
        *(f"{batch.dataset}, {batch.model}: {why}" for batch, why in state.failed),
    ]:
        print(problem)
    print(*render(part, state, options.out), sep="\n")
