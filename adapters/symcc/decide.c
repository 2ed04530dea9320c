/* decide.c - is this branch to be solved here? */
#include "symcc.h"

/* The solving of the last claimed target is over, without an input: it is
 * anybody's again, since another path may lead to it. */
void symcc_(settle)(void) {
  symcc_quiet quiet;
  symcc_(quiet_begin)(&quiet);
  if (symcc_(settings).tried && symcc_(claim_is_mine)()) symcc_(solved_add)(&symcc_(current));
  symcc_(release)();
  symcc_(quiet_end)(&quiet);
}

static bool claim_it(symcc_target *target) {
  symcc_digest digest;
  if (!symcc_(target_digest)(target, &digest)) return true;
  if (symcc_(solved_known)(&digest)) {
    target->state[target->taken] = SYMCC_SOLVED;
    symcc_(counts).known++;
    return false;
  }
  switch (symcc_(claim)(&digest)) {
    case SYMCC_TROUBLE: return true;
    case SYMCC_HELD: symcc_(counts).held++; return false;
    case SYMCC_CLAIMED: break;
  }
  /* Whoever solved it has written so before it let go. */
  if (!symcc_(solved_now)(&digest)) return true;
  symcc_(counts).claimed--;
  symcc_(release)();
  target->state[target->taken] = SYMCC_SOLVED;
  symcc_(counts).known++;
  return false;
}

bool symcc_(decide)(uint64_t site, bool taken, bool interesting) {
  symcc_target *target;
  symcc_quiet quiet;
  bool solve;
  symcc_(counts).events++;
  if (symcc_(solving)) symcc_(settle)();
  target = symcc_(target_met)(site, taken);
  if (!interesting) return false;
  symcc_(counts).asked++;
  if (target->state[target->taken] == SYMCC_SOLVED) {
    symcc_(counts).known++;
    return false;
  }
  symcc_(quiet_begin)(&quiet);
  solve = claim_it(target);
  symcc_(quiet_end)(&quiet);
  return solve;
}

/* An input is there: first it is made safe, then its target is remembered, then
 * the lease goes. A death between two of these repeats work and loses none.
 * The work lease is looked at after staging: who takes the work over later
 * finds the input; who took it before has the target still to solve. */
void symcc_(input)(const void *bytes, size_t len) {
  symcc_quiet quiet;
  bool staged;
  symcc_(quiet_begin)(&quiet);
  staged = symcc_(stage)(bytes, len);
  if (symcc_(solving) && symcc_(claim_is_mine)()) {
    const bool ours = staged && symcc_(work_is_mine)();
    if (ours) symcc_(solved_add)(&symcc_(current));
    else if (staged) symcc_(counts).stale++;
    symcc_(release)();
  }
  symcc_(quiet_end)(&quiet);
}
