package role

// The words of programs that show transactions:
//
//	PROGRAM transact  BOOTSTRAP TOPIC ID               standard input: a Step per line, each answered by an Answer
//	PROGRAM transform BOOTSTRAP FROM TO GROUP ID       until standard input ends: reads, writes and commits both
//	PROGRAM committed BOOTSTRAP TOPIC GROUP            until standard input ends: prints Records as they come
//
// Both that read see committed records only.

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
)

// TransactionTimeout is how long a transaction may be open: no machine is so busy that the broker ends one that a
// test has open.
const TransactionTimeout = 5 * time.Minute

// Producer writes in transactions; every method returns when the broker has answered.
type Producer interface {
	Begin() error
	// Send writes value i to partition i modulo Partitions.
	Send(topic string, values []string) error
	Commit() error
	Abort() error
	Close()
}

// Answer is what a step of `transact` came to; the error is empty when it was done.
type Answer struct {
	Step  string `json:"step"`
	Error string `json:"error"`
}

// Ended is what `transform` prints of each transaction.
type Ended struct {
	How string `json:"how"`
	Why string `json:"why"`
}

// What a transaction of `transform` came to.
const (
	Committed = "committed"
	Aborted   = "aborted"
	Failed    = "failed"
)

// Transactional is a client library.
type Transactional interface {
	// Open makes whoever used the id before a zombie.
	Open(bootstrap, id string) (Producer, error)
	// Transform copies each record to the same partition of another topic, offsets in the same transaction. It
	// aborts every second transaction and goes on after errors, with another producer where it has to.
	Transform(bootstrap, from, to, group, id string, left <-chan struct{}, ended func(how string, why error)) error
	// Committed reads from the beginning.
	Committed(bootstrap, topic, group string, left <-chan struct{}, got func(Record)) error
}

// Transact runs the role that the command line names.
func Transact(library Transactional) {
	if err := transact(os.Args[1:], library); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func transact(words []string, library Transactional) error {
	if len(words) < 4 {
		return fmt.Errorf("too few words: %q", words)
	}
	var lock sync.Mutex
	out := json.NewEncoder(os.Stdout)
	tell := func(line any) {
		lock.Lock()
		defer lock.Unlock()
		if err := out.Encode(line); err != nil {
			os.Exit(1)
		}
	}
	untilTheEnd := func() <-chan struct{} {
		left := make(chan struct{})
		go func() {
			_, _ = io.Copy(io.Discard, os.Stdin)
			close(left)
		}()
		return left
	}
	switch words[0] {
	case "transact":
		return steps(words[1], words[2], words[3], library, tell)
	case "transform":
		return library.Transform(words[1], words[2], words[3], words[4], words[5], untilTheEnd(),
			func(how string, why error) { tell(Ended{how, answer("", why).Error}) })
	case "committed":
		return library.Committed(words[1], words[2], words[3], untilTheEnd(),
			func(record Record) { tell(record) })
	}
	return fmt.Errorf("no such role: %q", words[0])
}

func steps(bootstrap, topic, id string, library Transactional, tell func(any)) error {
	producer, err := library.Open(bootstrap, id)
	tell(answer("open", err))
	if err != nil {
		return nil
	}
	defer producer.Close()
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		switch words[0] {
		case "begin":
			err = producer.Begin()
		case "send":
			err = producer.Send(topic, words[1:])
		case "commit":
			err = producer.Commit()
		case "abort":
			err = producer.Abort()
		default:
			err = fmt.Errorf("no such step: %q", words[0])
		}
		tell(answer(words[0], err))
	}
	return lines.Err()
}

func answer(step string, err error) Answer {
	if err == nil {
		return Answer{step, ""}
	}
	return Answer{step, err.Error()}
}
