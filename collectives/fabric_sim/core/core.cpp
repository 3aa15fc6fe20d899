// A packet-level simulator of a lossless Ethernet fabric: the functions that Python calls (core.py).
#include "run.hpp"

using fabric::Input;
using fabric::Output;
using fabric::Simulation;
using fabric::Status;

#pragma GCC visibility push(default)
extern "C" {

// Sizes of the two structs: a library of another version is noticed.
int64_t fabric_layout() { return static_cast<int64_t>(sizeof(Input) * 100000 + sizeof(Output)); }

void* fabric_create(const Input* input) {
  try {
    return new Simulation(*input);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

int32_t fabric_run(void* simulation, int64_t events) {
  auto* it = static_cast<Simulation*>(simulation);
  try {
    return static_cast<int32_t>(it->run(events));
  } catch (const std::bad_alloc&) {
    it->out_of_memory();
    return static_cast<int32_t>(Status::OUT_OF_MEMORY);
  }
}

void fabric_report(void* simulation, Output* output) { static_cast<Simulation*>(simulation)->report(*output); }

void fabric_lists(void* simulation, double* samples, int32_t* deadlock_edges) {
  const auto* it = static_cast<Simulation*>(simulation);
  std::copy(it->sampled().begin(), it->sampled().end(), samples);
  std::copy(it->deadlock_edges().begin(), it->deadlock_edges().end(), deadlock_edges);
}

void fabric_free(void* simulation) { delete static_cast<Simulation*>(simulation); }

}  // extern "C"
#pragma GCC visibility pop
