#include "load.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static void send_all(int fd, const uint8_t *data, size_t n) {
    while (n) {
        ssize_t done = send(fd, data, n, MSG_NOSIGNAL);
        if (done < 0) die("send: %s", strerror(errno));
        data += done;
        n -= (size_t)done;
    }
}

static size_t receive_frame(int fd, uint8_t *to, size_t cap) {
    size_t have = 0, size = 4;
    while (have < size) {
        ssize_t got = recv(fd, to + have, cap - have, 0);
        if (got <= 0) die("the broker closed a connection");
        have += (size_t)got;
        if (have >= 4) size = (size_t)get32(to) + 4;
        if (size > cap) die("a response of %zu bytes", size);
    }
    return size;
}

void run_latency(const struct options *o, struct result *r) {
    int producer = connect_to(o), consumer = connect_to(o), partition = 0;
    if (producer < 0 || consumer < 0) die("connect: %s", strerror(errno));
    int64_t offset = end_offset(consumer, o, partition);
    struct buf fetch = {0}, produce = {0};
    size_t offset_at, head = fetch_head_size(o);
    put_fetch(&fetch, o, &partition, 1, &offset_at);
    begin_request(&produce, 0, 7);
    put_string(&produce, NULL);
    put16(&produce, (int)o->acks);
    put32(&produce, 30000);
    put32(&produce, 1);
    put_string(&produce, o->topic);
    put32(&produce, 1);
    put32(&produce, partition);
    size_t size_at = produce.len;
    put32(&produce, 0);
    int records = put_batch(&produce, o, 7);
    size_t batch = produce.len - size_at - 4;
    set32(produce.data + size_at, (uint32_t)batch);
    end_request(&produce, 0);
    static uint8_t in[1 << 20];
    double began = now_s();
    for (long turn = 0; goes_on(o, r, turn, began); turn++) {
        set64(fetch.data + offset_at, (uint64_t)offset);
        send_all(consumer, fetch.data, fetch.len);
        if (o->gap_us) usleep((useconds_t)o->gap_us);
        double sent_at = now_s();
        send_all(producer, produce.data, produce.len);
        for (;;) {
            size_t n = receive_frame(consumer, in, sizeof in);
            if (n < head + FETCH_PARTITION_HEAD) die("a fetch response of %zu bytes", n);
            int error = get16(in + head + 4);
            if (error) r->errors++, r->error_code = error;
            int32_t size = get32(in + head + 34);
            if (size > 0) {
                int64_t next = check_batches(in + head + FETCH_PARTITION_HEAD, (size_t)size, offset);
                if (next != offset + records) die("fetched up to %ld, expected %ld", (long)next, (long)offset + records);
                break;
            }
            send_all(consumer, fetch.data, fetch.len); /* an empty answer: its time was over */
        }
        if (r->measuring) {
            add_sample(&r->samples, now_s() - sent_at);
            r->requests++;
            r->bytes += batch;
        }
        offset += records;
        receive_frame(producer, in, sizeof in);
        int error = get16(in + 4 + 4 + 4 + 2 + strlen(o->topic) + 4 + 4);
        if (error) r->errors++, r->error_code = error;
    }
    close(producer);
    close(consumer);
}
