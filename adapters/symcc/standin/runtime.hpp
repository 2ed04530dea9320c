// runtime.hpp - what the compiler's pass would insert calls of.
#ifndef STANDIN_RUNTIME_HPP
#define STANDIN_RUNTIME_HPP

#include <bitset>
#include <cstddef>
#include <cstdint>

// An expression: the byte at `offset` is one of `values`.
struct standin_condition {
  std::size_t offset;
  std::bitset<256> values;
};

using standin_handler = void (*)(const void *data, std::size_t length);

extern "C" {
void _sym_initialize(void);
void symcc_make_symbolic(const void *start, std::size_t length);
void symcc_set_test_case_handler(standin_handler handler);
void _sym_notify_call(std::uintptr_t site);
void _sym_notify_ret(std::uintptr_t site);
void _sym_notify_basic_block(std::uintptr_t site);
void _sym_push_path_constraint(const standin_condition *condition, int taken, std::uintptr_t site);
int memcmp_symbolized(const void *one, const void *other, std::size_t length);
}

#endif
