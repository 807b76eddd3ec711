// Package role is what the programs around Go clients have in common: their words and their lines.
//
//	PROGRAM create   BOOTSTRAP VERSION TOPIC          four partitions, retention.ms=86400000
//	PROGRAM produce  BOOTSTRAP VERSION TOPIC CODEC    standard input: a value per line
//	PROGRAM stream   BOOTSTRAP VERSION TOPIC          standard input: a value per line, sent as it comes
//	PROGRAM consume  BOOTSTRAP VERSION TOPIC GROUP    until standard input ends: commit and leave
//	PROGRAM describe BOOTSTRAP VERSION TOPIC GROUP    prints one Description
//	PROGRAM offsets  BOOTSTRAP VERSION TOPIC TIME     prints Offsets; the time in ms since 1970
//	PROGRAM delete   BOOTSTRAP VERSION TOPIC GROUP    prints the topics that are left
//
// To `delete`, GROUP "-" is none: releases before 1.1 cannot delete groups.
//
// VERSION is the newest Kafka version whose requests may be used, or "newest".
package role

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"sync"
)

// Partitions and Retention are what `create` asks for.
const (
	Partitions = 4
	Retention  = "86400000"
)

// Record is one line of `consume`.
type Record struct {
	Partition int32  `json:"partition"`
	Offset    int64  `json:"offset"`
	Key       string `json:"key"`
	Value     string `json:"value"`
	Header    string `json:"header"`
}

// Description is what `describe` prints.
type Description struct {
	Partitions int      `json:"partitions"`
	Retention  string   `json:"retention"`
	Groups     []string `json:"groups"`
	State      string   `json:"state"`
	Members    int      `json:"members"`
}

// Offsets is what `offsets` prints, by partition: the first, the end, and the first at or after a time.
type Offsets struct {
	Beginning map[int]int64 `json:"beginning"`
	End       map[int]int64 `json:"end"`
	At        map[int]int64 `json:"at"`
}

// NewOffsets are Offsets without any.
func NewOffsets() Offsets {
	return Offsets{Beginning: map[int]int64{}, End: map[int]int64{}, At: map[int]int64{}}
}

// Client is a client library with fixed settings; every method returns when the work is done.
type Client interface {
	Create(topic string) error
	// Produce sends value i to partition i modulo Partitions, with a key and a header "n" of i in digits.
	Produce(topic, codec string, values []string) error
	// Consume calls the functions as things arrive until left is closed, then commits and leaves.
	Consume(topic, group string, left <-chan struct{}, assigned func([]int32), got func(Record)) error
	Describe(topic, group string) (Description, error)
	// Offsets leaves partitions without a record at or after the time out of At.
	Offsets(topic string, timeMs int64) (Offsets, error)
	Delete(topic, group string) ([]string, error)
}

// Streamer is a client that also sends while values come.
type Streamer interface {
	// Stream sends value i to partition i modulo Partitions, in order, until values is closed and all are acknowledged.
	Stream(topic string, values <-chan string) error
}

// Main runs the role that the command line names.
func Main(connect func(bootstrap, version string) (Client, error)) {
	if err := run(os.Args[1:], connect); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(words []string, connect func(bootstrap, version string) (Client, error)) error {
	if len(words) < 4 {
		return fmt.Errorf("too few words: %q", words)
	}
	client, err := connect(words[1], words[2])
	if err != nil {
		return err
	}
	topic, last := words[3], words[len(words)-1]
	var lock sync.Mutex
	out := json.NewEncoder(os.Stdout)
	tell := func(line any) {
		lock.Lock()
		defer lock.Unlock()
		if err := out.Encode(line); err != nil {
			os.Exit(1)
		}
	}
	switch words[0] {
	case "create":
		return client.Create(topic)
	case "produce":
		var values []string
		lines := bufio.NewScanner(os.Stdin)
		for lines.Scan() {
			values = append(values, lines.Text())
		}
		return client.Produce(topic, last, values)
	case "stream":
		streamer, can := client.(Streamer)
		if !can {
			return fmt.Errorf("this program does not stream")
		}
		values := make(chan string)
		go func() {
			lines := bufio.NewScanner(os.Stdin)
			for lines.Scan() {
				values <- lines.Text()
			}
			close(values)
		}()
		return streamer.Stream(topic, values)
	case "consume":
		left := make(chan struct{})
		go func() {
			_, _ = io.Copy(io.Discard, os.Stdin)
			close(left)
		}()
		return client.Consume(topic, last, left,
			func(partitions []int32) {
				if partitions == nil {
					partitions = []int32{}
				}
				tell(map[string][]int32{"assigned": partitions})
			},
			func(record Record) { tell(record) })
	case "describe":
		description, err := client.Describe(topic, last)
		if err == nil {
			tell(description)
		}
		return err
	case "offsets":
		timeMs, err := strconv.ParseInt(last, 10, 64)
		if err != nil {
			return err
		}
		offsets, err := client.Offsets(topic, timeMs)
		if err == nil {
			tell(offsets)
		}
		return err
	case "delete":
		topics, err := client.Delete(topic, last)
		if err == nil {
			tell(topics)
		}
		return err
	}
	return fmt.Errorf("no such role: %q", words[0])
}
