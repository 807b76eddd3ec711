// franz-go writes one record and reads it back: [OPTIONS] SERVERS TOPIC. With --ca the connection is encrypted, with
// --certificate and --key it shows a certificate (all three files of PEM); with --mechanism, --user and --password it
// logs in. For OAUTHBEARER the password is a token, for GSSAPI it names a key table, and KRB5_CONFIG the settings.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/jcmturner/gokrb5/v8/client"
	krb5config "github.com/jcmturner/gokrb5/v8/config"
	"github.com/jcmturner/gokrb5/v8/keytab"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/kerberos"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

func mechanism(name, user, password string) (sasl.Mechanism, error) {
	switch name {
	case "PLAIN":
		return plain.Auth{User: user, Pass: password}.AsMechanism(), nil
	case "SCRAM-SHA-256":
		return scram.Auth{User: user, Pass: password}.AsSha256Mechanism(), nil
	case "SCRAM-SHA-512":
		return scram.Auth{User: user, Pass: password}.AsSha512Mechanism(), nil
	case "GSSAPI":
		return byTicket(user, password)
	}
	return oauth.Auth{Token: password}.AsMechanism(), nil
}

func byTicket(user, file string) (sasl.Mechanism, error) {
	settings, err := krb5config.Load(os.Getenv("KRB5_CONFIG"))
	if err != nil {
		return nil, err
	}
	key, err := keytab.Load(file)
	if err != nil {
		return nil, err
	}
	asking := client.NewWithKeytab(user, settings.LibDefaults.DefaultRealm, key, settings)
	return kerberos.Auth{Client: asking, Service: "kafka"}.AsMechanismWithClose(), nil
}

func config(ca, certificate, key string) (*tls.Config, error) {
	pem, err := os.ReadFile(ca)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(pem)
	made := &tls.Config{RootCAs: pool}
	if certificate != "" {
		pair, err := tls.LoadX509KeyPair(certificate, key)
		if err != nil {
			return nil, err
		}
		made.Certificates = []tls.Certificate{pair}
	}
	return made, nil
}

func run(servers, topic string, options []kgo.Opt) (string, error) {
	client, err := kgo.NewClient(append(
		options, kgo.SeedBrokers(servers), kgo.AllowAutoTopicCreation(),
		kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
	)...)
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

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

func main() {
	ca, certificate, key := flag.String("ca", "", ""), flag.String("certificate", "", ""), flag.String("key", "", "")
	name, user := flag.String("mechanism", "", ""), flag.String("user", "", "")
	password := flag.String("password", "", "")
	flag.Parse()
	var options []kgo.Opt
	if *ca != "" {
		secured, err := config(*ca, *certificate, *key)
		if err != nil {
			fail(err)
		}
		options = append(options, kgo.DialTLSConfig(secured))
	}
	if *name != "" {
		login, err := mechanism(*name, *user, *password)
		if err != nil {
			fail(err)
		}
		options = append(options, kgo.SASL(login))
	}
	value, err := run(flag.Arg(0), flag.Arg(1), options)
	if err != nil {
		fail(err)
	}
	_ = json.NewEncoder(os.Stdout).Encode(value)
}
