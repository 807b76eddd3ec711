// franz-go shows a certificate, writes one record and reads it back: SERVERS CA CERTIFICATE KEY TOPIC, the three as
// files of PEM; "-" for a certificate shows none.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

func config(ca, certificate, key string) (*tls.Config, error) {
	pem, err := os.ReadFile(ca)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(pem)
	made := &tls.Config{RootCAs: pool}
	if certificate != "-" {
		pair, err := tls.LoadX509KeyPair(certificate, key)
		if err != nil {
			return nil, err
		}
		made.Certificates = []tls.Certificate{pair}
	}
	return made, nil
}

func run(servers, ca, certificate, key, topic string) (string, error) {
	secured, err := config(ca, certificate, key)
	if err != nil {
		return "", err
	}
	client, err := kgo.NewClient(
		kgo.SeedBrokers(servers), kgo.DialTLSConfig(secured), kgo.AllowAutoTopicCreation(),
		kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
	)
	if err != nil {
		return "", err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := client.ProduceSync(ctx, &kgo.Record{Topic: topic, Value: []byte("hello")}).FirstErr(); err != nil {
		return "", err
	}
	for {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err0(); err != nil {
			return "", err
		}
		for _, record := range fetches.Records() {
			return string(record.Value), nil
		}
	}
}

func main() {
	a := os.Args
	value, err := run(a[1], a[2], a[3], a[4], a[5])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	_ = json.NewEncoder(os.Stdout).Encode(value)
}
