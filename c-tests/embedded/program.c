#include <stdio.h>
#include <symlease.h>

int main(void) {
  symlease_campaign *campaign = NULL;
  symlease_lease lease = {0};
  char id[SYMLEASE_ID_SIZE];
  if (symlease_open("campaign", NULL, &campaign) != SYMLEASE_OK ||
      symlease_work_id("x", 1, id) != SYMLEASE_OK ||
      symlease_claim(campaign, id, NULL, &lease, NULL) != SYMLEASE_OK) {
    fprintf(stderr, "%s\n", symlease_last_error());
    return 1;
  }
  symlease_close(campaign);
  return 0;
}
