#define _GNU_SOURCE

#include "load.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

static int poller;
static uint8_t scratch[1 << 18];

void note_error(struct workload *w, int code) {
    w->r.errors++;
    w->r.error_code = code;
}

static void open_connections(struct workload *w, struct conn *conns) {
    const struct options *o = w->o;
    struct rlimit files;
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    poller = epoll_create1(EPOLL_CLOEXEC);
    for (int i = 0; i < o->connections; i++) {
        struct conn *c = conns + i;
        c->number = i;
        c->stage = -1;
        if ((c->fd = connect_to(o)) < 0) die("connect: %s", strerror(errno));
        greet(c->fd);
        c->slots = calloc((size_t)o->in_flight, sizeof *c->slots);
        c->in_cap = 4096;
        c->in = malloc(c->in_cap);
        for (int s = 0; s < o->in_flight; s++) w->build(w, c, c->slots + s, i * (int)o->in_flight + s);
        fcntl(c->fd, F_SETFL, O_NONBLOCK);
        struct epoll_event e = {.events = EPOLLIN, .data.ptr = c};
        if (epoll_ctl(poller, EPOLL_CTL_ADD, c->fd, &e)) die("epoll_ctl: %s", strerror(errno));
    }
}

static void flush(struct workload *w, struct conn *c) {
    uint64_t in_flight = (uint64_t)w->o->in_flight;
    while (c->sent < c->ready) {
        struct iovec parts[64];
        int n = 0;
        double now = now_s();
        for (uint64_t i = c->sent; i < c->ready && n < 64; i++, n++) {
            struct slot *s = c->slots + i % in_flight;
            if (i == c->prepared) {
                set32(s->frame + 8, (uint32_t)i); /* correlation id */
                if (w->prepare) w->prepare(w, c, s);
                s->sent_at = now;
                c->prepared++;
            }
            size_t from = i == c->sent ? c->written : 0;
            parts[n] = (struct iovec){s->frame + from, s->len - from};
        }
        ssize_t done = writev(c->fd, parts, n);
        if (done < 0 && errno != EAGAIN) die("writev: %s", strerror(errno));
        bool full = done < 0;
        for (; done > 0;) {
            size_t rest = c->slots[c->sent % in_flight].len - c->written;
            if ((size_t)done < rest) {
                c->written += (size_t)done;
                break;
            }
            done -= (ssize_t)rest;
            c->written = 0;
            c->sent++;
        }
        if (full != c->wants_out) {
            struct epoll_event e = {.events = EPOLLIN | (full ? EPOLLOUT : 0u), .data.ptr = c};
            epoll_ctl(poller, EPOLL_CTL_MOD, c->fd, &e);
            c->wants_out = full;
        }
        if (full) return;
    }
}

static struct slot *answered(struct workload *w, struct conn *c, const uint8_t *correlation) {
    if (c->done == c->sent) die("a response without a request");
    if ((uint32_t)get32(correlation) != (uint32_t)c->done) die("responses out of order");
    return c->slots + c->done % (uint64_t)w->o->in_flight;
}

/* Whether one more may be sent, which is taken off what is left. */
static bool take(struct workload *w) { return !w->limited || (w->left && w->left--); }

static void completed(struct workload *w, struct conn *c, struct slot *s, size_t bytes, bool resend) {
    c->done++;
    w->answered++;
    if (w->r.measuring) {
        add_sample(&w->r.samples, now_s() - s->sent_at);
        w->r.requests++;
        w->r.bytes += bytes;
    }
    c->ready += resend && take(w);
}

static void whole_frames(struct workload *w, struct conn *c, bool resend) {
    size_t at = 0;
    while (c->in_len - at >= 8) {
        int32_t size = get32(c->in + at);
        if (size < 4 || size > 1 << 30) die("a response of %d bytes", size);
        if (c->in_len - at < (size_t)size + 4) {
            if (c->in_cap < (size_t)size + 4) c->in = realloc(c->in, c->in_cap = (size_t)size + 4);
            break;
        }
        struct slot *s = answered(w, c, c->in + at + 4);
        size_t bytes = w->check(w, c, s, c->in + at + 4, (size_t)size);
        at += (size_t)size + 4;
        completed(w, c, s, bytes, resend);
    }
    memmove(c->in, c->in + at, c->in_len -= at);
}

static ssize_t receive(struct conn *c, void *to, size_t n, int flags) {
    ssize_t got = recv(c->fd, to, n, flags);
    if (got == 0) die("the broker closed connection %d", c->number);
    if (got < 0 && errno != EAGAIN) die("recv: %s", strerror(errno));
    return got;
}

/* Large fetches: heads are read and checked, records are dropped in the kernel, so that copying them does not take
 * the processor from the broker. */
static void discard_frames(struct workload *w, struct conn *c, bool resend) {
    size_t head = fetch_head_size(w->o);
    for (int turns = 0; turns < 64; turns++) {
        if (c->skip) {
            ssize_t got = receive(c, scratch, c->skip, MSG_TRUNC);
            if (got < 0) return;
            c->skip -= (size_t)got;
        } else {
            size_t want = c->stage < 0 ? head : FETCH_PARTITION_HEAD;
            ssize_t got = receive(c, c->in + c->in_len, want - c->in_len, 0);
            if (got < 0) return;
            c->in_len += (size_t)got;
            if (c->in_len < want) continue;
            c->in_len = 0;
            const uint8_t *p = c->in;
            if (c->stage < 0) {
                c->left = (size_t)get32(p) + 4 - head;
                c->stage = get32(p + head - 4);
                answered(w, c, p + 4);
                if (get16(p + 12)) note_error(w, get16(p + 12));
                if (get32(p + 18) != 1 || c->stage != w->o->per_request) die("a fetch response without all partitions");
            } else {
                int32_t size = get32(p + 34);
                if (get16(p + 4)) note_error(w, get16(p + 4));
                if (get32(p + 30) > 0 || size < 0) die("a fetch response of another shape");
                c->left -= FETCH_PARTITION_HEAD + (size_t)size;
                c->skip = (size_t)size;
                c->stage--;
                if (w->r.measuring) w->r.bytes += (size_t)size;
                if (!size) note_error(w, 9999);
            }
        }
        if (!c->skip && c->stage == 0) {
            if (c->left) die("a fetch response with %zu bytes behind its end", c->left);
            c->stage = -1;
            completed(w, c, c->slots + c->done % (uint64_t)w->o->in_flight, 0, resend);
            flush(w, c);
        }
    }
}

static void readable(struct workload *w, struct conn *c, bool resend) {
    if (w->o->discard) {
        discard_frames(w, c, resend);
        return;
    }
    for (;;) {
        size_t room = c->in_cap - c->in_len;
        ssize_t got = receive(c, c->in + c->in_len, room, 0);
        if (got < 0) break;
        c->in_len += (size_t)got;
        whole_frames(w, c, resend);
        if ((size_t)got < room) break;
    }
    flush(w, c);
}

static int wait_for_events(struct epoll_event *events, int n, double seconds) {
    struct timespec t = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
    int got = epoll_pwait2(poller, events, n, &t, NULL);
    if (got < 0 && errno == ENOSYS) got = epoll_wait(poller, events, n, (int)(seconds * 1e3) + 1);
    if (got < 0 && errno != EINTR) die("epoll: %s", strerror(errno));
    return got < 0 ? 0 : got;
}

static void close_connections(struct workload *w, struct conn *conns) {
    for (int i = 0; i < w->o->connections; i++) {
        if (w->finish) w->finish(w, conns + i);
        close(conns[i].fd);
    }
}

/* Sends exactly so many, and returns when all are answered. */
static void send_so_many(struct workload *w, struct conn *conns, uint64_t count) {
    uint64_t until = w->answered + count;
    w->left = count;
    for (int i = 0; i < w->o->connections; i++) {
        for (int s = 0; s < w->o->in_flight; s++) conns[i].ready += take(w);
        flush(w, conns + i);
    }
    for (struct epoll_event events[256]; w->answered < until;) {
        int n = wait_for_events(events, 256, 0.05);
        for (int i = 0; i < n; i++) {
            struct conn *c = events[i].data.ptr;
            if (events[i].events & EPOLLOUT) flush(w, c);
            if (events[i].events & ~(uint32_t)EPOLLOUT) readable(w, c, true);
        }
    }
}

static void run_counted(struct workload *w, struct conn *conns) {
    w->limited = true;
    send_so_many(w, conns, (uint64_t)w->o->warm_requests);
    gate(w->o, "begin");
    start_window(w->o, &w->r);
    send_so_many(w, conns, (uint64_t)w->o->requests);
    end_window(w->o, &w->r);
    gate(w->o, "end");
}

void run_load(struct workload *w) {
    const struct options *o = w->o;
    struct conn *conns = calloc((size_t)o->connections, sizeof *conns);
    open_connections(w, conns);
    if (o->counted) {
        run_counted(w, conns);
        close_connections(w, conns);
        return;
    }
    double began = now_s(), interval = (double)o->interval_ms * 1e-3, limit = 0;
    uint64_t due = 0, total = 0; /* paced: how many sends the schedule has seen */
    bool paced = o->interval_ms > 0, stopping = false;
    for (int i = 0; !paced && i < o->connections; i++) {
        conns[i].ready = (uint64_t)o->in_flight;
        flush(w, conns + i);
    }
    if (o->warmup <= 0) start_window(o, &w->r);
    for (struct epoll_event events[256];;) {
        double now = now_s(), wait = 0.05;
        if (paced && !stopping) {
            double step = interval / (double)o->connections;
            for (; began + (double)due * step <= now; due++) {
                struct conn *c = conns + due % (uint64_t)o->connections;
                if (c->ready - c->done < (uint64_t)o->in_flight) {
                    c->ready++;
                    flush(w, c);
                } else {
                    note_error(w, 9998); /* still unanswered when the next is due */
                }
            }
            wait = began + (double)due * step - now;
            wait = wait < 0 ? 0 : wait > 0.05 ? 0.05 : wait;
        }
        int n = wait_for_events(events, 256, wait);
        for (int i = 0; i < n; i++) {
            struct conn *c = events[i].data.ptr;
            if (events[i].events & EPOLLOUT) flush(w, c);
            if (events[i].events & ~(uint32_t)EPOLLOUT) readable(w, c, !paced && !stopping);
        }
        now = now_s();
        if (!stopping) {
            if (!w->r.measuring && now >= began + o->warmup) start_window(o, &w->r);
            if (w->r.measuring &&
                (o->requests ? w->r.requests >= (uint64_t)o->requests : now >= began + o->warmup + o->seconds)) {
                end_window(o, &w->r);
                stopping = true;
                limit = now + 10;
            }
        } else {
            total = 0;
            for (int i = 0; i < o->connections; i++) total += conns[i].ready - conns[i].done;
            if (!total) break;
            if (now > limit) die("%llu requests were never answered", (unsigned long long)total);
        }
    }
    close_connections(w, conns);
}
