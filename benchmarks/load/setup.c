#include "load.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

int connect_to(const struct options *o) {
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)o->port)};
    if (inet_pton(AF_INET, o->host, &to.sin_addr) != 1) die("%s is no IPv4 address", o->host);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
    if (fd < 0) die("socket: %s", strerror(errno));
    if (connect(fd, (struct sockaddr *)&to, sizeof to)) {
        close(fd);
        return -1;
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return fd;
}

static void read_exactly(int fd, uint8_t *to, size_t n) {
    while (n) {
        ssize_t got = recv(fd, to, n, 0);
        if (got <= 0) die("the broker closed a connection during the set-up");
        to += got;
        n -= (size_t)got;
    }
}

void call(int fd, struct buf *frame, struct buf *reply) {
    for (size_t at = 0; at < frame->len;) {
        ssize_t n = send(fd, frame->data + at, frame->len - at, MSG_NOSIGNAL);
        if (n < 0) die("send: %s", strerror(errno));
        at += (size_t)n;
    }
    uint8_t head[8];
    read_exactly(fd, head, 8);
    size_t size = (size_t)get32(head) - 4;
    if (size > 1u << 30) die("a response of %zu bytes", size);
    reply->len = 0;
    if (reply->cap < size) {
        reply->cap = size;
        reply->data = realloc(reply->data, size);
    }
    read_exactly(fd, reply->data, size);
    reply->len = size;
    frame->len = 0;
}

void greet(int fd) {
    struct buf frame = {0}, reply = {0};
    begin_request(&frame, 18, 0);
    end_request(&frame, 0);
    call(fd, &frame, &reply);
    if (get16(reply.data)) die("ApiVersions answers error %d", get16(reply.data));
    free(frame.data);
    free(reply.data);
}

void create_topic(int fd, const struct options *o) {
    struct buf frame = {0}, reply = {0};
    begin_request(&frame, 19, 2);
    put32(&frame, 1);
    put_string(&frame, o->topic);
    put32(&frame, o->partitions);
    put16(&frame, 1);
    put32(&frame, 0); /* assignments */
    put32(&frame, 0); /* configs */
    put32(&frame, 30000);
    put8(&frame, 0);
    end_request(&frame, 0);
    call(fd, &frame, &reply);
    int error = get16(reply.data + 4 + 4 + 2 + strlen(o->topic)); /* throttle, count, name */
    /* It is there, or another broker is the controller: then somebody has seen to it. */
    if (error && error != 36 && error != 41) die("CreateTopics answers error %d", error);
    free(frame.data);
    free(reply.data);
}

void delete_topic(int fd, const struct options *o) {
    struct buf frame = {0}, reply = {0};
    begin_request(&frame, 20, 1);
    put32(&frame, 1);
    put_string(&frame, o->topic);
    put32(&frame, 30000);
    end_request(&frame, 0);
    call(fd, &frame, &reply);
    int error = get16(reply.data + 4 + 4 + 2 + strlen(o->topic));
    if (error) die("DeleteTopics answers error %d", error);
    free(frame.data);
    free(reply.data);
}

static bool leaders_known(int fd, const struct options *o) {
    struct buf frame = {0}, reply = {0};
    begin_request(&frame, 3, 1);
    put32(&frame, 1);
    put_string(&frame, o->topic);
    end_request(&frame, 0);
    call(fd, &frame, &reply);
    const uint8_t *at = reply.data;
    int32_t brokers = get32(at);
    at += 4;
    for (int32_t i = 0; i < brokers; i++) {
        at += 4;
        at += 2 + get16(at) + 4;
        at += 2 + (get16(at) > 0 ? get16(at) : 0);
    }
    at += 4 + 4; /* controller, count of topics */
    int error = get16(at);
    at += 2;
    at += 2 + get16(at) + 1;
    int32_t partitions = get32(at), led = 0;
    at += 4;
    for (int32_t i = 0; !error && i < partitions; i++) {
        led += !get16(at) && get32(at + 6) >= 0;
        at += 10;
        at += 4 + 4 * get32(at);
        at += 4 + 4 * get32(at);
    }
    free(frame.data);
    free(reply.data);
    if (!error && led == partitions && partitions < o->partitions)
        die("topic %s has %d partitions, not %ld", o->topic, partitions, o->partitions);
    return !error && led == partitions;
}

/* The end of a partition, or -1 with the error code in `error`. */
static int64_t ask_end(int fd, const struct options *o, int partition, int *error) {
    struct buf frame = {0}, reply = {0};
    begin_request(&frame, 2, 1);
    put32(&frame, -1);
    put32(&frame, 1);
    put_string(&frame, o->topic);
    put32(&frame, 1);
    put32(&frame, partition);
    put64(&frame, -1);
    end_request(&frame, 0);
    call(fd, &frame, &reply);
    const uint8_t *at = reply.data + 4 + 2 + strlen(o->topic) + 4 + 4;
    *error = get16(at);
    int64_t offset = get64(at + 10);
    free(frame.data);
    free(reply.data);
    return *error ? -1 : offset;
}

int64_t end_offset(int fd, const struct options *o, int partition) {
    int error;
    int64_t offset = ask_end(fd, o, partition, &error);
    if (error) die("ListOffsets answers error %d", error);
    return offset;
}

/* Metadata may know a leader that does not know it yet: ask each partition's leader itself too. */
void await_leaders(int fd, const struct options *o) {
    double limit = now_s() + PATIENCE_S;
    for (; !leaders_known(fd, o); usleep(20000))
        if (now_s() > limit) die("topic %s has no leaders", o->topic);
    for (int partition = 0, error; partition < o->partitions; partition++)
        for (; ask_end(fd, o, partition, &error) < 0; usleep(20000))
            if (now_s() > limit) die("ListOffsets answers error %d", error);
}

void find_coordinator(int fd, const char *key, int key_type) {
    struct buf frame = {0}, reply = {0};
    for (double limit = now_s() + PATIENCE_S;; usleep(50000)) {
        begin_request(&frame, 10, 1);
        put_string(&frame, key);
        put8(&frame, key_type);
        end_request(&frame, 0);
        call(fd, &frame, &reply);
        if (!get16(reply.data + 4)) break;
        if (now_s() > limit) die("FindCoordinator answers error %d", get16(reply.data + 4));
    }
    free(frame.data);
    free(reply.data);
}

static void put_producer(struct buf *b, const char *transactional_id, int64_t id, int epoch) {
    put_string(b, transactional_id);
    put64(b, id);
    put16(b, epoch);
}

long begin_transaction(int fd, const struct options *o, const char *transactional_id, int64_t id, int epoch) {
    struct buf frame = {0}, reply = {0};
    long again = 0;
    for (double limit = now_s() + PATIENCE_S;; usleep(50000), again++) {
        begin_request(&frame, 24, 1);
        put_producer(&frame, transactional_id, id, epoch);
        put32(&frame, 1);
        put_string(&frame, o->topic);
        put32(&frame, o->partitions);
        for (int i = 0; i < o->partitions; i++) put32(&frame, i);
        end_request(&frame, 0);
        call(fd, &frame, &reply);
        const uint8_t *at = reply.data + 4 + 4 + 2 + strlen(o->topic) + 4;
        int error = 0;
        for (int i = 0; i < o->partitions; i++) error = error ? error : get16(at + 6 * i + 4);
        if (!error) break;
        if (now_s() > limit) die("AddPartitionsToTxn answers error %d", error);
    }
    free(frame.data);
    free(reply.data);
    return again;
}

long commit_transaction(int fd, const char *transactional_id, int64_t id, int epoch) {
    struct buf frame = {0}, reply = {0};
    long again = 0;
    for (double limit = now_s() + PATIENCE_S;; usleep(50000), again++) {
        begin_request(&frame, 26, 1);
        put_producer(&frame, transactional_id, id, epoch);
        put8(&frame, 1);
        end_request(&frame, 0);
        call(fd, &frame, &reply);
        if (!get16(reply.data + 4)) break;
        if (now_s() > limit) die("EndTxn answers error %d", get16(reply.data + 4));
    }
    free(frame.data);
    free(reply.data);
    return again;
}

int64_t producer_id(int fd, const char *transactional_id, int *epoch) {
    struct buf frame = {0}, reply = {0};
    if (transactional_id) find_coordinator(fd, transactional_id, TRANSACTION_KEY);
    for (double limit = now_s() + PATIENCE_S;; usleep(50000)) {
        begin_request(&frame, 22, 1);
        put_string(&frame, transactional_id);
        put32(&frame, 60000);
        end_request(&frame, 0);
        call(fd, &frame, &reply);
        if (!get16(reply.data + 4)) break; /* a fresh broker may still be loading */
        if (now_s() > limit) die("InitProducerId answers error %d", get16(reply.data + 4));
    }
    int64_t id = get64(reply.data + 6);
    *epoch = get16(reply.data + 14);
    free(frame.data);
    free(reply.data);
    return id;
}

void put_fetch(struct buf *b, const struct options *o, const int *partitions, int n, size_t *offsets_at) {
    begin_request(b, 1, 10);
    put32(b, -1); /* replica */
    put32(b, o->max_wait_ms);
    put32(b, 1);  /* min bytes */
    put32(b, o->max_bytes * n);
    put8(b, 0);   /* read uncommitted */
    put32(b, 0);  /* no session */
    put32(b, -1);
    put32(b, 1);
    put_string(b, o->topic);
    put32(b, n);
    for (int i = 0; i < n; i++) {
        put32(b, partitions[i]);
        put32(b, -1); /* leader epoch */
        offsets_at[i] = b->len;
        put64(b, 0);
        put64(b, -1); /* log start */
        put32(b, o->max_bytes);
    }
    put32(b, 0); /* forgotten topics */
    end_request(b, 0);
}

size_t fetch_once(int fd, const struct options *o, int partition, int64_t offset, struct buf *records) {
    struct buf frame = {0}, reply = {0};
    size_t at;
    put_fetch(&frame, o, &partition, 1, &at);
    set64(frame.data + at, (uint64_t)offset);
    call(fd, &frame, &reply);
    size_t head = fetch_head_size(o) - 8; /* without size and correlation id */
    if (reply.len < head + FETCH_PARTITION_HEAD) die("a fetch response of %zu bytes", reply.len);
    const uint8_t *p = reply.data + head;
    if (get16(reply.data + 4) || get16(p + 4)) die("Fetch answers error %d", get16(p + 4));
    int32_t size = get32(p + 34);
    if (size < 0 || reply.len != head + FETCH_PARTITION_HEAD + (size_t)size) die("a fetch response that does not add up");
    records->len = 0;
    put_bytes(records, p + FETCH_PARTITION_HEAD, (size_t)size);
    free(frame.data);
    free(reply.data);
    return (size_t)size;
}
