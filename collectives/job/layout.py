"""Which ranks form a group: mixed radix, the leftmost kind of the order fastest, as each framework does it.

Megatron-LM has two generators (megatron/core/parallel_state.py, `RankGenerator` and `initialize_model_parallel`): one
for dense layers, in which ep is 1, and one for experts, in which cp is 1, tp is the expert's tensor parallel size etp and
dp is what is left. torchtitan (torchtitan/distributed/parallel_dims.py) has the mesh [pp, dp, cp, tp], outermost first,
and makes the expert groups out of the innermost part of dp, of cp, and of tp where etp is 1. DeepSpeed
(deepspeed/runtime/pipe/topology.py and deepspeed/utils/groups.py) has the axes pipe, data, sequence, model, outermost
first, and strides its expert groups over the model ranks. For the last two that is the same as Megatron's generators with
the order tp-cp-ep-dp-pp; what differs is what they refuse.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray

from nettune.errors import InputError

Ints = NDArray[np.int64]
Axes = tuple[tuple[str, int], ...]

KINDS = ("tp", "cp", "ep", "dp", "pp")
DEFAULT_ORDER = "-".join(KINDS)
FRAMEWORKS = ("megatron", "torchtitan", "deepspeed")
GROUPS: Mapping[str, tuple[bool, frozenset[str]]] = {
    "tp": (False, frozenset({"tp"})),
    "cp": (False, frozenset({"cp"})),
    "dp": (False, frozenset({"dp"})),
    "pp": (False, frozenset({"pp"})),
    "dp-cp": (False, frozenset({"dp", "cp"})),
    "ep": (True, frozenset({"ep"})),
    "etp": (True, frozenset({"tp"})),
    "edp": (True, frozenset({"dp"})),
}
"""Kind of group: whether the expert generator makes it, and which axes run inside it.

dp-cp reduces the gradients of dense layers, edp those of experts. Either may be cut: `dp-cp/shard` are the ranks that
share one sharded copy of the states, `dp-cp/replica` those that have the same shard in different copies."""
EMBEDDING = "embedding"
"""Kind of group: first and last stage of each pipeline, which reduce the gradient of an embedding that both have."""


@dataclass(frozen=True)
class Layout:
    """The two generators of a job: axes and their sizes, fastest first; copies of the sharded states."""

    dense: Axes
    expert: Axes
    replicas: int = 1

    @classmethod
    def of(cls, framework: str, order: str, sizes: Mapping[str, int], etp: int, replicas: int = 1) -> Layout:
        """The layout of a framework; `sizes` has every one of `KINDS`, where dp counts replicas of dense layers.

        Raises:
            InputError: what the framework refuses.
        """
        names = _whole_order(order, sizes)
        if framework != "megatron" and [name for name in names if name != "ep"] != ["tp", "cp", "dp", "pp"]:
            raise InputError(f"job: {framework} has one order, {DEFAULT_ORDER}; leave order {order!r} out")
        ranks = prod(sizes[name] for name in names if name != "ep")
        model = etp * sizes["ep"] * sizes["pp"]
        if ranks % model:
            raise InputError(f"job: etp x ep x pp = {model} does not divide the {ranks} ranks")
        dense = {**sizes, "ep": 1}
        expert = {**sizes, "cp": 1, "tp": etp, "dp": ranks // model}
        _refuse_as_framework(framework, order, sizes, etp, expert["dp"])
        for kind, size in (("dp", sizes["dp"]), ("replicas of experts", expert["dp"])):
            if size % replicas:
                raise InputError(f"job: dp_replicate = {replicas} does not divide {kind} = {size}")
        dense_axes, expert_axes = (tuple((name, table[name]) for name in names) for table in (dense, expert))
        found = cls(dense_axes, expert_axes, replicas)
        if framework == "megatron" and not np.array_equal(
            table(found.dense, {"pp"}), table(found.expert, {"pp"})
        ):
            raise InputError(
                f"job: Megatron-LM refuses order {order!r}: the pipeline groups of dense and expert layers differ"
            )
        return found

    @property
    def ranks(self) -> int:
        """Number of ranks."""
        return prod(size for _, size in self.dense)

    def groups(self, kind: str) -> Ints:
        """(groups, members) ranks of all groups of a kind, each ascending.

        Raises:
            InputError: no such kind.
        """
        if kind == EMBEDDING:
            pipelines = self.groups("pp")
            return pipelines[:, [0, -1]] if pipelines.shape[1] > 1 else pipelines
        whole, _, cut = kind.partition("/")
        if whole not in GROUPS or cut not in {"", "shard", "replica"}:
            known = ", ".join([*GROUPS, EMBEDDING])
            raise InputError(f"job: {kind!r} is no kind of group; known: {known}")
        of_expert, inside = GROUPS[whole]
        found = table(self.expert if of_expert else self.dense, inside)
        return _cut(found, self.replicas, cut) if cut else found

    def stages(self) -> Ints:
        """(ranks,) pipeline stage of each rank."""
        stage = np.empty(self.ranks, np.int64)
        pipelines = self.groups("pp")
        stage[pipelines] = np.arange(pipelines.shape[1])
        return stage


def table(axes: Axes, inside: set[str] | frozenset[str]) -> Ints:
    """(groups, members): ranks that differ only on the axes inside; rank = sum of index x product of faster sizes.

    Source: `generate_masked_orthogonal_rank_groups`, megatron/core/parallel_state.py.
    """
    slowest_first = axes[::-1]
    mesh = np.arange(prod(size for _, size in axes)).reshape([size for _, size in slowest_first])
    within = [place for place, (name, _) in enumerate(slowest_first) if name in inside]
    members = prod(mesh.shape[place] for place in within)
    moved = np.moveaxis(mesh, within, range(mesh.ndim - len(within), mesh.ndim))
    return moved.reshape(-1, members)


def _cut(groups: Ints, replicas: int, cut: str) -> Ints:
    """Shards are neighbours in a group, copies of one shard are as far apart as a copy has ranks.

    So it is in Megatron-LM (`num_distributed_optimizer_instances`, from memory) and in the mesh [pp, dp_replicate,
    dp_shard, cp, tp] of torchtitan.
    """
    copies = groups.reshape(len(groups), replicas, -1)
    if cut == "shard":
        return copies.reshape(-1, copies.shape[2])
    return copies.transpose(0, 2, 1).reshape(-1, replicas)


def _whole_order(order: str, sizes: Mapping[str, int]) -> list[str]:
    """Names in order; those that are left out have size 1 and follow at the end, as in `RankGenerator`."""
    names = order.lower().split("-")
    if set(names) - set(KINDS) or len(set(names)) < len(names):
        raise InputError(
            f"job: order {order!r:.60} must be names out of {', '.join(KINDS)}, joined by - and each once, like "
            f"{DEFAULT_ORDER}; what has one rank may be left out"
        )
    left_out = [name for name in KINDS if name not in names]
    for name in left_out:
        if sizes[name] > 1:
            raise InputError(f"job: order {order!r} leaves out {name}, whose size is {sizes[name]}")
    return names + left_out


def _refuse_as_framework(
    framework: str, order: str, sizes: Mapping[str, int], etp: int, expert_dp: int
) -> None:
    tp, cp, ep, dp, pp = (sizes[name] for name in KINDS)
    if framework == "megatron" and not order.lower().endswith("pp") and pp > 1 and expert_dp != dp:
        raise InputError(
            f"job: Megatron-LM refuses order {order!r}: without pp last, dense and expert layers need the same number "
            f"of replicas, not {dp} and {expert_dp}"
        )
    if framework == "torchtitan" and ep > 1:
        if etp not in {1, tp}:
            raise InputError(f"job: torchtitan takes etp 1 or tp, not {etp}")
        whole = cp if etp == tp else cp * tp
        if ep % whole or dp * whole % ep:
            raise InputError(
                f"job: torchtitan builds ep out of {whole} and a part of dp; ep = {ep} does not fit dp = {dp}"
            )
    if framework == "deepspeed" and ep > 1 and (etp != tp or dp * cp % ep):
        raise InputError(
            f"job: DeepSpeed takes ep that divides dp x cp = {dp * cp}, and etp = tp; not {ep} and {etp}"
        )


def by_domain(groups: Ints, domain: int) -> tuple[int, int] | None:
    """(domains, members in each) when every group has equally many members in each domain that it touches, else None.

    Ranks domain x i to domain x (i + 1) - 1 are one domain.
    """
    where = groups // domain
    if not where.size:
        return None
    starts = np.flatnonzero(np.diff(where[0], prepend=-1))
    count = len(starts)
    members = groups.shape[1] // count
    if count * members != groups.shape[1]:
        return None
    blocks = where.reshape(len(groups), count, members)
    same = (blocks == blocks[:, :, :1]).all()
    apart = (np.diff(blocks[:, :, 0], axis=1) > 0).all()
    return (count, members) if same and apart else None
