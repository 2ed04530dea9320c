// runtime.cpp - stands in for the SymCC runtime with the QSYM backend: the same
// symbols, the same order of calls, a solver for conditions on single bytes.
//   branch event -> interesting? -> solve -> handler -> the constraint is added
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "runtime.hpp"
#include "trace_map.hpp"

namespace {

using values = std::bitset<256>;

qsym::AflTraceMap trace;
standin_handler handler = nullptr;
const unsigned char *input = nullptr;
std::vector<unsigned char> bytes;
std::map<std::size_t, values> path;  // what the constraints leave of each byte
unsigned solved = 0, saved = 0;

long number(const char *name) {
  const char *text = getenv(name);
  return text == nullptr ? 0 : atol(text);
}

void save(const std::vector<unsigned char> &found) {
  if (handler != nullptr) return handler(found.data(), found.size());
  char name[64];
  const char *directory = getenv("SYMCC_OUTPUT_DIR");
  snprintf(name, sizeof name, "/%06u", saved++);
  const std::string file = (directory == nullptr ? "/tmp/output" : directory) + std::string(name);
  if (FILE *out = fopen(file.c_str(), "wb")) {
    fwrite(found.data(), 1, found.size(), out);
    fclose(out);
  }
}

void negate(const standin_condition &condition, bool taken) {
  const values wanted = taken ? ~condition.values : condition.values;
  const auto known = path.find(condition.offset);
  values left = known == path.end() ? wanted : wanted & known->second;
  if (const char *log = getenv("STANDIN_LOG")) {  // each solving is told
    const int fd = open(log, O_WRONLY | O_CREAT | O_APPEND, 0600);
    if (write(fd, ".", 1) != 1) abort();
    close(fd);
  }
  if (const long pause = number("STANDIN_SOLVE_US")) usleep(static_cast<unsigned>(pause));
  if (++solved == number("STANDIN_DIE_BEFORE")) raise(SIGKILL);
  if (left.none() && number("STANDIN_OPTIMISTIC") != 0) left = wanted;
  if (left.none()) return;  // no input takes that side
  std::vector<unsigned char> found = bytes;
  std::size_t value = 0;
  while (!left[value]) value++;
  found[condition.offset] = static_cast<unsigned char>(value);
  save(found);
  if (solved == number("STANDIN_DIE_AFTER")) raise(SIGKILL);
}

}  // namespace

extern "C" {

EXPORTED void _sym_initialize(void) { trace.load(); }

EXPORTED void symcc_make_symbolic(const void *start, std::size_t length) {
  input = static_cast<const unsigned char *>(start);
  bytes.assign(input, input + length);
}

EXPORTED void symcc_set_test_case_handler(standin_handler given) { handler = given; }

EXPORTED void _sym_notify_call(std::uintptr_t) {}
EXPORTED void _sym_notify_ret(std::uintptr_t) {}
EXPORTED void _sym_notify_basic_block(std::uintptr_t) {}

EXPORTED void _sym_push_path_constraint(const standin_condition *condition, int taken,
                                        std::uintptr_t site) {
  if (condition == nullptr) return;
  if (trace.isInterestingBranch(site, taken != 0)) negate(*condition, taken != 0);
  auto &known = path.try_emplace(condition->offset, values().set()).first->second;
  known &= taken != 0 ? condition->values : ~condition->values;
}

// A wrapper's site is its own address, another one at every run.
EXPORTED int memcmp_symbolized(const void *one, const void *other, std::size_t length) {
  const auto *a = static_cast<const unsigned char *>(one);
  const auto *b = static_cast<const unsigned char *>(other);
  for (std::size_t i = 0; i < length; i++) {
    standin_condition same{static_cast<std::size_t>(a + i - input), {}};
    same.values.set(b[i]);
    _sym_push_path_constraint(&same, a[i] == b[i],
                              reinterpret_cast<std::uintptr_t>(&memcmp_symbolized));
    if (a[i] != b[i]) return a[i] - b[i];
  }
  return 0;
}
}
