// symlease in C++17: what symlease.h declares, with owners, values and answers.
//
// Nothing here throws by itself but std::bad_alloc. A call gives a result<T>:
// ask code(), or take value(), which throws symlease::error unless the call was
// done. What a callback throws is kept while the C library runs and thrown again
// when the C call has returned; no exception crosses the C border.
#ifndef SYMLEASE_HPP
#define SYMLEASE_HPP

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "symlease.h"

namespace symlease {

using seconds = std::chrono::duration<double>;

/// What a call says: done, an answer (above zero) or an error (below zero).
enum class [[nodiscard]] status : std::int32_t {
  ok = SYMLEASE_OK,
  held = SYMLEASE_HELD,
  committing = SYMLEASE_COMMITTING,
  done = SYMLEASE_DONE,
  stale = SYMLEASE_STALE,
  already = SYMLEASE_ALREADY,
  conflict = SYMLEASE_CONFLICT,
  absent = SYMLEASE_ABSENT,
  invalid = SYMLEASE_E_INVALID,
  timeout = SYMLEASE_E_TIMEOUT,
  io = SYMLEASE_E_IO,
  corrupt = SYMLEASE_E_CORRUPT,
  unsupported = SYMLEASE_E_UNSUPPORTED,
  limit = SYMLEASE_E_LIMIT,
  internal = SYMLEASE_E_INTERNAL,
  unavailable = SYMLEASE_E_UNAVAILABLE,
  mismatch = SYMLEASE_E_MISMATCH,
  indeterminate = SYMLEASE_E_INDETERMINATE,
  callback = SYMLEASE_E_CALLBACK,
};

enum class durability : std::int32_t {
  any = SYMLEASE_DURABLE_ANY,
  power = SYMLEASE_DURABLE_POWER,
  process = SYMLEASE_DURABLE_PROCESS,
};
enum class expiry : std::int32_t { wall = SYMLEASE_EXPIRY_WALL, observed = SYMLEASE_EXPIRY_OBSERVED };
enum class engine : std::int32_t {
  any = SYMLEASE_ENGINE_ANY,
  files = SYMLEASE_ENGINE_FILES,
  log = SYMLEASE_ENGINE_LOG,
};
enum class session : std::int32_t { own = SYMLEASE_SESSION_OWN, none = SYMLEASE_SESSION_NONE };
enum class table : std::int32_t {
  work = SYMLEASE_TABLE_WORK,
  target = SYMLEASE_TABLE_TARGET,
  coverage = SYMLEASE_TABLE_COVERAGE,
};
/// A record's status; ORed, what a scan shows.
enum class state : std::uint32_t {
  leased = SYMLEASE_SCAN_LEASED,
  committing = SYMLEASE_SCAN_COMMITTING,
  done = SYMLEASE_SCAN_DONE,
  corrupt = SYMLEASE_SCAN_CORRUPT,
  all = SYMLEASE_SCAN_ALL,
};
[[nodiscard]] constexpr state operator|(state a, state b) noexcept {
  return static_cast<state>(static_cast<std::uint32_t>(a) | static_cast<std::uint32_t>(b));
}
enum class life : std::int32_t {
  unknown = 0,
  live = SYMLEASE_LIFE_LIVE,
  expired = SYMLEASE_LIFE_EXPIRED,
  abandoned = SYMLEASE_LIFE_ABANDONED,
  dead = SYMLEASE_LIFE_DEAD,
  future = SYMLEASE_LIFE_FUTURE,
};
enum class holder_life : std::int32_t {
  unknown = SYMLEASE_HOLDER_UNKNOWN,
  alive = SYMLEASE_HOLDER_ALIVE,
  dead = SYMLEASE_HOLDER_DEAD,
};
/// What a visitor may return; one that returns nothing goes on.
enum class visit : int { go_on = 0, stop = 1 };

[[nodiscard]] constexpr bool is_error(status code) noexcept {
  return static_cast<std::int32_t>(code) < 0;
}
/// As "SYMLEASE_HELD".
[[nodiscard]] inline std::string_view name(status code) noexcept {
  return symlease_status_name(static_cast<symlease_status>(code));
}
[[nodiscard]] inline std::string_view version() noexcept { return symlease_version(); }
/// Whether the library that runs speaks this header's binary interface.
[[nodiscard]] inline bool abi_matches() noexcept {
  return symlease_abi_version() == SYMLEASE_ABI_VERSION;
}

/// Thrown by value() and answered(): a call that was not done.
class error : public std::runtime_error {
 public:
  error(status code, const std::string &words, int system_error)
      : std::runtime_error(words), code_(code), system_error_(system_error) {}
  [[nodiscard]] status code() const noexcept { return code_; }
  /// errno of the failed step, or 0.
  [[nodiscard]] int system_error() const noexcept { return system_error_; }

 private:
  status code_;
  int system_error_;
};

/// What every result has: the code, and words unless it is done.
class outcome {
 public:
  [[nodiscard]] status code() const noexcept { return code_; }
  [[nodiscard]] bool ok() const noexcept { return code_ == status::ok; }
  [[nodiscard]] explicit operator bool() const noexcept { return ok(); }
  [[nodiscard]] bool is(status code) const noexcept { return code_ == code; }
  [[nodiscard]] const std::string &words() const noexcept { return words_; }
  [[nodiscard]] int system_error() const noexcept { return system_error_; }
  /// Throws on an error; an answer (held, stale, ...) is returned.
  status answered() const {
    if (is_error(code_)) raise();
    return code_;
  }

 protected:
  outcome() = default;
  explicit outcome(symlease_status code) : code_(static_cast<status>(code)) {
    if (code == SYMLEASE_OK) return;
    words_ = symlease_last_error();
    system_error_ = symlease_last_errno();
  }
  outcome(status code, std::string words) : code_(code), words_(std::move(words)) {}
  [[noreturn]] void raise() const {
    throw error(code_, words_.empty() ? std::string(name(code_)) : words_, system_error_);
  }

 private:
  status code_ = status::ok;
  std::string words_;
  int system_error_ = 0;
};

/// A value, or why there is none.
template <class T>
class [[nodiscard]] result : public outcome {
 public:
  explicit result(T value) : value_(std::move(value)) {}
  explicit result(symlease_status code) : outcome(code) {}
  result(status code, std::string words) : outcome(code, std::move(words)) {}
  result(symlease_status code, T &&value) : outcome(code) {
    if (code == SYMLEASE_OK) value_.emplace(std::move(value));
  }
  /// Throws error unless done.
  [[nodiscard]] T &value() & { return need(), *value_; }
  [[nodiscard]] const T &value() const & { return need(), *value_; }
  [[nodiscard]] T value() && { return need(), std::move(*value_); }
  [[nodiscard]] const std::optional<T> &maybe() const & noexcept { return value_; }
  [[nodiscard]] std::optional<T> maybe() && noexcept { return std::move(value_); }

 private:
  void need() const {
    if (!value_) raise();
  }
  std::optional<T> value_;
};

template <>
class [[nodiscard]] result<void> : public outcome {
 public:
  explicit result(symlease_status code) : outcome(code) {}
  result(status code, std::string words) : outcome(code, std::move(words)) {}
  /// Throws error unless done.
  void value() const {
    if (!ok()) raise();
  }
};

namespace detail {

template <std::size_t N>
[[nodiscard]] std::string_view field(const char (&text)[N]) noexcept {
  const void *end = std::memchr(text, 0, N);
  return {text, end ? static_cast<std::size_t>(static_cast<const char *>(end) - text) : N};
}

/// Copies text with its NUL; false where it is too long or holds a NUL.
template <std::size_t N>
[[nodiscard]] bool fill(char (&to)[N], std::string_view text) noexcept {
  if (text.size() >= N || text.find('\0') != std::string_view::npos) return false;
  std::memcpy(to, text.data(), text.size());
  std::memset(to + text.size(), 0, N - text.size());
  return true;
}

/// An argument as the C side wants it: NUL-terminated, or NULL for none.
class text {
 public:
  text(const char *argument, std::optional<std::string_view> value) : argument_(argument) {
    if (!value) return;
    there_ = true;
    bad_ = value->find('\0') != std::string_view::npos;
    copy_ = *value;
  }
  [[nodiscard]] const char *get() const noexcept { return there_ ? copy_.c_str() : nullptr; }
  [[nodiscard]] bool bad() const noexcept { return bad_; }
  [[nodiscard]] std::string why() const { return std::string(argument_) + ": holds a NUL"; }

 private:
  const char *argument_;
  std::string copy_;
  bool there_ = false, bad_ = false;
};

/// What a clock threw on this thread, until the C call has returned.
[[nodiscard]] inline std::exception_ptr &thrown_by_clock() noexcept {
  thread_local std::exception_ptr thrown;
  return thrown;
}

[[nodiscard]] inline symlease_status back(symlease_status code) {
  if (std::exception_ptr thrown = std::exchange(thrown_by_clock(), nullptr))
    std::rethrow_exception(thrown);
  return code;
}

extern "C" inline double symlease_hpp_clock(void *user) {
  try {
    return (*static_cast<std::function<double()> *>(user))();
  } catch (...) {
    thrown_by_clock() = std::current_exception();
    return std::numeric_limits<double>::quiet_NaN();
  }
}

/// A callable behind a C callback, with what it threw.
template <class F>
struct caught {
  F &call;
  std::exception_ptr thrown = nullptr;

  template <class... A>
  [[nodiscard]] int run(A &&...arguments) noexcept {
    try {
      using R = std::invoke_result_t<F &, A...>;
      if constexpr (std::is_void_v<R>) {
        call(std::forward<A>(arguments)...);
        return 0;
      } else {
        static_assert(std::is_same_v<R, visit>, "a visitor returns void or symlease::visit");
        return static_cast<int>(call(std::forward<A>(arguments)...));
      }
    } catch (...) {
      thrown = std::current_exception();
      return 1;
    }
  }
  [[nodiscard]] symlease_status finish(symlease_status code) const {
    const std::exception_ptr clock = std::exchange(thrown_by_clock(), nullptr);
    if (thrown) std::rethrow_exception(thrown);
    if (clock) std::rethrow_exception(clock);
    return code;
  }
};

struct string_free {
  void operator()(char *text) const noexcept { symlease_string_free(text); }
};
struct closer {
  void operator()(symlease_campaign *campaign) const noexcept { symlease_close(campaign); }
};

}  // namespace detail

/// 64 lower-case hex digits.
[[nodiscard]] inline result<std::string> work_id(const void *bytes, std::size_t length) {
  char id[SYMLEASE_ID_SIZE] = "";
  const symlease_status code = symlease_work_id(bytes, length, id);
  return {code, std::string(detail::field(id))};
}
[[nodiscard]] inline result<std::string> work_id(std::string_view bytes) {
  return work_id(bytes.data(), bytes.size());
}
[[nodiscard]] inline result<std::string> work_id_json(std::string_view payload) {
  const detail::text json("payload", payload);
  if (json.bad()) return {status::invalid, json.why()};
  char id[SYMLEASE_ID_SIZE] = "";
  const symlease_status code = symlease_work_id_json(json.get(), id);
  return {code, std::string(detail::field(id))};
}
[[nodiscard]] inline result<std::string> target_id(std::uint64_t target) {
  char id[SYMLEASE_ID_SIZE] = "";
  const symlease_status code = symlease_target_id(target, id);
  return {code, std::string(detail::field(id))};
}

/// A work lease: a value; use a copy per thread.
class lease {
 public:
  lease() = default;
  explicit lease(const symlease_lease &raw) noexcept : raw_(raw) {}
  /// To go on with a lease of another process; nothing where they do not fit.
  [[nodiscard]] static std::optional<lease> of(std::string_view id, std::string_view token) {
    lease made;
    if (!detail::fill(made.raw_.id, id) || !detail::fill(made.raw_.token, token))
      return std::nullopt;
    return made;
  }
  [[nodiscard]] std::string_view id() const noexcept { return detail::field(raw_.id); }
  [[nodiscard]] std::string_view token() const noexcept { return detail::field(raw_.token); }
  [[nodiscard]] std::uint64_t fence() const noexcept { return raw_.fence; }
  [[nodiscard]] std::uint32_t attempts() const noexcept { return raw_.attempts; }
  [[nodiscard]] std::uint32_t steals() const noexcept { return raw_.steals; }
  [[nodiscard]] double updated() const noexcept { return raw_.updated; }
  [[nodiscard]] seconds ttl() const noexcept { return seconds(raw_.ttl); }
  [[nodiscard]] symlease_lease &raw() noexcept { return raw_; }
  [[nodiscard]] const symlease_lease &raw() const noexcept { return raw_; }

 private:
  symlease_lease raw_{};
};
static_assert(sizeof(lease) == sizeof(symlease_lease) && std::is_standard_layout_v<lease>);

/// Targets leased together: a value; use a copy per thread.
class group {
 public:
  group() = default;
  explicit group(const symlease_group &raw) noexcept : raw_(raw) {}
  [[nodiscard]] static std::optional<group> of(const std::vector<std::uint64_t> &targets,
                                               std::string_view token) {
    group made;
    if (targets.empty() || targets.size() > SYMLEASE_GROUP_MAX) return std::nullopt;
    if (!detail::fill(made.raw_.token, token)) return std::nullopt;
    for (std::size_t i = 0; i < targets.size(); i++) made.raw_.targets[i] = targets[i];
    made.raw_.count = static_cast<std::uint32_t>(targets.size());
    return made;
  }
  [[nodiscard]] std::size_t size() const noexcept { return raw_.count; }
  [[nodiscard]] const std::uint64_t *begin() const noexcept { return raw_.targets; }
  [[nodiscard]] const std::uint64_t *end() const noexcept {
    return raw_.targets + (raw_.count < SYMLEASE_GROUP_MAX ? raw_.count : SYMLEASE_GROUP_MAX);
  }
  [[nodiscard]] std::string_view token() const noexcept { return detail::field(raw_.token); }
  [[nodiscard]] std::uint64_t fence() const noexcept { return raw_.fence; }
  [[nodiscard]] double updated() const noexcept { return raw_.updated; }
  [[nodiscard]] seconds ttl() const noexcept { return seconds(raw_.ttl); }
  [[nodiscard]] symlease_group &raw() noexcept { return raw_; }
  [[nodiscard]] const symlease_group &raw() const noexcept { return raw_; }

 private:
  symlease_group raw_{};
};
static_assert(sizeof(group) == sizeof(symlease_group) && std::is_standard_layout_v<group>);

/// Who stands in a claim's way.
struct holder {
  std::string owner;
  seconds remaining{0};
  std::uint64_t target = 0;
};

/// A claim's result: the lease or group, or who has it.
template <class T>
class [[nodiscard]] claim_result : public result<T> {
 public:
  using result<T>::result;
  claim_result(symlease_status code, T &&value, const symlease_holder &by)
      : result<T>(code, std::move(value)) {
    const bool by_target = code == SYMLEASE_E_CORRUPT && by.target != 0;
    if ((code > 0 && code <= SYMLEASE_DONE) || by_target)
      holder_ = holder{std::string(detail::field(by.owner)), seconds(by.remaining), by.target};
  }
  /// On held, committing, done; on a group's corrupt its target counts.
  [[nodiscard]] const std::optional<holder> &held_by() const noexcept { return holder_; }

 private:
  std::optional<holder> holder_;
};

/// A text that may be unset. (gcc 12 at -O2 takes std::optional<std::string> for
/// uninitialised; -Werror would stop the programs of our users.)
class setting {
 public:
  setting() = default;
  setting(std::string_view text) : text_(text), there_(true) {}
  setting(const std::string &text) : text_(text), there_(true) {}
  setting(const char *text) : text_(text ? text : ""), there_(text != nullptr) {}
  [[nodiscard]] std::optional<std::string_view> view() const noexcept {
    return there_ ? std::optional<std::string_view>(text_) : std::nullopt;
  }
  [[nodiscard]] const char *c_str() const noexcept { return there_ ? text_.c_str() : nullptr; }

 private:
  std::string text_;
  bool there_ = false;
};

/// One set byte of a coverage map: its index and its bucket bits.
using edge = symlease_edge;

/// A whole map, lent for one call.
class map_view {
 public:
  map_view(const std::uint8_t *bytes, std::size_t length) noexcept : raw_{bytes, length} {}
  map_view(const std::vector<std::uint8_t> &bytes) noexcept : raw_{bytes.data(), bytes.size()} {}
  [[nodiscard]] const symlease_map &raw() const noexcept { return raw_; }

 private:
  symlease_map raw_;
};

/// The new bits of one candidate or shard, during a visit only.
class edge_range {
 public:
  edge_range(const edge *edges, std::size_t count) noexcept : edges_(edges), count_(count) {}
  [[nodiscard]] const edge *begin() const noexcept { return edges_; }
  [[nodiscard]] const edge *end() const noexcept { return edges_ + count_; }
  [[nodiscard]] std::size_t size() const noexcept { return count_; }

 private:
  const edge *edges_;
  std::size_t count_;
};

/// Raw hit counts as AFL bucket bits.
[[nodiscard]] inline result<std::vector<std::uint8_t>> classify(map_view counts) {
  std::vector<std::uint8_t> bits(counts.raw().len);
  const symlease_status code =
      symlease_coverage_classify(counts.raw().bytes, bits.data(), bits.size());
  return {code, std::move(bits)};
}

struct map_info {
  std::uint64_t bytes = 0;
  std::string identity;
};
struct totals {
  std::uint64_t edges = 0, bits = 0;
};
struct shard_owner {
  std::uint32_t index = 0;
  std::string owner;
};

/// What became of a result.
enum class fate : std::int32_t {
  unset = SYMLEASE_RESULT_UNSET,
  published = SYMLEASE_RESULT_PUBLISHED,
  published_by_digest = SYMLEASE_RESULT_PUBLISHED_BY_DIGEST,
  already_there = SYMLEASE_RESULT_ALREADY_THERE,
  lost = SYMLEASE_RESULT_LOST,
  not_novel = SYMLEASE_RESULT_NOT_NOVEL,
};

/// One result for a commit; it owns all it names.
///
///     std::vector<symlease::offer> found;
///     found.emplace_back("staging/1").edges(covered);
///     found.emplace_back("staging/2").corpus("crashes").keep();
class offer {
 public:
  /// `staged`: the path of its file.
  explicit offer(std::string staged) : staged_(std::move(staged)) {}
  /// Its name in the corpus; without it, its SHA-256.
  offer &name(std::string text) { return name_ = setting(std::move(text)), *this; }
  /// Its corpus; without it, the commit's.
  offer &corpus(std::string path) { return corpus_ = setting(std::move(path)), *this; }
  /// Its coverage; without one it is unknown, and the result always published.
  offer &map(std::vector<std::uint8_t> bits) {
    return map_ = std::move(bits), kind_ = SYMLEASE_MAP_DENSE, *this;
  }
  offer &edges(std::vector<edge> set) {
    return edges_ = std::move(set), kind_ = SYMLEASE_MAP_SPARSE, *this;
  }
  /// Published even where nothing is new.
  offer &keep(bool kept = true) { return keep_ = kept, *this; }

  [[nodiscard]] const std::string &staged() const noexcept { return staged_; }
  [[nodiscard]] bool has_map() const noexcept { return kind_ != SYMLEASE_MAP_NONE; }
  /// The argument that the C side would cut at a NUL; none: "".
  [[nodiscard]] std::string_view bad() const noexcept {
    const auto holds = [](const char *which, std::optional<std::string_view> text) {
      const bool nul = text && text->find('\0') != std::string_view::npos;
      return std::string_view(nul ? which : "");
    };
    for (const std::string_view which : {holds("results[].staged", staged_),
                                         holds("results[].name", name_.view()),
                                         holds("results[].corpus", corpus_.view())})
      if (!which.empty()) return which;
    return "";
  }
  /// As C wants it; points into this offer.
  [[nodiscard]] symlease_result raw() const noexcept {
    symlease_result made{};
    made.staged = staged_.c_str();
    made.name = name_.c_str();
    made.corpus = corpus_.c_str();
    made.map = {map_.data(), map_.size()};
    made.edges = edges_.data();
    made.edge_count = edges_.size();
    made.map_kind = kind_;
    made.flags = keep_ ? SYMLEASE_RESULT_KEEP : 0;
    return made;
  }

 private:
  std::string staged_;
  setting name_, corpus_;
  std::vector<std::uint8_t> map_;
  std::vector<edge> edges_;
  std::uint32_t kind_ = SYMLEASE_MAP_NONE;
  bool keep_ = false;
};

/// What a commit did with one offer.
struct committed {
  symlease::fate fate = symlease::fate::unset;
  std::uint64_t novel_bits = 0;
  std::string digest;
  status code = status::ok;  ///< an error: its map was damaged, it was published all the same
};

/// What replay_commits did; the count holds beside an error, too.
class [[nodiscard]] replay_result : public result<void> {
 public:
  replay_result(symlease_status code, std::uint64_t completed)
      : result<void>(code), completed_(completed) {}
  using result<void>::result;
  [[nodiscard]] std::uint64_t completed() const noexcept { return completed_; }

 private:
  std::uint64_t completed_ = 0;
};

/// The settings of a handle; untouched ones are the defaults.
struct options {
  setting owner, map_identity, work_root, target_root, coverage_root;
  std::uint64_t map_size = 0;
  seconds work_ttl{0}, target_ttl{0}, lock_timeout{0}, clock_skew{0}, coverage_ttl{0};
  std::function<double()> clock;  ///< Unix seconds; from any thread; must not call symlease
  std::uint32_t worker = 0, lease_shards = 0, coverage_shards = 0;
  std::uint32_t coordinator_index = 0, coordinator_count = 0, file_mode = 0;
  bool existing = false, read_only = false;
  symlease::engine engine = engine::any;
  symlease::durability durability = durability::any;
  symlease::expiry expiry = expiry::wall;
  symlease::session session = session::own;
};

/// What a claim may ask beyond the handle's settings.
struct claim_options {
  setting owner;
  seconds ttl{0}, new_ttl{0};
  double now = 0;
  std::uint32_t worker = 0;
  bool takeover = false;
};

/// One record, during a visit only; copy what is needed longer.
class record {
 public:
  explicit record(const symlease_view &raw) noexcept : raw_(raw) {}
  using text = std::optional<std::string_view>;
  [[nodiscard]] text id() const noexcept { return of(&symlease_view::id); }
  [[nodiscard]] text owner() const noexcept { return of(&symlease_view::owner); }
  [[nodiscard]] text previous_owner() const noexcept { return of(&symlease_view::previous_owner); }
  [[nodiscard]] text token() const noexcept { return of(&symlease_view::token); }
  [[nodiscard]] text payload() const noexcept { return of(&symlease_view::payload); }
  [[nodiscard]] text manifest() const noexcept { return of(&symlease_view::manifest); }
  /// The whole record; none where it is damaged.
  [[nodiscard]] text json() const noexcept { return of(&symlease_view::json); }
  [[nodiscard]] text session() const noexcept { return of(&symlease_view::session); }
  [[nodiscard]] std::uint64_t fence() const noexcept { return get(&symlease_view::fence); }
  [[nodiscard]] std::uint64_t target() const noexcept { return get(&symlease_view::target); }
  [[nodiscard]] double updated() const noexcept { return get(&symlease_view::updated); }
  [[nodiscard]] seconds ttl() const noexcept { return seconds(get(&symlease_view::ttl)); }
  [[nodiscard]] seconds remaining() const noexcept {
    return seconds(get(&symlease_view::remaining));
  }
  [[nodiscard]] std::uint32_t worker() const noexcept { return get(&symlease_view::worker); }
  [[nodiscard]] std::uint32_t attempts() const noexcept { return get(&symlease_view::attempts); }
  [[nodiscard]] std::uint32_t steals() const noexcept { return get(&symlease_view::steals); }
  [[nodiscard]] symlease::state state() const noexcept {
    return static_cast<symlease::state>(get(&symlease_view::status));
  }
  [[nodiscard]] symlease::life life() const noexcept {
    return static_cast<symlease::life>(get(&symlease_view::life));
  }
  [[nodiscard]] holder_life holder() const noexcept {
    return static_cast<holder_life>(get(&symlease_view::holder));
  }

 private:
  /// A field, or nothing where the library's struct ends before it.
  template <class T>
  [[nodiscard]] T get(T symlease_view::*member) const noexcept {
    const auto at = reinterpret_cast<std::uintptr_t>(&(raw_.*member));
    const auto start = reinterpret_cast<std::uintptr_t>(&raw_);
    return at - start + sizeof(T) <= raw_.struct_size ? raw_.*member : T{};
  }
  [[nodiscard]] text of(const char *symlease_view::*member) const noexcept {
    const char *value = get(member);
    return value ? text(value) : std::nullopt;
  }
  const symlease_view &raw_;
};

/// What heartbeat_all did: a status for every entry.
struct beats {
  std::vector<status> leases, groups;
  symlease_heartbeat_stats stats{};
};

/// An open campaign; closed at the end of its life. May be used by many threads.
class campaign {
 public:
  using optional_text = std::optional<std::string_view>;

  campaign() = default;  ///< closed: every call is invalid

  /// `root` is bytes; none where the options name the roots.
  [[nodiscard]] static result<campaign> open(optional_text root, options settings = {}) {
    const detail::text path("root", root);
    if (path.bad()) return {status::invalid, path.why()};
    return open_with(std::move(settings),
                     [&](const symlease_options &raw, symlease_campaign **handle) {
                       return symlease_open(path.get(), &raw, handle);
                     });
  }
  /// The campaign whose three directories the environment names.
  [[nodiscard]] static result<campaign> open_env(options settings = {}) {
    return open_with(std::move(settings),
                     [](const symlease_options &raw, symlease_campaign **handle) {
                       return symlease_open_env(&raw, handle);
                     });
  }

  [[nodiscard]] symlease_campaign *get() const noexcept { return handle_.get(); }
  [[nodiscard]] explicit operator bool() const noexcept { return handle_ != nullptr; }
  void close() noexcept {
    handle_.reset();
    clock_.reset();
  }

  // Work.

  /// No payload keeps the record's.
  [[nodiscard]] claim_result<lease> claim(std::string_view id, optional_text payload = {},
                                          const claim_options &how = {}) const {
    const detail::text key("id", id), json("payload", payload), owner("owner", how.owner.view());
    for (const detail::text *each : {&key, &json, &owner})
      if (each->bad()) return {status::invalid, each->why()};
    const symlease_claim_options asked = raw(how, owner);
    lease made;
    symlease_holder by{};
    const symlease_status code =
        symlease_claim_with(get(), key.get(), json.get(), &asked, &made.raw(), &by);
    return {detail::back(code), std::move(made), by};
  }
  /// Reads only; fills the rest of the lease.
  [[nodiscard]] result<void> verify(lease &held) const {
    return call(symlease_verify(get(), &held.raw()));
  }
  [[nodiscard]] result<void> heartbeat(lease &held) const {
    return call(symlease_heartbeat(get(), &held.raw()));
  }
  [[nodiscard]] result<void> abandon(const lease &held) const {
    return call(symlease_abandon(get(), &held.raw()));
  }
  [[nodiscard]] result<void> begin_commit(const lease &held, std::string_view manifest) const {
    const detail::text json("manifest", manifest);
    if (json.bad()) return {status::invalid, json.why()};
    return call(symlease_begin_commit(get(), &held.raw(), json.get()));
  }
  [[nodiscard]] result<void> complete(const lease &held) const {
    return call(symlease_complete(get(), &held.raw()));
  }

  // Target groups.

  [[nodiscard]] claim_result<group> claim_group(const std::vector<std::uint64_t> &targets,
                                                optional_text payload = {},
                                                const claim_options &how = {}) const {
    const detail::text json("payload", payload), owner("owner", how.owner.view());
    for (const detail::text *each : {&json, &owner})
      if (each->bad()) return {status::invalid, each->why()};
    const symlease_claim_options asked = raw(how, owner);
    group made;
    symlease_holder by{};
    const symlease_status code = symlease_group_claim_with(
        get(), targets.data(), targets.size(), json.get(), &asked, &made.raw(), &by);
    return {detail::back(code), std::move(made), by};
  }
  [[nodiscard]] result<void> heartbeat(group &held) const {
    return call(symlease_group_heartbeat(get(), &held.raw()));
  }
  [[nodiscard]] result<void> release(const group &held) const {
    return call(symlease_group_release(get(), &held.raw()));
  }
  [[nodiscard]] result<void> verify(group &held) const {
    return call(symlease_group_verify(get(), &held.raw()));
  }

  // Batches: one bad entry never stops another.

  [[nodiscard]] result<beats> heartbeat_all(std::vector<lease> &leases,
                                            std::vector<group> &groups) const {
    std::vector<symlease_lease> work;
    std::vector<symlease_group> targets;
    work.reserve(leases.size());
    targets.reserve(groups.size());
    for (const lease &each : leases) work.push_back(each.raw());
    for (const group &each : groups) targets.push_back(each.raw());
    std::vector<symlease_status> first(work.size()), second(targets.size());
    beats made;
    made.leases.reserve(work.size());
    made.groups.reserve(targets.size());
    const symlease_status code =
        symlease_heartbeat_all(get(), work.data(), work.size(), targets.data(), targets.size(),
                               first.data(), second.data(), &made.stats);
    if (code == SYMLEASE_OK) {
      for (std::size_t i = 0; i < work.size(); i++) leases[i].raw() = work[i];
      for (std::size_t i = 0; i < targets.size(); i++) groups[i].raw() = targets[i];
      for (const symlease_status each : first) made.leases.push_back(static_cast<status>(each));
      for (const symlease_status each : second) made.groups.push_back(static_cast<status>(each));
    }
    return {detail::back(code), std::move(made)};
  }
  [[nodiscard]] result<std::vector<status>> heartbeat_many(std::vector<lease> &leases) const {
    std::vector<symlease_lease> work;
    work.reserve(leases.size());
    for (const lease &each : leases) work.push_back(each.raw());
    std::vector<symlease_status> each_code(work.size());
    std::vector<status> made;
    made.reserve(work.size());
    const symlease_status code =
        symlease_heartbeat_many(get(), work.data(), work.size(), each_code.data());
    if (code == SYMLEASE_OK) {
      for (std::size_t i = 0; i < work.size(); i++) leases[i].raw() = work[i];
      for (const symlease_status each : each_code) made.push_back(static_cast<status>(each));
    }
    return {detail::back(code), std::move(made)};
  }

  // Coverage. Counts are of bits that were new to everybody.

  [[nodiscard]] result<std::uint64_t> merge(map_view bits) const {
    return number([&](std::uint64_t *novel) {
      return symlease_coverage_merge(get(), bits.raw().bytes, bits.raw().len, novel);
    });
  }
  /// Raw hit counts: classified, then merged.
  [[nodiscard]] result<std::uint64_t> merge_counts(map_view counts) const {
    return number([&](std::uint64_t *novel) {
      return symlease_coverage_merge_counts(get(), counts.raw().bytes, counts.raw().len, novel);
    });
  }
  [[nodiscard]] result<std::uint64_t> merge_sparse(const std::vector<edge> &edges) const {
    return number([&](std::uint64_t *novel) {
      return symlease_coverage_merge_sparse(get(), edges.data(), edges.size(), novel);
    });
  }
  /// In order, as if one by one; answers each map's new bits.
  [[nodiscard]] result<std::vector<std::uint64_t>> merge_many(
      const std::vector<map_view> &maps) const {
    std::vector<symlease_map> raw;
    raw.reserve(maps.size());
    for (const map_view &each : maps) raw.push_back(each.raw());
    std::vector<std::uint64_t> novel_bits(maps.size());
    const symlease_status code =
        symlease_coverage_merge_many(get(), raw.data(), raw.size(), novel_bits.data());
    return {detail::back(code), std::move(novel_bits)};
  }
  [[nodiscard]] result<std::vector<std::uint64_t>> merge_sparse_many(
      const std::vector<std::vector<edge>> &lists) const {
    const std::vector<symlease_sparse> raw = lent(lists);
    std::vector<std::uint64_t> novel_bits(lists.size());
    const symlease_status code = symlease_coverage_merge_sparse_many(
        get(), raw.data(), raw.size(), novel_bits.data(), nullptr, nullptr);
    return {detail::back(code), std::move(novel_bits)};
  }
  /// `visitor` takes (std::size_t candidate, edge_range) and returns void or visit.
  template <class F>
  [[nodiscard]] result<std::vector<std::uint64_t>> merge_sparse_many(
      const std::vector<std::vector<edge>> &lists, F &&visitor) const {
    const std::vector<symlease_sparse> raw = lent(lists);
    std::vector<std::uint64_t> novel_bits(lists.size());
    detail::caught<std::remove_reference_t<F>> run{visitor};
    const symlease_status code = symlease_coverage_merge_sparse_many(
        get(), raw.data(), raw.size(), novel_bits.data(),
        &campaign::novel<std::remove_reference_t<F>>, &run);
    return {run.finish(code), std::move(novel_bits)};
  }
  /// How many of these bits the authority does not have; marks nothing.
  [[nodiscard]] result<std::uint64_t> known(const std::vector<edge> &edges) const {
    return number([&](std::uint64_t *unknown) {
      return symlease_coverage_known(get(), edges.data(), edges.size(), unknown);
    });
  }
  /// ORs in what pulls of this handle have not given yet; answers how many bits.
  [[nodiscard]] result<std::uint64_t> pull(std::vector<std::uint8_t> &map) const {
    return number([&](std::uint64_t *bits) {
      return symlease_coverage_pull(get(), map.data(), map.size(), bits);
    });
  }
  /// The same by shards: `visitor` as that of merge_sparse_many.
  template <class F>
  [[nodiscard]] result<std::uint64_t> pull_sparse(F &&visitor) const {
    detail::caught<std::remove_reference_t<F>> run{visitor};
    std::uint64_t bits = 0;
    const symlease_status code = symlease_coverage_pull_sparse(
        get(), &campaign::novel<std::remove_reference_t<F>>, &run, &bits);
    return {run.finish(code), std::move(bits)};
  }
  /// Absent while nobody fixed them.
  [[nodiscard]] result<symlease::map_info> map_info() const {
    symlease::map_info made;
    char *identity = nullptr;
    const symlease_status code = symlease_coverage_map_info(get(), &made.bytes, &identity);
    const std::unique_ptr<char, detail::string_free> owned(identity);
    if (identity) made.identity = identity;
    return {detail::back(code), std::move(made)};
  }
  [[nodiscard]] result<symlease::totals> totals() const {
    symlease::totals made;
    const symlease_status code = symlease_coverage_totals(get(), &made.edges, &made.bits);
    return {detail::back(code), std::move(made)};
  }
  /// This coordinator's heartbeat: who is shown as a shard's owner.
  [[nodiscard]] result<void> coverage_heartbeat() const {
    return call(symlease_coverage_heartbeat(get()));
  }
  [[nodiscard]] result<shard_owner> coverage_owner(std::uint32_t shard) const {
    shard_owner made;
    char owner[SYMLEASE_OWNER_SIZE] = "";
    const symlease_status code = symlease_coverage_owner(get(), shard, &made.index, owner);
    made.owner = detail::field(owner);
    return {detail::back(code), std::move(made)};
  }

  // Whole results.

  /// Answers what became of each offer, in order.
  [[nodiscard]] result<std::vector<committed>> commit(const lease &held, std::string_view corpus,
                                                      const std::vector<offer> &offers) const {
    const detail::text into("corpus", corpus);
    if (into.bad()) return {status::invalid, into.why()};
    std::vector<symlease_result> raw;
    raw.reserve(offers.size());
    for (const offer &each : offers) {
      if (!each.bad().empty())
        return {status::invalid, std::string(each.bad()) + ": holds a NUL"};
      raw.push_back(each.raw());
    }
    const symlease_status code =
        symlease_commit(get(), &held.raw(), into.get(), raw.data(), raw.size());
    std::vector<committed> made;
    made.reserve(raw.size());
    for (const symlease_result &each : raw)
      made.push_back({static_cast<fate>(each.outcome), each.novel_bits,
                      std::string(detail::field(each.digest)), static_cast<status>(each.status)});
    return {detail::back(code), std::move(made)};
  }
  /// Finishes commits that dead coordinators left, at most `limit` (0: all).
  [[nodiscard]] replay_result replay_commits(std::string_view corpus,
                                             std::size_t limit = 0) const {
    const detail::text into("corpus", corpus);
    if (into.bad()) return {status::invalid, into.why()};
    std::uint64_t completed = 0;
    const symlease_status code = symlease_replay_commits(get(), into.get(), limit, &completed);
    return {detail::back(code), completed};
  }
  /// Finishes a commit with a manifest of the caller's own. `publish` takes
  /// `const record &` and returns whether all of it is published; it runs under
  /// the record's lock and must not call symlease.
  template <class F>
  [[nodiscard]] result<void> replay(std::string_view id, std::string_view token,
                                    F &&publish) const {
    const detail::text key("id", id), current("token", token);
    for (const detail::text *each : {&key, &current})
      if (each->bad()) return {status::invalid, each->why()};
    auto judged = [&](const record &shown) {
      static_assert(std::is_same_v<decltype(publish(shown)), bool>, "publish returns bool");
      return publish(shown) ? visit::go_on : visit::stop;
    };
    detail::caught<decltype(judged)> run{judged};
    return result<void>(run.finish(symlease_replay(
        get(), key.get(), current.get(), &campaign::shown<decltype(judged)>, &run)));
  }

  // Looking. A visitor takes `const record &` and returns void or visit; it may
  // call symlease and may throw.

  template <class F>
  [[nodiscard]] result<void> scan(table which, state mask, F &&visitor, optional_text after = {},
                                  std::size_t limit = 0) const {
    const detail::text from("after_id", after);
    if (from.bad()) return {status::invalid, from.why()};
    detail::caught<std::remove_reference_t<F>> run{visitor};
    return result<void>(run.finish(symlease_scan(
        get(), static_cast<std::int32_t>(which), static_cast<std::uint32_t>(mask), from.get(),
        limit, &campaign::shown<std::remove_reference_t<F>>, &run)));
  }
  /// Without `ttl` each record's own decides.
  template <class F>
  [[nodiscard]] result<void> list_expired(F &&visitor, std::optional<seconds> ttl = {},
                                          std::size_t limit = 0) const {
    detail::caught<std::remove_reference_t<F>> run{visitor};
    return result<void>(run.finish(
        symlease_list_expired(get(), ttl ? ttl->count() : SYMLEASE_TTL_RECORD, limit,
                              &campaign::shown<std::remove_reference_t<F>>, &run)));
  }
  template <class F>
  [[nodiscard]] result<void> list_commits(F &&visitor, std::size_t limit = 0) const {
    detail::caught<std::remove_reference_t<F>> run{visitor};
    return result<void>(run.finish(symlease_list_commits(
        get(), limit, &campaign::shown<std::remove_reference_t<F>>, &run)));
  }
  /// The record's JSON as it stands.
  [[nodiscard]] result<std::string> read_record(table which, std::string_view id) const {
    const detail::text key("id", id);
    if (key.bad()) return {status::invalid, key.why()};
    char *json = nullptr;
    const symlease_status code =
        symlease_read_record(get(), static_cast<std::int32_t>(which), key.get(), &json);
    const std::unique_ptr<char, detail::string_free> owned(json);
    return {detail::back(code), std::string(json ? json : "")};
  }
  [[nodiscard]] result<symlease_counts> counts(table which) const {
    symlease_counts made{};
    const symlease_status code =
        symlease_read_counts(get(), static_cast<std::int32_t>(which), &made);
    return {detail::back(code), std::move(made)};
  }
  [[nodiscard]] result<symlease_counters> counters() const {
    symlease_counters made{};
    const symlease_status code = symlease_read_counters(get(), &made);
    return {detail::back(code), std::move(made)};
  }

 private:
  template <class F>
  [[nodiscard]] static result<campaign> open_with(options settings, F call_open) {
    const detail::text owner("owner", settings.owner.view()),
        map("map_identity", settings.map_identity.view()),
        work("work_root", settings.work_root.view()),
        target("target_root", settings.target_root.view()),
        coverage("coverage_root", settings.coverage_root.view());
    for (const detail::text *each : {&owner, &map, &work, &target, &coverage})
      if (each->bad()) return {status::invalid, each->why()};
    symlease_options raw;
    symlease_options_init(&raw, sizeof raw);
    numbers(settings, raw);
    raw.owner = owner.get();
    raw.map_identity = map.get();
    raw.work_root = work.get();
    raw.target_root = target.get();
    raw.coverage_root = coverage.get();
    campaign made;
    if (settings.clock) {
      made.clock_ = std::make_unique<std::function<double()>>(std::move(settings.clock));
      raw.clock = detail::symlease_hpp_clock;
      raw.clock_user = made.clock_.get();
    }
    symlease_campaign *handle = nullptr;
    const symlease_status code = call_open(raw, &handle);
    made.handle_.reset(handle);
    return {detail::back(code), std::move(made)};
  }
  static void numbers(const options &settings, symlease_options &raw) noexcept {
    raw.map_size = settings.map_size;
    raw.work_ttl = settings.work_ttl.count();
    raw.target_ttl = settings.target_ttl.count();
    raw.lock_timeout = settings.lock_timeout.count();
    raw.clock_skew = settings.clock_skew.count();
    raw.coverage_ttl = settings.coverage_ttl.count();
    raw.worker = settings.worker;
    raw.lease_shards = settings.lease_shards;
    raw.coverage_shards = settings.coverage_shards;
    raw.coordinator_index = settings.coordinator_index;
    raw.coordinator_count = settings.coordinator_count;
    raw.file_mode = settings.file_mode;
    if (settings.existing) raw.flags |= SYMLEASE_OPEN_EXISTING;
    if (settings.read_only) raw.flags |= SYMLEASE_OPEN_READ_ONLY;
    raw.engine = static_cast<std::int32_t>(settings.engine);
    raw.durability = static_cast<std::int32_t>(settings.durability);
    raw.expiry = static_cast<std::int32_t>(settings.expiry);
    raw.session = static_cast<std::int32_t>(settings.session);
  }
  template <class F>
  [[nodiscard]] static int novel(void *user, std::size_t candidate, const symlease_edge *edges,
                                 std::size_t n) noexcept {
    return static_cast<detail::caught<F> *>(user)->run(candidate, edge_range(edges, n));
  }
  [[nodiscard]] static std::vector<symlease_sparse> lent(
      const std::vector<std::vector<edge>> &lists) {
    std::vector<symlease_sparse> made;
    made.reserve(lists.size());
    for (const std::vector<edge> &each : lists) made.push_back({each.data(), each.size()});
    return made;
  }
  [[nodiscard]] static result<void> call(symlease_status code) {
    return result<void>(detail::back(code));
  }
  [[nodiscard]] static symlease_claim_options raw(const claim_options &how,
                                                  const detail::text &owner) noexcept {
    symlease_claim_options made{};
    made.struct_size = sizeof made;
    made.owner = owner.get();
    made.ttl = how.ttl.count();
    made.new_ttl = how.new_ttl.count();
    made.now = how.now;
    made.worker = how.worker;
    made.flags = how.takeover ? SYMLEASE_CLAIM_TAKEOVER : 0;
    return made;
  }
  template <class F>
  [[nodiscard]] static result<std::uint64_t> number(F ask) {
    std::uint64_t made = 0;
    const symlease_status code = ask(&made);
    return {detail::back(code), std::move(made)};
  }
  template <class F>
  [[nodiscard]] static int shown(void *user, const symlease_view *view) noexcept {
    return static_cast<detail::caught<F> *>(user)->run(record(*view));
  }

  // The handle is closed before its clock dies.
  std::unique_ptr<std::function<double()>> clock_;
  std::unique_ptr<symlease_campaign, detail::closer> handle_;
};

}  // namespace symlease

#endif  // SYMLEASE_HPP
