#include "faults.h"

#include <dirent.h>
#include <ftw.h>
#include <sys/mman.h>
#include <time.h>

double *fault_time;

double fault_clock(void *user) {
  return *(double *)user;
}

void skip(const char *why) {
  printf("  skipped: %s\n", why);
  fflush(stdout);
  _exit(77);
}

void nap(long microseconds) {
  struct timespec time = {microseconds / 1000000, microseconds % 1000000 * 1000};
  nanosleep(&time, NULL);
}

void below(path_text path, const char *root, const char *name) {
  CHECK(snprintf(path, PATH_MAX, "%s/%s", root, name) < PATH_MAX);
}

static double seconds(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

int run_faults(int count, char **arguments, const struct fault *faults, size_t n) {
  const char *only = getenv("SYMLEASE_TEST_ONLY");
  path_text root, whole;
  size_t i;
  int wrong = 0;
  CHECK(count == 2 && realpath(arguments[1], whole));
  fault_time = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  CHECK(fault_time != MAP_FAILED);
  for (i = 0; i < n; i++) {
    double start = seconds();
    int state;
    pid_t pid;
    if (only && strncmp(faults[i].name, only, strlen(only)) != 0) continue;
    below(root, whole, faults[i].name);
    CHECK(mkdir(root, 0700) == 0);
    *fault_time = 1786060800.25;
    fflush(stdout);
    pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
      alarm(300);
      faults[i].test(root);
      fflush(stdout);
      _exit(0);
    }
    CHECK(waitpid(pid, &state, 0) == pid);
    if (state == 0 || (WIFEXITED(state) && WEXITSTATUS(state) == 77)) {
      printf("%s %s (%.1f s)\n", faults[i].name, state ? "SKIPPED" : "ok", seconds() - start);
    } else {
      fprintf(stderr, "%s: FAILED, signal %d, exit code %d\n", faults[i].name, WTERMSIG(state),
              WEXITSTATUS(state));
      wrong = 1;
    }
    if (!getenv("SYMLEASE_TEST_KEEP")) remove_tree(root);
  }
  return wrong;
}

struct text {
  char *bytes;
  size_t size, room;
  int identities;
};

static void add_line(struct text *text, const char *line) {
  size_t length = strlen(line);
  if (text->size + length + 1 > text->room) {
    text->room = (text->room + length + 1) * 2;
    CHECK((text->bytes = realloc(text->bytes, text->room)));
  }
  memcpy(text->bytes + text->size, line, length + 1);
  text->size += length;
}

static void add_tree(struct text *text, const char *root) {
  struct dirent **names;
  int i, n = scandir(root, &names, NULL, alphasort);
  CHECK(n >= 0);
  for (i = 0; i < n; i++) {
    const char *name = names[i]->d_name;
    size_t length = strlen(name);
    path_text path;
    struct stat facts;
    if (strcmp(name, ".") != 0 && strcmp(name, "..") != 0 &&
        !(length > 5 && strcmp(name + length - 5, ".lock") == 0) &&
        (text->identities ||
         (strcmp(name, "symlease.json") != 0 && strcmp(name, "map.json") != 0))) {
      below(path, root, name);
      if (lstat(path, &facts) != 0) {
        CHECK(errno == ENOENT); /* somebody else's, just gone */
      } else if (S_ISDIR(facts.st_mode)) {
        add_tree(text, path);
      } else {
        char line[PATH_MAX + 80], *bytes = NULL;
        size_t size = 0, at;
        uint64_t digest = 0xcbf29ce484222325u;
        if (S_ISREG(facts.st_mode) && facts.st_size < (64 << 20)) bytes = read_file(path, &size);
        for (at = 0; at < size; at++) digest = (digest ^ (unsigned char)bytes[at]) * 0x100000001b3u;
        free(bytes);
        snprintf(line, sizeof line, "%s %o %lld %016llx\n", path, (unsigned)facts.st_mode,
                 (long long)facts.st_size, (unsigned long long)digest);
        add_line(text, line);
      }
    }
    free(names[i]);
  }
  free(names);
}

static char *tree(const char *root, int identities) {
  struct text text = {NULL, 0, 0, identities};
  add_line(&text, "");
  add_tree(&text, root);
  return text.bytes;
}

char *snapshot(const char *root) {
  return tree(root, 1);
}

char *records(const char *root) {
  return tree(root, 0);
}

int no_temporaries(const char *snapshot) {
  return strstr(snapshot, ".tmp ") == NULL;
}

static int remove_one(const char *path, const struct stat *facts, int kind, struct FTW *walk) {
  (void)facts;
  (void)kind;
  (void)walk;
  return remove(path);
}

void remove_tree(const char *root) {
  nftw(root, remove_one, 20, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
}

char *read_file(const char *path, size_t *size) {
  FILE *file = fopen(path, "r");
  char *bytes = NULL;
  size_t room = 0, count;
  *size = 0;
  if (!file) return NULL;
  do {
    if (*size + 1 >= room) CHECK((bytes = realloc(bytes, room = room * 2 + 4096)));
    count = fread(bytes + *size, 1, room - *size - 1, file);
    *size += count;
  } while (count > 0);
  bytes[*size] = 0;
  fclose(file);
  return bytes;
}

void write_file(const char *path, const void *bytes, size_t size) {
  FILE *file = fopen(path, "w");
  CHECK(file != NULL);
  CHECK(fwrite(bytes, 1, size, file) == size && fclose(file) == 0);
}

int open_descriptors(void) {
  DIR *list = opendir("/proc/self/fd");
  int count = 0;
  CHECK(list != NULL);
  while (readdir(list)) count++;
  closedir(list);
  return count - 3; /* the two dots and the listing's own */
}

symlease_options fault_options(const char *owner) {
  symlease_options options;
  symlease_options_init(&options, sizeof options);
  options.owner = owner;
  options.clock = fault_clock;
  options.clock_user = fault_time;
  options.work_ttl = 10.0;
  options.lock_timeout = 20.0;
  options.lease_shards = 16;
  options.coverage_shards = 4;
  options.session = SYMLEASE_SESSION_NONE;
  return options;
}

symlease_campaign *open_with(const char *root, const symlease_options *options) {
  symlease_campaign *campaign = NULL;
  CHECK(symlease_open(root, options, &campaign) == SYMLEASE_OK);
  return campaign;
}

symlease_campaign *open_fault(const char *root, const char *owner) {
  symlease_options options = fault_options(owner);
  return open_with(root, &options);
}

void record_path(path_text path, const char *root, const char *table, const char *id) {
  char head[9];
  memcpy(head, id, 8);
  head[8] = 0;
  CHECK(snprintf(path, PATH_MAX, "%s/%s/%03lu/%s.json", root, table, strtoul(head, NULL, 16) % 16,
                 id) < PATH_MAX);
}
