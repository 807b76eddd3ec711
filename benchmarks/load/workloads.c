#include "load.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- produce: Produce v7, one batch for each partition of the request ---- */

struct producing { /* of one slot */
    int *partitions;
    size_t *batches_at;
    int records;
    struct sequence_crc *crcs; /* idempotent only */
};

struct producer { /* of one connection */
    int64_t id;
    int epoch;
    int32_t *sequences; /* by partition */
    char transactional_id[32];
};

static struct producer *producer_of(struct workload *w, struct conn *c) {
    if (!c->extra) {
        struct producer *p = calloc(1, sizeof *p);
        p->sequences = calloc((size_t)w->o->partitions, sizeof *p->sequences);
        if (w->o->transactional) {
            snprintf(p->transactional_id, sizeof p->transactional_id, "load-%d-%d", (int)getpid(), c->number);
            p->id = producer_id(c->fd, p->transactional_id, &p->epoch);
            begin_transaction(c->fd, w->o, p->transactional_id, p->id, p->epoch);
        } else {
            p->id = producer_id(c->fd, NULL, &p->epoch);
        }
        c->extra = p;
    }
    return c->extra;
}

static void build_produce(struct workload *w, struct conn *c, struct slot *s, int number) {
    const struct options *o = w->o;
    struct producing *x = calloc(1, sizeof *x);
    size_t n = (size_t)o->per_request;
    x->partitions = calloc(n, sizeof *x->partitions);
    x->batches_at = calloc(n, sizeof *x->batches_at);
    if (o->idempotent) x->crcs = calloc(n, sizeof *x->crcs);
    struct buf b = {0};
    begin_request(&b, 0, 7);
    put_string(&b, o->transactional ? producer_of(w, c)->transactional_id : NULL);
    put16(&b, (int)o->acks);
    put32(&b, 30000);
    put32(&b, 1);
    put_string(&b, o->topic);
    put32(&b, (int64_t)n);
    for (size_t i = 0; i < n; i++) {
        x->partitions[i] = (int)(((size_t)number * n + i) % (size_t)o->partitions);
        put32(&b, x->partitions[i]);
        size_t size_at = b.len;
        put32(&b, 0);
        x->batches_at[i] = b.len;
        x->records = put_batch(&b, o, (uint64_t)number * 1000003u + i);
        size_t size = b.len - x->batches_at[i];
        set32(b.data + size_at, (uint32_t)size);
        if (o->idempotent) {
            struct producer *p = producer_of(w, c);
            uint8_t *batch = b.data + x->batches_at[i];
            set64(batch + BATCH_PRODUCER, (uint64_t)p->id);
            batch[51] = (uint8_t)(p->epoch >> 8);
            batch[52] = (uint8_t)p->epoch;
            if (o->transactional) batch[BATCH_ATTRIBUTES + 1] |= 0x10;
            sequence_crc_init(x->crcs + i, batch, size);
        }
    }
    end_request(&b, 0);
    s->frame = b.data;
    s->len = b.len;
    s->extra = x;
}

static void prepare_idempotent(struct workload *w, struct conn *c, struct slot *s) {
    struct producing *x = s->extra;
    struct producer *p = c->extra;
    for (long i = 0; i < w->o->per_request; i++) {
        int32_t *sequence = p->sequences + x->partitions[i];
        set_sequence(s->frame + x->batches_at[i], x->crcs + i, *sequence);
        *sequence += x->records;
    }
}

static size_t check_produce(struct workload *w, struct conn *c, struct slot *s, const uint8_t *body, size_t n) {
    (void)c;
    const uint8_t *end = body + n, *at = body + 4 + 4; /* correlation id, count of topics */
    size_t expected = 4 + 4 + 2 + strlen(w->o->topic) + 4 + (size_t)w->o->per_request * 30 + 4;
    if (n != expected) die("a produce response of %zu bytes, not %zu", n, expected);
    at += 2 + strlen(w->o->topic) + 4;
    for (; at + 30 <= end; at += 30)
        if (get16(at + 4)) note_error(w, get16(at + 4));
    struct producing *x = s->extra;
    return (s->len - x->batches_at[0]) - (size_t)(w->o->per_request - 1) * 8;
}

static void finish_produce(struct workload *w, struct conn *c) {
    struct producer *p = c->extra;
    int fd = connect_to(w->o); /* that of the load does not wait */
    if (fd < 0) die("no connection to end the transaction");
    commit_transaction(fd, p->transactional_id, p->id, p->epoch);
    close(fd);
}

void produce_workload(struct workload *w) {
    w->finish = w->o->transactional ? finish_produce : NULL;
    w->build = build_produce;
    w->prepare = w->o->idempotent ? prepare_idempotent : NULL;
    w->check = check_produce;
}

/* ---- fetch: Fetch v10 without a session, at offsets that one checked walk over the partitions has found ---- */

enum { MAX_PLACES = 512 };

struct places { /* of one partition */
    int64_t offsets[MAX_PLACES];
    int n;
};

struct fetching { /* of one slot */
    int *partitions;
    size_t *offsets_at;
    int turn;
};

size_t fetch_head_size(const struct options *o) {
    return 4 + 4 + 4 + 2 + 4 + 4 + 2 + strlen(o->topic) + 4;
}

static void build_fetch(struct workload *w, struct conn *c, struct slot *s, int number) {
    const struct options *o = w->o;
    struct fetching *x = calloc(1, sizeof *x);
    int n = (int)o->per_request;
    x->partitions = calloc((size_t)n, sizeof *x->partitions);
    x->offsets_at = calloc((size_t)n, sizeof *x->offsets_at);
    for (int i = 0; i < n; i++) x->partitions[i] = (number * n + i) % (int)o->partitions;
    x->turn = number * 7;
    struct buf b = {0};
    put_fetch(&b, o, x->partitions, n, x->offsets_at);
    s->frame = b.data;
    s->len = b.len;
    s->extra = x;
    (void)c;
}

static void prepare_fetch(struct workload *w, struct conn *c, struct slot *s) {
    (void)c;
    struct fetching *x = s->extra;
    struct places *places = w->extra;
    for (long i = 0; i < w->o->per_request; i++) {
        struct places *p = places + x->partitions[i];
        set64(s->frame + x->offsets_at[i], (uint64_t)p->offsets[x->turn % p->n]);
    }
    x->turn++;
}

static size_t check_fetch(struct workload *w, struct conn *c, struct slot *s, const uint8_t *body, size_t n) {
    (void)c, (void)s;
    const uint8_t *end = body + n, *at = body + fetch_head_size(w->o) - 4;
    if (get16(body + 8)) note_error(w, get16(body + 8));
    size_t bytes = 0;
    for (long i = 0; i < w->o->per_request; i++) {
        if (end - at < FETCH_PARTITION_HEAD) die("a fetch response without all partitions");
        int32_t size = get32(at + 34);
        if (get16(at + 4)) note_error(w, get16(at + 4));
        if (size <= 0) note_error(w, 9999); /* nothing where there must be something */
        at += FETCH_PARTITION_HEAD + (size > 0 ? size : 0);
        bytes += size > 0 ? (size_t)size : 0;
    }
    if (at != end) die("a fetch response with bytes behind its end");
    return bytes;
}

static void find_places(struct places *p, const struct options *o, int fd, int partition) {
    int64_t end = end_offset(fd, o, partition);
    struct buf records = {0};
    if (end <= 0) die("partition %d of %s is empty", partition, o->topic);
    for (int64_t at = 0; at < end && p->n < MAX_PLACES;) {
        p->offsets[p->n++] = at;
        size_t n = fetch_once(fd, o, partition, at, &records);
        int64_t next = check_batches(records.data, n, at);
        if (next == at) die("partition %d gives nothing whole at offset %ld", partition, (long)at);
        at = next;
    }
    if (p->n > 1) p->n--; /* the last has fewer bytes than asked for */
    free(records.data);
}

void fetch_workload(struct workload *w, int fd) {
    struct places *places = calloc((size_t)w->o->partitions, sizeof *places);
    for (int i = 0; i < w->o->partitions; i++) find_places(places + i, w->o, fd, i);
    w->extra = places;
    w->build = build_fetch;
    w->prepare = prepare_fetch;
    w->check = check_fetch;
}

/* ---- metadata: Metadata v1 of one topic ---- */

static void build_metadata(struct workload *w, struct conn *c, struct slot *s, int number) {
    (void)c, (void)number;
    struct buf b = {0};
    begin_request(&b, 3, 1);
    put32(&b, 1);
    put_string(&b, w->o->topic);
    end_request(&b, 0);
    s->frame = b.data;
    s->len = b.len;
}

static size_t check_metadata(struct workload *w, struct conn *c, struct slot *s, const uint8_t *body, size_t n) {
    (void)c, (void)s;
    /* The topic's part stands at the end and has a fixed shape with one replica: no need to walk over the brokers. */
    size_t topic = 2 + 2 + strlen(w->o->topic) + 1 + 4 + (size_t)w->o->partitions * (2 + 4 + 4 + 8 + 8);
    if (n < topic + 4 || get32(body + n - topic - 4) != 1) die("a metadata response of another shape");
    if (get16(body + n - topic)) note_error(w, get16(body + n - topic));
    return 0;
}

void metadata_workload(struct workload *w) {
    w->build = build_metadata;
    w->check = check_metadata;
}

/* ---- commit: OffsetCommit v7 of one group for each connection, as consumers do that assign partitions themselves ---- */

struct committing { /* of one slot */
    size_t *offsets_at;
    int64_t offset;
};

static void build_commit(struct workload *w, struct conn *c, struct slot *s, int number) {
    const struct options *o = w->o;
    struct committing *x = calloc(1, sizeof *x);
    x->offsets_at = calloc((size_t)o->per_request, sizeof *x->offsets_at);
    char group[32];
    snprintf(group, sizeof group, "load-%d", c->number);
    struct buf b = {0};
    begin_request(&b, 8, 7);
    put_string(&b, group);
    put32(&b, -1);        /* generation: no member of it */
    put_string(&b, "");
    put_string(&b, NULL); /* instance */
    put32(&b, 1);
    put_string(&b, o->topic);
    put32(&b, o->per_request);
    for (long i = 0; i < o->per_request; i++) {
        put32(&b, (number * o->per_request + i) % o->partitions);
        x->offsets_at[i] = b.len;
        put64(&b, 0);
        put32(&b, -1);    /* leader epoch */
        put_string(&b, "");
    }
    end_request(&b, 0);
    s->frame = b.data;
    s->len = b.len;
    s->extra = x;
}

static void prepare_commit(struct workload *w, struct conn *c, struct slot *s) {
    (void)c;
    struct committing *x = s->extra;
    x->offset++;
    for (long i = 0; i < w->o->per_request; i++) set64(s->frame + x->offsets_at[i], (uint64_t)x->offset);
}

static size_t check_commit(struct workload *w, struct conn *c, struct slot *s, const uint8_t *body, size_t n) {
    (void)c, (void)s;
    const uint8_t *at = body + 4 + 4 + 4 + 2 + strlen(w->o->topic) + 4; /* correlation id, throttle, topics */
    if (n != (size_t)(at - body) + (size_t)w->o->per_request * 6) die("an OffsetCommit response of %zu bytes", n);
    for (; at < body + n; at += 6)
        if (get16(at + 4)) note_error(w, get16(at + 4));
    return 0;
}

void commit_workload(struct workload *w, int fd) {
    find_coordinator(fd, "load-0", GROUP_KEY);
    w->build = build_commit;
    w->prepare = prepare_commit;
    w->check = check_commit;
}
