/* lease.c - a campaign from outside:
 *   lease CAMPAIGN claim|takeover ID   prints the work lease's token
 *   lease CAMPAIGN leased              prints how many targets are leased */
#include <stdio.h>
#include <string.h>

#include "symlease.h"

int main(int count, char **words) {
  symlease_options options;
  symlease_campaign *campaign;
  symlease_lease lease = {0};
  symlease_counts counts = {0};
  symlease_claim_options how = {.struct_size = sizeof how};
  int done;
  if (count < 3) return 2;
  symlease_options_init(&options, sizeof options);
  options.session = SYMLEASE_SESSION_NONE; /* the lease outlives this program */
  if (symlease_open(words[1], &options, &campaign) != SYMLEASE_OK) return 1;
  if (strcmp(words[2], "leased") == 0) {
    done = symlease_read_counts(campaign, SYMLEASE_TABLE_TARGET, &counts) == SYMLEASE_OK;
    printf("%llu\n", (unsigned long long)counts.leased);
  } else {
    if (count < 4) return 2;
    how.flags = strcmp(words[2], "takeover") == 0 ? SYMLEASE_CLAIM_TAKEOVER : 0;
    done = symlease_claim_with(campaign, words[3], NULL, &how, &lease, NULL) == SYMLEASE_OK;
    printf("%s\n", lease.token);
  }
  if (!done) fprintf(stderr, "%s\n", symlease_last_error());
  symlease_close(campaign);
  return done ? 0 : 1;
}
