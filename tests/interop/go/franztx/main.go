// franz-go's transactions, in the roles of package role.
package main

import (
	"context"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"odradek/interop/role"
)

const limit = 60 * time.Second

type library struct{}

type producer struct{ client *kgo.Client }

func (library) Open(bootstrap, id string) (role.Producer, error) {
	client, err := kgo.NewClient(
		kgo.SeedBrokers(bootstrap), kgo.TransactionalID(id), kgo.RetryTimeout(limit),
		kgo.TransactionTimeout(role.TransactionTimeout),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
	)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	// The id is taken at the first use, which is this.
	if _, _, err := client.ProducerID(ctx); err != nil {
		client.Close()
		return nil, err
	}
	return producer{client}, nil
}

func (p producer) Begin() error { return p.client.BeginTransaction() }

func (p producer) Send(topic string, values []string) error {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	records := make([]*kgo.Record, len(values))
	for i, value := range values {
		records[i] = &kgo.Record{
			Topic: topic, Partition: int32(i % role.Partitions), Key: []byte(strconv.Itoa(i)), Value: []byte(value),
		}
	}
	return p.client.ProduceSync(ctx, records...).FirstErr()
}

func (p producer) Commit() error {
	return p.client.EndTransaction(context.Background(), kgo.TryCommit)
}

func (p producer) Abort() error {
	return p.client.EndTransaction(context.Background(), kgo.TryAbort)
}

func (p producer) Close() { p.client.Close() }

func (library) Transform(
	bootstrap, from, to, group, id string, left <-chan struct{}, ended func(string, error),
) error {
	ctx, stop := context.WithCancel(context.Background())
	go func() { <-left; stop() }()
	for number := 0; ctx.Err() == nil; {
		// A static member: the next session takes the place of one that could not say goodbye.
		session, err := kgo.NewGroupTransactSession(
			kgo.InstanceID(id),
			kgo.SeedBrokers(bootstrap), kgo.TransactionalID(id), kgo.ConsumerGroup(group), kgo.ConsumeTopics(from),
			kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.RequireStableFetchOffsets(),
			kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.RetryTimeout(limit),
			kgo.TransactionTimeout(role.TransactionTimeout),
			kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		)
		if err != nil {
			return err
		}
		// What the session before has left is ended here, else the group would wait for its offsets.
		_, _, err = session.Client().ProducerID(ctx)
		for err == nil && ctx.Err() == nil {
			err = transaction(ctx, session, to, &number, ended)
		}
		if err != nil {
			ended(role.Failed, err)
			time.Sleep(100 * time.Millisecond)
		}
		session.Close()
	}
	return nil
}

// transaction copies what one poll has brought; an error is the end of the session.
func transaction(
	ctx context.Context, session *kgo.GroupTransactSession, to string, number *int, ended func(string, error),
) error {
	read := session.PollRecords(ctx, 10).Records()
	if len(read) == 0 {
		return nil
	}
	if err := session.Begin(); err != nil {
		return err
	}
	for _, record := range read {
		session.Produce(context.Background(),
			&kgo.Record{Topic: to, Partition: record.Partition, Key: record.Key, Value: record.Value}, nil)
	}
	if err := session.Client().Flush(context.Background()); err != nil {
		return err
	}
	*number++
	committed, err := session.End(context.Background(), kgo.TransactionEndTry(*number%2 != 0))
	if err != nil {
		return err
	}
	if committed {
		ended(role.Committed, nil)
	} else {
		ended(role.Aborted, nil)
	}
	return nil
}

func (library) Committed(
	bootstrap, topic, _ string, left <-chan struct{}, got func(role.Record),
) error {
	client, err := kgo.NewClient(
		kgo.SeedBrokers(bootstrap), kgo.ConsumeTopics(topic), kgo.RetryTimeout(limit),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
	)
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, stop := context.WithCancel(context.Background())
	go func() { <-left; stop() }()
	for ctx.Err() == nil {
		client.PollFetches(ctx).EachRecord(func(record *kgo.Record) {
			got(role.Record{
				Partition: record.Partition, Offset: record.Offset,
				Key: string(record.Key), Value: string(record.Value),
			})
		})
	}
	return nil
}

func main() { role.Transact(library{}) }
