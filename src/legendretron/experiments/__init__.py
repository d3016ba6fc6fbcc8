"""The paper's tables and figures: declared as data, run in batches, rendered beside the published numbers."""

from legendretron.experiments.experiment import Batch, Experiment, Outcome, Place, Record, Run
from legendretron.experiments.figure_proper_losses import FIGURE_PROPER_LOSSES
from legendretron.experiments.figure_training_size import FIGURE_TRAINING_SIZE
from legendretron.experiments.runner import Sweep, sweep
from legendretron.experiments.runtime import RUNTIME
from legendretron.experiments.store import Store, read_records
from legendretron.experiments.table_auc import TABLE_AUC
from legendretron.experiments.table_libsvm import TABLE_LIBSVM
from legendretron.experiments.table_vgg import TABLE_VGG

__all__ = [
    "EXPERIMENTS",
    "Batch",
    "Experiment",
    "Outcome",
    "Place",
    "Record",
    "Run",
    "Store",
    "Sweep",
    "read_records",
    "sweep",
]

#: By name, in the order of the paper.
EXPERIMENTS: dict[str, Experiment] = {
    experiment.name: experiment
    for experiment in (TABLE_AUC, FIGURE_TRAINING_SIZE, TABLE_VGG, TABLE_LIBSVM, FIGURE_PROPER_LOSSES, RUNTIME)
}
