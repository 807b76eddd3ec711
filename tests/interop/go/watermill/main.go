// Watermill passes on from `in` to `out`, in capitals: `watermill BOOTSTRAP`, until SIGTERM.
package main

import (
	"context"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/IBM/sarama"
	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill-kafka/v3/pkg/kafka"
	"github.com/ThreeDotsLabs/watermill/message"
)

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func main() {
	brokers := strings.Split(os.Args[1], ",")
	logger := watermill.NewStdLogger(false, false)
	config := kafka.DefaultSaramaSubscriberConfig()
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	subscriber := must(kafka.NewSubscriber(kafka.SubscriberConfig{
		Brokers: brokers, ConsumerGroup: "capitals", OverwriteSaramaConfig: config,
		Unmarshaler: kafka.DefaultMarshaler{},
	}, logger))
	// By itself it trusts the leader alone, whose last records go with it when it is killed.
	written := kafka.DefaultSaramaSyncPublisherConfig()
	written.Producer.RequiredAcks = sarama.WaitForAll
	publisher := must(kafka.NewPublisher(kafka.PublisherConfig{
		Brokers: brokers, Marshaler: kafka.DefaultMarshaler{}, OverwriteSaramaConfig: written,
	}, logger))
	router := must(message.NewRouter(message.RouterConfig{}, logger))
	router.AddHandler("capitals", "in", subscriber, "out", publisher,
		func(taken *message.Message) ([]*message.Message, error) {
			capitals := strings.ToUpper(string(taken.Payload))
			return message.Messages{message.NewMessage(watermill.NewUUID(), []byte(capitals))}, nil
		})
	until, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := router.Run(until); err != nil {
		panic(err)
	}
}
