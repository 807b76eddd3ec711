#include "load.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static struct options o = {
    .host = "127.0.0.1", .topic = "load", .port = 9092, .connections = 1, .in_flight = 1, .seconds = 5, .warmup = 1,
    .partitions = 1, .per_request = 1, .batch_bytes = 16384, .record_bytes = 100, .acks = 1, .max_bytes = 1 << 20,
    .max_wait_ms = 500, .discard = -1, .create = 1,
};

static const struct {
    const char *name;
    long *number;
    double *real;
    const char **text;
    const char *help;
} names[] = {
    {"host", .text = &o.host, .help = "IPv4 address"},
    {"port", .number = &o.port},
    {"topic", .text = &o.topic},
    {"create", .number = &o.create, .help = "1: create the topic where it is missing"},
    {"delete", .number = &o.delete, .help = "1: delete the topic afterwards"},
    {"partitions", .number = &o.partitions, .help = "of the topic; requests go round over them"},
    {"per-request", .number = &o.per_request, .help = "partitions in each request"},
    {"connections", .number = &o.connections},
    {"in-flight", .number = &o.in_flight, .help = "requests in flight on each connection"},
    {"seconds", .real = &o.seconds, .help = "measured"},
    {"warmup", .real = &o.warmup, .help = "seconds before"},
    {"requests", .number = &o.requests, .help = "measure so many instead of seconds"},
    {"counted", .number = &o.counted, .help = "1: exactly --requests, between two lines of input (load/__init__.py)"},
    {"warm-requests", .number = &o.warm_requests, .help = "counted: so many before"},
    {"batch-file", .text = &o.batch_file, .help = "produce: the batch that it holds, in place of ours"},
    {"batch-bytes", .number = &o.batch_bytes, .help = "produce: as many records as fit"},
    {"records", .number = &o.records, .help = "produce: so many in a batch instead"},
    {"record-bytes", .number = &o.record_bytes, .help = "size of each value"},
    {"acks", .number = &o.acks, .help = "1 or -1"},
    {"idempotent", .number = &o.idempotent, .help = "1: a producer id per connection, sequences"},
    {"transactional", .number = &o.transactional, .help = "1: one transaction per connection, all of it in that"},
    {"max-bytes", .number = &o.max_bytes, .help = "fetch: of each partition"},
    {"max-wait-ms", .number = &o.max_wait_ms},
    {"discard", .number = &o.discard, .help = "fetch: drop records in the kernel (default: from 64 KiB on)"},
    {"interval-ms", .number = &o.interval_ms, .help = "each connection one request per interval"},
    {"gap-us", .number = &o.gap_us, .help = "latency: pause after the long poll was sent"},
    {"pid", .text = &o.pids, .help = "the server's processes, comma-separated"},
    {"allow-errors", .number = &o.allow_errors, .help = "1: error codes do not fail the run"},
};
enum { NAMES = sizeof names / sizeof *names };

static void usage(void) {
    fputs("load produce|fetch|latency|metadata|commit|transactions|ready [--name value ...]\n", stderr);
    for (int i = 0; i < NAMES; i++) fprintf(stderr, "  --%-14s %s\n", names[i].name, names[i].help ? names[i].help : "");
    exit(2);
}

static void parse(int argc, char **argv) {
    if (argc < 2 || argc % 2) usage();
    o.mode = argv[1];
    for (int a = 2; a < argc; a += 2) {
        int i = 0;
        while (i < NAMES && (strncmp(argv[a], "--", 2) || strcmp(argv[a] + 2, names[i].name))) i++;
        if (i == NAMES) usage();
        char *end = "";
        if (names[i].number) *names[i].number = strtol(argv[a + 1], &end, 10);
        if (names[i].real) *names[i].real = strtod(argv[a + 1], &end);
        if (names[i].text) *names[i].text = argv[a + 1];
        if (*end) usage();
    }
    if (o.acks != 1 && o.acks != -1) die("acks is 1 or -1");
    if (o.transactional) o.idempotent = 1;
    if (o.per_request > o.partitions || o.per_request < 1) die("per-request is 1 to partitions");
    if (o.counted && (o.requests < 1 || o.interval_ms)) die("what is counted has --requests, and no interval");
    if (o.connections < 1 || o.in_flight < 1 || o.partitions < 1 || o.seconds <= 0) usage();
}

/* Waits until ApiVersions is answered without an error; prints when, on the monotonic clock. */
static void await_ready(void) {
    for (double limit = now_s() + (o.seconds > 60 ? o.seconds : 60); now_s() < limit; usleep(1000)) {
        int fd = connect_to(&o);
        if (fd < 0) continue;
        struct timeval patience = {5, 0};
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
        struct buf frame = {0};
        uint8_t in[10];
        begin_request(&frame, 18, 0);
        end_request(&frame, 0);
        ssize_t got = send(fd, frame.data, frame.len, MSG_NOSIGNAL) < 0 ? -1 : recv(fd, in, sizeof in, MSG_WAITALL);
        double at = now_s();
        close(fd);
        free(frame.data);
        if (got == sizeof in && !get16(in + 8)) {
            printf("{\"mode\": \"ready\", \"ready_at\": %.4f, \"errors\": 0}\n", at);
            return;
        }
    }
    die("port %ld never answered", o.port);
}

static void overdue(int signal_number) {
    (void)signal_number;
    static const char text[] = "load: the broker stopped answering\n";
    ssize_t ignored = write(2, text, sizeof text - 1);
    (void)ignored;
    _exit(2);
}

int main(int argc, char **argv) {
    parse(argc, argv);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGALRM, overdue);
    alarm((unsigned)(o.warmup + o.seconds) + 60);
    if (!strcmp(o.mode, "ready")) {
        await_ready();
        return 0;
    }
    if (strcmp(o.mode, "fetch")) o.discard = 0;
    if (o.discard < 0) o.discard = o.max_bytes >= 65536;
    int fd = connect_to(&o);
    if (fd < 0) die("nothing listens on port %ld", o.port);
    if (o.create) create_topic(fd, &o);
    await_leaders(fd, &o);
    struct workload w = {.o = &o};
    if (!strcmp(o.mode, "latency")) {
        if (!o.records) o.records = 1;
        run_latency(&o, &w.r);
    } else if (!strcmp(o.mode, "transactions")) {
        run_transactions(&o, &w.r);
    } else {
        if (!strcmp(o.mode, "produce"))
            produce_workload(&w);
        else if (!strcmp(o.mode, "fetch"))
            fetch_workload(&w, fd);
        else if (!strcmp(o.mode, "metadata"))
            metadata_workload(&w);
        else if (!strcmp(o.mode, "commit"))
            commit_workload(&w, fd);
        else
            usage();
        run_load(&w);
    }
    print_result(&o, &w.r);
    if (o.delete) delete_topic(fd, &o);
    return w.r.errors && !o.allow_errors ? 3 : 0;
}
