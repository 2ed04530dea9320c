// target.cpp - a target as SymCC's pass would make it, by hand: SITES is the
// number that the compiler process happened to use, another one in each build.
// -DPLAIN: the same program without the pass, for the coverage build.
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>

#ifdef PLAIN
#include <cstdint>
#else
#include "runtime.hpp"
#endif

namespace {

const std::uint8_t *data;

#ifdef PLAIN
void block(unsigned) {}
void call(unsigned) {}
bool same(const std::uint8_t *at, const char *text, std::size_t length) {
  for (std::size_t i = 0; i < length; i++)
    if (at[i] != static_cast<std::uint8_t>(text[i])) return false;
  return true;
}
template <class F>
bool branch(unsigned, std::size_t at, F &&holds) {
  return holds(data[at]);
}
#else
void block(unsigned site) { _sym_notify_basic_block(SITES + site * 16); }
void call(unsigned site) { _sym_notify_call(SITES + site * 16); }
bool same(const std::uint8_t *at, const char *text, std::size_t length) {
  return memcmp_symbolized(at, text, length) == 0;
}
template <class F>
bool branch(unsigned site, std::size_t at, F &&holds) {
  standin_condition condition{at, {}};
  for (unsigned value = 0; value < 256; value++)
    condition.values.set(value, holds(static_cast<std::uint8_t>(value)));
  const bool taken = holds(data[at]);
  _sym_push_path_constraint(&condition, taken, SITES + site * 16);
  return taken;
}
#endif

// Called twice: the same branches are others by where they are called from.
int helper(std::size_t at) {
  block(20);
  if (branch(21, at, [](std::uint8_t v) { return v > 200; })) {
    block(22);
    // No input takes the other side.
    return branch(23, at, [](std::uint8_t v) { return v > 100; }) ? 1 : 2;
  }
  return 0;
}

int program(const std::uint8_t *input, std::size_t length) {
  static const char key[] = "loop";
  unsigned matched = 0;
  int found = 0;
  data = input;
  if (length < 16) return 0;
  block(1);
  if (branch(2, 0, [](std::uint8_t v) { return v == 'S'; })) {
    block(3);
    found++;
  }
  block(4);
  for (const char each : {'a', 'b', 'c'})  // a switch: all its cases share one site
    if (branch(5, 1, [each](std::uint8_t v) { return v == static_cast<std::uint8_t>(each); })) {
      found += each;
      break;
    }
  for (; matched < 4; matched++) {
    block(6);
    if (!branch(7, 4 + matched, [&](std::uint8_t v) { return v == static_cast<std::uint8_t>(key[matched]); }))
      break;
  }
#ifndef PLAIN
  if (std::getenv("FORK") != nullptr && fork() < 0) abort();
#endif
  block(8);
  if (matched == 4) found += 10;
  call(9);
  if (same(input + 8, "wrap", 4)) {
    block(10);
    found += 100;
  }
  call(11);
  found += helper(12);
  call(12);
  found += helper(13);
  return found;
}

#ifndef PLAIN
unsigned own_inputs = 0;
void own_handler(const void *, std::size_t) { own_inputs++; }

// After so many events, not one more system call: the kernel kills at the first.
void events(long count) {
  const sock_filter only[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_write, 2, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 1, 0),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog filter{sizeof only / sizeof *only, const_cast<sock_filter *>(only)};
  standin_condition condition{0, {}};
  char line[80];
  condition.values.set('S');
  const auto go = [&](long turns) {
    const auto from = std::chrono::steady_clock::now();
    for (long i = 0; i < turns; i++) {
      if (i % 4 == 0) _sym_notify_basic_block(SITES + 900);
      _sym_push_path_constraint(&condition, 0, SITES + 901 + static_cast<unsigned long>(i % 4));
    }
    return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - from).count();
  };
  go(4096);  // all buckets up to 128 are met here
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0)
    abort();
  const double took = go(count);
  const int n = snprintf(line, sizeof line, "%.1f ns an event\n", took / static_cast<double>(count));
  if (write(1, line, static_cast<std::size_t>(n)) < 0) abort();
  syscall(SYS_exit_group, 0);
}
#endif

}  // namespace

#ifdef PLAIN
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *input, std::size_t length) {
  volatile int keep = program(input, length);
  (void)keep;
  return 0;
}
#else
int main(int count, char **words) {
  std::uint8_t input[4096];
  std::size_t length = 0;
  ssize_t n;
  const int fd = count > 1 ? open(words[1], O_RDONLY) : 0;
  _sym_initialize();
  while ((n = read(fd, input + length, sizeof input - length)) > 0) length += static_cast<std::size_t>(n);
  symcc_make_symbolic(input, length);
  if (std::getenv("OWN_HANDLER") != nullptr) symcc_set_test_case_handler(own_handler);
  const int found = program(input, length);
  if (const char *more = std::getenv("EVENTS")) events(atol(more));
  while (wait(nullptr) > 0) {
  }
  printf("found %d, own %u\n", found, own_inputs);
  return 3;  // a target's exit code is its own
}
#endif
