// Queue pairs and their messages, the rate limiter, and whose turn it is at a NIC.
#pragma once

#include "fabric.hpp"

namespace fabric {

inline void Simulation::start(int32_t id) {
  Flow& flow = flows_[id];
  if (!flow.packets) {
    delivered(id);
    finish(id);
    return;
  }
  flow.started = true;
  Flow& pair = flows_[flow.pair];
  Port& port = ports_[nics_[flow.nic].port];
  touch(port);
  if (pair.place == Place::NOWHERE) pair.turn = std::max(pair.turn, now_);
  flow.progress = now_;
  if (pair.shared) append(pair, id);
  enlist(flow.pair);
  settle(port);
}

inline void Simulation::append(Flow& pair, int32_t id) {
  flows_[id].packets_before = pair.packets_so_far;
  pair.packets_so_far += flows_[id].packets;
  (pair.open < 0 ? pair.open : flows_[pair.last].following) = id;
  pair.last = id;
  if (pair.current < 0) pair.current = id;
}

// A message is over: it has been acknowledged, or it failed.
inline void Simulation::close(int32_t id) {
  flows_[id].over = true;
  --unfinished_;
  Flow& pair = flows_[flows_[id].pair];
  while (pair.open >= 0 && flows_[pair.open].over) {
    const int32_t next = flows_[pair.open].following;
    if (pair.current == pair.open) pair.current = next;
    pair.open = next;
  }
}

inline bool Simulation::has_more(const Flow& flow) const {
  if (!flow.started || flow.over) return false;
  return flow.next < flow.packets || (in_.selective_repeat && flow.retransmit_next < flow.retransmit_end);
}

inline bool Simulation::window_open(const Flow& pair) const {
  int64_t window = pair.sender.window;
  if (!window) return true;
  if (in_.window_follows_rate && controls_[pair.control].algorithm == Algorithm::DCQCN)
    window = std::max<int64_t>(1, static_cast<int64_t>(static_cast<double>(window) * pair.sender.rate / pair.sender.line_rate));
  int64_t packets = 0;
  if (!pair.shared) packets = pair.next - pair.una;
  for (int32_t id = pair.open; id >= 0; id = id == pair.current ? -1 : flows_[id].following)
    if (!flows_[id].over) packets += flows_[id].next - flows_[id].una;
  return packets * in_.mtu < window;
}

// The message that a queue pair goes on with; -1: it may not send.
inline int32_t Simulation::next_message(int32_t id) {
  Flow& pair = flows_[id];
  int32_t message = id;
  if (pair.shared) {
    while (pair.current >= 0 && !has_more(flows_[pair.current])) pair.current = flows_[pair.current].following;
    message = pair.current;
  }
  if (message < 0 || !has_more(flows_[message])) return -1;
  const Flow& flow = flows_[message];
  const bool again = in_.selective_repeat && flow.retransmit_next < flow.retransmit_end;
  return again || window_open(pair) ? message : -1;
}

// Puts a queue pair that may send where its turn will be seen: the set of ready ones, or the heap of those that wait.
inline void Simulation::enlist(int32_t id) {
  Flow& pair = flows_[id];
  if (pair.place != Place::NOWHERE || next_message(id) < 0) return;
  Nic& nic = nics_[pair.nic];
  if (pair.turn <= ports_[nic.port].free_at) {
    pair.place = Place::READY;
    ready_[nic.first_class + pair.cls].set.add(pair.queue_pair);
    return;
  }
  Time at = pair.turn;
  pair.place = Place::WAITING;
  const Control& control = controls_[pair.control];
  // Elsewhere a wait ends before the rate could rise twice, and no turn is moved, as in rdma-hw.cc.
  if (control.algorithm == Algorithm::DCQCN && pair.gap > control.dcqcn.increase_timer) {
    at = std::min({at, pair.control_state.dcqcn.timer, pair.control_state.dcqcn.cut_at});
    pair.place = Place::WAKING;
  }
  nic.waiting.push_back({at, id});
  std::push_heap(nic.waiting.begin(), nic.waiting.end());
}

// The rate limiter: a full packet holds its queue pair for as long as it would take at the queue pair's own rate.
inline void Simulation::update_gap(Flow& pair) {
  if (pair.gap_rate == pair.sender.rate) return;
  pair.gap_rate = pair.sender.rate;
  pair.gap = whole(static_cast<double>(in_.mtu + in_.header_bytes) * 8e12 / pair.sender.rate);
  pair.gap -= pair.gap % in_.tick;
}

// The new rate holds from the last packet on (rdma-hw.cc, ChangeRate).
inline void Simulation::repace(Flow& pair) {
  const Time before = pair.gap;
  update_gap(pair);
  pair.turn += pair.gap - before;
}

inline void Simulation::release_turns(Nic& nic, Time upto) {
  while (!nic.waiting.empty() && nic.waiting.front().at <= upto) {
    const Turn turn = nic.waiting.front();
    std::pop_heap(nic.waiting.begin(), nic.waiting.end());
    nic.waiting.pop_back();
    Flow& pair = flows_[turn.flow];
    if (pair.place == Place::WAKING) {
      controls_[pair.control].dcqcn.advance(pair.sender, pair.control_state.dcqcn, turn.at);
      repace(pair);
      pair.place = Place::NOWHERE;
      enlist(turn.flow);
      continue;
    }
    if (pair.place != Place::WAITING || pair.turn != turn.at) continue;  // stale
    pair.place = Place::READY;
    ready_[nic.first_class + pair.cls].set.add(pair.queue_pair);
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
    const int32_t pair = flow_of_[nic.first_flow + queue_pair];
    flows_[pair].place = Place::NOWHERE;
    const int32_t message = next_message(pair);
    if (message < 0) continue;
    ready.last = queue_pair;
    nic.last_class = cls;
    send_packet(port, message);
    if (!ready.set.empty()) prefetch(&flows_[flow_of_[nic.first_flow + ready.set.next(queue_pair)]], 2);
    return true;
  }
}

}  // namespace fabric
