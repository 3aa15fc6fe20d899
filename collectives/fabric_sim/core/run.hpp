// Setting up, the loop over events, samples, and what is found when nothing moves any more.
#pragma once

#include <cstring>

#include "switching.hpp"
#include "transport.hpp"

namespace fabric {

inline Simulation::Simulation(const Input& in)
    : in_(in), classes_(static_cast<int>(in.classes)), memory_{in.memory_bytes}, clock_(static_cast<int>(in.links) + 1) {
  const size_t links = static_cast<size_t>(in.links), flows = static_cast<size_t>(in.flows);
  memory_.take(static_cast<int64_t>(links * (sizeof(Port) + 200) + flows * (sizeof(Flow) + sizeof(Receiver) + 64)));
  ports_.resize(links);
  queues_.resize(links * classes_);
  ingresses_.resize(links * classes_);
  pauses_.resize(links * classes_);
  paused_ps_.resize(links * classes_);
  paused_since_.resize(links * classes_);
  link_marks_.resize(links);
  link_drops_.resize(links);
  switches_.resize(static_cast<size_t>(in.nodes));
  for (size_t i = 0; i < switches_.size(); ++i) {
    switches_[i].shared = in.shared[i];
    switches_[i].reserve = in.reserve[i];
    switches_[i].xon_offset = in.xon_offset[i];
    switches_[i].lossless = static_cast<uint32_t>(in.lossless[i]);
  }
  for (size_t i = 0; i < links; ++i) {
    Port& port = ports_[i];
    port.id = static_cast<int32_t>(i);
    port.from = in.from[i];
    port.to = in.to[i];
    port.reverse = in.reverse[i];
    port.delay = in.delay[i];
    port.rate = in.rate[i];
    port.ps_per_byte = 8'000'000'000'000 % port.rate ? 0 : 8'000'000'000'000 / port.rate;
    port.random = Random(Random(static_cast<uint64_t>(in.seed) << 32 | i).bits());
    port.kmin = in.kmin[i];
    port.kmax = in.kmax[i];
    port.pmax = in.pmax[i];
    port.marks = port.pmax >= 0 && in.is_switch[port.from];
    for (int cls = 0; cls < classes_; ++cls) {
      ingress(port.id, cls).alpha = in.alpha[i];
      ingress(port.id, cls).static_xoff = in.static_xoff[i];
    }
    port.to_switch = in.is_switch[port.to];
    port.lossy = in.loss[i] > 0;
    if (in.is_switch[port.from]) {
      switches_[port.from].out.push_back(port.id);
    } else {
      port.nic = static_cast<int32_t>(nics_.size());
      nics_.emplace_back();
      nics_.back().port = port.id;
    }
  }
  for (int64_t i = 0; i < in.controls; ++i) {
    controls_.emplace_back(in.algorithm[i], in.parameter + i * PARAMETERS);
    telemeters_ |= controls_.back().algorithm == Algorithm::HPCC;
  }

  flows_.resize(flows);
  receivers_.resize(flows);
  finish_.assign(flows, -1);
  delivered_.assign(flows, -1);
  unfinished_ = in.flows;
  dependents_start_.assign(flows + 1, 0);
  for (int32_t i = 0; i < in.after_start[flows]; ++i) ++dependents_start_[in.after[i] + 1];
  for (size_t i = 0; i < flows; ++i) dependents_start_[i + 1] += dependents_start_[i];
  dependents_.resize(static_cast<size_t>(in.after_start[flows]));
  std::vector<int32_t> filled(dependents_start_);
  for (size_t i = 0; i < flows; ++i) {
    const int32_t id = static_cast<int32_t>(i);
    for (int32_t k = in.after_start[i]; k < in.after_start[i + 1]; ++k) dependents_[filled[in.after[k]]++] = id;
    Flow& flow = flows_[i];
    flow.waits_for = in.after_start[i + 1] - in.after_start[i];
    flow.packets = static_cast<int32_t>((in.bytes[i] + in.mtu - 1) / in.mtu);
    flow.last_payload = static_cast<int32_t>(in.bytes[i] - (flow.packets - 1) * in.mtu);
    flow.cls = static_cast<int8_t>(in.cls[i]);
    flow.control = static_cast<int16_t>(in.control[i]);
    if (in.selective_repeat) {
      const size_t words = static_cast<size_t>(flow.packets) / 64 + 1;
      memory_.take(static_cast<int64_t>(16 * words));
      acked_.emplace_back(words, 0);
      arrived_.emplace_back(words, 0);
    }
    if (flow.waits_for == 0) appoint(in.start[i], Act::START, id);
    flow.pair = receivers_[i].pair = in.pair[i];
    if (!flow.packets) continue;
    flow.data_at = in.data_first[i];
    receivers_[i].packets = flow.packets;
    receivers_[i].control = flow.control;
    receivers_[i].ack_first = in.ack_first[i];
    receivers_[i].port = in.path_link[in.ack_first[i]];
    flow.timeout = in.first_timeout;
    const Port& port = ports_[in.path_link[in.data_first[i]]];
    flow.nic = port.nic;
    if (flow.pair != id) {
      flows_[flow.pair].shared = true;
      continue;
    }
    flow.queue_pair = nics_[flow.nic].queue_pairs++;
    const Control& control = controls_[flow.control];
    const double line = static_cast<double>(port.rate);
    flow.sender = {control.fixed_rate > 0 ? std::min(control.fixed_rate, line) : line, line, in.window[i],
                   in.base_rtt[i], in.data_length[i], static_cast<int32_t>(in.mtu)};
    switch (control.algorithm) {
      case Algorithm::DCQCN:
        control.dcqcn.start(flow.sender, flow.control_state.dcqcn);
        break;
      case Algorithm::SWIFT:
        flow.control_state.swift = {};
        control.swift.start(flow.sender, flow.control_state.swift);
        break;
      case Algorithm::HPCC:
        flow.hpcc = static_cast<int32_t>(hpcc_.size());
        memory_.take(sizeof(Hpcc::State));
        hpcc_.emplace_back();
        control.hpcc.start(flow.sender, hpcc_.back());
        break;
      case Algorithm::HYBRID:
        flow.control_state.hybrid = {};
        control.hybrid.start(flow.sender, flow.control_state.hybrid);
        break;
      case Algorithm::FIXED:
        break;
    }
  }
  int32_t first = 0;
  for (Nic& nic : nics_) {
    nic.first_flow = first;
    first += nic.queue_pairs;
    nic.first_class = static_cast<int32_t>(ready_.size());
    for (int cls = 0; cls < classes_; ++cls) {
      ready_.emplace_back();
      ready_.back().set.resize(nic.queue_pairs);
    }
  }
  flow_of_.resize(flows);
  for (size_t i = 0; i < flows; ++i)
    if (flows_[i].packets && flows_[i].pair == static_cast<int32_t>(i))
      flow_of_[nics_[flows_[i].nic].first_flow + flows_[i].queue_pair] = static_cast<int32_t>(i);
  for (int64_t i = 0; i < in.changes; ++i) appoint(in.change_at[i], Act::LINK, static_cast<int32_t>(i));
  if (in.sample_period) appoint(0, Act::SAMPLE, 0);
}

// Handles about `events` events; RUNNING means that there are more.
inline Status Simulation::run(int64_t events) {
  const int agenda_source = static_cast<int>(in_.links);
  for (const int64_t upto = events_ + events; status_ == Status::RUNNING && events_ < upto; ++events_) {
    if (unfinished_ == 0) {
      status_ = Status::DONE;
      break;
    }
    const Time time = clock_.time();
    if (time == NEVER) {
      status_ = agenda_.time() == NEVER ? Status::STUCK : Status::TIME_OVER;  // or later than the clock goes
      break;
    }
    if (time > in_.until) {
      now_ = in_.until;
      status_ = Status::TIME_OVER;
      break;
    }
    now_ = std::max(now_, time);
    if (clock_.source() != agenda_source) {
      arrive(ports_[clock_.source()]);
    } else {
      const Appointment due = agenda_.take();
      clock_.set(agenda_source, agenda_.time());
      keep(due);
    }
  }
  return status_;
}

// The event of a link: the first packet on its wire is at the far end, or its port has something to decide.
inline void Simulation::arrive(Port& port) {
  if (port.wire.empty() || port.wire.front().at > now_) {
    drain(port, now_);
    rekey(port);
    return;
  }
  const Packet packet = port.wire.pop().packet;
  if (port.free_at <= now_ && has_work(port)) drain(port, now_);
  rekey(port);
  expect(port);
  if (port.lossy && packet.kind != PFC && port.random.unit() < in_.loss[port.id])
    drop_sent(packet);
  else if (packet.kind == PFC)
    hear_pfc(port, packet);
  else if (port.to_switch)
    forward(port, packet);
  else
    receive(packet);
}

// Fetches what the next arrival on a link will look at: other links' events come first, so that it is there in time.
inline void Simulation::expect(const Port& port) const {
  if (port.wire.empty()) return;
  const Packet& next = port.wire.front().packet;
  if (next.kind == PFC) return;
  if (port.to_switch)
    prefetch(&in_.path_link[next.at + 1], 1);
  else if (next.kind == DATA)
    prefetch(&receivers_[next.flow], 1);
  else
    prefetch(&flows_[next.flow], 1);
}

inline void Simulation::appoint(Time at, Act act, int32_t subject) {
  agenda_.add(at, act, subject);
  clock_.set(static_cast<int>(in_.links), agenda_.time());
}

inline void Simulation::keep(const Appointment& appointment) {
  switch (appointment.act) {
    case Act::START:
      start(appointment.subject);
      break;
    case Act::TIMEOUT:
      timer_fires(appointment.subject);
      // Nothing has arrived since the last time-out: either all is lost, or ports wait for each other.
      if (arrivals_ == arrivals_seen_ && paused_cycle()) status_ = Status::STUCK;
      arrivals_seen_ = arrivals_;
      break;
    case Act::CNP_DUE:
      if (!flows_[appointment.subject].over || flows_[appointment.subject].shared) send_cnp(appointment.subject);
      break;
    case Act::LINK:
      change_link(in_.change_link[appointment.subject], in_.change_up[appointment.subject]);
      break;
    case Act::SAMPLE:
      sample();
      break;
  }
}

// A row: time, bytes that wait at each watched link, rate of each watched flow.
inline void Simulation::sample() {
  memory_.take(static_cast<int64_t>(sizeof(double)) * (1 + in_.watched_links + in_.watched_flows));
  sampled_.push_back(static_cast<double>(now_));
  for (int64_t i = 0; i < in_.watched_links; ++i) {
    Port& port = ports_[in_.watch_link[i]];
    touch(port);
    settle(port);
    sampled_.push_back(static_cast<double>(port.waiting_bytes));
  }
  for (int64_t i = 0; i < in_.watched_flows; ++i) {
    Flow& flow = flows_[in_.watch_flow[i]];
    Port& port = ports_[nics_[flow.nic].port];
    touch(port);
    settle(port);
    sampled_.push_back(rate_now(flow));
  }
  ++samples_;
  // The last one is taken when nothing else is to come.
  if (!agenda_.empty() || clock_.time() != NEVER) appoint(now_ + in_.sample_period, Act::SAMPLE, 0);
}

// ---- when nothing moves -----------------------------------------------------------------------------------------

// Ports of the switch behind a paused port that are paused themselves and hold what came from it.
inline std::vector<int32_t> Simulation::blockers(const Port& port) {
  std::vector<int32_t> found;
  for (const int32_t out : switches_[port.to].out) {
    const Port& next = ports_[out];
    for (int cls = 0; cls < classes_; ++cls) {
      if (!(port.paused >> cls & 1) || !(next.paused >> cls & 1)) continue;
      const Ring<Packet>& ring = queue(next, cls).ring;
      for (uint32_t i = 0; i < ring.count(); ++i)
        if (in_.path_link[ring[i].at - 1] == port.id) {
          found.push_back(out);
          break;
        }
    }
  }
  return found;
}

// Whether paused ports wait for each other in a circle; keeps who waits for whom, in pairs.
inline bool Simulation::paused_cycle() {
  deadlock_edges_.clear();
  std::vector<int32_t> waits(ports_.size(), 0), free;
  std::vector<std::vector<int32_t>> waited_by(ports_.size());
  int64_t left = 0;
  for (const Port& port : ports_) {
    if (!port.paused || !port.to_switch) continue;
    ++left;
    for (const int32_t next : blockers(port)) {
      deadlock_edges_.push_back(port.id);
      deadlock_edges_.push_back(next);
      ++waits[port.id];
      waited_by[next].push_back(port.id);
    }
    if (!waits[port.id]) free.push_back(port.id);
  }
  while (!free.empty()) {  // ports that wait for none go first; a circle is what remains
    const int32_t port = free.back();
    free.pop_back();
    --left;
    for (const int32_t other : waited_by[port])
      if (--waits[other] == 0) free.push_back(other);
  }
  return left > 0;
}

inline void Simulation::report(Output& out) {
  paused_cycle();
  out.now = now_;
  out.unfinished = unfinished_;
  out.failed = failed_;
  out.data_hops = data_hops_;
  out.control_hops = control_hops_;
  out.events = events_;
  out.cnps = cnps_;
  out.timeouts = timeouts_;
  out.nacks = nacks_;
  out.losses = losses_;
  out.samples = samples_;
  out.deadlock_edges = static_cast<int64_t>(deadlock_edges_.size() / 2);
  out.marks = out.drops = out.pauses = out.paused_ps = out.retransmissions = 0;
  for (size_t i = 0; i < ports_.size(); ++i) {
    const Port& port = ports_[i];
    out.link_bytes[i] = port.sent_bytes;
    out.link_data_bytes[i] = port.sent_data;
    out.link_peak[i] = port.peak;
    out.link_marks[i] = link_marks_[i];
    out.link_drops[i] = link_drops_[i];
    out.marks += link_marks_[i];
    out.drops += link_drops_[i];
    for (int cls = 0; cls < classes_; ++cls) {
      const size_t record = i * static_cast<size_t>(classes_) + static_cast<size_t>(cls);
      const bool is_paused = port.paused >> cls & 1;
      out.link_pauses[record] = pauses_[record];
      out.link_paused[record] = paused_ps_[record] + (is_paused ? now_ - paused_since_[record] : 0);
      out.link_is_paused[record] = is_paused;
      out.pauses += pauses_[record];
      out.paused_ps += out.link_paused[record];
    }
  }
  for (size_t i = 0; i < flows_.size(); ++i) {
    out.finish[i] = finish_[i];
    out.delivered[i] = delivered_[i];
    out.flow_retransmissions[i] = flows_[i].retransmissions;
    out.retransmissions += flows_[i].retransmissions;
  }
}

}  // namespace fabric
