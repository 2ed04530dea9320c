/* Probe, stats, existing and read-only opens. Argument: an empty directory. */
#include <dirent.h>
#include <math.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"

static volatile sig_atomic_t children;

static void child_ended(int number) {
  (void)number;
  children++;
}

static int names_in(const char *path) {
  DIR *directory = opendir(path);
  int names = -2; /* . and .. */
  CHECK(directory != NULL);
  while (readdir(directory) != NULL) names++;
  CHECK(closedir(directory) == 0);
  return names;
}

static void probing(const char *root) {
  char path[4096], *json = NULL;
  struct sigaction action;
  FILE *file;
  memset(&action, 0, sizeof action);
  action.sa_handler = child_ended;
  CHECK(sigaction(SIGCHLD, &action, NULL) == 0);
  CHECK(symlease_probe(root, 10.0, &json) == SYMLEASE_OK);
  CHECK(strstr(json, "\"usable\":true") && strstr(json, "\"failed\":[]"));
  CHECK(strstr(json, "exclusion across processes") && strstr(json, "holder is killed"));
  CHECK(strstr(json, "\"not_proven\":[\"exclusion across hosts\""));
  symlease_string_free(json);
  CHECK(names_in(root) == 0);
  CHECK(children == 0); /* the host sees nothing of the probe's processes */
  /* no directory can be made there: said, not guessed */
  CHECK(symlease_probe("/proc", 0.0, &json) == SYMLEASE_OK);
  CHECK(strstr(json, "\"usable\":false") && strstr(json, "make a directory"));
  symlease_string_free(json);
  json = NULL;
  snprintf(path, sizeof path, "%s/absent", root);
  CHECK(symlease_probe(path, 1.0, &json) == SYMLEASE_E_IO);
  CHECK(strstr(symlease_last_error(), "absent") && symlease_last_errno() != 0);
  snprintf(path, sizeof path, "%s/file", root);
  file = fopen(path, "w");
  CHECK(file != NULL && fclose(file) == 0);
  CHECK(symlease_probe(path, 1.0, &json) == SYMLEASE_E_IO && unlink(path) == 0);
  CHECK(symlease_probe(root, -1.0, &json) == SYMLEASE_E_INVALID);
  CHECK(symlease_probe(root, NAN, &json) == SYMLEASE_E_INVALID);
  CHECK(symlease_probe(root, 61.0, &json) == SYMLEASE_E_INVALID);
  CHECK(symlease_probe(NULL, 1.0, &json) == SYMLEASE_E_INVALID);
  CHECK(symlease_probe(root, 1.0, NULL) == SYMLEASE_E_INVALID && json == NULL);
}

static void opening(const char *root) {
  char path[4096], id[SYMLEASE_ID_SIZE], *json = NULL;
  symlease_options options;
  symlease_campaign *a = NULL, *reader = NULL;
  symlease_lease lease;
  symlease_counts counts;
  const symlease_edge edge = {67, 2};
  memset(&lease, 0, sizeof lease);
  snprintf(path, sizeof path, "%s/campaign", root);
  symlease_options_init(&options, sizeof options);
  options.flags = SYMLEASE_OPEN_EXISTING;
  CHECK(symlease_open(path, &options, &a) == SYMLEASE_E_IO);
  CHECK(strstr(symlease_last_error(), path) != NULL);
  options.flags = SYMLEASE_OPEN_READ_ONLY; /* nothing there is an empty campaign */
  CHECK(symlease_open(path, &options, &reader) == SYMLEASE_OK);
  CHECK(symlease_work_id("x", 1, id) == SYMLEASE_OK);
  CHECK(symlease_claim(reader, id, NULL, &lease, NULL) == SYMLEASE_E_INVALID);
  CHECK(strstr(symlease_last_error(), "READ_ONLY"));
  CHECK(symlease_read_counts(reader, SYMLEASE_TABLE_WORK, &counts) == SYMLEASE_OK);
  CHECK(counts.leased == 0 && access(path, F_OK) != 0); /* M4 */
  CHECK(setenv("SYMCC_MASTER_ID", "from-environment", 1) == 0);
  CHECK(setenv("SYMCC_WORK_LEASE_TTL", "1e9", 1) == 0);
  CHECK(symlease_open(path, NULL, &a) == SYMLEASE_OK);
  CHECK(symlease_claim(a, id, NULL, &lease, NULL) == SYMLEASE_OK && lease.ttl == 86400.0);
  CHECK(symlease_read_counts(reader, SYMLEASE_TABLE_WORK, &counts) == SYMLEASE_OK);
  CHECK(counts.leased == 1);
  CHECK(symlease_read_stats(a, &json) == SYMLEASE_OK);
  CHECK(strstr(json, "\"owner\":\"from-environment\"") && strstr(json, "\"locks\":1,"));
  CHECK(strstr(json, "\"given\":\"1e9\",\"used\":\"86400\",\"variable\":\"SYMCC_WORK_LEASE_TTL\""));
  CHECK(strstr(json, "\"lease_shards\":256") && strstr(json, "\"durability\":\"power\""));
  CHECK(strstr(json, "\"session\":true") && strstr(json, "/campaign/.work_lease_table\""));
  symlease_string_free(json);
  CHECK(symlease_read_record(a, SYMLEASE_TABLE_COVERAGE, "3", &json) == SYMLEASE_ABSENT);
  CHECK(symlease_coverage_merge_sparse(a, &edge, 1, NULL) == SYMLEASE_OK);
  CHECK(symlease_read_record(a, SYMLEASE_TABLE_COVERAGE, "3", &json) == SYMLEASE_OK);
  CHECK(strstr(json, "\"entries\":[[67,2]]") != NULL);
  symlease_string_free(json);
  CHECK(symlease_read_record(a, SYMLEASE_TABLE_COVERAGE, "64", &json) == SYMLEASE_E_INVALID);
  CHECK(symlease_read_record(a, SYMLEASE_TABLE_COVERAGE, "x", &json) == SYMLEASE_E_INVALID);
  symlease_close(a);
  symlease_close(reader);
  /* the three directories from the environment */
  CHECK(symlease_open_env(NULL, &a) == SYMLEASE_E_INVALID);
  CHECK(strstr(symlease_last_error(), "SYMCC_COVERAGE_OWNER_DIR") != NULL);
  snprintf(path, sizeof path, "%s/campaign/.work_lease_table", root);
  CHECK(setenv("SYMCC_MULTI_MASTER_LEASE_DIR", path, 1) == 0);
  CHECK(symlease_open_env(NULL, &a) == SYMLEASE_OK);
  CHECK(symlease_verify(a, &lease) == SYMLEASE_OK);
  CHECK(symlease_coverage_heartbeat(a) == SYMLEASE_E_INVALID); /* that table has no root */
  CHECK(strstr(symlease_last_error(), "coverage_root"));
  symlease_close(a);
}

int main(int count, char **arguments) {
  CHECK(count == 2);
  probing(arguments[1]);
  opening(arguments[1]);
  return 0;
}
