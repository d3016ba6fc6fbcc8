"""
A network head that learns from noisy labels
============================================

:class:`~legendretron.nn.LegendreHead` takes the place of the last layer of a network. With ``label_noise="learn"`` it
distinguishes observed labels from true ones, and learns the noise rate along with everything else.
"""

import matplotlib.pyplot as plt
import torch
from sklearn.datasets import make_classification
from torch import nn

from legendretron.datasets import symmetric_noise
from legendretron.nn import LegendreHead, parameter_groups

X, true = make_classification(
    10_000,
    n_features=20,
    n_informative=10,
    n_classes=5,
    n_clusters_per_class=2,
    class_sep=2.0,
    flip_y=0,
    random_state=0,
)
observed = torch.tensor(symmetric_noise(true, 0.3, n_classes=5, random_state=0))  # 30 % are wrong
X, true = torch.tensor(X, dtype=torch.float32), torch.tensor(true)
X, observed, X_test, y_test = X[:6000], observed[:6000], X[6000:], true[6000:]


def train(net, criterion, optimizer, epochs=15):
    """Log-loss of the true test labels after each epoch, and the share that is predicted right in the end."""
    losses = []
    for _ in range(epochs):
        net.train()
        for rows in torch.randperm(len(X)).split(128):
            optimizer.zero_grad()
            criterion(net(X[rows]), observed[rows]).backward()
            optimizer.step()
        net.eval()
        with torch.no_grad():
            outputs = net(X_test)
        losses.append(nn.functional.cross_entropy(outputs, y_test).item())
    return losses, (outputs.argmax(1) == y_test).float().mean().item()


# %%
# The usual network, and the same one with another last layer and ``NLLLoss``.

torch.manual_seed(0)
plain = nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 5))
plain_losses, plain_right = train(plain, nn.CrossEntropyLoss(), torch.optim.AdamW(plain.parameters(), lr=3e-3))

torch.manual_seed(0)
learned = nn.Sequential(nn.Linear(20, 64), nn.ReLU(), LegendreHead(64, 5, label_noise="learn"))
groups = parameter_groups(learned, link={"lr": 1e-2}, noise={"lr": 3e-2})
learned_losses, learned_right = train(learned, nn.NLLLoss(), torch.optim.AdamW(groups, lr=3e-3))
print(f"plain {plain_right:.1%} right, with the head {learned_right:.1%}")
print(f"share of wrong labels: 30 %, as learned by the head: {float(learned[-1].noise_rate):.0%}")

# %%
# The plain network predicts observed labels, so it is underconfident about the true ones.

figure, ax = plt.subplots(figsize=(6, 4), layout="constrained")
epochs = range(1, 16)
ax.plot(epochs, plain_losses, label="Linear and CrossEntropyLoss")
ax.plot(epochs, learned_losses, label='LegendreHead(label_noise="learn") and NLLLoss')
ax.set(xlabel="epoch", ylabel="test log-loss, true labels", ylim=(0, None))
ax.legend()
plt.show()

# %%
# A network that is large enough to memorize wrong labels underestimates the rate: stop early, or give the rate if you
# know it, ``label_noise=0.3``. With correct labels, a learned link made no difference to the networks that we tried
# (:doc:`results </results>`).
