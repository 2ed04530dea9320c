// Compiled only: the wrapper alone and the header behind it.
#include "symlease.hpp"
#include "symlease.h"

symlease::status symlease_wrapper_is_whole(const symlease::campaign &campaign);
symlease::status symlease_wrapper_is_whole(const symlease::campaign &campaign) {
  return campaign.counters().code();
}
