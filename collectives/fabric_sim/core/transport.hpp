// NICs: queue pairs with a rate limiter each, acknowledgements, go-back-N and selective repeat, retransmission timers.
#pragma once

#include "fabric.hpp"

namespace fabric {

inline bool bit(const std::vector<uint64_t>& set, int32_t i) { return set[i >> 6] >> (i & 63) & 1; }
inline void set_bit(std::vector<uint64_t>& set, int32_t i) { set[i >> 6] |= 1ull << (i & 63); }

// ---- whose turn it is -------------------------------------------------------------------------------------------

inline void Simulation::start(int32_t id) {
  Flow& flow = flows_[id];
  flow.started = true;
  Port& port = ports_[nics_[flow.nic].port];
  touch(port);
  flow.turn = now_;
  flow.progress = now_;
  enlist(id);
  settle(port);
}

inline bool Simulation::may_send(const Flow& flow) const {
  if (!flow.started || flow.over) return false;
  if (in_.selective_repeat && flow.retransmit_next < flow.retransmit_end) return true;
  if (flow.next >= flow.packets) return false;
  int64_t window = flow.sender.window;
  if (!window) return true;
  if (in_.window_follows_rate && controls_[flow.control].algorithm == Algorithm::DCQCN)
    window = std::max<int64_t>(1, static_cast<int64_t>(static_cast<double>(window) * flow.sender.rate / flow.sender.line_rate));
  return static_cast<int64_t>(flow.next - flow.una) * in_.mtu < window;
}

// Puts a queue pair that may send where its turn will be seen: the set of ready ones, or the heap of those that wait.
inline void Simulation::enlist(int32_t id) {
  Flow& flow = flows_[id];
  if (flow.place != Place::NOWHERE || !may_send(flow)) return;
  Nic& nic = nics_[flow.nic];
  if (flow.turn <= ports_[nic.port].free_at) {
    flow.place = Place::READY;
    ready_[nic.first_class + flow.cls].set.add(flow.queue_pair);
  } else {
    flow.place = Place::WAITING;
    nic.waiting.push_back({flow.turn, id});
    std::push_heap(nic.waiting.begin(), nic.waiting.end());
  }
}

inline void Simulation::release_turns(Nic& nic, Time upto) {
  while (!nic.waiting.empty() && nic.waiting.front().at <= upto) {
    const Turn turn = nic.waiting.front();
    std::pop_heap(nic.waiting.begin(), nic.waiting.end());
    nic.waiting.pop_back();
    Flow& flow = flows_[turn.flow];
    if (flow.place != Place::WAITING || flow.turn != turn.at) continue;  // stale
    flow.place = Place::READY;
    ready_[nic.first_class + flow.cls].set.add(flow.queue_pair);
  }
}

inline int Simulation::pick_ready(const Nic& nic, uint32_t paused) const {
  for (int i = 1; i <= classes_; ++i) {
    const int cls = classes_ == 1 ? 0 : (nic.last_class + i) % classes_;
    if (!(paused >> cls & 1) && !ready_[nic.first_class + cls].set.empty()) return cls;
  }
  return -1;
}

// When a NIC's port has something to send, as far as is known.
inline Time Simulation::next_turn(const Port& port) const {
  const Nic& nic = nics_[port.nic];
  if (pick_ready(nic, port.paused) >= 0) return port.free_at;
  return nic.waiting.empty() ? NEVER : std::max(port.free_at, nic.waiting.front().at);
}

// One packet of the next ready queue pair, round robin, at the first moment from port.free_at to `limit`; false: none.
inline bool Simulation::send_next(Port& port, Time limit) {
  Nic& nic = nics_[port.nic];
  release_turns(nic, port.free_at);
  for (;;) {
    const int cls = pick_ready(nic, port.paused);
    if (cls < 0) {
      if (nic.waiting.empty() || nic.waiting.front().at > limit) return false;
      port.free_at = std::max(port.free_at, nic.waiting.front().at);
      release_turns(nic, port.free_at);
      continue;
    }
    Ready& ready = ready_[nic.first_class + cls];
    const int queue_pair = ready.set.next(ready.last);
    ready.set.remove(queue_pair);
    const int32_t id = flow_of_[nic.first_flow + queue_pair];
    Flow& flow = flows_[id];
    flow.place = Place::NOWHERE;
    if (!may_send(flow)) continue;
    ready.last = queue_pair;
    nic.last_class = cls;
    send_packet(port, id);
    if (!ready.set.empty()) prefetch(&flows_[flow_of_[nic.first_flow + ready.set.next(queue_pair)]], 2);
    return true;
  }
}

// ---- sending ----------------------------------------------------------------------------------------------------

inline void Simulation::send_packet(Port& port, int32_t id) {
  Flow& flow = flows_[id];
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
  packet.at = flow.data_first + flow.path * flow.sender.hops;
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

  const Control& control = controls_[flow.control];
  if (control.algorithm == Algorithm::DCQCN)
    control.dcqcn.advance(flow.sender, flow.control_state.dcqcn, at);
  else if (control.algorithm == Algorithm::HYBRID)
    flow.control_state.hybrid.sent += payload;
  update_gap(flow);
  flow.turn = at + flow.gap;
  if (in_.flowlet_gap) flow.last_sent = at;
  if (control.algorithm == Algorithm::DCQCN)
    control.dcqcn.on_sent(flow.sender, flow.control_state.dcqcn, payload);
  if (in_.timeout && !flow.timer_set) set_timer(id);
  enlist(id);
}

// The rate limiter: a full packet holds its flow for as long as it would take at the flow's own rate.
inline void Simulation::update_gap(Flow& flow) {
  if (flow.gap_rate == flow.sender.rate) return;
  flow.gap_rate = flow.sender.rate;
  flow.gap = static_cast<Time>(static_cast<double>(in_.mtu + in_.header_bytes) * 8e12 / flow.sender.rate);
  flow.gap -= flow.gap % in_.tick;
}

// Spray: another path for each packet. Flowlets: another one after a pause of the flow. Paths with a dead link are left out.
inline void Simulation::choose_path(Flow& flow, int32_t id) {
  const int32_t count = in_.data_count[id];
  const bool fresh = flow.next + flow.retransmissions <= 1;
  if (in_.spray)
    flow.path = (flow.path + 1) % count;
  else if (in_.flowlet_gap && (fresh || ports_[nics_[flow.nic].port].free_at - flow.last_sent > in_.flowlet_gap))
    flow.path = ports_[nics_[flow.nic].port].random.below(count);
  for (int32_t tries = 0; tries < count; ++tries) {
    const int32_t* link = in_.path_link + in_.data_first[id] + flow.path * flow.sender.hops;
    if (std::none_of(link, link + in_.data_length[id], [&](int32_t l) { return ports_[l].down; })) return;
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
  if (packet.bits & MARKED && cnp_interval && !r.cnp_due) {
    if (now_ >= r.cnp_after) {
      send_cnp(id);
    } else {
      r.cnp_due = true;
      appoint(r.cnp_after, Act::CNP_DUE, id);
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
inline void Simulation::send_cnp(int32_t id) {
  receivers_[id].cnp_due = false;
  receivers_[id].cnp_after = now_ + controls_[receivers_[id].control].cnp_interval;
  Packet marked{};
  marked.flow = id;
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
  if (flow.over) {
    discard(packet);
    return;
  }
  touch(port);
  if (packet.kind == CNP) {
    ++cnps_;
    controls_[flow.control].dcqcn.on_cnp(flow.sender, flow.control_state.dcqcn, now_);
    return;  // an idle port has not changed: the rate acts on the packet after the next
  }
  acknowledge(id, packet);
  enlist(id);
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
  control_ack(flow, packet, newly);
  if (flow.una == flow.packets) finish(id);
}

inline void Simulation::control_ack(Flow& flow, const Packet& packet, int32_t newly) {
  const Control& control = controls_[flow.control];
  if (control.algorithm == Algorithm::DCQCN) {
    if (packet.bits & MARKED && !control.cnp_interval) {
      ++cnps_;
      control.dcqcn.on_cnp(flow.sender, flow.control_state.dcqcn, now_);
    }
  } else if (control.algorithm != Algorithm::FIXED) {
    Acknowledgement ack;
    ack.now = now_;
    ack.telemetry = telemeters_ ? &telemetry_[packet.stamp] : nullptr;
    const uint32_t sent = telemeters_ ? ack.telemetry->stamp : packet.stamp;
    ack.rtt = static_cast<Time>(static_cast<uint32_t>(now_ >> 10) - sent) << 10;
    ack.marked = packet.bits & MARKED;
    ack.packets = newly;
    ack.upto = static_cast<int64_t>(packet.seq) * in_.mtu;
    ack.next = static_cast<int64_t>(flow.next) * in_.mtu;
    cnps_ += ack.marked && control.algorithm == Algorithm::HYBRID;
    const Time late = flow.turn;
    if (control.algorithm == Algorithm::SWIFT) control.swift.on_ack(flow.sender, flow.control_state.swift, ack);
    if (control.algorithm == Algorithm::HPCC) control.hpcc.on_ack(flow.sender, hpcc_[flow.hpcc], ack);
    if (control.algorithm == Algorithm::HYBRID) control.hybrid.on_ack(flow.sender, flow.control_state.hybrid, ack);
    // A new rate holds from the last packet on (rdma-hw.cc, ChangeRate).
    if (flow.place != Place::READY && flow.sender.rate != flow.gap_rate) {
      const Time gap = flow.gap;
      update_gap(flow);
      flow.turn = std::max(late + flow.gap - gap, now_);
      if (flow.place == Place::WAITING && flow.turn != late) flow.place = Place::NOWHERE;  // its old entry is stale
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
  flows_[id].over = true;
  finish_[id] = now_;
  --unfinished_;
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
    flow.over = flow.failed = true;
    ++failed_;
    --unfinished_;
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
  Control& control = controls_[flow.control];
  if (control.algorithm == Algorithm::SWIFT) control.swift.on_timeout(flow.sender, flow.control_state.swift, now_);
  enlist(id);
  if (!flow.timer_set) set_timer(id);
  settle(port);
}

inline double Simulation::rate_now(Flow& flow) {
  const Control& control = controls_[flow.control];
  if (control.algorithm == Algorithm::DCQCN) control.dcqcn.advance(flow.sender, flow.control_state.dcqcn, now_);
  return flow.started && !flow.over ? flow.sender.rate : 0;
}

}  // namespace fabric
