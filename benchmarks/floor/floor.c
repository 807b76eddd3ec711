/* The floor under any broker: a server that makes the system calls of a produce request, and next to nothing else.
 *
 * epoll, recv, one pwritev per partition, one send for the answers to what one recv brought. It finds the batches in a
 * request, gives them offsets, and answers; it checks nothing, knows no errors, keeps nothing but the ends of its files.
 * It answers what `benchmarks/load` asks: ApiVersions 0, CreateTopics 2, DeleteTopics 1, Metadata 1, ListOffsets 1,
 * InitProducerId 1, Produce 7. Whatever else is asked closes the connection.
 *
 *     floor PORT FOLDER
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

enum { MAX_PARTITIONS = 256, IN_BYTES = 4 << 20, OUT_BYTES = 1 << 16 };

struct partition {
    int fd;
    int64_t size, next_offset;
};
struct topic {
    char name[256];
    int name_length, count;
    struct partition partitions[MAX_PARTITIONS];
};
struct connection {
    int fd;
    uint8_t *in;
    size_t in_length, in_room;
};

static struct topic **topics;
static int topic_count;
static const char *folder;
static int port;
static uint8_t out[OUT_BYTES];
static size_t out_length;

static int get16(const uint8_t *p) { return (int16_t)(p[0] << 8 | p[1]); }
static int32_t get32(const uint8_t *p) {
    return (int32_t)((uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3]);
}
static void set32(uint8_t *p, uint32_t v) {
    p[0] = (uint8_t)(v >> 24), p[1] = (uint8_t)(v >> 16), p[2] = (uint8_t)(v >> 8), p[3] = (uint8_t)v;
}
static void put16(int v) {
    out[out_length++] = (uint8_t)(v >> 8);
    out[out_length++] = (uint8_t)v;
}
static void put32(int64_t v) {
    set32(out + out_length, (uint32_t)v);
    out_length += 4;
}
static void put64(int64_t v) {
    put32(v >> 32);
    put32(v);
}
static void put_text(const void *text, int length) {
    put16(length);
    memcpy(out + out_length, text, (size_t)length);
    out_length += (size_t)length;
}

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static struct topic *find(const uint8_t *name, int length) {
    static int last;
    for (int step = 0; step < topic_count; step++) {
        int at = (last + step) % topic_count;
        if (topics[at]->name_length == length && !memcmp(topics[at]->name, name, (size_t)length)) {
            last = at;
            return topics[at];
        }
    }
    return NULL;
}

static void create(const uint8_t *name, int length, int partitions) {
    if (partitions > MAX_PARTITIONS || length > 255) exit(2);
    struct topic *made = calloc(1, sizeof *made);
    topics = realloc(topics, sizeof *topics * (size_t)(topic_count + 1));
    memcpy(made->name, name, (size_t)length);
    made->name_length = length;
    made->count = partitions;
    for (int i = 0; i < partitions; i++) {
        char path[1024];
        snprintf(path, sizeof path, "%s/%s-%d", folder, made->name, i);
        made->partitions[i].fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        if (made->partitions[i].fd < 0) fail(path);
    }
    topics[topic_count++] = made;
}

static void delete(struct topic *gone) {
    for (int i = 0; i < gone->count; i++) {
        char path[1024];
        snprintf(path, sizeof path, "%s/%s-%d", folder, gone->name, i);
        close(gone->partitions[i].fd);
        unlink(path);
    }
    for (int i = 0; i < topic_count; i++)
        if (topics[i] == gone) topics[i] = topics[--topic_count];
    free(gone);
}

/* One batch behind the end of its partition; returns its base offset. */
static int64_t append(struct partition *to, const uint8_t *batch, int size) {
    uint8_t prefix[16];
    int64_t base = to->next_offset;
    set32(prefix, (uint32_t)(base >> 32));
    set32(prefix + 4, (uint32_t)base);
    memcpy(prefix + 8, batch + 8, 4);
    set32(prefix + 12, 0);
    struct iovec parts[2] = {{prefix, 16}, {(void *)(batch + 16), (size_t)size - 16}};
    if (pwritev(to->fd, parts, 2, to->size) != size) fail("pwritev");
    to->size += size;
    to->next_offset += get32(batch + 23) + 1;
    return base;
}

static bool produce(const uint8_t *p) {
    int transactional_id = get16(p);
    p += 2 + (transactional_id > 0 ? transactional_id : 0) + 2 + 4;
    int32_t named = get32(p);
    p += 4;
    put32(named);
    while (named-- > 0) {
        int length = get16(p);
        struct topic *topic = find(p + 2, length);
        if (!topic) return false;
        put_text(p + 2, length);
        p += 2 + length;
        int32_t count = get32(p);
        p += 4;
        put32(count);
        while (count-- > 0) {
            int32_t index = get32(p), size = get32(p + 4);
            p += 8;
            if (index < 0 || index >= topic->count || size < 61) return false;
            put32(index);
            put16(0);
            put64(append(&topic->partitions[index], p, size));
            put64(-1);
            put64(0);
            p += size;
        }
    }
    put32(0);
    return true;
}

static bool answer(const uint8_t *frame) {
    int key = get16(frame), client = get16(frame + 8);
    const uint8_t *p = frame + 10 + (client > 0 ? client : 0);
    size_t start = out_length;
    put32(0);
    put32(get32(frame + 4));
    if (key == 0) {
        if (!produce(p)) return false;
    } else if (key == 18) {
        static const int served[] = {0, 7, 2, 1, 3, 1, 18, 0, 19, 2, 20, 1, 22, 1};
        put16(0);
        put32(7);
        for (int i = 0; i < 14; i += 2) put16(served[i]), put16(0), put16(served[i + 1]);
    } else if (key == 19) {
        int length = get16(p + 4);
        if (!find(p + 6, length)) create(p + 6, length, get32(p + 6 + length));
        put32(0), put32(1), put_text(p + 6, length), put16(0), put16(-1);
    } else if (key == 20) {
        int length = get16(p + 4);
        struct topic *topic = find(p + 6, length);
        put32(0), put32(1), put_text(p + 6, length), put16(topic ? 0 : 3);
        if (topic) delete(topic);
    } else if (key == 3) {
        int length = get16(p + 4);
        struct topic *topic = find(p + 6, length);
        put32(1), put32(1), put_text("127.0.0.1", 9), put32(port), put16(-1);
        put32(1), put32(1), put16(topic ? 0 : 3), put_text(p + 6, length), out[out_length++] = 0;
        put32(topic ? topic->count : 0);
        for (int i = 0; topic && i < topic->count; i++) {
            put16(0), put32(i), put32(1);
            put32(1), put32(1), put32(1), put32(1);
        }
    } else if (key == 2) {
        int length = get16(p + 8);
        const uint8_t *name = p + 10;
        struct topic *topic = find(name, length);
        int32_t index = get32(name + length + 4);
        bool known = topic && index >= 0 && index < topic->count;
        put32(1), put_text(name, length), put32(1), put32(index), put16(known ? 0 : 3), put64(-1);
        put64(known ? topic->partitions[index].next_offset : -1);
    } else if (key == 22) {
        put32(0), put16(0), put64(1), put16(0);
    } else {
        return false;
    }
    set32(out + start, (uint32_t)(out_length - start - 4));
    return true;
}

static bool send_answers(int fd) {
    for (size_t at = 0; at < out_length;) {
        ssize_t sent = send(fd, out + at, out_length - at, MSG_NOSIGNAL);
        if (sent < 0 && errno == EAGAIN) continue;
        if (sent < 0) return false;
        at += (size_t)sent;
    }
    out_length = 0;
    return true;
}

static bool readable(struct connection *c) {
    ssize_t got = recv(c->fd, c->in + c->in_length, c->in_room - c->in_length, 0);
    if (got <= 0) return got < 0 && errno == EAGAIN;
    c->in_length += (size_t)got;
    size_t at = 0;
    while (c->in_length - at >= 4) {
        size_t size = (uint32_t)get32(c->in + at);
        if (size > IN_BYTES - 4) return false;
        if (c->in_length - at < 4 + size) {
            if (c->in_room < 4 + size) c->in = realloc(c->in, c->in_room = IN_BYTES);
            break;
        }
        if (!answer(c->in + at + 4)) return false;
        if (out_length > OUT_BYTES / 2 && !send_answers(c->fd)) return false;
        at += 4 + size;
    }
    memmove(c->in, c->in + at, c->in_length - at);
    c->in_length -= at;
    return send_answers(c->fd);
}

int main(int argc, char **argv) {
    if (argc != 3) return fprintf(stderr, "floor PORT FOLDER\n"), 2;
    port = atoi(argv[1]);
    folder = argv[2];
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), on = 1;
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    // Kafka's socket.receive.buffer.bytes and socket.send.buffer.bytes, which its brokers and ours set by default.
    int buffer = 102400;
    setsockopt(listener, SOL_SOCKET, SO_RCVBUF, &buffer, sizeof buffer);
    setsockopt(listener, SOL_SOCKET, SO_SNDBUF, &buffer, sizeof buffer);
    if (bind(listener, (struct sockaddr *)&at, sizeof at) || listen(listener, 1024)) fail("listen");
    int poll = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL}, events[256];
    epoll_ctl(poll, EPOLL_CTL_ADD, listener, &event);
    for (;;) {
        int count = epoll_wait(poll, events, 256, -1);
        for (int i = 0; i < count; i++) {
            struct connection *c = events[i].data.ptr;
            if (!c) {
                int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
                if (fd < 0) continue;
                setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
                c = calloc(1, sizeof *c);
                c->fd = fd;
                c->in = malloc(c->in_room = 256 << 10);
                event.data.ptr = c;
                epoll_ctl(poll, EPOLL_CTL_ADD, fd, &event);
            } else if (!readable(c)) {
                out_length = 0;
                close(c->fd);
                free(c->in);
                free(c);
            }
        }
    }
}
