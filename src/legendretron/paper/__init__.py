"""The paper's tables and figures, and everything that exists only because of its authors' code and files."""

from legendretron.experiments import Experiment
from legendretron.paper.auc import TABLE_AUC
from legendretron.paper.libsvm import TABLE_LIBSVM
from legendretron.paper.proper_losses import FIGURE_PROPER_LOSSES
from legendretron.paper.runtime import RUNTIME
from legendretron.paper.training_size import FIGURE_TRAINING_SIZE
from legendretron.paper.vgg import TABLE_VGG

__all__ = ["EXPERIMENTS"]

#: By name, in the order of the paper.
EXPERIMENTS: dict[str, Experiment] = {
    experiment.name: experiment
    for experiment in (TABLE_AUC, FIGURE_TRAINING_SIZE, TABLE_VGG, TABLE_LIBSVM, FIGURE_PROPER_LOSSES, RUNTIME)
}
