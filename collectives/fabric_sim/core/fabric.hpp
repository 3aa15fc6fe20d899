// What a simulation consists of: ports with their wires, switches with their buffers, NICs with their queue pairs, flows.
//
// One event a hop: a link's only event is the arrival of the first packet on its wire. What its port decides in the
// meantime (which packet leaves next, at the moment when the transmitter becomes free) is worked out when somebody looks:
// at the link's own event, or before anything about the port changes (`touch`). Decisions so late are exact, because
// whatever could have influenced them looks first. Two things need them in time, and get it: a switch that has paused a
// neighbour must resume it at the right moment, so that its ports wake at each decision (`eager`); and a threshold of the
// shared buffer is compared only after all ports of the switch have been brought up to date (`sync`).
#pragma once

#include <cstdint>
#include <vector>

#include "clock.hpp"
#include "control.hpp"
#include "packet.hpp"

namespace fabric {

// What the caller hands over; arrays stay his. Times in ps, rates in bit/s.
struct Input {
  int64_t links, nodes, classes, flows, path_links, controls, changes, watched_links, watched_flows;
  // Of a simulation
  int64_t seed, mtu, header_bytes, ack_bytes, cnp_bytes, pfc_bytes, ack_every, acks_with_data, tick, sample_period, until;
  int64_t selective_repeat, reorder, nack_interval, timeout, retry_count, first_timeout, same_timeouts;
  int64_t spray, flowlet_gap, memory_bytes, window_follows_rate;
  // Of each directed link: its sending port's rate and marking, the far end's ingress buffer
  const int32_t *from, *to, *reverse;
  const int64_t *rate, *delay;
  const double* loss;
  const double *kmin, *kmax, *pmax;
  const int64_t *headroom, *static_xoff;
  const double* alpha;
  // Of each node; 0 shared bytes for a host
  const int8_t* is_switch;
  const int64_t *shared, *reserve, *xon_offset, *lossless;
  // Of each flow; its paths are `data_count` runs of `data_length` links in path_link, one after another; `pair` is the
  // first flow of its queue pair, often itself. One of 0 bytes has no paths.
  const int32_t *cls, *control, *pair;
  const int64_t *bytes, *start, *gap, *base_rtt, *window;
  const int32_t *data_first, *data_count, *data_length, *ack_first;
  const int32_t* path_link;
  const int32_t *after_start, *after;  // flows that must be delivered before: after[after_start[f] .. after_start[f + 1]]
  // Of each control
  const int32_t* algorithm;
  const double* parameter;
  // Links that go down or up
  const int64_t* change_at;
  const int32_t *change_link, *change_up;
  const int32_t *watch_link, *watch_flow;
};

// What comes back: the caller's arrays, filled.
struct Output {
  int64_t now, unfinished, failed, data_hops, control_hops, events, marks, cnps, pauses, paused_ps, retransmissions,
      timeouts, nacks, drops, losses, samples, deadlock_edges;
  int64_t *finish, *delivered;             // of each flow, -1: not
  int64_t* flow_retransmissions;
  int64_t *link_bytes, *link_data_bytes, *link_peak, *link_marks, *link_drops;
  int64_t *link_pauses, *link_paused;      // of each link and class: XOFF frames received, ps paused
  int8_t* link_is_paused;                  // of each link and class, at the end
};

enum class Status : int32_t { RUNNING, DONE, STUCK, TIME_OVER, OUT_OF_MEMORY };

struct Port {  // the sending end of a directed link, and its wire
  Ring<Flight> wire;
  Ring<Packet> high;      // ACKs, CNPs and PFC frames: strictly first
  Time free_at = 0;       // when the transmitter has sent what it has
  Time delay = 0;
  int64_t ps_per_byte = 0;  // 0: not a whole number
  int64_t rate = 0;
  int64_t waiting_bytes = 0;  // of data classes
  int32_t id = 0, from = 0, to = 0, reverse = 0;
  int32_t nic = -1;       // of a host's port
  uint32_t paused = 0;    // classes, by the far end
  int32_t last_class = 0;
  bool down = false, marks = false, to_switch = false, lossy = false;
  int64_t sent_bytes = 0, sent_data = 0, peak = 0;
  double kmin = 0, kmax = 0, pmax = -1;
  Random random{0};  // a stream of its own: who looks at which port when changes nothing
};

struct ClassQueue {  // packets of a data class that wait at a switch's port
  Ring<Packet> ring;
  int64_t bytes = 0;
};

struct Ingress {  // of a link and class, at the switch behind the link
  int64_t bytes = 0;     // in the reserve and the shared pool
  int64_t headroom = 0;
  double alpha = 0;
  int64_t static_xoff = -1;
  bool paused = false;   // we have paused the sender
};

struct Switch {
  int64_t shared = 0, used = 0, reserve = 0, xon_offset = 0;
  uint32_t lossless = 0;
  int32_t pausing = 0;  // ingresses that are paused: above 0 the ports are eager
  bool exists = false;
  std::vector<int32_t> out;
};

// Numbers in a set, and the next one after another in a circle, in a few steps whatever the size: a tree of words, each
// bit of which says whether the word below has any.
class CircularSet {
 public:
  void resize(int size) {
    int words = 0;
    depth_ = 0;
    for (int n = (size + 63) / 64;; n = (n + 63) / 64) {
      first_[depth_++] = words;
      words += std::max(n, 1);
      if (n <= 1) break;
    }
    first_[depth_] = words;
    words_.assign(static_cast<size_t>(words), 0);
  }
  bool empty() const { return words_.back() == 0; }
  void add(int i) {
    for (int level = 0; level < depth_; ++level, i >>= 6) words_[first_[level] + (i >> 6)] |= 1ull << (i & 63);
  }
  void remove(int i) {
    for (int level = 0; level < depth_; ++level, i >>= 6)
      if ((words_[first_[level] + (i >> 6)] &= ~(1ull << (i & 63))) != 0) return;
  }
  int next(int after) const {  // of a set that is not empty
    const int found = from(after + 1);
    return found >= 0 ? found : from(0);
  }

 private:
  int from(int i) const {
    for (int level = 0; level < depth_; ++level) {
      const int word = i >> 6;
      if (first_[level] + word >= first_[level + 1]) return -1;
      const uint64_t rest = words_[first_[level] + word] & (~0ull << (i & 63));
      if (rest) {
        i = word * 64 + __builtin_ctzll(rest);
        while (level > 0) {
          --level;
          i = i * 64 + __builtin_ctzll(words_[first_[level] + i]);
        }
        return i;
      }
      i = word + 1;
    }
    return -1;
  }
  std::vector<uint64_t> words_;
  int first_[8] = {};
  int depth_ = 0;
};

struct Turn {  // when a queue pair may send again
  Time at;
  int32_t flow;
  bool operator<(const Turn& other) const { return at != other.at ? at > other.at : flow > other.flow; }  // heap of the least
};

struct Nic {
  int32_t port = 0, queue_pairs = 0;
  int32_t last_class = 0;
  int32_t first_flow = 0;             // its queue pairs, by their first flows: flow_of_[first_flow + queue pair]
  int32_t first_class = 0;            // its sets of ready queue pairs: ready_[first_class + class]
  std::vector<Turn> waiting;          // heap; an entry is stale when it is not its flow's `turn`
};

struct Ready {
  CircularSet set;
  int32_t last = -1;  // queue pair that sent last
};

// WAKING: waits, but its rate may rise before its turn, which is then worked out anew.
enum class Place : int8_t { NOWHERE, WAITING, WAKING, READY };

// A message, and what belongs to its queue pair where it is the first of that. Messages of a queue pair go in the order of
// their starts; each is acknowledged, and sent again, for itself.
struct alignas(64) Flow {
  // Each packet and each acknowledgement looks at the first two cache lines; (p): of the queue pair.
  int32_t next = 0, una = 0, packets = 0, sent_upto = 0;
  int32_t nic = 0, queue_pair = 0;
  int16_t control = 0;
  int8_t cls = 0;
  Place place = Place::NOWHERE;   // (p)
  bool started = false, over = false, timer_set = false;
  bool shared = false;            // (p) of several messages
  Time turn = 0;                  // (p) when the rate limiter lets it send
  Time gap = 0;                   // (p) between two full packets
  double gap_rate = 0;            // (p) rate of `gap`
  Time progress = 0;              // last acknowledgement that advanced, or when the first unacknowledged packet left
  Sender sender{};                // (p)
  int32_t pair = 0;
  int32_t data_at = 0;            // first link of its path
  ControlState control_state;     // (p)
  Time last_sent = 0;
  int32_t path = 0, last_payload = 0;
  int32_t open = -1, current = -1, last = -1;  // (p) shared: first message not over, first that may have more to send, last
  int32_t following = -1;         // next message of the queue pair
  int64_t packets_so_far = 0;     // (p) shared: of all messages that have started
  int64_t packets_before = 0;     // of its queue pair's earlier messages
  int32_t retransmit_next = 0, retransmit_end = 0;  // selective repeat: what is being sent again
  int32_t acked_upto = 0;         // selective repeat: behind the last packet that has arrived
  int32_t retries = 0, same = 0, waits_for = 0;
  int32_t hpcc = -1;              // (p)
  Time timeout = 0;
  int64_t retransmissions = 0;
};

struct Receiver {
  int32_t expected = 0, packets = 0, control = 0, ack_first = 0, port = 0, pair = 0;
  Time cnp_after = 0, nack_after = 0;  // the first (p)
  int32_t last_nack = -1;
  bool cnp_due = false;  // (p) a packet was marked since the last CNP, which is not long enough ago
};

class Simulation {
 public:
  explicit Simulation(const Input& input);
  Status run(int64_t events);
  void report(Output& output);
  const std::vector<double>& sampled() const { return sampled_; }
  const std::vector<int32_t>& deadlock_edges() const { return deadlock_edges_; }
  void out_of_memory() { status_ = Status::OUT_OF_MEMORY; }

 private:
  // Ports and switches (switching.hpp)
  static bool has_work(const Port& port);
  void touch(Port& port);
  void settle(Port& port);
  void rekey(Port& port);
  void drain(Port& port, Time limit);
  void transmit(Port& port, const Packet& packet);
  Time duration(const Port& port, int64_t bytes) const;
  int pick_class(const Port& port) const;
  void leave_queue(Port& port, Packet& packet);
  void push_high(Port& port, const Packet& packet);
  void forward(Port& in, Packet packet);
  bool admit(Switch& node, Port& in, int cls, int64_t bytes);
  static int64_t threshold(const Switch& node, const Ingress& ingress);
  void release(Switch& node, int32_t in, int cls, int64_t bytes);
  void sync(Switch& node);
  void send_pfc(int32_t in, int cls, bool xoff);
  void hear_pfc(Port& in, const Packet& packet);
  void change_link(int32_t link, bool up);
  void drop_sent(const Packet& packet);
  void discard(const Packet& packet);
  ClassQueue& queue(const Port& port, int cls) { return queues_[static_cast<size_t>(port.id) * classes_ + cls]; }
  Ingress& ingress(int32_t link, int cls) { return ingresses_[static_cast<size_t>(link) * classes_ + cls]; }

  // Queue pairs (queuepairs.hpp)
  void start(int32_t id);
  bool has_more(const Flow& flow) const;
  bool window_open(const Flow& pair) const;
  int32_t next_message(int32_t pair);
  void append(Flow& pair, int32_t id);
  void close(int32_t id);
  void enlist(int32_t pair);
  void repace(Flow& pair);
  void release_turns(Nic& nic, Time upto);
  bool send_next(Port& port, Time limit);
  int pick_ready(const Nic& nic, uint32_t paused) const;
  Time next_turn(const Port& port) const;
  void update_gap(Flow& pair);

  // NICs (transport.hpp)
  void send_packet(Port& port, int32_t id);
  void choose_path(Flow& flow, int32_t id);
  void receive(Packet packet);
  void receive_data(const Packet& packet);
  void answer(const Packet& packet, Kind kind);
  void send_cnp(int32_t pair);
  void receive_ack(const Packet& packet);
  void acknowledge(int32_t id, const Packet& packet);
  void control_ack(Flow& flow, const Packet& packet, int32_t newly);
  void delivered(int32_t id);
  void finish(int32_t id);
  void set_timer(int32_t id);
  void timer_fires(int32_t id);
  double rate_now(Flow& flow);

  // The run (run.hpp)
  void appoint(Time at, Act act, int32_t subject);
  void arrive(Port& port);
  void expect(const Port& port) const;
  void keep(const Appointment& appointment);
  void sample();
  bool paused_cycle();
  std::vector<int32_t> blockers(const Port& port);

  const Input& in_;
  int classes_;
  Memory memory_;
  Clock clock_;
  Agenda agenda_;
  Time now_ = 0;
  Status status_ = Status::RUNNING;
  std::vector<Port> ports_;
  std::vector<ClassQueue> queues_;
  std::vector<Ingress> ingresses_;
  std::vector<Switch> switches_;  // one a node
  std::vector<Nic> nics_;
  std::vector<Ready> ready_;
  std::vector<int32_t> flow_of_;
  std::vector<Flow> flows_;
  std::vector<Receiver> receivers_;
  std::vector<std::vector<uint64_t>> acked_, arrived_;  // selective repeat: packets of each flow
  std::vector<Control> controls_;
  std::vector<Hpcc::State> hpcc_;
  std::vector<Telemetry> telemetry_;
  std::vector<uint32_t> free_telemetry_;
  std::vector<int32_t> dependents_, dependents_start_;
  std::vector<int64_t> link_marks_, link_drops_, pauses_, paused_ps_;
  std::vector<Time> paused_since_;
  std::vector<int64_t> finish_, delivered_;
  std::vector<double> sampled_;
  std::vector<int32_t> deadlock_edges_;
  bool telemeters_ = false;
  int64_t unfinished_ = 0, failed_ = 0, data_hops_ = 0, control_hops_ = 0, events_ = 0, cnps_ = 0, timeouts_ = 0,
          nacks_ = 0, losses_ = 0, samples_ = 0, arrivals_ = 0, arrivals_seen_ = -1;
};

}  // namespace fabric
