"""Links between predictors and probabilities: softmax+, the paper's composite link, the canonical link, and your own."""

from legendretron.links.base import Link, NotCanonicalError
from legendretron.links.canonical import CanonicalLink
from legendretron.links.canonicality import Distilled, LinkGap, distill, link_gap
from legendretron.links.composite import CompositeLink
from legendretron.links.noise_models import LabelNoise, SymmetricNoise, TransitionNoise
from legendretron.links.noisy import NoisyLink, clean_link, with_noise
from legendretron.links.persistence import load_link, save_link
from legendretron.links.registry import link_class, link_config, link_names, make_link, register_link
from legendretron.links.runs import stack_runs, take_run
from legendretron.links.softmax import SoftmaxLink

__all__ = [
    "CanonicalLink",
    "CompositeLink",
    "Distilled",
    "LabelNoise",
    "Link",
    "LinkGap",
    "NoisyLink",
    "NotCanonicalError",
    "SoftmaxLink",
    "SymmetricNoise",
    "TransitionNoise",
    "clean_link",
    "distill",
    "link_class",
    "link_config",
    "link_gap",
    "link_names",
    "load_link",
    "make_link",
    "register_link",
    "save_link",
    "stack_runs",
    "take_run",
    "with_noise",
]
