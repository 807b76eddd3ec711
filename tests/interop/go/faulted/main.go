// franz-go while faults are set: the words of python/faulted.py.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// As in python/faulted.py. A Produce's time-out is the sum of the first two, that of other requests the second.
const (
	produceTimeout = 500 * time.Millisecond
	overhead       = time.Second
	delivery       = 6 * time.Second
	session        = 6 * time.Second
	heartbeat      = 300 * time.Millisecond
	metadataEach   = 250 * time.Millisecond
	readWithin     = 10 * time.Second
	atOnce         = 5
	all            = 10
	padding        = 700
	batchBytes     = 1024
)

type answer struct {
	Failed       string   `json:"failed"`
	Acknowledged []int    `json:"acknowledged"`
	Read         []int    `json:"read"`
	Told         []string `json:"told"`
}

var input = bufio.NewScanner(os.Stdin)

func tell(line any) {
	if err := json.NewEncoder(os.Stdout).Encode(line); err != nil {
		os.Exit(1)
	}
}

func half() string {
	tell(map[string]bool{"half": true})
	input.Scan()
	return strings.TrimSpace(input.Text())
}

// name is what the library's users call an error.
func name(err error) string {
	var told *kerr.Error
	known := map[string]error{
		"ErrRecordTimeout": kgo.ErrRecordTimeout, "ErrRecordRetries": kgo.ErrRecordRetries,
		"ErrClientClosed": kgo.ErrClientClosed, "DeadlineExceeded": context.DeadlineExceeded,
	}
	if errors.As(err, &told) {
		return told.Message
	}
	for text, one := range known {
		if errors.Is(err, one) {
			return text
		}
	}
	return strings.TrimPrefix(fmt.Sprintf("%T", err), "*kgo.")
}

func open(bootstrap string, options ...kgo.Opt) (*kgo.Client, error) {
	return kgo.NewClient(append(options,
		kgo.SeedBrokers(strings.Split(bootstrap, ",")...), kgo.ClientID("faulted"), kgo.RetryTimeout(delivery),
		kgo.RequestTimeoutOverhead(overhead), kgo.ProduceRequestTimeout(produceTimeout),
		kgo.RecordDeliveryTimeout(delivery), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchMaxBytes(batchBytes),
		// After an error it waits for newer metadata, for which it asks each 5 s at most.
		kgo.MetadataMinAge(metadataEach),
	)...)
}

func value(number int) []byte { return fmt.Appendf(nil, "%-*d", padding, number) }

// send writes records, so many at once.
func send(client *kgo.Client, topic string, from, until, together int, acknowledged func(int)) error {
	for begin := from; begin < until; begin += together {
		outcomes := make(chan error, together)
		for number := begin; number < begin+together; number++ {
			record := &kgo.Record{Topic: topic, Value: value(number)}
			client.Produce(context.Background(), record, func(_ *kgo.Record, err error) {
				if err == nil {
					acknowledged(number)
				}
				outcomes <- err
			})
		}
		var first error
		for range together {
			if err := <-outcomes; first == nil {
				first = err
			}
		}
		if first != nil {
			return first
		}
	}
	return nil
}

func produce(told *answer, bootstrap, topic, how string) error {
	var options []kgo.Opt
	if how != "idempotent" {
		options = append(options, kgo.DisableIdempotentWrite())
	}
	client, err := open(bootstrap, options...)
	if err != nil {
		return err
	}
	defer client.Close()
	acknowledged := func(number int) { told.Acknowledged = append(told.Acknowledged, number) }
	if err := send(client, topic, 0, atOnce, 1, acknowledged); err != nil {
		return err
	}
	together := 1
	if half() == "together" {
		together = atOnce
	}
	return send(client, topic, atOnce, all, together, acknowledged)
}

func transact(told *answer, bootstrap, topic, id string) error {
	client, err := open(bootstrap, kgo.TransactionalID(id))
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 2*delivery)
	defer cancel()
	// The id is taken at the first use, which is this.
	if _, _, err := client.ProducerID(ctx); err != nil {
		return err
	}
	for begin := 0; begin < all; begin += atOnce {
		if begin > 0 {
			half()
		}
		if err := client.BeginTransaction(); err != nil {
			return err
		}
		if err := send(client, topic, begin, begin+atOnce, 1, func(int) {}); err != nil {
			return err
		}
		if err := client.EndTransaction(ctx, kgo.TryCommit); err != nil {
			return err
		}
		for number := begin; number < begin+atOnce; number++ {
			told.Acknowledged = append(told.Acknowledged, number)
		}
	}
	return nil
}

func (told *answer) note(err error) {
	if text := name(err); !slices.Contains(told.Told, text) {
		told.Told = append(told.Told, text)
	}
}

// committed is the offset that the group has for partition 0.
func committed(client *kgo.Client, topic, group string) int {
	ctx, cancel := context.WithTimeout(context.Background(), delivery)
	defer cancel()
	offsets, err := kadm.NewClient(client).FetchOffsets(ctx, group)
	if err != nil {
		return -1
	}
	at, _ := offsets.Lookup(topic, 0)
	return int(at.At)
}

// read until so many are there and committed. Errors are noted, and the next poll follows.
func (told *answer) readUntil(client *kgo.Client, topic, group string, count int) bool {
	isCommitted := true
	for deadline := time.Now().Add(readWithin); time.Now().Before(deadline); {
		ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
		fetches := client.PollFetches(ctx)
		cancel()
		fetches.EachError(func(_ string, _ int32, err error) {
			if !errors.Is(err, context.DeadlineExceeded) {
				told.note(err)
			}
		})
		fetches.EachRecord(func(record *kgo.Record) {
			number, err := strconv.Atoi(strings.TrimSpace(string(record.Value)))
			if err != nil {
				os.Exit(1)
			}
			told.Read = append(told.Read, number)
			isCommitted = false
		})
		if !isCommitted {
			ctx, cancel := context.WithTimeout(context.Background(), delivery)
			err := client.CommitUncommittedOffsets(ctx)
			cancel()
			if err != nil {
				told.note(err)
			}
			// A commit amid a rebalance may be one of nothing.
			isCommitted = err == nil && committed(client, topic, group) > slices.Max(told.Read)
		}
		distinct := slices.Compact(slices.Sorted(slices.Values(told.Read)))
		if isCommitted && len(distinct) >= count {
			told.Acknowledged = distinct
			return true
		}
	}
	return false
}

func consume(told *answer, bootstrap, topic, group string) error {
	client, err := open(bootstrap,
		kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic), kgo.DisableAutoCommit(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.SessionTimeout(session), kgo.HeartbeatInterval(heartbeat),
	)
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		_ = client.LeaveGroupContext(ctx)
		client.Close()
	}()
	if told.readUntil(client, topic, group, atOnce) {
		half()
		told.readUntil(client, topic, group, all)
	}
	return nil
}

func create(bootstrap, topic string) error {
	client, err := open(bootstrap)
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 2*delivery)
	defer cancel()
	_, err = kadm.NewClient(client).CreateTopic(ctx, 1, 1, nil, topic)
	return err
}

func main() {
	for input.Scan() {
		line := input.Text()
		words := strings.Fields(line)
		told := answer{Acknowledged: []int{}, Read: []int{}, Told: []string{}}
		var err error
		switch words[0] {
		case "produce":
			err = produce(&told, words[1], words[2], words[3])
		case "consume":
			err = consume(&told, words[1], words[2], words[3])
		case "transact":
			err = transact(&told, words[1], words[2], words[3])
		case "create":
			err = create(words[1], words[2])
		default:
			err = fmt.Errorf("no such work: %q", line)
		}
		if err != nil {
			told.Failed = name(err)
			fmt.Fprintf(os.Stderr, "%s: %v\n", line, err)
		}
		tell(told)
	}
}
