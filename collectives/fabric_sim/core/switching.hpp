// Ports, wires, and switches: shared buffer, PFC, ECN.
#pragma once

#include "fabric.hpp"

namespace fabric {

// ---- ports ------------------------------------------------------------------------------------------------------

inline Time Simulation::duration(const Port& port, int64_t bytes) const {
  const Time ps = port.ps_per_byte ? bytes * port.ps_per_byte : bytes * 8'000'000'000'000 / port.rate;
  return in_.tick == 1 ? ps : ps - ps % in_.tick;
}

inline bool Simulation::has_work(const Port& port) {
  return port.waiting_bytes > 0 || !port.high.empty() || port.nic >= 0;
}

// Makes all decisions that lie before now; what changes next takes effect now.
inline void Simulation::touch(Port& port) {
  if (port.free_at >= now_) return;
  if (has_work(port)) drain(port, now_ - 1);
  if (port.free_at < now_) port.free_at = now_;
}

// After a change: an idle transmitter starts at once.
inline void Simulation::settle(Port& port) {
  if (port.free_at <= now_) drain(port, now_);
  if (port.wire.count() <= 1 || switches_[port.from].pausing) rekey(port);
}

inline void Simulation::rekey(Port& port) {
  Time key = port.wire.empty() ? NEVER : port.wire.front().at;
  if (port.wire.empty() || switches_[port.from].pausing) {
    Time decision = NEVER;
    if ((!port.high.empty() && !(port.paused >> port.high.front().cls() & 1)) ||
        (port.nic < 0 && pick_class(port) >= 0))
      decision = port.free_at;
    else if (port.nic >= 0)
      decision = next_turn(port);
    key = std::min(key, decision);
  }
  clock_.set(port.id, key);
}

// All decisions of a port up to `limit`: strict priority, then round robin over classes that are not paused.
inline void Simulation::drain(Port& port, Time limit) {
  while (port.free_at <= limit) {
    if (!port.high.empty() && !(port.paused >> port.high.front().cls() & 1)) {
      transmit(port, port.high.pop());
    } else if (port.nic >= 0) {
      if (!send_next(port, limit)) return;
    } else {
      const int cls = pick_class(port);
      if (cls < 0) return;
      Packet packet = queue(port, cls).ring.pop();
      port.last_class = cls;
      leave_queue(port, packet);
      transmit(port, packet);
      release(switches_[port.from], in_.path_link[packet.at - 1], cls, packet.bytes);
    }
  }
}

inline int Simulation::pick_class(const Port& port) const {
  if (port.waiting_bytes == 0) return -1;
  for (int i = 1; i <= classes_; ++i) {
    const int cls = classes_ == 1 ? 0 : (port.last_class + i) % classes_;
    if (!(port.paused >> cls & 1) && !queues_[static_cast<size_t>(port.id) * classes_ + cls].ring.empty())
      return cls;
  }
  return -1;
}

inline void Simulation::transmit(Port& port, const Packet& packet) {
  port.free_at += duration(port, packet.bytes);
  port.sent_bytes += packet.bytes;
  if (packet.kind == DATA) {
    port.sent_data += packet.bytes;
    data_hops_ += port.nic < 0;
  } else {
    control_hops_ += port.nic < 0;
  }
  if (port.down) {
    drop_sent(packet);
  } else {
    port.wire.push({port.free_at + port.delay, packet}, memory_);
  }
}

inline void Simulation::discard(const Packet& packet) {
  if (telemeters_ && (packet.kind == DATA || packet.kind == ACK || packet.kind == NACK))
    free_telemetry_.push_back(packet.stamp);
}

inline void Simulation::push_high(Port& port, const Packet& packet) {
  touch(port);
  port.high.push(packet, memory_);
  settle(port);
}

// ---- switches ---------------------------------------------------------------------------------------------------

// A packet that has arrived over `in` goes to the queue of its next link.
inline void Simulation::forward(Port& in, Packet packet) {
  Port& out = ports_[in_.path_link[++packet.at]];
  const int cls = packet.cls();
  if (cls == HIGH) {
    push_high(out, packet);
    return;
  }
  if (out.down || !admit(switches_[in.to], in, cls, packet.bytes)) {
    ++link_drops_[in.id];
    discard(packet);
    return;
  }
  touch(out);
  ClassQueue& waiting = queue(out, cls);
  waiting.ring.push(packet, memory_);
  waiting.bytes += packet.bytes;
  out.waiting_bytes += packet.bytes;
  if (out.waiting_bytes > out.peak) out.peak = out.waiting_bytes;
  settle(out);
}

// Bytes of the shared pool that one ingress may use: alpha times what is free, or a set number.
inline int64_t Simulation::threshold(const Switch& node, const Ingress& g) {
  if (g.static_xoff >= 0) return g.static_xoff;
  return static_cast<int64_t>(g.alpha * static_cast<double>(std::max<int64_t>(0, node.shared - node.used)));
}

// Finds room for a packet: reserve, then shared pool, then headroom; pauses the sender where it is time (as the MMU of
// the HPCC simulator: switch-mmu.cc, CheckIngressAdmission, UpdateIngressAdmission, CheckShouldPause).
inline bool Simulation::admit(Switch& node, Port& in, int cls, int64_t bytes) {
  Ingress& g = ingress(in.id, cls);
  const int64_t before = std::max<int64_t>(0, g.bytes - node.reserve);
  const int64_t after = std::max<int64_t>(0, g.bytes + bytes - node.reserve);
  node.used += after - before;
  // `used` may still hold what has left since: the threshold is then too low, never too high.
  if (g.headroom == 0 && after < threshold(node, g)) {
    g.bytes += bytes;
    return true;
  }
  node.used -= after - before;
  if (!node.pausing) sync(node);
  const bool lossless = node.lossless >> cls & 1;
  const int64_t headroom = lossless ? in_.headroom[in.id] : 0;
  const int64_t used = std::max<int64_t>(0, g.bytes - node.reserve);
  const int64_t room = threshold(node, g);
  if (bytes + g.headroom > headroom && bytes + used > room && g.bytes + bytes > node.reserve) return false;
  const int64_t would = std::max<int64_t>(0, g.bytes + bytes - node.reserve);
  if (would > room) {
    g.headroom += bytes;
  } else {
    g.bytes += bytes;
    node.used += would - used;
  }
  if (lossless && !g.paused &&
      (g.headroom > 0 || std::max<int64_t>(0, g.bytes - node.reserve) >= threshold(node, g)))
    send_pfc(in.id, cls, true);
  return true;
}

inline void Simulation::release(Switch& node, int32_t in, int cls, int64_t bytes) {
  Ingress& g = ingress(in, cls);
  const int64_t from_headroom = std::min(g.headroom, bytes);
  const int64_t rest = bytes - from_headroom;
  g.headroom -= from_headroom;
  node.used -= std::min(rest, std::max<int64_t>(0, g.bytes - node.reserve));
  g.bytes -= rest;
  if (!g.paused || g.headroom > 0) return;
  const int64_t used = std::max<int64_t>(0, g.bytes - node.reserve);
  if (used == 0 || used + node.xon_offset <= threshold(node, g)) send_pfc(in, cls, false);
}

// A packet leaves its queue at port.free_at. ECN looks at what stays behind (switch-mmu.cc, ShouldSendCN).
inline void Simulation::leave_queue(Port& port, Packet& packet) {
  ClassQueue& waiting = queue(port, packet.cls());
  waiting.bytes -= packet.bytes;
  port.waiting_bytes -= packet.bytes;
  if (port.marks) {
    const double queued = static_cast<double>(waiting.bytes), range = port.kmax - port.kmin;
    if (queued > port.kmax || (queued > port.kmin && port.random.unit() * range < port.pmax * (queued - port.kmin))) {
      if (packet.kind == DATA) packet.bits |= MARKED;  // an ACK's bit is the echo; its own mark tells nobody anything
      ++link_marks_[port.id];
    }
  }
  if (telemeters_) {
    Telemetry& t = telemetry_[packet.stamp];
    if (t.hops < MAX_HOPS)
      t.hop[t.hops++] = {port.free_at, port.sent_bytes, port.waiting_bytes, static_cast<double>(port.rate)};
  }
}

// ---- PFC --------------------------------------------------------------------------------------------------------

inline void Simulation::sync(Switch& node) {
  for (const int32_t out : node.out) {
    Port& port = ports_[out];
    if (port.free_at < now_ && port.waiting_bytes) {
      drain(port, now_ - 1);
      rekey(port);
    }
  }
}

// Tells the sender of link `in` to stop or go on. The frame waits for what the port is sending and for earlier frames: were
// it to overtake them, the sender would be left with the older word.
inline void Simulation::send_pfc(int32_t in, int cls, bool xoff) {
  Switch& node = switches_[ports_[in].to];
  ingress(in, cls).paused = xoff;
  node.pausing += xoff ? 1 : -1;
  if (xoff && node.pausing == 1)
    for (const int32_t out : node.out) rekey(ports_[out]);
  Packet frame{};
  frame.flow = -1;
  frame.seq = cls;
  frame.bytes = static_cast<uint16_t>(in_.pfc_bytes);
  frame.kind = PFC;
  frame.bits = static_cast<uint8_t>(HIGH << 4 | (xoff ? XOFF : 0));
  Port& port = ports_[ports_[in].reverse];
  touch(port);
  uint32_t frames = 0;
  while (frames < port.high.count() && port.high[frames].kind == PFC) ++frames;
  port.high.insert(frames, frame, memory_);
  settle(port);
}

inline void Simulation::hear_pfc(Port& in, const Packet& packet) {
  Port& port = ports_[in.reverse];
  const uint32_t bit = 1u << packet.seq;
  const size_t record = static_cast<size_t>(port.id) * classes_ + packet.seq;
  touch(port);
  if (packet.bits & XOFF) {
    ++pauses_[record];
    if (!(port.paused & bit)) paused_since_[record] = now_;
    port.paused |= bit;
  } else {
    if (port.paused & bit) paused_ps_[record] += now_ - paused_since_[record];
    port.paused &= ~bit;
  }
  settle(port);
}

// ---- links ------------------------------------------------------------------------------------------------------

// A link that goes down loses what is on its wire and, at a switch, what waits for it; pauses are forgotten.
inline void Simulation::change_link(int32_t link, bool up) {
  Port& port = ports_[link];
  if (port.down == !up) return;
  touch(port);
  port.down = !up;
  if (!up) {
    while (!port.wire.empty()) drop_sent(port.wire.pop().packet);
    while (!port.high.empty()) drop_sent(port.high.pop());
    for (int cls = 0; cls < classes_; ++cls) {
      ClassQueue& waiting = queue(port, cls);
      while (!waiting.ring.empty()) {
        const Packet packet = waiting.ring.pop();
        waiting.bytes -= packet.bytes;
        port.waiting_bytes -= packet.bytes;
        drop_sent(packet);
        release(switches_[port.from], in_.path_link[packet.at - 1], cls, packet.bytes);
      }
      const size_t record = static_cast<size_t>(link) * classes_ + cls;
      if (port.paused >> cls & 1) paused_ps_[record] += now_ - paused_since_[record];
      if (port.to_switch && ingress(link, cls).paused) {
        ingress(link, cls).paused = false;
        --switches_[port.to].pausing;
      }
    }
    port.paused = 0;
  }
  settle(port);
  rekey(port);
}

inline void Simulation::drop_sent(const Packet& packet) {
  ++losses_;
  discard(packet);
}

}  // namespace fabric
