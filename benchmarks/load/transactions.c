#include "load.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* One after the other on one connection, each of one batch in one partition: AddPartitionsToTxn v1, Produce v7,
 * EndTxn v1. The producers take turns: the end of a transaction is still being written when it is acknowledged, and
 * who begins his next one at once may be sent away. */
enum { PRODUCERS = 8 };

struct transactional {
    char id[32];
    int64_t producer_id;
    int epoch;
    struct buf frame;
    size_t batch_at;
    struct sequence_crc crc;
    int records;
    int32_t sequence;
};

static void set_up(struct transactional *p, const struct options *o, int fd, int number) {
    snprintf(p->id, sizeof p->id, "load-%d", number);
    p->producer_id = producer_id(fd, p->id, &p->epoch);
    struct buf *b = &p->frame;
    begin_request(b, 0, 7);
    put_string(b, p->id);
    put16(b, -1);
    put32(b, 30000);
    put32(b, 1);
    put_string(b, o->topic);
    put32(b, 1);
    put32(b, 0);
    size_t size_at = b->len;
    put32(b, 0);
    p->batch_at = b->len;
    p->records = put_batch(b, o, (uint64_t)number);
    size_t size = b->len - p->batch_at;
    set32(b->data + size_at, (uint32_t)size);
    uint8_t *batch = b->data + p->batch_at;
    set64(batch + BATCH_PRODUCER, (uint64_t)p->producer_id);
    batch[51] = (uint8_t)(p->epoch >> 8);
    batch[52] = (uint8_t)p->epoch;
    batch[BATCH_ATTRIBUTES + 1] |= 0x10;
    sequence_crc_init(&p->crc, batch, size);
    end_request(b, 0);
}

static void produce(struct transactional *p, const struct options *o, struct result *r, int fd) {
    static struct buf reply;
    struct buf frame = p->frame; /* `call` empties what it is given */
    set_sequence(frame.data + p->batch_at, &p->crc, p->sequence);
    p->sequence += p->records;
    call(fd, &frame, &reply);
    int error = get16(reply.data + 4 + 2 + strlen(o->topic) + 4 + 4);
    if (error) r->errors++, r->error_code = error;
}

void run_transactions(const struct options *o, struct result *r) {
    static struct transactional producers[PRODUCERS];
    if (o->partitions != 1) die("a transaction has one partition here");
    int fd = connect_to(o);
    if (fd < 0) die("connect: %s", strerror(errno));
    for (int i = 0; i < PRODUCERS; i++) set_up(producers + i, o, fd, i);
    double began = now_s();
    for (long turn = 0; goes_on(o, r, turn, began); turn++) {
        struct transactional *p = producers + turn % PRODUCERS;
        double sent_at = now_s();
        long again = begin_transaction(fd, o, p->id, p->producer_id, p->epoch);
        produce(p, o, r, fd);
        again += commit_transaction(fd, p->id, p->producer_id, p->epoch);
        if (!r->measuring) continue;
        add_sample(&r->samples, now_s() - sent_at);
        r->requests++;
        r->again += (uint64_t)again;
        r->bytes += p->frame.len - p->batch_at;
    }
    close(fd);
}
