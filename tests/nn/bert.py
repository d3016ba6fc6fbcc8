"""Small networks of Transformers with our heads and losses in them."""

from transformers import BertConfig, BertModel, BertPreTrainedModel

from legendretron.nn import LegendreHead, init_weights

N_CLASSES = 3
CONFIG = BertConfig(
    vocab_size=5, hidden_size=8, intermediate_size=8, max_position_embeddings=4, num_hidden_layers=1, num_attention_heads=2,
    hidden_dropout_prob=0.0,
)  # fmt: skip


class Classifier(BertPreTrainedModel):
    def __init__(self, config, head=()):
        super().__init__(config)
        self.bert = BertModel(config)
        self.head = LegendreHead(config.hidden_size, N_CLASSES, **dict(head))
        self.post_init()

    def _init_weights(self, module):
        if not init_weights(module):
            super()._init_weights(module)

    def forward(self, input_ids):
        return self.head(self.bert(input_ids).pooler_output)


class WithLoss(Classifier):
    """A network that makes its criterion while it is built without memory."""

    def __init__(self, config, loss=None):
        super().__init__(config, {"link": "softmax"})
        self.criterion = loss()
        self.post_init()
