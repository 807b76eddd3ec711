#include "load.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

void put_bytes(struct buf *b, const void *from, size_t n) {
    if (b->len + n > b->cap) {
        b->cap = (b->len + n) * 2 + 256;
        b->data = realloc(b->data, b->cap);
        if (!b->data) die("out of memory");
    }
    memcpy(b->data + b->len, from, n);
    b->len += n;
}

void set32(uint8_t *at, uint32_t v) {
    for (int i = 0; i < 4; i++) at[i] = (uint8_t)(v >> (24 - 8 * i));
}

void set64(uint8_t *at, uint64_t v) {
    set32(at, (uint32_t)(v >> 32));
    set32(at + 4, (uint32_t)v);
}

int get16(const uint8_t *at) { return (int16_t)(at[0] << 8 | at[1]); }
int32_t get32(const uint8_t *at) {
    return (int32_t)((uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3]);
}
int64_t get64(const uint8_t *at) { return (int64_t)((uint64_t)(uint32_t)get32(at) << 32 | (uint32_t)get32(at + 4)); }

void put8(struct buf *b, int v) {
    uint8_t one = (uint8_t)v;
    put_bytes(b, &one, 1);
}
void put16(struct buf *b, int v) {
    put8(b, v >> 8);
    put8(b, v);
}
void put32(struct buf *b, int64_t v) {
    uint8_t at[4];
    set32(at, (uint32_t)v);
    put_bytes(b, at, 4);
}
void put64(struct buf *b, int64_t v) {
    uint8_t at[8];
    set64(at, (uint64_t)v);
    put_bytes(b, at, 8);
}
void put_string(struct buf *b, const char *text) {
    put16(b, text ? (int)strlen(text) : -1);
    if (text) put_bytes(b, text, strlen(text));
}
static void put_varint(struct buf *b, int32_t v) {
    uint32_t zigzag = ((uint32_t)v << 1) ^ (uint32_t)(v >> 31);
    for (; zigzag > 127; zigzag >>= 7) put8(b, (int)(zigzag & 127) | 128);
    put8(b, (int)zigzag);
}

void begin_request(struct buf *b, int api_key, int version) {
    put32(b, 0);
    put16(b, api_key);
    put16(b, version);
    put32(b, 0);
    put_string(b, "load");
}
void end_request(struct buf *b, size_t start) { set32(b->data + start, (uint32_t)(b->len - start - 4)); }

/* ---- CRC-32C, eight bytes a step ---- */

static uint32_t tables[8][256];

static void make_tables(void) {
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t c = i;
        for (int bit = 0; bit < 8; bit++) c = c & 1 ? c >> 1 ^ 0x82f63b78u : c >> 1;
        tables[0][i] = c;
    }
    for (int t = 1; t < 8; t++)
        for (int i = 0; i < 256; i++) tables[t][i] = tables[t - 1][i] >> 8 ^ tables[0][tables[t - 1][i] & 255];
}

static uint32_t crc_raw(uint32_t c, const uint8_t *p, size_t n) {
    if (!tables[0][1]) make_tables();
    for (; n >= 8; n -= 8, p += 8) {
        c ^= (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
        c = tables[7][c & 255] ^ tables[6][c >> 8 & 255] ^ tables[5][c >> 16 & 255] ^ tables[4][c >> 24] ^
            tables[3][p[4]] ^ tables[2][p[5]] ^ tables[1][p[6]] ^ tables[0][p[7]];
    }
    for (; n; n--) c = c >> 8 ^ tables[0][(c ^ *p++) & 255];
    return c;
}

uint32_t crc32c(const uint8_t *data, size_t n) { return ~crc_raw(~0u, data, n); }

/* ---- batches ---- */

static int put_batch_file(struct buf *b, const char *path) {
    size_t start = b->len, n;
    uint8_t part[65536];
    FILE *file = fopen(path, "rb");
    if (!file) die("%s: %s", path, strerror(errno));
    while ((n = fread(part, 1, sizeof part, file)) > 0) put_bytes(b, part, n);
    fclose(file);
    if (b->len - start < BATCH_HEADER) die("%s holds no batch", path);
    return get32(b->data + start + 57);
}

int put_batch(struct buf *b, const struct options *o, uint64_t seed) {
    if (o->batch_file) return put_batch_file(b, o->batch_file);
    size_t start = b->len;
    struct timespec wall;
    clock_gettime(CLOCK_REALTIME, &wall);
    int64_t now_ms = (int64_t)wall.tv_sec * 1000 + wall.tv_nsec / 1000000;
    for (int i = 0; i < BATCH_HEADER; i++) put8(b, 0);
    uint8_t *value = malloc((size_t)o->record_bytes + 1);
    struct buf one = {0};
    int count = 0;
    while (o->records ? count < o->records : true) {
        one.len = 0;
        put8(&one, 0);             /* attributes */
        put_varint(&one, 0);       /* timestamp delta */
        put_varint(&one, count);   /* offset delta */
        put_varint(&one, -1);      /* no key */
        put_varint(&one, (int32_t)o->record_bytes);
        for (long i = 0; i < o->record_bytes; i++) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            value[i] = (uint8_t)('!' + (seed >> 33) % 90);
        }
        put_bytes(&one, value, (size_t)o->record_bytes);
        put_varint(&one, 0); /* no headers */
        if (!o->records && count && b->len - start + one.len + 5 > (size_t)o->batch_bytes) break;
        put_varint(b, (int32_t)one.len);
        put_bytes(b, one.data, one.len);
        count++;
    }
    uint8_t *head = b->data + start;
    set32(head + 8, (uint32_t)(b->len - start - 12));
    set32(head + 12, 0xffffffffu); /* leader epoch */
    head[16] = 2;                  /* magic */
    set32(head + 23, (uint32_t)count - 1);
    set64(head + 27, (uint64_t)now_ms);
    set64(head + 35, (uint64_t)now_ms);
    set64(head + BATCH_PRODUCER, (uint64_t)-1);
    head[51] = head[52] = 0xff; /* producer epoch */
    set32(head + BATCH_SEQUENCE, 0xffffffffu);
    set32(head + 57, (uint32_t)count);
    set32(head + BATCH_CRC, crc32c(head + BATCH_ATTRIBUTES, b->len - start - BATCH_ATTRIBUTES));
    free(value);
    free(one.data);
    return count;
}

int64_t check_batches(const uint8_t *data, size_t n, int64_t from) {
    for (size_t at = 0; n - at >= BATCH_HEADER;) {
        const uint8_t *head = data + at;
        int32_t length = get32(head + 8);
        if (length < BATCH_HEADER - 12) die("a fetched batch says that it has %d bytes", length);
        size_t size = (size_t)length + 12;
        if (size > n - at) break;
        if (head[16] != 2) die("a fetched batch has magic %d", head[16]);
        if (crc32c(head + BATCH_ATTRIBUTES, size - BATCH_ATTRIBUTES) != (uint32_t)get32(head + BATCH_CRC))
            die("a fetched batch at offset %ld has a wrong CRC", (long)get64(head));
        int64_t next = get64(head) + get32(head + 23) + 1;
        if (next <= from) die("fetched offset %ld, asked for %ld", (long)get64(head), (long)from);
        from = next;
        at += size;
    }
    return from;
}

void sequence_crc_init(struct sequence_crc *s, const uint8_t *batch, size_t n) {
    static const uint8_t zeros[4096];
    uint8_t *copy = malloc(n);
    memcpy(copy, batch, n);
    memset(copy + BATCH_SEQUENCE, 0, 4);
    s->base = crc32c(copy + BATCH_ATTRIBUTES, n - BATCH_ATTRIBUTES);
    free(copy);
    for (int place = 0; place < 4; place++) {
        uint32_t bits[8];
        for (int bit = 0; bit < 8; bit++) {
            uint8_t byte = (uint8_t)(1 << bit);
            uint32_t c = crc_raw(0, &byte, 1);
            for (size_t rest = n - BATCH_SEQUENCE - (size_t)place - 1; rest;) {
                size_t step = rest < sizeof zeros ? rest : sizeof zeros;
                c = crc_raw(c, zeros, step);
                rest -= step;
            }
            bits[bit] = c;
        }
        for (int v = 0; v < 256; v++) {
            uint32_t c = 0;
            for (int bit = 0; bit < 8; bit++)
                if (v >> bit & 1) c ^= bits[bit];
            s->table[place][v] = c;
        }
    }
}

void set_sequence(uint8_t *batch, const struct sequence_crc *s, int32_t sequence) {
    uint8_t *at = batch + BATCH_SEQUENCE;
    set32(at, (uint32_t)sequence);
    set32(batch + BATCH_CRC,
          s->base ^ s->table[0][at[0]] ^ s->table[1][at[1]] ^ s->table[2][at[2]] ^ s->table[3][at[3]]);
}
