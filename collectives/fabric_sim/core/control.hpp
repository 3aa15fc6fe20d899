// Congestion control: what a sender's rate and window do. One struct of parameters and one of state an algorithm.
// collectives/congestion/parameters.py describes the algorithms; units here are ps, bytes and bit/s.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "clock.hpp"

namespace fabric {

constexpr int MAX_HOPS = 8;
constexpr int PARAMETERS = 20;

// What a switch writes into a packet for HPCC.
struct Hop {
  Time at;
  int64_t sent;   // bytes that the port has sent
  int64_t queue;  // bytes that wait
  double rate;    // of the port, bit/s
};

struct Telemetry {
  int32_t hops;
  uint32_t stamp;  // of the packet, whose own field holds the slot
  Hop hop[MAX_HOPS];
};

// The values of a flow that its algorithm sees and sets.
struct Sender {
  double rate;       // bit/s
  double line_rate;  // of the NIC
  int64_t window;    // bytes in flight at most; 0: none
  Time base_rtt;
  int32_t hops;      // links of its path
  int32_t payload;   // bytes of a full packet
};

struct Acknowledgement {
  Time now;
  Time rtt;
  bool marked;
  int32_t packets;    // newly acknowledged
  int64_t upto, next; // bytes acknowledged, bytes sent
  const Telemetry* telemetry;
};

// Of what does not fit, a number that is as good as endless and to which a time can be added.
inline int64_t whole(double v) { return static_cast<int64_t>(std::min(v, 2e18)); }
inline int32_t small(double v) { return static_cast<int32_t>(std::min(v, 1e9)); }

// x^n by multiplications alone: the same on every machine.
inline double power(double x, int64_t n) {
  double result = 1;
  for (; n > 0; n >>= 1, x *= x)
    if (n & 1) result *= x;
  return result;
}

// ---- DCQCN ------------------------------------------------------------------------------------------------------
// Timers are evaluated when somebody looks: no events.

struct Dcqcn {
  Time alpha_interval, cut_interval, increase_timer;
  double gain, initial_alpha, least, first_rate, additive, hyper, min_rate;
  int64_t byte_counter, stages;
  bool periodic, clamp, clamp_after_increase;

  explicit Dcqcn(const double* v)
      : alpha_interval(whole(v[1])), cut_interval(whole(v[5])), increase_timer(whole(v[10])), gain(v[2]),
        initial_alpha(v[3]), least(v[6]), first_rate(v[7]), additive(v[13]), hyper(v[14]), min_rate(v[15]),
        byte_counter(whole(v[11])), stages(whole(v[12])), periodic(v[4] != 0),
        clamp(v[8] != 0), clamp_after_increase(v[9] != 0) {}

  struct State {
    Time timer = NEVER;        // next increase
    Time cut_at = NEVER;       // pending cut
    double target, alpha;
    Time first_cnp = NEVER;    // NEVER: none yet
    Time alpha_at;             // last tick of alpha's clock
    Time last_cut;
    int64_t bytes_left;
    int32_t timer_stage = 0, byte_stage = 0;
    bool alpha_cnp = false;    // a CNP came since the last tick
  };

  void start(Sender& s, State& q) const {
    q.target = s.line_rate;
    q.alpha = initial_alpha;
    q.bytes_left = byte_counter;
  }

  void decay(State& q, Time to) const {
    int64_t ticks = (to - q.alpha_at) / alpha_interval;
    if (ticks <= 0) return;
    q.alpha_at += ticks * alpha_interval;
    if (q.alpha_cnp) {
      q.alpha = (1 - gain) * q.alpha + gain;
      q.alpha_cnp = false;
      --ticks;
    }
    q.alpha *= power(1 - gain, ticks);
  }

  void cut(Sender& s, State& q, Time at) const {
    decay(q, at);
    if (clamp || (clamp_after_increase && q.timer_stage > 0)) q.target = s.rate;
    s.rate = std::max({s.rate * (1 - q.alpha / 2), s.rate * least, min_rate});
    q.timer_stage = q.byte_stage = 0;
    q.timer = at + increase_timer;
    q.bytes_left = byte_counter;
    q.cut_at = NEVER;
    q.last_cut = at;
  }

  void increase(Sender& s, State& q) const {
    const int64_t by_timer = q.timer_stage, by_bytes = byte_counter ? q.byte_stage : q.timer_stage;
    if (by_timer > stages && by_bytes > stages)
      q.target += hyper;
    else if (by_timer >= stages || by_bytes >= stages)
      q.target += additive;
    q.target = std::min(q.target, s.line_rate);
    s.rate = (s.rate + q.target) / 2;
  }

  // Everything up to `now`.
  void advance(Sender& s, State& q, Time now) const {
    for (;;) {
      const Time next = std::min(q.cut_at, q.timer);
      if (next > now) return;
      if (q.cut_at <= q.timer) {
        cut(s, q, q.cut_at);
      } else if (s.rate == s.line_rate && q.target == s.line_rate) {  // nothing to gain: skip a long idle time
        const int64_t runs = (std::min(now, q.cut_at - 1) - q.timer) / increase_timer + 1;
        q.timer_stage = static_cast<int32_t>(std::min<int64_t>(q.timer_stage + runs, 1 << 20));
        q.timer += runs * increase_timer;
      } else {
        increase(s, q);
        ++q.timer_stage;
        q.timer += increase_timer;
      }
    }
  }

  void on_cnp(Sender& s, State& q, Time now) const {
    advance(s, q, now);
    const bool first = q.first_cnp == NEVER;
    if (first) {
      q.first_cnp = q.alpha_at = now;
      q.last_cut = now - cut_interval;
      q.alpha = initial_alpha;
      if (first_rate > 0 && first_rate < s.rate) s.rate = q.target = first_rate;
    }
    if (periodic) {
      if (!first) {
        decay(q, now);
        q.alpha_cnp = true;
      }
      if (q.cut_at == NEVER) q.cut_at = q.first_cnp + ((now - q.first_cnp) / cut_interval + 1) * cut_interval;
    } else {
      decay(q, now);
      if (now - q.last_cut >= cut_interval) cut(s, q, now);
      q.alpha = (1 - gain) * q.alpha + gain;
      q.alpha_at = now;
    }
  }

  void on_sent(Sender& s, State& q, int32_t bytes) const {
    if (!byte_counter || q.timer == NEVER || (q.bytes_left -= bytes) > 0) return;
    increase(s, q);
    ++q.byte_stage;
    q.bytes_left += byte_counter;
  }
};

// ---- Swift ------------------------------------------------------------------------------------------------------

struct Swift {
  Time base_target, per_hop, range;
  double fs_min, fs_max, increase, beta, max_decrease, min_cwnd, max_cwnd;
  int32_t reset_threshold;
  double scale, offset;

  explicit Swift(const double* v)
      : base_target(whole(v[0])), per_hop(whole(v[1])), range(whole(v[2])), fs_min(v[3]), fs_max(v[4]),
        increase(v[5]), beta(v[6]), max_decrease(v[7]), min_cwnd(v[8]), max_cwnd(std::min(v[9], 1e12)),
        reset_threshold(small(v[10])) {
    scale = static_cast<double>(range) / (1 / std::sqrt(fs_min) - 1 / std::sqrt(fs_max));
    offset = -scale / std::sqrt(fs_max);
  }

  struct State {
    double cwnd;
    Time last_decrease, rtt;
    int32_t retransmits = 0;
  };

  void start(Sender& s, State& q) const {
    q.rtt = s.base_rtt;
    q.last_decrease = -s.base_rtt;
    // A flow starts with the bandwidth-delay product, as DCQCN starts at the link's rate.
    q.cwnd = std::clamp(s.line_rate * static_cast<double>(s.base_rtt) / 8e12 / s.payload, 1.0, max_cwnd);
    apply(s, q);
  }

  void apply(Sender& s, State& q) const {
    q.cwnd = std::clamp(q.cwnd, min_cwnd, max_cwnd);
    s.window = q.cwnd < 1 ? 1 : static_cast<int64_t>(q.cwnd) * s.payload;
    s.rate = q.cwnd < 1 ? std::min(s.line_rate, q.cwnd * s.payload * 8e12 / static_cast<double>(q.rtt)) : s.line_rate;
  }

  void on_ack(Sender& s, State& q, const Acknowledgement& ack) const {
    q.rtt = std::max<Time>(ack.rtt, 1);
    q.retransmits = 0;
    const double scaled = scale / std::sqrt(q.cwnd) + offset;
    const double target = static_cast<double>(base_target) + s.hops * static_cast<double>(per_hop) +
                          std::clamp(scaled, 0.0, static_cast<double>(range));
    const double delay = static_cast<double>(ack.rtt);
    if (delay < target) {
      q.cwnd += increase * ack.packets / std::max(1.0, q.cwnd);
    } else if (ack.now - q.last_decrease >= q.rtt) {
      q.cwnd *= std::max(1 - beta * (delay - target) / delay, 1 - max_decrease);
      q.last_decrease = ack.now;
    }
    apply(s, q);
  }

  void on_timeout(Sender& s, State& q, Time now) const {
    if (++q.retransmits >= reset_threshold) {
      q.cwnd = min_cwnd;
    } else if (now - q.last_decrease >= q.rtt) {
      q.cwnd *= 1 - max_decrease;
      q.last_decrease = now;
    }
    apply(s, q);
  }
};

// ---- HPCC -------------------------------------------------------------------------------------------------------

struct Hpcc {
  double eta, additive, min_rate;
  int32_t max_stage;

  explicit Hpcc(const double* v) : eta(v[0]), additive(v[2]), min_rate(v[3]), max_stage(small(v[1])) {}

  struct State {
    double current, utilisation = 1;
    int64_t round_end = -1;  // bytes whose acknowledgement ends this round trip
    int64_t window;          // at the line's rate
    int32_t stage = 0;
    Telemetry last{};
  };

  void start(Sender& s, State& q) const {
    q.current = s.line_rate;
    q.window = s.window;
  }

  void on_ack(Sender& s, State& q, const Acknowledgement& ack) const {
    const Telemetry& seen = *ack.telemetry;
    const bool whole_round = ack.upto > q.round_end;
    if (q.round_end < 0) {
      q.round_end = ack.next;
      q.last = seen;
      return;
    }
    double most = 0;
    Time over = 0;
    for (int i = 0; i < seen.hops && i < q.last.hops; ++i) {
      const Hop &hop = seen.hop[i], &before = q.last.hop[i];
      const Time elapsed = hop.at - before.at;
      if (elapsed <= 0) continue;
      const double sent = static_cast<double>(hop.sent - before.sent) * 8e12 / static_cast<double>(elapsed);
      const double queue = static_cast<double>(std::min(hop.queue, before.queue));
      const double use = sent / hop.rate + queue * s.line_rate / hop.rate / static_cast<double>(q.window);
      if (use > most) {
        most = use;
        over = elapsed;
      }
    }
    q.last = seen;
    const double part = static_cast<double>(std::min(over, s.base_rtt)) / static_cast<double>(s.base_rtt);
    q.utilisation = q.utilisation * (1 - part) + most * part;
    const double excess = q.utilisation / eta;
    const bool multiply = excess >= 1 || q.stage >= max_stage;
    s.rate = std::clamp((multiply ? q.current / excess : q.current) + additive, min_rate, s.line_rate);
    if (whole_round) {
      q.current = s.rate;
      q.stage = multiply ? 0 : q.stage + 1;
      q.round_end = std::max(q.round_end, ack.next);
    }
    s.window = std::max<int64_t>(1, static_cast<int64_t>(static_cast<double>(q.window) * s.rate / s.line_rate));
  }
};

// ---- RTT and ECN ------------------------------------------------------------------------------------------------

struct Hybrid {
  Time target, ecn_interval;
  double gain, max_decrease, ecn_to, additive, fast, min_rate, delivered_part;
  int64_t increase_bytes, fast_after;

  explicit Hybrid(const double* v)
      : target(whole(v[0])), ecn_interval(whole(v[3])), gain(v[1]), max_decrease(v[2]), ecn_to(v[4]),
        additive(v[6]), fast(v[7]), min_rate(v[9]), delivered_part(v[10]), increase_bytes(whole(v[5])),
        fast_after(whole(v[8])) {}

  struct State {
    Time last_ecn = -(NEVER / 4), last_delay = -(NEVER / 4), round_start = 0;
    int64_t sent = 0, calm = 0;
    double delivered = 0;    // bit/s that were acknowledged lately, over a base RTT and 8 packets at least
    Time measured = -1;      // since when `acked` counts
    int64_t acked = 0;
    bool cut = false;  // in this round trip
  };

  void start(const Sender& s, State& q) const { q.delivered = s.line_rate; }

  void measure(const Sender& s, State& q, const Acknowledgement& ack) const {
    q.acked += static_cast<int64_t>(ack.packets) * s.payload;
    const Time elapsed = ack.now - q.measured;
    if (q.measured >= 0 && (elapsed < s.base_rtt || q.acked < 8 * s.payload)) return;
    if (q.measured >= 0) q.delivered = static_cast<double>(q.acked) * 8e12 / static_cast<double>(elapsed);
    q.measured = ack.now;
    q.acked = 0;
  }

  void on_ack(Sender& s, State& q, const Acknowledgement& ack) const {
    measure(s, q, ack);
    const double before = s.rate;
    if (ack.marked && ack.now - q.last_ecn >= ecn_interval) {
      s.rate *= ecn_to;
      q.last_ecn = ack.now;
      q.cut = true;
    }
    const Time queueing = ack.rtt - s.base_rtt;
    if (queueing > target && ack.now - q.last_delay >= ack.rtt) {
      s.rate *= std::max(1 - gain * static_cast<double>(queueing - target) / static_cast<double>(queueing),
                         1 - max_decrease);
      q.last_delay = ack.now;
      q.cut = true;
    }
    s.rate = std::max(s.rate, std::min(before, q.delivered * delivered_part));
    if (ack.now - q.round_start >= ack.rtt && (q.cut || q.sent >= increase_bytes)) {
      q.calm = q.cut ? 0 : q.calm + 1;
      if (!q.cut) s.rate += q.calm > fast_after ? fast : additive;
      q.round_start = ack.now;
      q.sent = 0;
      q.cut = false;
    }
    s.rate = std::clamp(s.rate, min_rate, s.line_rate);
  }
};

// ---- one of them ------------------------------------------------------------------------------------------------

enum class Algorithm : int32_t { FIXED, DCQCN, SWIFT, HPCC, HYBRID };

struct Control {
  Algorithm algorithm;
  Time cnp_interval;  // the receiver sends at most one CNP a flow in this time; 0: a bit in each ACK
  double fixed_rate;  // 0: the link's
  Dcqcn dcqcn;
  Swift swift;
  Hpcc hpcc;
  Hybrid hybrid;

  Control(int32_t kind, const double* v)
      : algorithm(static_cast<Algorithm>(kind)),
        cnp_interval(algorithm == Algorithm::DCQCN ? whole(v[0]) : 0),
        fixed_rate(algorithm == Algorithm::FIXED ? v[0] : 0), dcqcn(of(Algorithm::DCQCN, v)),
        swift(of(Algorithm::SWIFT, v)), hpcc(of(Algorithm::HPCC, v)), hybrid(of(Algorithm::HYBRID, v)) {}

 private:
  const double* of(Algorithm wanted, const double* v) const {
    static const double none[PARAMETERS] = {};
    return algorithm == wanted ? v : none;
  }
};

struct ControlState {
  union {
    Dcqcn::State dcqcn;
    Swift::State swift;
    Hybrid::State hybrid;
  };
  ControlState() : dcqcn() {}
};

}  // namespace fabric
