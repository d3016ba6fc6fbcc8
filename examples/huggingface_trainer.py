"""Fine-tuning a transformer with a learned loss under Hugging Face's Trainer; a tiny one, nothing is downloaded.

    pip install transformers accelerate
    python examples/huggingface_trainer.py

The link is inside the model, so the Trainer trains it and ``save_pretrained`` keeps it. ``from_pretrained`` builds the model
without memory and reads what the file holds; ``_init_weights`` says where the rest starts. The task: which of five tokens
comes most often in a sequence.
"""

from __future__ import annotations

import argparse
import tempfile

import torch
from torch import nn
from transformers import BertConfig, BertModel, BertPreTrainedModel, Trainer, TrainingArguments
from transformers.modeling_outputs import SequenceClassifierOutput

from legendretron.nn import LegendreHead, init_weights

N_CLASSES = 5


class BertWithLearnedLoss(BertPreTrainedModel):
    def __init__(self, config: BertConfig) -> None:
        super().__init__(config)
        self.bert = BertModel(config)
        self.head = LegendreHead(config.hidden_size, config.num_labels)
        self.post_init()

    def _init_weights(self, module: nn.Module) -> None:
        if not init_weights(module):
            super()._init_weights(module)

    # no **kwargs: to a model that takes them the Trainer leaves the division by gradient_accumulation_steps
    def forward(self, input_ids: torch.Tensor, labels: torch.Tensor | None = None) -> SequenceClassifierOutput:
        log_proba = self.head(self.bert(input_ids).pooler_output)
        loss = None if labels is None else nn.functional.nll_loss(log_proba, labels)
        return SequenceClassifierOutput(loss=loss, logits=log_proba)


class MostFrequentToken(torch.utils.data.Dataset):
    def __init__(self, n: int, seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        self.labels = torch.randint(N_CLASSES, (n,), generator=generator)
        tokens = torch.randint(N_CLASSES, (n, 16), generator=generator)
        often = torch.rand(n, 16, generator=generator) < 0.4
        self.tokens = torch.where(often, self.labels[:, None], tokens)

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, i: int) -> dict[str, torch.Tensor]:
        return {"input_ids": self.tokens[i], "labels": self.labels[i]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--rows", type=int, default=2000)
    options = parser.parse_args()
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=N_CLASSES, hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=64,
        max_position_embeddings=16, num_labels=N_CLASSES, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
    )  # fmt: skip
    test = MostFrequentToken(500, seed=1)
    with tempfile.TemporaryDirectory() as folder:
        BertModel(config).save_pretrained(folder)  # stands for a model that was trained on much text
        model = BertWithLearnedLoss.from_pretrained(folder)
        arguments = TrainingArguments(
            output_dir=folder, num_train_epochs=options.epochs, per_device_train_batch_size=64, learning_rate=3e-3,
            report_to=[], save_strategy="no", logging_strategy="no", disable_tqdm=True, dataloader_pin_memory=False,
        )  # fmt: skip
        trainer = Trainer(model=model, args=arguments, train_dataset=MostFrequentToken(options.rows, seed=0))
        trainer.train()
        log_proba = torch.as_tensor(trainer.predict(test).predictions)
        model.save_pretrained(folder)
        again = BertWithLearnedLoss.from_pretrained(folder).eval()
    with torch.no_grad():
        reloaded = again(test.tokens).logits
    assert torch.allclose(reloaded, log_proba, atol=1e-5), "what was saved is not what was trained"
    accuracy = (log_proba.argmax(1) == test.labels).float().mean()
    print(f"test accuracy {accuracy:.3f}, log-loss {nn.functional.nll_loss(log_proba, test.labels):.3f}")


if __name__ == "__main__":
    main()
