"""Runs rounds of planned transfers on the agents and turns the hosts' figures into `FlowResult`s."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, Self

from nettune.qualify.flows import FlowResult, FlowState
from nettune.qualify.ports import TCP_PORT, UDP_PORT

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nettune.launch.caller import Caller
    from nettune.qualify.flows import ProbeFlow
    from topology.fabric import Fabric

# Ethernet, IPv4 and TCP with timestamps: what a payload of one segment takes more on the link.
_FRAME_OVERHEAD_BYTES = 14 + 20 + 32
_IP_TCP_HEADERS = 52
_DEFAULT_MTU = 1500
_GAP_S = 0.04
"""A pause that no schedule of a busy machine explains: kernel arrival times, far above a round trip."""
_STALLED_RATIO = 0.05


class Session:
    """One agent a host, with its listening ports open; a context manager."""

    def __init__(self, fabric: Fabric, agents: Caller, rank_of_host: Mapping[str, int]) -> None:
        self.fabric = fabric
        self.agents = agents
        self.rank_of_host = dict(rank_of_host)
        self.results: list[FlowResult] = []
        self._rounds = 0

    def __enter__(self) -> Self:
        addresses = {
            rank: [
                self.fabric.ports.address[nic]
                for nic in self.fabric.nics(host)
                if self.fabric.ports.address[nic]
            ]
            for host, rank in self.rank_of_host.items()
        }
        self.agents.call(
            "nettune.qualify.probe:open_ports",
            lambda rank: {"addresses": addresses[rank], "tcp_port": TCP_PORT, "udp_port": UDP_PORT},
            ranks=list(addresses),
            timeout_s=20.0,
        )
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        # After a failed call the agents are gone, and their sockets with them.
        if kind is None:
            self.agents.call("nettune.qualify.probe:close_ports", {}, ranks=list(self.rank_of_host.values()))

    def run(
        self, flows: Sequence[ProbeFlow], duration_s: float, *, stage: int = 1, pace: float
    ) -> list[FlowResult]:
        """One round; all flows at the same time, each held to `pace` of its nominal rate (on the wire).

        Raises:
            AgentError: a host's agent died or hung; it is named.
        """
        self._rounds += 1
        send: dict[int, list[dict[str, Any]]] = {}
        receive: dict[int, list[dict[str, Any]]] = {}
        offered = []
        for number, flow in enumerate(flows):
            offered.append(self._offered_gbps(flow, pace))
            ends = {"src": self._address(flow.src_port), "dst": self._address(flow.dst_port)}
            key = {"id": number + 1000 * self._rounds, **ends, "tcp_ports": list(flow.tcp_ports)}
            send.setdefault(self._rank(flow.src_port), []).append(
                {
                    **key,
                    "tcp_port": TCP_PORT,
                    "udp_ports": list(flow.udp_ports),
                    "udp_port": UDP_PORT,
                    "rate_bytes_per_s": round(offered[-1] * 1e9 / 8),
                    "mtu": self._mtu(flow.src_port),
                }
            )
            receive.setdefault(self._rank(flow.dst_port), []).append(key)
        ranks = sorted(send.keys() | receive.keys())
        answers = self.agents.call(
            "nettune.qualify.probe:transfer",
            lambda rank: {
                "send": send.get(rank, []),
                "receive": receive.get(rank, []),
                "duration_s": duration_s,
            },
            ranks=ranks,
            timeout_s=duration_s + 20.0,
        )
        sent: dict[str, Any] = {}
        received: dict[str, Any] = {}
        for answer in answers:
            sent |= answer["sent"]
            received |= answer["received"]
        results = []
        alone = len({flow.fills for flow in flows}) == 1 and (len(flows) == 1 or flows[0].fills >= 0)
        alone = alone or stage > 1
        for number, flow in enumerate(flows):
            key_text = str(number + 1000 * self._rounds)
            results.append(
                self._result(
                    flow, sent[key_text], received[key_text], offered[number], duration_s,
                    stage=stage, round=self._rounds, alone=alone, pace=pace,
                )
            )  # fmt: skip
        self.results += results
        return results

    def _result(
        self,
        flow: ProbeFlow,
        sent: Mapping[str, Any],
        received: Mapping[str, Any],
        offered_gbps: float,
        duration_s: float,
        **about: Any,
    ) -> FlowResult:
        rate_gbps, gap_s = stream_figures(received.get("samples", []), offered_gbps, duration_s)
        tcp = sent.get("tcp", {})
        mss = int(tcp.get("snd_mss", 0))
        segments = int(tcp.get("data_segs_out", 0))
        return FlowResult(
            flow=flow,
            state=flow_state(sent, received, rate_gbps, offered_gbps, gap_s),
            offered_gbps=offered_gbps,
            delivered_gbps=rate_gbps,
            share=rate_gbps * (1 + _FRAME_OVERHEAD_BYTES / mss) / flow.nominal_gbps
            if mss and flow.nominal_gbps
            else float("nan"),
            segments=segments,
            lost=min(max(int(tcp.get("total_retrans", 0)) - int(tcp.get("dsack_dups", 0)), 0), segments),
            rtt_us=float(tcp.get("rtt_us", 0)),
            min_rtt_us=float(tcp.get("min_rtt_us", 0)),
            gap_s=gap_s,
            mss_bytes=mss,
            small_datagrams=int(received["small"]),
            full_datagrams=int(received["full"]),
            datagrams=int(sent["datagrams"]),
            note=str(sent["error"]),
            **about,
        )

    def _offered_gbps(self, flow: ProbeFlow, pace: float) -> float:
        payload = self._mtu(flow.src_port) - _IP_TCP_HEADERS
        return flow.nominal_gbps * pace * payload / (payload + _FRAME_OVERHEAD_BYTES)

    def _mtu(self, port: int) -> int:
        return int(self.fabric.ports.mtu[port]) or _DEFAULT_MTU

    def _address(self, port: int) -> str:
        return self.fabric.ports.address[port]

    def _rank(self, port: int) -> int:
        return self.rank_of_host[self.fabric.nodes.name[int(self.fabric.ports.node[port])]]


def stream_figures(
    samples: Sequence[Sequence[float]], offered_gbps: float, duration_s: float
) -> tuple[float, float]:
    """(payload rate in Gbit/s, longest gap in s) of arrival samples (seconds after the first byte, bytes).

    The rate is over the span from 20% to 95% of the sending time: slow start and the reset at the end stay out. A gap
    is time beyond what the bytes that came in it need at the offered rate.
    """
    if not samples:
        return 0.0, duration_s
    begin, end = 0.2 * duration_s, 0.95 * duration_s
    inside = [(0.0, 0.0), *((float(at), float(count)) for at, count in samples if 0 < at <= end)]
    inside.append((end, _bytes_at(samples, end)))
    rate = (_bytes_at(samples, end) - _bytes_at(samples, begin)) * 8e-9 / (end - begin)
    speed = offered_gbps * 1e9 / 8
    gaps = [
        (at - before) - ((count - had) / speed if speed else 0.0)
        for (before, had), (at, count) in pairwise(inside)
    ]
    return rate, max(0.0, *gaps) if gaps else 0.0


def _bytes_at(samples: Sequence[Sequence[float]], when: float) -> float:
    """Bytes that had come by a time, linear between samples; no more after the last one."""
    before, had = 0.0, 0.0
    for at, count in samples:
        if at >= when:
            return had + (count - had) * (when - before) / (at - before) if at > before else float(count)
        before, had = at, count
    return float(had)


def flow_state(
    sent: Mapping[str, Any], received: Mapping[str, Any], rate_gbps: float, offered_gbps: float, gap_s: float
) -> FlowState:
    """The state of a flow by its two ends' figures."""
    if not sent["connected"]:
        local = sent["error"] and sent["error"] not in {
            "ETIMEDOUT",
            "EHOSTUNREACH",
            "ENETUNREACH",
            "ECONNREFUSED",
        }
        return FlowState.ERROR if local or sent["error"] == "ECONNREFUSED" else FlowState.DEAD
    if received["bytes"] == 0 or rate_gbps < _STALLED_RATIO * offered_gbps:
        return FlowState.STALLED
    return FlowState.GAP if gap_s > _GAP_S else FlowState.OK
