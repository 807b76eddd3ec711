/* A load generator for brokers that speak Kafka's protocol: one thread, epoll, frames built beforehand.
 *
 *   main.c       options, the run of one mode, the JSON line
 *   engine.c     connections, requests in flight, pacing, the measured window
 *   workloads.c  what is sent and checked: produce, fetch, metadata, commit
 *   latency.c    one record at a time, from its produce to the long poll that returns it
 *   transactions.c  one transaction at a time, from its first partition to its commit
 *   setup.c      one blocking request after the other: topics, offsets, producer ids
 *   wire.c       integers, record batches, CRC-32C
 *   stats.c      time, percentiles, the server's CPU and memory
 */
#ifndef LOAD_H
#define LOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct options {
    const char *mode, *host, *topic, *pids, *batch_file;
    long port, connections, in_flight;
    double seconds, warmup;
    long requests;                /* stop after so many instead of after `seconds` (0: by time) */
    long counted, warm_requests;  /* exactly `requests`, after so many others; both ends wait for a line of input */
    long partitions, per_request; /* of the topic; in each request */
    long batch_bytes, records, record_bytes;
    long acks, idempotent, transactional;
    long max_bytes, max_wait_ms, discard; /* of a fetch, for each partition */
    long interval_ms;                     /* > 0: each connection sends one request per interval */
    long gap_us;                          /* latency: pause between the long poll and the produce */
    long create, delete, allow_errors;
};

/* ---- wire.c: big-endian integers; a growing buffer; batches ---- */

struct buf {
    uint8_t *data;
    size_t len, cap;
};

void put_bytes(struct buf *b, const void *from, size_t n);
void put8(struct buf *b, int v);
void put16(struct buf *b, int v);
void put32(struct buf *b, int64_t v);
void put64(struct buf *b, int64_t v);
void put_string(struct buf *b, const char *text); /* NULL: the null string */
void set32(uint8_t *at, uint32_t v);
void set64(uint8_t *at, uint64_t v);
int get16(const uint8_t *at);
int32_t get32(const uint8_t *at);
int64_t get64(const uint8_t *at);

/* Starts a frame (size still 0, header version 1), and writes its size when all is in. */
void begin_request(struct buf *b, int api_key, int version);
void end_request(struct buf *b, size_t start);

enum { BATCH_HEADER = 61, BATCH_CRC = 17, BATCH_ATTRIBUTES = 21, BATCH_PRODUCER = 43, BATCH_SEQUENCE = 53 };
uint32_t crc32c(const uint8_t *data, size_t n);
/* One uncompressed batch with keyless records, or what the batch file holds; returns how many records are in it. */
int put_batch(struct buf *b, const struct options *o, uint64_t seed);
/* Walks whole batches, checks length, magic and CRC of each; returns the offset after the last, or `from` when
 * there is none. A cut-off last batch is allowed, as in every fetch response. */
int64_t check_batches(const uint8_t *data, size_t n, int64_t from);

/* The CRC of a batch is affine in its bits: a changed sequence number costs four look-ups, whatever its size. */
struct sequence_crc {
    uint32_t base, table[4][256];
};
void sequence_crc_init(struct sequence_crc *s, const uint8_t *batch, size_t n);
void set_sequence(uint8_t *batch, const struct sequence_crc *s, int32_t sequence);

/* ---- stats.c ---- */

double now_s(void);
double cpu_seconds(const char *pids); /* user and system time of the processes, comma-separated */
double resident_mib(const char *pids);
double own_cpu_seconds(void);
double machine_cpu_seconds(void); /* of all processes, and what a hypervisor took away */
struct samples {
    uint32_t *ticks; /* 100 ns each */
    size_t n, cap;
};
void add_sample(struct samples *s, double seconds);
void sort_samples(struct samples *s);
double percentile_ms(const struct samples *s, double q); /* of sorted samples */
void die(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));

struct result {
    uint64_t requests, bytes, errors, again; /* again: sent once more, as it was not yet possible */
    int error_code;
    double seconds, server_cpu_s, load_cpu_s, other_cpu_s;
    bool measuring;
    struct samples samples;
};
/* Where requests are counted: says on standard output where those begin or end, and waits for a line of input, while
 * nothing is in flight. */
void gate(const struct options *o, const char *where);
void start_window(const struct options *o, struct result *r);
void end_window(const struct options *o, struct result *r);
/* For what is sent one after the other: opens the window and closes it; false when that is over. */
bool goes_on(const struct options *o, struct result *r, long turn, double began);
void print_result(const struct options *o, struct result *r);

/* ---- setup.c ---- */

int connect_to(const struct options *o);
/* Sends one frame and waits for its response; `reply` gets all after the correlation id. */
void call(int fd, struct buf *frame, struct buf *reply);
/* ApiVersions, as every client begins. An answer says that the connection was accepted: thousands of connections
 * opened without it overflow the backlog of a broker, and each of those then waits for seconds. */
void greet(int fd);
void create_topic(int fd, const struct options *o);
void delete_topic(int fd, const struct options *o);
void await_leaders(int fd, const struct options *o);
int64_t end_offset(int fd, const struct options *o, int partition);
enum { PATIENCE_S = 60 }; /* until what is set up must be there; a broker under valgrind takes its time */
enum { GROUP_KEY = 0, TRANSACTION_KEY = 1 };
/* The coordinator is the broker that is asked; asking for it makes the topic that it keeps. */
void find_coordinator(int fd, const char *key, int key_type);
/* `transactional_id` NULL: of an idempotent producer. */
int64_t producer_id(int fd, const char *transactional_id, int *epoch);
/* All partitions of the topic into the producer's transaction, and its end. Both return how often they were sent again
 * as the end before is still being written. */
long begin_transaction(int fd, const struct options *o, const char *transactional_id, int64_t id, int epoch);
long commit_transaction(int fd, const char *transactional_id, int64_t id, int epoch);
/* One fetch of one partition, whole; returns the bytes of records and puts them into `records`. */
size_t fetch_once(int fd, const struct options *o, int partition, int64_t offset, struct buf *records);
void put_fetch(struct buf *b, const struct options *o, const int *partitions, int n, size_t *offsets_at);

/* ---- engine.c ---- */

struct slot { /* one request in flight of one connection */
    uint8_t *frame;
    size_t len;
    double sent_at;
    void *extra; /* the workload's */
};

struct conn {
    int fd, number;
    struct slot *slots;
    uint64_t ready, prepared, sent, done; /* counts of requests; a request's slot is count % in_flight */
    size_t written;                       /* of the frame at `sent` */
    uint8_t *in;
    size_t in_len, in_cap;
    size_t skip, left;  /* discarding: bytes to drop; bytes of the frame not yet seen */
    int stage;          /* discarding: partitions still to come in the frame, -1 before its head */
    bool wants_out;
    void *extra;
};

struct workload {
    const struct options *o;
    void (*build)(struct workload *w, struct conn *c, struct slot *s, int number);
    void (*prepare)(struct workload *w, struct conn *c, struct slot *s); /* just before it is sent; may be NULL */
    /* Checks a whole response (after its size), returns the bytes of records that it stands for. */
    size_t (*check)(struct workload *w, struct conn *c, struct slot *s, const uint8_t *body, size_t n);
    void (*finish)(struct workload *w, struct conn *c); /* when all is answered; may be NULL */
    struct result r;
    bool limited;  /* only `left` more are sent */
    uint64_t left, answered;
    void *extra;
};

void note_error(struct workload *w, int code);
void run_load(struct workload *w);

/* ---- workloads.c, latency.c, transactions.c ---- */

void produce_workload(struct workload *w);
void fetch_workload(struct workload *w, int fd);
void metadata_workload(struct workload *w);
void commit_workload(struct workload *w, int fd);
size_t fetch_head_size(const struct options *o);
enum { FETCH_PARTITION_HEAD = 38 };
void run_latency(const struct options *o, struct result *r);
void run_transactions(const struct options *o, struct result *r);

#endif
