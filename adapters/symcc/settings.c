/* settings.c - the environment. */
#include "symcc.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

symcc_settings symcc_(settings) = {.hits = true, .mode = 0600};

static const char *variable(const char *name) {
  const char *value = secure_getenv(name);
  return value != NULL && value[0] != '\0' ? value : NULL;
}

static bool is_set(const char *name) {
  const char *value = variable(name);
  return value != NULL && strcmp(value, "0") != 0;
}

/* The target may change its directory: paths are made absolute once (F11). */
static char *absolute(const char *path, const char *below) {
  char here[PATH_MAX] = "", made[2 * PATH_MAX];
  if (path == NULL) return NULL;
  if (path[0] != '/' && getcwd(here, sizeof here - 1) == NULL) return NULL;
  snprintf(made, sizeof made, "%s%s%s%s", here, here[0] != '\0' ? "/" : "", path, below);
  return strdup(made);
}

/* Beside the target leases, so that it moves with them. */
static char *default_memory(void) {
  const char *targets = variable("SYMCC_MULTI_MASTER_TARGET_LEASE_DIR");
  if (symcc_(settings).campaign != NULL) return absolute(symcc_(settings).campaign, "/.symcc");
  return absolute(targets, "/../.symcc");
}

bool symcc_(have_campaign)(void) {
  return symcc_(settings).campaign != NULL ||
         variable("SYMCC_MULTI_MASTER_TARGET_LEASE_DIR") != NULL;
}

bool symcc_(read_settings)(void) {
  symcc_settings *s = &symcc_(settings);
  const char *disable = secure_getenv("SYMLEASE_DISABLE");
  const char *remember = variable("SYMLEASE_SYMCC_REMEMBER");
  const char *hits = variable("SYMLEASE_SYMCC_HITS");
  const char *mode = variable("SYMLEASE_SYMCC_FILE_MODE");
  const char *durability = variable("SYMLEASE_SYMCC_DURABILITY");
  const char *staging = variable("SYMLEASE_SYMCC_STAGING");
  if (disable != NULL && strcmp(disable, "1") == 0) return false;
  s->campaign = absolute(variable("SYMLEASE_SYMCC_CAMPAIGN"), "");
  s->memory = absolute(variable("SYMLEASE_SYMCC_MEMORY"), "");
  if (s->memory == NULL && symcc_(have_campaign)()) s->memory = default_memory();
  if (staging == NULL) staging = variable("SYMCC_OUTPUT_DIR");
  s->staging = absolute(staging != NULL ? staging : "/tmp/output", ""); /* as the runtime does */
  s->work = variable("SYMLEASE_SYMCC_WORK");
  s->token = variable("SYMLEASE_SYMCC_TOKEN");
  s->build = variable("SYMLEASE_SYMCC_BUILD");
  s->durability = SYMLEASE_DURABLE_ANY;
  if (durability != NULL && strcmp(durability, "power") == 0) s->durability = SYMLEASE_DURABLE_POWER;
  if (durability != NULL && strcmp(durability, "process") == 0)
    s->durability = SYMLEASE_DURABLE_PROCESS;
  s->hits = hits == NULL || strcmp(hits, "0") != 0;
  s->tried = remember != NULL && strcmp(remember, "tried") == 0;
  s->keep_map = is_set("SYMLEASE_SYMCC_KEEP_MAP");
  s->verbose = is_set("SYMLEASE_SYMCC_VERBOSE");
  s->quiet = is_set("SYMLEASE_SYMCC_QUIET");
  if (mode != NULL) {
    char *end;
    unsigned long value = strtoul(mode, &end, 8);
    if (*end == '\0' && (value & 0600) == 0600 && value <= 0666) s->mode = (uint32_t)value;
  }
  return true;
}
