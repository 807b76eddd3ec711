// Sarama in the roles of package role. The same source is built against 1.26.4 of 2020 (sarama-1.26.mod).
package main

import (
	"context"
	"fmt"
	"sort"
	"strconv"
	"sync"
	"time"

	"github.com/IBM/sarama"

	"odradek/interop/role"
)

type client struct {
	servers []string
	version string
}

func (c client) config() (*sarama.Config, error) {
	config := sarama.NewConfig()
	config.Version = sarama.MaxVersion
	if c.version != "newest" {
		version, err := sarama.ParseKafkaVersion(c.version)
		if err != nil {
			return nil, err
		}
		config.Version = version
	}
	return config, nil
}

func (c client) admin() (sarama.ClusterAdmin, error) {
	config, err := c.config()
	if err != nil {
		return nil, err
	}
	return sarama.NewClusterAdmin(c.servers, config)
}

func (c client) Create(topic string) error {
	admin, err := c.admin()
	if err != nil {
		return err
	}
	defer admin.Close()
	retention := role.Retention
	return admin.CreateTopic(topic, &sarama.TopicDetail{
		NumPartitions: role.Partitions, ReplicationFactor: 1,
		ConfigEntries: map[string]*string{"retention.ms": &retention},
	}, false)
}

func (c client) Produce(topic, codec string, values []string) error {
	config, err := c.config()
	if err != nil {
		return err
	}
	codecs := map[string]sarama.CompressionCodec{
		"none": sarama.CompressionNone, "gzip": sarama.CompressionGZIP, "snappy": sarama.CompressionSnappy,
		"lz4": sarama.CompressionLZ4, "zstd": sarama.CompressionZSTD,
	}
	compression, known := codecs[codec]
	if !known {
		return fmt.Errorf("no such codec: %s", codec)
	}
	config.Producer.Compression = compression
	config.Producer.Partitioner = sarama.NewManualPartitioner
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Producer.Idempotent = true
	config.Net.MaxOpenRequests = 1
	config.Producer.Retry.Max = 20
	config.Producer.Return.Successes = true
	producer, err := sarama.NewSyncProducer(c.servers, config)
	if err != nil {
		return err
	}
	messages := make([]*sarama.ProducerMessage, len(values))
	for i, value := range values {
		n := strconv.Itoa(i)
		messages[i] = &sarama.ProducerMessage{
			Topic: topic, Partition: int32(i % role.Partitions),
			Key: sarama.StringEncoder(n), Value: sarama.StringEncoder(value),
			Headers: []sarama.RecordHeader{{Key: []byte("n"), Value: []byte(n)}},
		}
	}
	if err := producer.SendMessages(messages); err != nil {
		return err
	}
	return producer.Close()
}

type handler struct {
	topic    string
	assigned func([]int32)
	got      func(role.Record)
}

func (h handler) Setup(session sarama.ConsumerGroupSession) error {
	h.assigned(session.Claims()[h.topic])
	return nil
}

func (h handler) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (h handler) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for {
		select {
		case message, open := <-claim.Messages():
			if !open {
				return nil
			}
			record := role.Record{
				Partition: message.Partition, Offset: message.Offset,
				Key: string(message.Key), Value: string(message.Value),
			}
			for _, header := range message.Headers {
				record.Header += string(header.Key) + "=" + string(header.Value)
			}
			h.got(record)
			session.MarkMessage(message, "")
		case <-session.Context().Done():
			return nil
		}
	}
}

func (c client) Consume(
	topic, group string, left <-chan struct{}, assigned func([]int32), got func(role.Record),
) error {
	config, err := c.config()
	if err != nil {
		return err
	}
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	consumer, err := sarama.NewConsumerGroup(c.servers, group, config)
	if err != nil {
		return err
	}
	ctx, leave := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Add(1)
	go func() {
		defer running.Done()
		for ctx.Err() == nil {
			// It ends at each rebalance, and with an error while the broker is away: applications go on.
			if err := consumer.Consume(ctx, []string{topic}, handler{topic, assigned, got}); err != nil {
				select {
				case <-ctx.Done():
				case <-time.After(100 * time.Millisecond):
				}
			}
		}
	}()
	<-left
	leave()
	running.Wait()
	return consumer.Close()
}

func (c client) Describe(topic, group string) (role.Description, error) {
	var seen role.Description
	admin, err := c.admin()
	if err != nil {
		return seen, err
	}
	defer admin.Close()
	topics, err := admin.DescribeTopics([]string{topic})
	if err != nil {
		return seen, err
	}
	seen.Partitions = len(topics[0].Partitions)
	entries, err := admin.DescribeConfig(sarama.ConfigResource{
		Type: sarama.TopicResource, Name: topic, ConfigNames: []string{"retention.ms"},
	})
	if err != nil {
		return seen, err
	}
	for _, entry := range entries {
		if entry.Name == "retention.ms" {
			seen.Retention = entry.Value
		}
	}
	groups, err := admin.ListConsumerGroups()
	if err != nil {
		return seen, err
	}
	for name := range groups {
		seen.Groups = append(seen.Groups, name)
	}
	sort.Strings(seen.Groups)
	described, err := admin.DescribeConsumerGroups([]string{group})
	if err != nil {
		return seen, err
	}
	seen.State, seen.Members = described[0].State, len(described[0].Members)
	return seen, nil
}

func (c client) Offsets(topic string, timeMs int64) (role.Offsets, error) {
	found := role.NewOffsets()
	config, err := c.config()
	if err != nil {
		return found, err
	}
	plain, err := sarama.NewClient(c.servers, config)
	if err != nil {
		return found, err
	}
	defer plain.Close()
	for partition := range role.Partitions {
		for at, into := range map[int64]map[int]int64{
			sarama.OffsetOldest: found.Beginning, sarama.OffsetNewest: found.End, timeMs: found.At,
		} {
			offset, err := plain.GetOffset(topic, int32(partition), at)
			if err != nil {
				return found, err
			}
			if offset >= 0 {
				into[partition] = offset
			}
		}
	}
	return found, nil
}

func (c client) Delete(topic, group string) ([]string, error) {
	admin, err := c.admin()
	if err != nil {
		return nil, err
	}
	defer admin.Close()
	if group != "-" {
		if err := admin.DeleteConsumerGroup(group); err != nil {
			return nil, err
		}
	}
	if err := admin.DeleteTopic(topic); err != nil {
		return nil, err
	}
	topics, err := admin.ListTopics()
	if err != nil {
		return nil, err
	}
	names := []string{}
	for name := range topics {
		names = append(names, name)
	}
	return names, nil
}

func main() {
	role.Main(func(bootstrap, version string) (role.Client, error) {
		return client{[]string{bootstrap}, version}, nil
	})
}
