// NICs: packets of messages, acknowledgements, go-back-N and selective repeat, retransmission timers.
#pragma once

#include "queuepairs.hpp"

namespace fabric {

inline bool bit(const std::vector<uint64_t>& set, int32_t i) { return set[i >> 6] >> (i & 63) & 1; }
inline void set_bit(std::vector<uint64_t>& set, int32_t i) { set[i >> 6] |= 1ull << (i & 63); }

// ---- sending ----------------------------------------------------------------------------------------------------

inline void Simulation::send_packet(Port& port, int32_t id) {
  Flow& flow = flows_[id];
  Flow& pair = flows_[flow.pair];
  const Time at = port.free_at;
  int32_t seq;
  if (in_.selective_repeat && flow.retransmit_next < flow.retransmit_end) {
    seq = flow.retransmit_next++;
    while (flow.retransmit_next < flow.retransmit_end && bit(acked_[id], flow.retransmit_next)) ++flow.retransmit_next;
  } else {
    seq = flow.next++;
  }
  if (seq < flow.sent_upto)
    ++flow.retransmissions;
  else
    flow.sent_upto = seq + 1;
  if (seq == flow.una) flow.progress = at;
  if (in_.data_count[id] > 1) choose_path(flow, id);
  const int32_t payload = seq == flow.packets - 1 ? flow.last_payload : static_cast<int32_t>(in_.mtu);

  Packet packet;
  packet.flow = id;
  packet.seq = seq;
  packet.at = flow.data_at;
  packet.got = 0;
  packet.bytes = static_cast<uint16_t>(payload + in_.header_bytes);
  packet.kind = DATA;
  packet.bits = static_cast<uint8_t>(flow.cls << 4);
  packet.stamp = static_cast<uint32_t>(at >> 10);
  if (telemeters_) {
    if (free_telemetry_.empty()) {
      memory_.take(sizeof(Telemetry));
      free_telemetry_.push_back(static_cast<uint32_t>(telemetry_.size()));
      telemetry_.emplace_back();
    }
    packet.stamp = free_telemetry_.back();
    free_telemetry_.pop_back();
    telemetry_[packet.stamp].hops = 0;
    telemetry_[packet.stamp].stamp = static_cast<uint32_t>(at >> 10);
  }
  transmit(port, packet);

  const Control& control = controls_[pair.control];
  if (control.algorithm == Algorithm::DCQCN)
    control.dcqcn.advance(pair.sender, pair.control_state.dcqcn, at);
  else if (control.algorithm == Algorithm::HYBRID)
    pair.control_state.hybrid.sent += payload;
  update_gap(pair);
  pair.turn = at + pair.gap;
  if (in_.flowlet_gap) flow.last_sent = at;
  if (control.algorithm == Algorithm::DCQCN)
    control.dcqcn.on_sent(pair.sender, pair.control_state.dcqcn, payload);
  if (in_.timeout && !flow.timer_set) set_timer(id);
  enlist(flow.pair);
}

// Spray: another path for each packet. Flowlets: another one after a pause of the flow. Paths with a dead link are left out.
inline void Simulation::choose_path(Flow& flow, int32_t id) {
  const int32_t count = in_.data_count[id];
  const bool fresh = flow.next + flow.retransmissions <= 1;
  if (in_.spray)
    flow.path = (flow.path + 1) % count;
  else if (in_.flowlet_gap && (fresh || ports_[nics_[flow.nic].port].free_at - flow.last_sent > in_.flowlet_gap))
    flow.path = ports_[nics_[flow.nic].port].random.below(count);
  const int32_t hops = in_.data_length[id];
  for (int32_t tries = 0; tries < count; ++tries) {
    flow.data_at = in_.data_first[id] + flow.path * hops;
    const int32_t* link = in_.path_link + flow.data_at;
    if (std::none_of(link, link + hops, [&](int32_t l) { return ports_[l].down; })) return;
    flow.path = (flow.path + 1) % count;
  }
}

// ---- receiving --------------------------------------------------------------------------------------------------

inline void Simulation::receive(Packet packet) {
  if (packet.kind == DATA)
    receive_data(packet);
  else
    receive_ack(packet);
}

inline void Simulation::receive_data(const Packet& packet) {
  const int32_t id = packet.flow;
  Receiver& r = receivers_[id];
  const int32_t packets = r.packets;
  const Time cnp_interval = controls_[r.control].cnp_interval;
  ++arrivals_;
  if (packet.bits & MARKED && cnp_interval && !receivers_[r.pair].cnp_due) {
    Receiver& pair = receivers_[r.pair];
    if (now_ >= pair.cnp_after) {
      send_cnp(r.pair);
    } else {
      pair.cnp_due = true;
      appoint(pair.cnp_after, Act::CNP_DUE, r.pair);
    }
  }
  const int32_t before = r.expected;
  bool nack = false;
  if (packet.seq == r.expected) {
    ++r.expected;
    if (in_.selective_repeat) {
      set_bit(arrived_[id], packet.seq);
      while (r.expected < packets && bit(arrived_[id], r.expected)) ++r.expected;
    }
  } else if (packet.seq > r.expected) {
    if (in_.selective_repeat) set_bit(arrived_[id], packet.seq);
    // One NACK for a gap, and another one when it stays open.
    nack = packet.seq - r.expected > in_.reorder && (r.last_nack != r.expected || now_ >= r.nack_after);
    if (nack) {
      r.last_nack = r.expected;
      r.nack_after = now_ + in_.nack_interval;
      ++nacks_;
    }
  }
  const bool whole = r.expected == packets;
  const bool due = r.expected % in_.ack_every == 0 || whole || packet.seq < before || in_.selective_repeat ||
                   (packet.bits & MARKED && !cnp_interval);
  if (nack)
    answer(packet, NACK);
  else if ((packet.seq <= before || in_.selective_repeat) && due)
    answer(packet, ACK);
  else
    discard(packet);
  if (whole && before != packets) delivered(id);
}

// At once for the first marked packet in a while, then at the end of each interval in which one was marked (DCQCN's paper,
// section 3.1: NP).
inline void Simulation::send_cnp(int32_t pair) {
  receivers_[pair].cnp_due = false;
  receivers_[pair].cnp_after = now_ + controls_[receivers_[pair].control].cnp_interval;
  Packet marked{};
  marked.flow = pair;
  marked.bits = MARKED;
  answer(marked, CNP);
}

inline void Simulation::answer(const Packet& packet, Kind kind) {
  Packet reply = packet;
  reply.kind = kind;
  reply.seq = receivers_[packet.flow].expected;
  reply.got = packet.seq;
  reply.at = receivers_[packet.flow].ack_first;
  reply.bytes = static_cast<uint16_t>(kind == CNP ? in_.cnp_bytes : in_.ack_bytes);
  const int cls = kind == CNP || !in_.acks_with_data ? HIGH : packet.cls();
  reply.bits = static_cast<uint8_t>(cls << 4 | (packet.bits & MARKED));
  push_high(ports_[receivers_[packet.flow].port], reply);
}

inline void Simulation::receive_ack(const Packet& packet) {
  const int32_t id = packet.flow;
  Flow& flow = flows_[id];
  Port& port = ports_[nics_[flow.nic].port];
  if (flow.over && !(packet.kind == CNP && flow.shared)) {
    discard(packet);
    return;
  }
  touch(port);
  if (packet.kind == CNP) {
    ++cnps_;
    controls_[flow.control].dcqcn.on_cnp(flow.sender, flow.control_state.dcqcn, now_);  // `flow` is a queue pair's first
    return;  // an idle port has not changed: the rate acts on the packet after the next
  }
  acknowledge(id, packet);
  enlist(flow.pair);
  settle(port);
}

inline void Simulation::acknowledge(int32_t id, const Packet& packet) {
  Flow& flow = flows_[id];
  const int32_t newly = std::max(0, packet.seq - flow.una);
  if (newly) {
    flow.una = packet.seq;
    flow.next = std::max(flow.next, flow.una);
    flow.progress = now_;
    if (in_.timeout) {
      flow.retries = flow.same = 0;
      flow.timeout = in_.first_timeout;
    }
  }
  if (in_.selective_repeat) {
    set_bit(acked_[id], packet.got);
    flow.acked_upto = std::max(flow.acked_upto, packet.got + 1);
    flow.retransmit_next = std::max(flow.retransmit_next, flow.una);
    if (packet.kind == NACK) {
      // Between what is missing and what has just arrived, each packet once: a second NACK goes on where the first ended.
      if (flow.retransmit_next >= flow.retransmit_end && packet.got > flow.retransmit_end)
        flow.retransmit_next = std::max(flow.una, flow.retransmit_end);
      flow.retransmit_end = std::max(flow.retransmit_end, packet.got);
    }
    while (flow.retransmit_next < flow.retransmit_end && bit(acked_[id], flow.retransmit_next)) ++flow.retransmit_next;
  } else if (packet.kind == NACK) {
    flow.next = flow.una;
  }
  if (packet.kind == NACK) flows_[flow.pair].current = flows_[flow.pair].open;
  control_ack(flow, packet, newly);
  if (flow.una == flow.packets) finish(id);
}

inline void Simulation::control_ack(Flow& flow, const Packet& packet, int32_t newly) {
  const Control& control = controls_[flow.control];
  Flow& pair = flows_[flow.pair];
  if (control.algorithm == Algorithm::DCQCN) {
    if (packet.bits & MARKED && !control.cnp_interval) {
      ++cnps_;
      control.dcqcn.on_cnp(pair.sender, pair.control_state.dcqcn, now_);
    }
  } else if (control.algorithm != Algorithm::FIXED) {
    Acknowledgement ack;
    ack.now = now_;
    ack.telemetry = telemeters_ ? &telemetry_[packet.stamp] : nullptr;
    const uint32_t sent = telemeters_ ? ack.telemetry->stamp : packet.stamp;
    ack.rtt = static_cast<Time>(static_cast<uint32_t>(now_ >> 10) - sent) << 10;
    ack.marked = packet.bits & MARKED;
    ack.packets = newly;
    ack.upto = (flow.packets_before + packet.seq) * in_.mtu;
    ack.next = (flow.packets_before + flow.next) * in_.mtu;
    cnps_ += ack.marked && control.algorithm == Algorithm::HYBRID;
    const Time late = pair.turn;
    if (control.algorithm == Algorithm::SWIFT) control.swift.on_ack(pair.sender, pair.control_state.swift, ack);
    if (control.algorithm == Algorithm::HPCC) control.hpcc.on_ack(pair.sender, hpcc_[pair.hpcc], ack);
    if (control.algorithm == Algorithm::HYBRID) control.hybrid.on_ack(pair.sender, pair.control_state.hybrid, ack);
    if (pair.place != Place::READY && pair.sender.rate != pair.gap_rate) {
      repace(pair);
      pair.turn = std::max(pair.turn, now_);
      if (pair.place == Place::WAITING && pair.turn != late) pair.place = Place::NOWHERE;  // its old entry is stale
    }
  }
  discard(packet);
}

inline void Simulation::delivered(int32_t id) {
  delivered_[id] = now_;
  for (int32_t i = dependents_start_[id]; i < dependents_start_[id + 1]; ++i) {
    const int32_t next = dependents_[i];
    if (--flows_[next].waits_for == 0)
      appoint(std::max(in_.start[next], now_ + in_.gap[next]), Act::START, next);
  }
}

inline void Simulation::finish(int32_t id) {
  close(id);
  finish_[id] = now_;
  if (in_.selective_repeat) {
    acked_[id] = {};
    arrived_[id] = {};
  }
}

// ---- retransmission timers --------------------------------------------------------------------------------------
// One appointment a flow, moved on when it comes too early: acknowledgements do not touch the agenda.

inline void Simulation::set_timer(int32_t id) {
  Flow& flow = flows_[id];
  flow.timer_set = true;
  appoint(std::max(now_, flow.progress) + flow.timeout, Act::TIMEOUT, id);
}

inline void Simulation::timer_fires(int32_t id) {
  Flow& flow = flows_[id];
  Port& port = ports_[nics_[flow.nic].port];
  touch(port);
  flow.timer_set = false;
  if (flow.over || flow.una == flow.sent_upto) return;  // nothing is on its way; sending sets it again
  if (now_ < flow.progress + flow.timeout) {
    flow.timer_set = true;
    appoint(flow.progress + flow.timeout, Act::TIMEOUT, id);
    return;
  }
  ++timeouts_;
  if (flow.retries++ >= in_.retry_count) {
    ++failed_;
    close(id);
    enlist(flow.pair);
    settle(port);
    return;
  }
  // Adaptive: a short time-out is used several times, then doubled, up to the configured one.
  if (++flow.same >= in_.same_timeouts) {
    flow.same = 0;
    flow.timeout = std::min(2 * flow.timeout, in_.timeout);
  }
  flow.progress = now_;
  if (in_.selective_repeat) {
    flow.retransmit_next = flow.una;
    // What is missing below the last arrival is lost; with no arrival behind the gap, nobody knows.
    flow.retransmit_end = flow.acked_upto > flow.una ? flow.acked_upto : flow.sent_upto;
  } else {
    flow.next = flow.una;
  }
  Flow& pair = flows_[flow.pair];
  pair.current = pair.open;
  const Control& control = controls_[flow.control];
  if (control.algorithm == Algorithm::SWIFT) control.swift.on_timeout(pair.sender, pair.control_state.swift, now_);
  enlist(flow.pair);
  if (!flow.timer_set) set_timer(id);
  settle(port);
}

inline double Simulation::rate_now(Flow& flow) {
  const Control& control = controls_[flow.control];
  Flow& pair = flows_[flow.pair];
  if (control.algorithm == Algorithm::DCQCN) control.dcqcn.advance(pair.sender, pair.control_state.dcqcn, now_);
  return flow.started && !flow.over ? pair.sender.rate : 0;
}

}  // namespace fabric
