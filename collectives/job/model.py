"""`ModelShape`: bytes that a transformer moves in a step, from its shape and its parallel sizes.

What is left out is in `LEFT_OUT`, which goes into the notes of every result that these bytes are behind.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from nettune.errors import InputError

if TYPE_CHECKING:
    from collectives.job.spec import JobSpec


LEFT_OUT = (
    "left out of the model's bytes: biases and norms (below 0.3% of the gradients from hidden = 512 up), the logits' "
    "maximum and sum, the norm of the gradients, what a recomputed forward pass sends again, checkpoints, data loading"
)
"""Said with every result. Biases and norms: 13 h of 12 h^2 parameters of a layer."""
_MOST = {"layers": 2**16}
_MOST_ELSE = 2**40
"""Beyond any machine; so that products stay numbers and lists stay short."""


@dataclass(frozen=True)
class Volume:
    """What the groups of a kind move in a step.

    Attributes:
        message_bytes: one message; the largest where stages differ.
        repeats: messages in a step; the most where stages differ.
        by_stage: bytes of each group in a step, by its pipeline stage.
    """

    message_bytes: float
    repeats: int
    by_stage: tuple[float, ...]

    @classmethod
    def alike(cls, message_bytes: float, stages: int, repeats: int = 1) -> Volume:
        """The same on every stage."""
        return cls(message_bytes, repeats, (message_bytes * repeats,) * stages)

    @classmethod
    def messages(cls, message_bytes: float, repeats: list[int]) -> Volume:
        """One size, another number on each stage."""
        return cls(message_bytes, max(*repeats, 1), tuple(message_bytes * count for count in repeats))

    @classmethod
    def states(cls, bytes_: list[float]) -> Volume:
        """Another size on each stage, once."""
        return cls(max(bytes_), 1, tuple(bytes_))

    def shared_by(self, ranks: int) -> Volume:
        """A part of each message, when so many ranks have equal parts."""
        return Volume(
            self.message_bytes / ranks, self.repeats, tuple(value / ranks for value in self.by_stage)
        )

    def times(self, repeats: int) -> Volume:
        """The same, so many times a step."""
        return Volume(
            self.message_bytes, self.repeats * repeats, tuple(value * repeats for value in self.by_stage)
        )


@dataclass(frozen=True, kw_only=True)
class ModelShape:
    """A transformer and its batch.

    Attributes:
        layers, hidden, heads: of the whole model.
        kv_heads: key and value heads; 0 means as many as heads.
        head_dim: 0 means hidden / heads.
        ffn: width of the dense feed-forward layer; 0 means 4 x hidden.
        gated: three matrices in a feed-forward layer (SwiGLU) instead of two.
        vocab: tokens known; 0 leaves the embedding out.
        tied: the output head is the embedding.
        seq: tokens of a sequence.
        micro_batch: sequences that a replica works on at once.
        global_batch: sequences of a step; 0 means one micro batch for each replica.
        dtype_bytes: bytes of an activation and of a parameter that is sent.
        grad_bytes: bytes of a gradient; 0 means dtype_bytes.
        experts: of each mixture-of-experts layer; 0 none.
        top_k: experts of a token.
        expert_ffn: width of an expert; 0 means ffn.
        shared_experts: experts that see every token.
        moe_every: every so-manieth layer has experts.
    """

    layers: int
    hidden: int
    heads: int
    seq: int
    kv_heads: int = 0
    head_dim: int = 0
    ffn: int = 0
    gated: bool = False
    vocab: int = 0
    tied: bool = False
    micro_batch: int = 1
    global_batch: int = 0
    dtype_bytes: int = 2
    grad_bytes: int = 0
    experts: int = 0
    top_k: int = 1
    expert_ffn: int = 0
    shared_experts: int = 0
    moe_every: int = 1

    def __post_init__(self) -> None:
        positive = ("layers", "hidden", "heads", "seq", "micro_batch", "dtype_bytes", "top_k", "moe_every")
        for key, value in vars(self).items():
            least, most = 1 if key in positive else 0, _MOST.get(key, _MOST_ELSE)
            if not isinstance(value, int) or value < least:
                raise InputError(
                    f"job: model {key} must be a whole number of at least {least}, not {value!r}"
                )
            if value > most:
                raise InputError(f"job: model {key} = {value} is more than {most}")
        if self.hidden % self.heads and not self.head_dim:
            raise InputError(
                f"job: model heads = {self.heads} does not divide hidden = {self.hidden}; give head_dim"
            )
        if self.heads % (self.kv_heads or 1):
            raise InputError(f"job: model kv_heads = {self.kv_heads} does not divide heads = {self.heads}")
        if self.experts and self.top_k > self.experts:
            raise InputError(f"job: model top_k = {self.top_k} is more than experts = {self.experts}")

    @property
    def head_width(self) -> int:
        """Width of one head."""
        return self.head_dim or self.hidden // self.heads

    @property
    def attention_params(self) -> int:
        """Query, key, value and output matrices of a layer."""
        wide, narrow = self.heads * self.head_width, (self.kv_heads or self.heads) * self.head_width
        return 2 * self.hidden * (wide + narrow)

    def ffn_params(self, width: int) -> int:
        """Matrices of a feed-forward layer or an expert."""
        return (3 if self.gated else 2) * self.hidden * width

    @property
    def params(self) -> int:
        """Parameters of the whole model."""
        moe = self.layers // self.moe_every if self.experts else 0
        dense = self.ffn_params(self.ffn or 4 * self.hidden)
        expert = self.ffn_params(self.expert_ffn or self.ffn or 4 * self.hidden)
        routed = moe * ((self.experts + self.shared_experts) * expert + self.hidden * self.experts)
        embeddings = self.vocab * self.hidden * (1 if self.tied else 2)
        return self.layers * self.attention_params + (self.layers - moe) * dense + routed + embeddings

    def micro_batches(self, dp: int) -> int:
        """Micro batches of each replica in a step.

        Raises:
            InputError: the global batch is not a whole number of them.
        """
        together = self.micro_batch * dp
        if self.global_batch % together:
            raise InputError(
                f"job: model global_batch = {self.global_batch} is no multiple of micro_batch x dp = {together}"
            )
        return self.global_batch // together or 1


def volumes(job: JobSpec, model: ModelShape) -> dict[str, Volume]:
    """Bytes of a step by kind: tp, tp gathers, cp, ep, pp, dp (gradients), dp params, edp, edp params.

    Sources of the formulas, s sequence, b micro batch, h hidden, m micro batches, 1 message = what one rank has:

    - tp: an all-reduce of sbh forward and backward for each of attention and feed-forward (Shoeybi et al. 2019,
      section 3). With the sequence split over tp each is a scatter and a gather, and backward the input is gathered
      once more (Korthikanti et al. 2022, section 4.2.2).
    - cp: ring attention passes keys and values cp - 1 times forward, and them and their gradients backward (Liu et al.
      2023, section 3); all-to-all sends queries, keys, values and outputs, and their gradients (Jacobs et al. 2023,
      section 3.1).
    - tp of the vocabulary: the first stage reduces the embedding's output, the last the gradient of the head's input;
      with the sequence split the head gathers its input once more, as any column-parallel layer (ibid.).
    - etp: what an expert's ranks have of the tokens is gathered before it and its output scattered after it, forward and
      backward; without a split sequence that is an all-reduce in two halves. From memory of Megatron-LM's all-to-all
      dispatcher: unverified.
    - ep: each token's hidden vector to top_k experts (Lepikhin et al. 2020, section 3.2), in every layer forward, and
      the gradient of the return backward; the same way back.
    - pp: sbh between stages for each micro batch and virtual stage (Narayanan et al. 2021, section 2.2), divided by tp
      where the sequence is split over it.
    - dp: parameters of a rank x bytes of a gradient (Rajbhandari et al. 2020, section 7, counts 2 of these for
      stages 0 to 2 and 3 for stage 3).
    - embedding: where it is tied, first and last stage all-reduce its gradient (Megatron-LM's embedding group).

    Raises:
        InputError: a shape that the parallel sizes do not divide.
    """
    _refuse_misfit(job, model)
    chunks = job.pp * job.virtual_stages
    stage_of = [layer // (model.layers // chunks) % job.pp for layer in range(model.layers)]
    layers, moe = [0] * job.pp, [0] * job.pp
    for layer, stage in enumerate(stage_of):
        layers[stage] += 1
        moe[stage] += bool(model.experts) and (layer + 1) % model.moe_every == 0
    batches = model.micro_batches(job.dp)
    tokens = model.seq * model.micro_batch / job.cp
    split = job.tp if job.sequence_parallel else 1
    activation = tokens * model.hidden * model.dtype_bytes
    shared = bool(model.shared_experts)
    # Attention, and the feed-forward layer where it is dense or has shared experts.
    blocks = [count + count - sparse + shared * sparse for count, sparse in zip(layers, moe, strict=True)]
    first, last = (
        [int(bool(model.vocab) and stage == end) for stage in range(job.pp)] for end in (0, job.pp - 1)
    )
    reduced = [2 * block + one + other for block, one, other in zip(blocks, first, last, strict=True)]
    gathered = [3 * block + one + 2 * other for block, one, other in zip(blocks, first, last, strict=True)]
    heads = model.heads // job.tp
    kv_heads = max((model.kv_heads or model.heads) // job.tp, 1)
    head = tokens * model.head_width * model.dtype_bytes
    if job.algorithm_of("cp") == "ring":
        context = Volume.messages(
            2 * kv_heads * head, [3 * (job.cp - 1) * count * batches for count in layers]
        )
    else:
        context = Volume.messages(2 * (heads + kv_heads) * head, [2 * count * batches for count in layers])
    dense, experts = _stage_params(job, model, layers, moe)
    grad_bytes = model.grad_bytes or model.dtype_bytes
    routed = tokens / split * model.top_k * model.hidden * model.dtype_bytes
    return {
        "tp": Volume.messages(activation, [count * batches for count in reduced]),
        "tp gathers": Volume.messages(activation, [count * batches for count in gathered]),
        "cp": context,
        "ep": Volume.messages(routed, [2 * count * batches for count in moe]),
        "etp": Volume.messages(
            routed * (job.expert_tp if job.sequence_parallel else 1), [2 * count * batches for count in moe]
        ),
        "pp": Volume.alike(activation / split, job.pp, batches),
        "dp": Volume.states([count * grad_bytes for count in dense]),
        "dp params": Volume.states([count * model.dtype_bytes for count in dense]),
        "edp": Volume.states([count * grad_bytes for count in experts]),
        "edp params": Volume.states([count * model.dtype_bytes for count in experts]),
        "embedding": Volume.alike(model.tied * model.vocab * model.hidden / job.tp * grad_bytes, job.pp),
    }


def _refuse_misfit(job: JobSpec, model: ModelShape) -> None:
    """Sizes that Megatron-LM, torchtitan and DeepSpeed all refuse, since a rank's part would be no whole number."""
    chunks = job.pp * job.virtual_stages
    if model.layers % chunks:
        raise InputError(
            f"job: model layers = {model.layers} does not fill pp x virtual_stages = {chunks} evenly"
        )
    if model.heads % job.tp:
        raise InputError(f"job: model heads = {model.heads} is no multiple of tp = {job.tp}")
    exchanged = job.cp > 1 and job.algorithm_of("cp") == "all_to_all"
    if exchanged and model.heads // job.tp % job.cp:
        raise InputError(f"job: model heads = {model.heads} is no multiple of tp x cp, as all_to_all needs")
    parts, what = (job.cp * job.tp, "cp x tp") if job.sequence_parallel else (job.cp, "cp")
    if model.seq % parts:
        raise InputError(f"job: model seq = {model.seq} is no multiple of {what} = {parts}")


def _stage_params(
    job: JobSpec, model: ModelShape, layers: list[int], moe: list[int]
) -> tuple[list[float], list[float]]:
    """Parameters of one rank on each stage: dense, and of its experts."""
    ffn = model.ffn_params(model.ffn or 4 * model.hidden)
    expert = model.ffn_params(model.expert_ffn or model.ffn or 4 * model.hidden)
    dense = [
        (count * model.attention_params + (count - sparse) * ffn + sparse * model.shared_experts * expert)
        / job.tp
        + sparse * model.hidden * model.experts  # the router is whole on every rank
        for count, sparse in zip(layers, moe, strict=True)
    ]
    embedding = model.vocab * model.hidden / job.tp
    dense[0] += embedding
    if job.pp > 1 or not model.tied:
        dense[-1] += embedding
    return dense, [sparse * model.experts / job.ep * expert / job.expert_tp for sparse in moe]
