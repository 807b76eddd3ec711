package kgo

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"os"
	"syscall"
)

// dialPatiently has a refused connection look like one that timed out. franz-go asks again after both where it
// knows the broker, but not while it looks for a group's coordinator: there a refused one ends the request.
func dialPatiently(ctx context.Context, network, host string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, host)
	if errors.Is(err, syscall.ECONNREFUSED) {
		err = &net.OpError{Op: "dial", Net: network, Err: os.NewSyscallError("connect", syscall.ETIMEDOUT)}
	}
	return conn, err
}

// lasting leaves out that a member could not join its group: it is joining again.
func lasting(all []FetchError) []FetchError {
	var kept []FetchError
	for _, one := range all {
		var session *ErrGroupSession
		if !errors.As(one.Err, &session) {
			kept = append(kept, one)
		}
	}
	return kept
}

// epochOfLast gives the leader epoch of the last batch that begins before an offset, or else the one given.
func epochOfLast(batches []byte, below int64, epoch int32) int32 {
	for len(batches) >= 16 {
		size := 12 + int(binary.BigEndian.Uint32(batches[8:12]))
		if size > len(batches) || int64(binary.BigEndian.Uint64(batches[:8])) >= below {
			break
		}
		epoch = int32(binary.BigEndian.Uint32(batches[12:16]))
		batches = batches[size:]
	}
	return epoch
}
