// franz-go in the roles of package role. Version "server-side" asks for groups whose broker assigns (KIP-848),
// with the newest versions; a broker without them gets the classic protocol.
package main

import (
	"context"
	"fmt"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kversion"

	"odradek/interop/role"
)

const limit = 60 * time.Second

type client struct{ bootstrap, version string }

func (c client) open(options ...kgo.Opt) (*kgo.Client, error) {
	options = append(options, kgo.SeedBrokers(strings.Split(c.bootstrap, ",")...), kgo.RetryTimeout(limit))
	if c.version != "newest" && c.version != "server-side" {
		version := kversion.FromString(c.version)
		if version == nil {
			return nil, fmt.Errorf("no such version of Kafka: %s", c.version)
		}
		options = append(options, kgo.MaxVersions(version))
	}
	return kgo.NewClient(options...)
}

func (c client) admin() (*kadm.Client, context.Context, func(), error) {
	opened, err := c.open()
	if err != nil {
		return nil, nil, nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	return kadm.NewClient(opened), ctx, func() { cancel(); opened.Close() }, nil
}

func (c client) Create(topic string) error {
	admin, ctx, done, err := c.admin()
	if err != nil {
		return err
	}
	defer done()
	configs := map[string]*string{"retention.ms": kadm.StringPtr(role.Retention)}
	_, err = admin.CreateTopic(ctx, role.Partitions, 1, configs, topic)
	return err
}

func (c client) Produce(topic, codec string, values []string) error {
	codecs := map[string]kgo.CompressionCodec{
		"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
		"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
	}
	compression, known := codecs[codec]
	if !known {
		return fmt.Errorf("no such codec: %s", codec)
	}
	producer, err := c.open(
		kgo.ProducerBatchCompression(compression), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		return err
	}
	defer producer.Close()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	records := make([]*kgo.Record, len(values))
	for i, value := range values {
		n := []byte(strconv.Itoa(i))
		records[i] = &kgo.Record{
			Topic: topic, Partition: int32(i % role.Partitions), Key: n, Value: []byte(value),
			Headers: []kgo.RecordHeader{{Key: "n", Value: n}},
		}
	}
	return producer.ProduceSync(ctx, records...).FirstErr()
}

// Stream is idempotent, as this client's producer is unless told otherwise.
func (c client) Stream(topic string, values <-chan string) error {
	producer, err := c.open(kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		return err
	}
	defer producer.Close()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var first kgo.FirstErrPromise
	n := 0
	for value := range values {
		record := &kgo.Record{Topic: topic, Partition: int32(n % role.Partitions), Value: []byte(value)}
		producer.Produce(ctx, record, first.Promise())
		n++
	}
	time.AfterFunc(limit, cancel)
	return first.Err()
}

// mine is what a member has now; the client calls from its own goroutines.
type mine struct {
	sync.Mutex
	has  map[int32]bool
	tell func([]int32)
}

func (m *mine) change(topic string, partitions map[string][]int32, has bool) {
	m.Lock()
	defer m.Unlock()
	for _, partition := range partitions[topic] {
		if has {
			m.has[partition] = true
		} else {
			delete(m.has, partition)
		}
	}
	now := []int32{}
	for partition := range m.has {
		now = append(now, partition)
	}
	m.tell(now)
}

func (c client) Consume(
	topic, group string, left <-chan struct{}, assigned func([]int32), got func(role.Record),
) error {
	now := &mine{has: map[int32]bool{}, tell: assigned}
	gone := func(_ context.Context, _ *kgo.Client, p map[string][]int32) { now.change(topic, p, false) }
	options := []kgo.Opt{
		kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic), kgo.AutoCommitMarks(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, p map[string][]int32) {
			now.change(topic, p, true)
		}),
		kgo.OnPartitionsRevoked(gone), kgo.OnPartitionsLost(gone),
	}
	if c.version == "server-side" {
		options = append(options, kgo.ServerSideBalancer(), kgo.Balancers(kgo.RangeBalancer()))
	}
	consumer, err := c.open(options...)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	go func() { <-left; stop() }()
	for ctx.Err() == nil {
		// Errors are of partitions, and pass: the client goes on by itself.
		consumer.PollFetches(ctx).EachRecord(func(record *kgo.Record) {
			line := role.Record{
				Partition: record.Partition, Offset: record.Offset,
				Key: string(record.Key), Value: string(record.Value),
			}
			for _, header := range record.Headers {
				line.Header += header.Key + "=" + string(header.Value)
			}
			got(line)
			consumer.MarkCommitRecords(record)
		})
	}
	end, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	if err := consumer.CommitMarkedOffsets(end); err != nil {
		return err
	}
	if err := consumer.LeaveGroupContext(end); err != nil {
		return err
	}
	consumer.Close()
	return nil
}

func (c client) Describe(topic, group string) (role.Description, error) {
	var seen role.Description
	admin, ctx, done, err := c.admin()
	if err != nil {
		return seen, err
	}
	defer done()
	topics, err := admin.ListTopics(ctx, topic)
	if err != nil {
		return seen, err
	}
	seen.Partitions = len(topics[topic].Partitions)
	configs, err := admin.DescribeTopicConfigs(ctx, topic)
	if err != nil {
		return seen, err
	}
	for _, config := range configs[0].Configs {
		if config.Key == "retention.ms" {
			seen.Retention = config.MaybeValue()
		}
	}
	groups, err := admin.ListGroups(ctx)
	if err != nil {
		return seen, err
	}
	seen.Groups = groups.Groups()
	sort.Strings(seen.Groups)
	described, err := admin.DescribeGroups(ctx, group)
	if err != nil {
		return seen, err
	}
	seen.State, seen.Members = described[group].State, len(described[group].Members)
	return seen, described[group].Err
}

func (c client) Offsets(topic string, timeMs int64) (role.Offsets, error) {
	found := role.NewOffsets()
	admin, ctx, done, err := c.admin()
	if err != nil {
		return found, err
	}
	defer done()
	first, err := admin.ListStartOffsets(ctx, topic)
	if err != nil {
		return found, err
	}
	last, err := admin.ListEndOffsets(ctx, topic)
	if err != nil {
		return found, err
	}
	// Where no record is so late, this asks for the end again.
	at, err := admin.ListOffsetsAfterMilli(ctx, timeMs, topic)
	if err != nil {
		return found, err
	}
	for partition := range int32(role.Partitions) {
		found.Beginning[int(partition)] = first[topic][partition].Offset
		found.End[int(partition)] = last[topic][partition].Offset
		if one := at[topic][partition]; one.Err == nil && one.Timestamp >= 0 {
			found.At[int(partition)] = one.Offset
		}
	}
	return found, nil
}

func (c client) Delete(topic, group string) ([]string, error) {
	admin, ctx, done, err := c.admin()
	if err != nil {
		return nil, err
	}
	defer done()
	if group != "-" {
		if _, err := admin.DeleteGroup(ctx, group); err != nil {
			return nil, err
		}
	}
	if _, err := admin.DeleteTopic(ctx, topic); err != nil {
		return nil, err
	}
	topics, err := admin.ListTopics(ctx)
	if err != nil {
		return nil, err
	}
	names := topics.Names()
	if names == nil {
		names = []string{}
	}
	return names, nil
}

func main() {
	role.Main(func(bootstrap, version string) (role.Client, error) { return client{bootstrap, version}, nil })
}
