package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"kapis.dev/ks-apiserver/tools/stack"
)

const (
	// batchTimeout bounds one batch of requests, warm-up included, on a server that hangs.
	batchTimeout = time.Minute
	// batchTime ends a batch on a slow server: the answers until then count.
	batchTime = 1500 * time.Millisecond
	// warmUp is the number of requests on each connection that are not counted.
	warmUp = 25
)

// target is one request to one server, over and over. The requests of a batch are encoded once; answers are read by net/http, so that
// the two sides of a comparison cost this process the same.
type target struct {
	addr   string      // HOST:PORT, on the loopback address
	tls    *tls.Config // nil for plain HTTP
	pid    int         // the server's process, whose processor time is counted
	path   string
	others []string // paths that are asked for in turns with path, where each request is to be another
	header http.Header
	status int // the code that every answer must have
}

// wire is a request as it is sent.
func (t target) wire(path string) ([]byte, error) {
	req, err := http.NewRequest(http.MethodGet, "http://"+t.addr+path, nil) //nolint:noctx // never sent by net/http
	if err != nil {
		return nil, fmt.Errorf("make the request for %s: %w", path, err)
	}
	req.Header = t.header.Clone()
	var b strings.Builder
	if err := req.Write(&b); err != nil {
		return nil, fmt.Errorf("write the request for %s: %w", path, err)
	}
	return []byte(b.String()), nil
}

// wires are all requests, as they are sent.
func (t target) wires() ([][]byte, error) {
	var all [][]byte
	for _, path := range append([]string{t.path}, t.others...) {
		one, err := t.wire(path)
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return all, nil
}

// sample is what a batch of requests cost.
type sample struct {
	requests  int
	cpu       time.Duration   // processor time of the server
	wall      time.Duration   // from the first request to the last answer
	bytes     int64           // of the bodies
	latencies []time.Duration // of each request, sorted
}

// batch sends count requests, or as many as batchTime allows, over conns connections, each as soon as the previous one is answered.
// Every answer must have the target's code: a fast error is no result.
func (t target) batch(ctx context.Context, conns, count int) (sample, error) {
	ctx, cancel := context.WithTimeout(ctx, batchTimeout)
	defer cancel()
	requests, err := t.wires()
	if err != nil {
		return sample{}, err
	}
	callers := make([]*caller, conns)
	for i := range callers {
		// With many requests, each caller has its own, so that none is sent twice.
		own := requests[i*len(requests)/conns : max((i+1)*len(requests)/conns, i*len(requests)/conns+1)]
		if callers[i], err = t.dial(ctx, own); err != nil {
			return sample{}, err
		}
		defer callers[i].close()
	}
	if len(requests) == 1 {
		if _, err := together(callers, min(warmUp, count), time.Now().Add(batchTime)); err != nil {
			return sample{}, t.failed(err)
		}
	}
	before, err := stack.CPU(t.pid)
	if err != nil {
		return sample{}, err
	}
	start := time.Now()
	s, err := together(callers, max(count/conns, 1), start.Add(batchTime))
	if err != nil {
		return sample{}, t.failed(err)
	}
	s.wall = time.Since(start)
	after, err := stack.CPU(t.pid)
	if err != nil {
		return sample{}, err
	}
	s.cpu = after - before
	slices.Sort(s.latencies)
	return s, nil
}

func (t target) failed(err error) error { return fmt.Errorf("GET %s at %s: %w", t.path, t.addr, err) }

// together lets every caller make n calls at the same time, and at least one, but none after until.
func together(callers []*caller, n int, until time.Time) (sample, error) {
	samples := make([]sample, len(callers))
	errs := make([]error, len(callers))
	var wg sync.WaitGroup
	for i, c := range callers {
		wg.Go(func() { samples[i], errs[i] = c.calls(n, until) })
	}
	wg.Wait()
	var all sample
	for _, s := range samples {
		all.requests += s.requests
		all.bytes += s.bytes
		all.latencies = append(all.latencies, s.latencies...)
	}
	return all, errors.Join(errs...)
}

// caller is one connection.
type caller struct {
	conn     net.Conn
	r        *bufio.Reader
	requests [][]byte
	next     int
	status   int
}

// dial opens a connection that fails when ctx ends.
func (t target) dial(ctx context.Context, requests [][]byte) (*caller, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", t.addr)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", t.addr, err)
	}
	if deadline, ok := ctx.Deadline(); ok {
		_ = conn.SetDeadline(deadline) // fails on closed connections only
	}
	tcp := conn
	context.AfterFunc(ctx, func() { _ = tcp.Close() }) // reads and writes then fail
	if t.tls != nil {
		secure := tls.Client(conn, t.tls)
		if err := secure.HandshakeContext(ctx); err != nil {
			_ = conn.Close()
			return nil, fmt.Errorf("connect to %s: %w", t.addr, err)
		}
		conn = secure
	}
	return &caller{conn: conn, r: bufio.NewReaderSize(conn, 64<<10), requests: requests, status: t.status}, nil
}

// close ends the connection. An error does not matter.
func (c *caller) close() { _ = c.conn.Close() }

func (c *caller) calls(n int, until time.Time) (sample, error) {
	s := sample{latencies: make([]time.Duration, 0, n)}
	for start := time.Now(); s.requests < n && (s.requests == 0 || start.Before(until)); {
		size, err := c.call()
		if err != nil {
			return sample{}, err
		}
		end := time.Now()
		s.latencies = append(s.latencies, end.Sub(start))
		s.bytes += size
		s.requests++
		start = end
	}
	return s, nil
}

// call makes one call, drops the body, and returns its length.
func (c *caller) call() (int64, error) {
	request := c.requests[c.next%len(c.requests)]
	c.next++
	if _, err := c.conn.Write(request); err != nil {
		return 0, err
	}
	resp, err := http.ReadResponse(c.r, nil)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != c.status {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 512))
		return 0, fmt.Errorf("answered %s, want %d: %s", resp.Status, c.status, text)
	}
	size, err := io.Copy(io.Discard, resp.Body)
	if err == nil && resp.Close {
		err = errors.New("the server closes the connection after an answer")
	}
	return size, err
}
