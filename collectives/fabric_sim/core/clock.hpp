// Time, the order of events, and random numbers.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

namespace fabric {

using Time = int64_t;  // picoseconds
constexpr Time NEVER = std::numeric_limits<Time>::max();

inline void prefetch(const void* at, int lines) {
  for (int i = 0; i < lines; ++i) __builtin_prefetch(static_cast<const char*>(at) + 64 * i);
}

// The earliest of a fixed number of sources of events: a winner tree, so that its size follows links, not packets.
// Time and source share a word, time above: of equal times the lower source wins, and a comparison is one instruction.
class Clock {
 public:
  explicit Clock(int sources) {
    while (leaves_ < sources) leaves_ *= 2, ++bits_;
    tree_.assign(2 * leaves_, NEVER);
  }

  // Times from here on do not fit: 70 s with 100,000 links, 2.5 h with 1,000.
  Time end() const { return NEVER >> bits_; }
  Time time() const { return tree_[1] == NEVER ? NEVER : tree_[1] >> bits_; }
  int source() const { return static_cast<int>(tree_[1] & (leaves_ - 1)); }

  void set(int source, Time time) {
    int64_t first = time >= end() ? NEVER : time << bits_ | source;
    int at = leaves_ + source;
    if (tree_[at] == first) return;
    for (tree_[at] = first; at > 1;) {
      first = std::min(first, tree_[at ^ 1]);
      at >>= 1;
      tree_[at] = first;
    }
  }

 private:
  int leaves_ = 1, bits_ = 0;
  std::vector<int64_t> tree_;
};

// What is to happen at a set time and belongs to no link; of equal times what was added first comes first.
enum class Act : int32_t { START, TIMEOUT, CNP_DUE, LINK, SAMPLE };

struct Appointment {
  Time at;
  int64_t order;
  Act act;
  int32_t subject;
};

class Agenda {
 public:
  void add(Time at, Act act, int32_t subject) {
    heap_.push_back({at, next_order_++, act, subject});
    std::push_heap(heap_.begin(), heap_.end(), later);
  }
  Time time() const { return heap_.empty() ? NEVER : heap_.front().at; }
  bool empty() const { return heap_.empty(); }
  Appointment take() {
    std::pop_heap(heap_.begin(), heap_.end(), later);
    Appointment first = heap_.back();
    heap_.pop_back();
    return first;
  }

 private:
  static bool later(const Appointment& a, const Appointment& b) {
    return a.at != b.at ? a.at > b.at : a.order > b.order;
  }
  int64_t next_order_ = 0;
  std::vector<Appointment> heap_;
};

// splitmix64 (Steele et al., OOPSLA 2014): integers only, so that every machine draws the same.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t bits() {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15ull);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
  }
  double unit() { return static_cast<double>(bits() >> 11) * 0x1p-53; }  // 0 to below 1
  int below(int n) { return static_cast<int>((static_cast<unsigned __int128>(bits()) * n) >> 64); }

 private:
  uint64_t state_;
};

}  // namespace fabric
