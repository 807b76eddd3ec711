#include "load.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

void die(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fputs("load: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    exit(2);
}

double now_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Calls `read_one` for each process of the comma-separated list, and adds up. */
static double each_pid(const char *pids, double (*read_one)(long pid)) {
    double sum = 0;
    for (const char *at = pids; at && *at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
        sum += read_one(strtol(at, NULL, 10));
    return sum;
}

static double cpu_of(long pid) {
    char path[64], text[1024];
    snprintf(path, sizeof path, "/proc/%ld/stat", pid);
    FILE *f = fopen(path, "r");
    if (!f) die("no process %ld", pid);
    size_t n = fread(text, 1, sizeof text - 1, f);
    fclose(f);
    text[n] = 0;
    char *after_name = strrchr(text, ')'); /* the name may hold anything */
    unsigned long user = 0, system = 0;
    if (!after_name || sscanf(after_name + 2, "%*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &system) != 2)
        die("cannot read %s", path);
    return (double)(user + system) / (double)sysconf(_SC_CLK_TCK);
}

static double resident_of(long pid) {
    char path[64];
    long pages = 0;
    snprintf(path, sizeof path, "/proc/%ld/statm", pid);
    FILE *f = fopen(path, "r");
    if (!f || fscanf(f, "%*d %ld", &pages) != 1) die("cannot read %s", path);
    fclose(f);
    return (double)pages * (double)sysconf(_SC_PAGESIZE) / (1 << 20);
}

double cpu_seconds(const char *pids) { return each_pid(pids, cpu_of); }
double resident_mib(const char *pids) { return each_pid(pids, resident_of); }

double own_cpu_seconds(void) {
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) + (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1e-6;
}

void add_sample(struct samples *s, double seconds) {
    if (s->n == s->cap) {
        s->cap = s->cap ? s->cap * 2 : 1 << 16;
        s->ticks = realloc(s->ticks, s->cap * sizeof *s->ticks);
        if (!s->ticks) die("out of memory");
    }
    double ticks = seconds * 1e7;
    s->ticks[s->n++] = ticks < 4294967295.0 ? (uint32_t)ticks : 4294967295u;
}

double machine_cpu_seconds(void) {
    unsigned long long user, nice, system, irq, softirq, steal;
    FILE *f = fopen("/proc/stat", "r");
    if (!f || fscanf(f, "cpu %llu %llu %llu %*u %*u %llu %llu %llu", &user, &nice, &system, &irq, &softirq, &steal) != 6)
        die("cannot read /proc/stat");
    fclose(f);
    return (double)(user + nice + system + irq + softirq + steal) / (double)sysconf(_SC_CLK_TCK);
}

/* Each clock is set to minus its reading at the start; its reading at the end is added. */
static void read_clocks(const struct options *o, struct result *r, int sign) {
    double server = cpu_seconds(o->pids), own = own_cpu_seconds();
    r->server_cpu_s += sign * server;
    r->load_cpu_s += sign * own;
    r->other_cpu_s += sign * (machine_cpu_seconds() - server - own);
    r->seconds += sign * now_s();
}

void gate(const struct options *o, const char *where) {
    if (!o->counted) return;
    puts(where);
    fflush(stdout);
    for (int c; (c = getchar()) != '\n';)
        if (c == EOF) die("nobody lets it go on");
}

void start_window(const struct options *o, struct result *r) {
    r->measuring = true;
    r->seconds = r->server_cpu_s = r->load_cpu_s = r->other_cpu_s = 0;
    read_clocks(o, r, -1);
}

void end_window(const struct options *o, struct result *r) {
    r->measuring = false;
    read_clocks(o, r, 1);
}

bool goes_on(const struct options *o, struct result *r, long turn, double began) {
    double now = now_s();
    bool warm = o->counted ? turn >= o->warm_requests : now >= began + o->warmup;
    bool over = o->counted ? turn >= o->warm_requests + o->requests : now >= began + o->warmup + o->seconds;
    if (!r->measuring && warm) {
        gate(o, "begin");
        start_window(o, r);
    }
    if (!r->measuring || !over) return true;
    end_window(o, r);
    gate(o, "end");
    return false;
}

static int compare(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

void sort_samples(struct samples *s) {
    if (s->n) qsort(s->ticks, s->n, sizeof *s->ticks, compare);
}

double percentile_ms(const struct samples *s, double q) {
    if (!s->n) return 0;
    size_t at = (size_t)(q * (double)s->n);
    return (double)s->ticks[at < s->n ? at : s->n - 1] * 1e-4;
}

void print_result(const struct options *o, struct result *r) {
    double requests = (double)r->requests, bytes = (double)r->bytes;
    sort_samples(&r->samples);
    printf("{\"mode\": \"%s\", \"connections\": %ld, \"in_flight\": %ld, \"requests\": %llu, \"seconds\": %.3f", o->mode,
           o->connections, o->in_flight, (unsigned long long)r->requests, r->seconds);
    printf(", \"requests_per_s\": %.1f, \"mb_per_s\": %.2f", requests / r->seconds, bytes / 1e6 / r->seconds);
    printf(", \"p50_ms\": %.4f, \"p99_ms\": %.4f, \"p999_ms\": %.4f, \"max_ms\": %.4f", percentile_ms(&r->samples, 0.5),
           percentile_ms(&r->samples, 0.99), percentile_ms(&r->samples, 0.999), percentile_ms(&r->samples, 1));
    printf(", \"errors\": %llu, \"error_code\": %d, \"again\": %llu", (unsigned long long)r->errors, r->error_code,
           (unsigned long long)r->again);
    if (o->pids && requests > 0) {
        printf(", \"server_cpu_s\": %.2f, \"cpu_us_per_request\": %.2f", r->server_cpu_s, r->server_cpu_s * 1e6 / requests);
        if (bytes > 0) printf(", \"cpu_s_per_gib\": %.4f", r->server_cpu_s / (bytes / (1 << 30)));
        printf(", \"server_rss_mib\": %.1f", resident_mib(o->pids));
    }
    printf(", \"load_cpu_s\": %.2f", r->load_cpu_s);
    if (o->pids) printf(", \"other_cpu_s\": %.2f", r->other_cpu_s);
    puts("}");
}
