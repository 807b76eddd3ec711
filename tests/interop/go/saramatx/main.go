// Sarama's transactions, in the roles of package role.
package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/IBM/sarama"

	"odradek/interop/role"
)

type library struct{}

type producer struct{ sarama.SyncProducer }

func newConfig() *sarama.Config {
	config := sarama.NewConfig()
	config.Version = sarama.MaxVersion
	config.Consumer.IsolationLevel = sarama.ReadCommitted
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	return config
}

func (library) Open(bootstrap, id string) (role.Producer, error) {
	config := newConfig()
	config.Producer.Idempotent = true
	config.Producer.Transaction.ID = id
	config.Producer.Transaction.Timeout = role.TransactionTimeout
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Producer.Partitioner = sarama.NewManualPartitioner
	config.Producer.Retry.Max = 50
	config.Producer.Return.Successes = true
	config.Net.MaxOpenRequests = 1
	opened, err := sarama.NewSyncProducer([]string{bootstrap}, config)
	if err != nil {
		return nil, err
	}
	return producer{opened}, nil
}

func (p producer) Begin() error { return p.BeginTxn() }

func (p producer) Send(topic string, values []string) error {
	messages := make([]*sarama.ProducerMessage, len(values))
	for i, value := range values {
		messages[i] = &sarama.ProducerMessage{
			Topic: topic, Partition: int32(i % role.Partitions),
			Key: sarama.StringEncoder(strconv.Itoa(i)), Value: sarama.StringEncoder(value),
		}
	}
	err := p.SendMessages(messages)
	var refused sarama.ProducerErrors
	if errors.As(err, &refused) {
		return fmt.Errorf("%w: %w", err, refused[0].Err)
	}
	return err
}

func (p producer) Commit() error { return p.CommitTxn() }

func (p producer) Abort() error { return p.AbortTxn() }

func (p producer) Close() { _ = p.SyncProducer.Close() }

// copier has a producer for each partition that it is given, as each is read by a goroutine of its own.
type copier struct {
	library
	bootstrap, to, group, id string
	ended                    func(string, error)
}

func (copier) Setup(sarama.ConsumerGroupSession) error { return nil }

func (copier) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (c copier) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	id := fmt.Sprintf("%s-%d", c.id, claim.Partition())
	writer, err := c.Open(c.bootstrap, id)
	if err != nil {
		return err
	}
	err = c.work(writer.(producer), session, claim)
	writer.Close()
	if err == nil {
		return nil
	}
	c.ended(role.Failed, err)
	// The next producer ends what this one has left, else the group would wait for its offsets. The session ends
	// here as well: the next one begins where the group stands.
	for session.Context().Err() == nil {
		if writer, failed := c.Open(c.bootstrap, id); failed == nil {
			writer.Close()
			break
		}
	}
	return err
}

func (c copier) work(
	writer producer, session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim,
) error {
	for number := 1; ; number++ {
		batch := next(session, claim)
		if len(batch) == 0 {
			return nil
		}
		if number%2 == 0 {
			if err := c.abort(writer, batch); err != nil {
				return err
			}
			c.ended(role.Aborted, nil)
		}
		if err := c.copy(writer, session, batch); err != nil {
			return err
		}
		c.ended(role.Committed, nil)
	}
}

// next waits for a message and takes some that are there already; none: the session is over.
func next(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) []*sarama.ConsumerMessage {
	var batch []*sarama.ConsumerMessage
	select {
	case message, open := <-claim.Messages():
		if !open {
			return nil
		}
		batch = append(batch, message)
	case <-session.Context().Done():
		return nil
	}
	for len(batch) < 5 {
		select {
		case message, open := <-claim.Messages():
			if !open {
				return batch
			}
			batch = append(batch, message)
		default:
			return batch
		}
	}
	return batch
}

func (c copier) send(writer producer, batch []*sarama.ConsumerMessage) error {
	if err := writer.BeginTxn(); err != nil {
		return err
	}
	messages := make([]*sarama.ProducerMessage, len(batch))
	for i, message := range batch {
		messages[i] = &sarama.ProducerMessage{
			Topic: c.to, Partition: message.Partition,
			Key: sarama.ByteEncoder(message.Key), Value: sarama.ByteEncoder(message.Value),
		}
	}
	return writer.SendMessages(messages)
}

func (c copier) abort(writer producer, batch []*sarama.ConsumerMessage) error {
	if err := c.send(writer, batch); err != nil {
		return err
	}
	return writer.AbortTxn()
}

func (c copier) copy(
	writer producer, session sarama.ConsumerGroupSession, batch []*sarama.ConsumerMessage,
) error {
	if err := c.send(writer, batch); err != nil {
		return err
	}
	metadata := sarama.NewConsumerGroupMetadata(c.group)
	metadata.MemberID, metadata.GenerationID = session.MemberID(), session.GenerationID()
	last := batch[len(batch)-1]
	if err := writer.AddMessageToTxnWithGroupMetadata(last, metadata, nil); err != nil {
		return err
	}
	return writer.CommitTxn()
}

func (library) Transform(
	bootstrap, from, to, group, id string, left <-chan struct{}, ended func(string, error),
) error {
	config := newConfig()
	config.Consumer.Offsets.AutoCommit.Enable = false
	return inGroup(bootstrap, group, from, config, left, copier{library{}, bootstrap, to, group, id, ended})
}

func inGroup(
	bootstrap, group, topic string, config *sarama.Config, left <-chan struct{},
	handler sarama.ConsumerGroupHandler,
) error {
	consumer, err := sarama.NewConsumerGroup([]string{bootstrap}, group, config)
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
			if err := consumer.Consume(ctx, []string{topic}, handler); err != nil {
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

type reader struct{ got func(role.Record) }

func (reader) Setup(sarama.ConsumerGroupSession) error { return nil }

func (reader) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (r reader) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for {
		select {
		case message, open := <-claim.Messages():
			if !open {
				return nil
			}
			r.got(role.Record{
				Partition: message.Partition, Offset: message.Offset,
				Key: string(message.Key), Value: string(message.Value),
			})
			session.MarkMessage(message, "")
		case <-session.Context().Done():
			return nil
		}
	}
}

func (library) Committed(
	bootstrap, topic, group string, left <-chan struct{}, got func(role.Record),
) error {
	return inGroup(bootstrap, group, topic, newConfig(), left, reader{got})
}

func main() { role.Transact(library{}) }
