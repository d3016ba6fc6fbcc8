"""The better of networks and a linear model, for ``fit --model auto``."""

from __future__ import annotations

from typing import Any, Self

from legendretron.estimators import LegendreNetClassifier, LegendreTronClassifier

__all__ = ["BetterClassifier"]


class BetterClassifier(LegendreNetClassifier):
    """Networks and the linear default: :attr:`better_` has the lower log-loss on rows that were held out."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Self:
        """Fit both."""
        own = self.get_params()
        networks = LegendreNetClassifier(**own).fit(X, y, sample_weight, groups)
        shared = ("label_noise", "class_weight", "device", "dtype", "random_state", "verbose")
        linear = LegendreTronClassifier(**{name: own[name] for name in shared}).fit(X, y, sample_weight, groups)
        loss = networks.linear_log_loss_ if networks.is_linear_ else networks.network_log_loss_
        tried = linear.tuning_[linear.tuning_["chosen"]]
        self.better_: Any = linear if not len(tried) or not loss < float(tried["log_loss"].iloc[0]) else networks
        return self
