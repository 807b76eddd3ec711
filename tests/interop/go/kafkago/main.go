// kafka-go in the roles of package role. Version "reader" consumes with its Reader, which does not tell what it
// was assigned; any other with the ConsumerGroup below it, which does.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sort"
	"strconv"
	"time"

	"github.com/segmentio/kafka-go"

	"odradek/interop/role"
)

const limit = 60 * time.Second

type client struct{ bootstrap, version string }

// api has a transport of its own each time: a transport answers Metadata from what it has kept.
func (c client) api() *kafka.Client {
	return &kafka.Client{Addr: kafka.TCP(c.bootstrap), Timeout: limit, Transport: &kafka.Transport{}}
}

func context60() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), limit)
}

func (c client) Create(topic string) error {
	ctx, cancel := context60()
	defer cancel()
	made, err := c.api().CreateTopics(ctx, &kafka.CreateTopicsRequest{Topics: []kafka.TopicConfig{{
		Topic: topic, NumPartitions: role.Partitions, ReplicationFactor: 1,
		ConfigEntries: []kafka.ConfigEntry{{ConfigName: "retention.ms", ConfigValue: role.Retention}},
	}}})
	if err != nil {
		return err
	}
	return made.Errors[topic]
}

func (c client) Produce(topic, codec string, values []string) error {
	codecs := map[string]kafka.Compression{
		"none": 0, "gzip": kafka.Gzip, "snappy": kafka.Snappy, "lz4": kafka.Lz4, "zstd": kafka.Zstd,
	}
	compression, known := codecs[codec]
	if !known {
		return fmt.Errorf("no such codec: %s", codec)
	}
	writer := &kafka.Writer{
		Addr: kafka.TCP(c.bootstrap), Topic: topic, RequiredAcks: kafka.RequireAll, MaxAttempts: 50,
		Compression: compression, BatchTimeout: 20 * time.Millisecond,
		Balancer: kafka.BalancerFunc(func(message kafka.Message, partitions ...int) int {
			n, _ := strconv.Atoi(string(message.Key))
			return n % len(partitions)
		}),
	}
	messages := make([]kafka.Message, len(values))
	for i, value := range values {
		n := []byte(strconv.Itoa(i))
		messages[i] = kafka.Message{
			Key: n, Value: []byte(value), Headers: []kafka.Header{{Key: "n", Value: n}},
		}
	}
	ctx, cancel := context60()
	defer cancel()
	if err := writer.WriteMessages(ctx, messages...); err != nil {
		return err
	}
	return writer.Close()
}

func recordOf(message kafka.Message) role.Record {
	record := role.Record{
		Partition: int32(message.Partition), Offset: message.Offset,
		Key: string(message.Key), Value: string(message.Value),
	}
	for _, header := range message.Headers {
		record.Header += header.Key + "=" + string(header.Value)
	}
	return record
}

func (c client) Consume(
	topic, group string, left <-chan struct{}, assigned func([]int32), got func(role.Record),
) error {
	ctx, leave := context.WithCancel(context.Background())
	go func() { <-left; leave() }()
	if c.version == "reader" {
		return c.read(ctx, topic, group, got)
	}
	members, err := kafka.NewConsumerGroup(kafka.ConsumerGroupConfig{
		ID: group, Brokers: []string{c.bootstrap}, Topics: []string{topic}, StartOffset: kafka.FirstOffset,
		HeartbeatInterval: 300 * time.Millisecond, JoinGroupBackoff: 200 * time.Millisecond,
	})
	if err != nil {
		return err
	}
	for {
		generation, err := members.Next(ctx)
		if ctx.Err() != nil {
			return members.Close()
		}
		if err != nil {
			continue // the broker is away, or others joined: the next generation comes
		}
		now := []int32{}
		for _, assignment := range generation.Assignments[topic] {
			now = append(now, int32(assignment.ID))
		}
		assigned(now)
		for _, assignment := range generation.Assignments[topic] {
			generation.Start(func(ctx context.Context) {
				c.follow(ctx, generation, topic, assignment, got)
			})
		}
	}
}

// follow reads a partition for as long as a generation lasts, and commits what it has read.
func (c client) follow(
	ctx context.Context, generation *kafka.Generation, topic string, from kafka.PartitionAssignment,
	got func(role.Record),
) {
	reader := kafka.NewReader(kafka.ReaderConfig{
		Brokers: []string{c.bootstrap}, Topic: topic, Partition: from.ID, MaxWait: 100 * time.Millisecond,
		ReadBackoffMax: 200 * time.Millisecond,
	})
	defer reader.Close()
	if err := reader.SetOffset(from.Offset); err != nil {
		return
	}
	for {
		message, err := reader.ReadMessage(ctx)
		if ctx.Err() != nil || errors.Is(err, kafka.ErrGenerationEnded) || errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			continue
		}
		got(recordOf(message))
		offsets := map[string]map[int]int64{topic: {message.Partition: message.Offset + 1}}
		// A commit that fails belongs to a generation that has passed: the next one reads again.
		_ = generation.CommitOffsets(offsets)
	}
}

func (c client) read(ctx context.Context, topic, group string, got func(role.Record)) error {
	reader := kafka.NewReader(kafka.ReaderConfig{
		Brokers: []string{c.bootstrap}, GroupID: group, Topic: topic, StartOffset: kafka.FirstOffset,
		MaxWait: 100 * time.Millisecond,
	})
	for {
		message, err := reader.FetchMessage(ctx)
		if ctx.Err() != nil {
			return reader.Close()
		}
		if err != nil {
			return err
		}
		got(recordOf(message))
		if err := reader.CommitMessages(context.Background(), message); err != nil {
			return err
		}
	}
}

func (c client) Describe(topic, group string) (role.Description, error) {
	var seen role.Description
	ctx, cancel := context60()
	defer cancel()
	metadata, err := c.api().Metadata(ctx, &kafka.MetadataRequest{Topics: []string{topic}})
	if err != nil {
		return seen, err
	}
	seen.Partitions = len(metadata.Topics[0].Partitions)
	configs, err := c.api().DescribeConfigs(ctx, &kafka.DescribeConfigsRequest{
		Resources: []kafka.DescribeConfigRequestResource{{
			ResourceType: kafka.ResourceTypeTopic, ResourceName: topic, ConfigNames: []string{"retention.ms"},
		}},
	})
	if err != nil {
		return seen, err
	}
	seen.Retention = configs.Resources[0].ConfigEntries[0].ConfigValue
	groups, err := c.api().ListGroups(ctx, &kafka.ListGroupsRequest{})
	if err != nil {
		return seen, err
	}
	for _, listed := range groups.Groups {
		seen.Groups = append(seen.Groups, listed.GroupID)
	}
	sort.Strings(seen.Groups)
	described, err := c.api().DescribeGroups(ctx, &kafka.DescribeGroupsRequest{GroupIDs: []string{group}})
	if err != nil {
		return seen, err
	}
	seen.State, seen.Members = described.Groups[0].GroupState, len(described.Groups[0].Members)
	return seen, described.Groups[0].Error
}

func (c client) Offsets(topic string, timeMs int64) (role.Offsets, error) {
	found := role.NewOffsets()
	ctx, cancel := context60()
	defer cancel()
	// Of one partition it asks for one offset at a time.
	ask := func(of func(int) kafka.OffsetRequest) (map[int]kafka.PartitionOffsets, error) {
		var wanted []kafka.OffsetRequest
		for partition := range role.Partitions {
			wanted = append(wanted, of(partition))
		}
		listed, err := c.api().ListOffsets(ctx, &kafka.ListOffsetsRequest{
			Topics: map[string][]kafka.OffsetRequest{topic: wanted},
		})
		if err != nil {
			return nil, err
		}
		by := map[int]kafka.PartitionOffsets{}
		for _, one := range listed.Topics[topic] {
			if one.Error != nil {
				return nil, one.Error
			}
			by[one.Partition] = one
		}
		return by, nil
	}
	first, err := ask(kafka.FirstOffsetOf)
	if err != nil {
		return found, err
	}
	last, err := ask(kafka.LastOffsetOf)
	if err != nil {
		return found, err
	}
	at, err := ask(func(partition int) kafka.OffsetRequest {
		return kafka.TimeOffsetOf(partition, time.UnixMilli(timeMs))
	})
	if err != nil {
		return found, err
	}
	for partition := range role.Partitions {
		found.Beginning[partition] = first[partition].FirstOffset
		found.End[partition] = last[partition].LastOffset
		for offset := range at[partition].Offsets {
			if offset >= 0 {
				found.At[partition] = offset
			}
		}
	}
	return found, nil
}

func (c client) Delete(topic, group string) ([]string, error) {
	ctx, cancel := context60()
	defer cancel()
	if group != "-" {
		gone, err := c.api().DeleteGroups(ctx, &kafka.DeleteGroupsRequest{GroupIDs: []string{group}})
		if err != nil {
			return nil, err
		}
		if gone.Errors[group] != nil {
			return nil, gone.Errors[group]
		}
	}
	gone, err := c.api().DeleteTopics(ctx, &kafka.DeleteTopicsRequest{Topics: []string{topic}})
	if err != nil {
		return nil, err
	}
	if gone.Errors[topic] != nil {
		return nil, gone.Errors[topic]
	}
	metadata, err := c.api().Metadata(ctx, &kafka.MetadataRequest{})
	if err != nil {
		return nil, err
	}
	names := []string{}
	for _, left := range metadata.Topics {
		names = append(names, left.Name)
	}
	return names, nil
}

func main() {
	role.Main(func(bootstrap, version string) (role.Client, error) { return client{bootstrap, version}, nil })
}
