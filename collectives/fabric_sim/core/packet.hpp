// Packets and the rings that hold them.
#pragma once

#include <cstdint>
#include <new>
#include <utility>

#include "clock.hpp"

namespace fabric {

enum Kind : uint8_t { DATA, ACK, NACK, CNP, PFC };
constexpr uint8_t MARKED = 1;   // ECN: congestion experienced, or the echo of it in an ACK
constexpr uint8_t XOFF = 2;     // a PFC frame that pauses; without it one that resumes
constexpr int HIGH = 15;        // the strict class above all data classes

struct Packet {
  int32_t flow;
  int32_t seq;     // DATA: index of the packet in its flow; ACK: all below it have arrived; PFC: class
  int32_t at;      // position in the table of paths: the link that it is on
  int32_t got;     // ACK, NACK: the packet that caused it
  uint32_t stamp;  // time of sending in units of 1024 ps, modulo 2^32; with HPCC the slot of its telemetry
  uint16_t bytes;  // on the wire
  Kind kind;
  uint8_t bits;    // MARKED and XOFF, class in the upper half

  int cls() const { return bits >> 4; }
};

struct Flight {
  Time at;  // when it has arrived
  Packet packet;
};

// Bytes that rings may still take: a run ends with a message, not with the machine.
struct Memory {
  int64_t left;
  void take(int64_t bytes) {
    if ((left -= bytes) < 0) throw std::bad_alloc();
  }
};

// First in, first out, in one growing block.
template <class T>
class Ring {
 public:
  Ring() = default;
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;
  Ring(Ring&& other) noexcept { *this = std::move(other); }
  Ring& operator=(Ring&& other) noexcept {
    std::swap(slots_, other.slots_);
    std::swap(head_, other.head_);
    std::swap(count_, other.count_);
    std::swap(capacity_, other.capacity_);
    return *this;
  }
  ~Ring() { delete[] slots_; }

  bool empty() const { return count_ == 0; }
  uint32_t count() const { return count_; }
  const T& front() const { return slots_[head_]; }
  const T& operator[](uint32_t i) const { return slots_[(head_ + i) & (capacity_ - 1)]; }

  void push(const T& value, Memory& memory) {
    if (count_ == capacity_) grow(memory);
    slots_[(head_ + count_++) & (capacity_ - 1)] = value;
  }
  // Behind the first `ahead`.
  void insert(uint32_t ahead, const T& value, Memory& memory) {
    if (count_ == capacity_) grow(memory);
    head_ = (head_ - 1) & (capacity_ - 1);
    ++count_;
    for (uint32_t i = 0; i < ahead; ++i) slot(i) = slot(i + 1);
    slot(ahead) = value;
  }
  T pop() {
    T value = slots_[head_];
    // Empty, it starts at the front again: what is short stays in few cache lines.
    head_ = --count_ ? (head_ + 1) & (capacity_ - 1) : 0;
    return value;
  }

 private:
  T& slot(uint32_t i) { return slots_[(head_ + i) & (capacity_ - 1)]; }
  void grow(Memory& memory) {
    const uint32_t capacity = capacity_ ? 2 * capacity_ : 8;
    memory.take(static_cast<int64_t>(capacity - capacity_) * static_cast<int64_t>(sizeof(T)));
    T* slots = new T[capacity];
    for (uint32_t i = 0; i < count_; ++i) slots[i] = (*this)[i];
    delete[] slots_;
    slots_ = slots;
    head_ = 0;
    capacity_ = capacity;
  }
  T* slots_ = nullptr;
  uint32_t head_ = 0, count_ = 0, capacity_ = 0;
};

}  // namespace fabric
