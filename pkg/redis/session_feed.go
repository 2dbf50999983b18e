package redis

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"k8s.io/klog/v2"

	"kapis.dev/ks-apiserver/pkg/store"
)

const (
	// checkEvery is the interval at which the feed checks whether it has missed a change, and whether Redis takes writes.
	checkEvery = 5 * time.Second
	// retryLeast and retryMost bound the pause between attempts to connect.
	retryLeast = 100 * time.Millisecond
	retryMost  = 5 * time.Second
	// scanStep is how many keys one step of a list reads.
	scanStep = 500
)

// errMissed says that a change did not arrive, so that all sessions are read again.
var errMissed = errors.New("a change was missed")

// feed passes the sessions to a sink, in the order of their changes.
type feed struct {
	*Sessions
	sink  store.Sink
	known map[string]struct{}
	// last is the count of the last change that was passed on, and due the count that has to be reached by the next check.
	last, due int64
	// told says that the loss of Redis was already logged.
	told bool
}

// Run passes each session and each change to the sink, until ctx ends: by a list, and the messages that follow it. A missed change is
// detected by the count of changes, and all sessions are listed again. While Redis can't be reached, the sink keeps its state.
func (s *Sessions) Run(ctx context.Context, sink store.Sink) {
	f := &feed{Sessions: s, sink: sink, known: map[string]struct{}{}}
	pause := retryLeast
	for ctx.Err() == nil {
		err := f.follow(ctx)
		if ctx.Err() != nil {
			return
		}
		if errors.Is(err, errMissed) {
			continue
		}
		if !f.told {
			pause = retryLeast
		}
		f.lose(err)
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
		pause = min(2*pause, retryMost)
	}
}

// lose records that Redis is lost, and logs that once.
func (f *feed) lose(err error) {
	if !f.told {
		klog.ErrorS(err, "Redis is lost: new sessions are kept in the Kubernetes API until it is back, and known ones stay good")
	}
	f.told = true
	f.lost(err)
}

// follow lists the sessions, and then passes on changes, until an error occurs.
func (f *feed) follow(ctx context.Context) error {
	sub := f.client.Subscribe(ctx, f.channel)
	defer func() { _ = sub.Close() }()                         // no one reads it any more
	defer context.AfterFunc(ctx, func() { _ = sub.Close() })() // a read does not end with ctx
	if _, err := sub.ReceiveTimeout(ctx, callTimeout); err != nil {
		return fmt.Errorf("redis: subscribe: %w", err)
	}
	if err := f.list(ctx); err != nil {
		return err
	}
	if err := f.check(ctx); err != nil {
		return err
	}
	return f.listen(ctx, sub)
}

// listen passes on messages, and checks the state at its interval even if many messages arrive.
func (f *feed) listen(ctx context.Context, sub *goredis.PubSub) error {
	came, fault, stop := make(chan string), make(chan error, 1), make(chan struct{})
	var reader sync.WaitGroup
	defer reader.Wait()
	defer func() { _ = sub.Close() }() // it ends the reader
	defer close(stop)
	reader.Go(func() { fault <- receive(ctx, sub, came, stop) })
	tick := time.NewTicker(f.checkEvery)
	defer tick.Stop()
	for {
		var err error
		select {
		case payload := <-came:
			err = f.tell(payload)
		case err = <-fault:
			err = fmt.Errorf("redis: follow the changes: %w", err)
		case <-tick.C:
			err = f.check(ctx)
		}
		if err != nil {
			return err
		}
	}
}

// receive passes on messages, until the connection fails or stop is closed.
func receive(ctx context.Context, sub *goredis.PubSub, came chan<- string, stop <-chan struct{}) error {
	for {
		got, err := sub.Receive(ctx)
		if err != nil {
			return err
		}
		if m, ok := got.(*goredis.Message); ok {
			select {
			case came <- m.Payload:
			case <-stop:
				return nil
			}
		}
	}
}

// check asks for the count of changes: they have to arrive by the next check, so that a dead connection is detected. Logins use
// Redis as long as it takes writes, and again as soon as it does; the feed of a Redis that refuses writes goes on.
func (f *feed) check(ctx context.Context) error {
	if f.last < f.due {
		return errMissed
	}
	n, err := f.count(ctx)
	if err != nil {
		return fmt.Errorf("redis: read the count of changes: %w", err)
	}
	if n < f.last { // it is another Redis than before
		return errMissed
	}
	f.due = n
	if err := f.probe(ctx); err != nil {
		f.lose(err)
		return nil
	}
	f.told = false
	f.good.Store(true)
	return nil
}

func (f *feed) count(ctx context.Context) (int64, error) {
	n, err := f.client.Get(ctx, f.names.changes).Int64()
	if errors.Is(err, goredis.Nil) {
		return 0, nil
	}
	return n, err
}

// list passes on all sessions, and the deletions of those that no longer exist.
func (f *feed) list(ctx context.Context) error {
	last, err := f.count(ctx) // before the list: changes during it arrive again as messages, and are ignored then
	if err != nil {
		return fmt.Errorf("redis: read the count of changes: %w", err)
	}
	from, err := f.holder(ctx)
	if err != nil {
		return fmt.Errorf("redis: list sessions: %w", err)
	}
	seen := make(map[string]struct{}, len(f.known))
	for cursor := uint64(0); ; {
		keys, next, err := from.Scan(ctx, cursor, f.names.prefix+Prefix+"*", scanStep).Result()
		if err != nil {
			return fmt.Errorf("redis: list sessions: %w", err)
		}
		if err := f.read(ctx, from, keys, seen); err != nil {
			return err
		}
		if cursor = next; cursor == 0 {
			break
		}
	}
	for name := range f.known {
		if _, ok := seen[name]; !ok {
			f.sink.Delete("", name)
		}
	}
	f.known, f.last, f.due = seen, last, last
	return nil
}

// holder returns the server that has the sessions: in a Cluster, one of the nodes.
func (f *feed) holder(ctx context.Context) (goredis.Cmdable, error) {
	if cluster, ok := f.client.(*goredis.ClusterClient); ok {
		return cluster.MasterForKey(ctx, f.names.changes)
	}
	return f.client, nil
}

// read passes on the sessions of some keys.
func (f *feed) read(ctx context.Context, from goredis.Cmdable, keys []string, seen map[string]struct{}) error {
	if len(keys) == 0 {
		return nil
	}
	cmds, err := from.Pipelined(ctx, func(p goredis.Pipeliner) error {
		for _, k := range keys {
			p.HMGet(ctx, k, "v", "o")
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("redis: list sessions: %w", err)
	}
	for i, c := range cmds {
		got := c.(*goredis.SliceCmd).Val()
		v, okV := got[0].(string)
		o, okO := got[1].(string)
		if n, err := strconv.ParseInt(v, 10, 64); okV && okO && err == nil {
			name := strings.TrimPrefix(keys[i], f.names.prefix)
			f.set(name, o, n)
			seen[name] = struct{}{}
		}
	}
	return nil
}

// tell handles a message: the count, the name, and the sealed session, which is missing if the session was deleted.
func (f *feed) tell(payload string) error {
	count, rest, _ := strings.Cut(payload, " ")
	name, raw, ok := strings.Cut(rest, " ")
	n, err := strconv.ParseInt(count, 10, 64)
	switch ours := err == nil && ok && strings.HasPrefix(name, Prefix); {
	case !ours, n <= f.last: // not a session's, or known by the list
		return nil
	case n != f.last+1:
		return errMissed
	}
	f.last = n
	if raw == "" {
		delete(f.known, name)
		f.sink.Delete("", name)
		return nil
	}
	f.known[name] = struct{}{}
	f.set(name, raw, n)
	return nil
}

// set passes on a session. If it can't be opened, it counts as deleted, since its former state may be over.
func (f *feed) set(name, stored string, version int64) {
	o, err := f.open(name, stored, version)
	var b []byte
	if err == nil {
		b, err = json.Marshal(o)
	}
	if err != nil {
		klog.ErrorS(err, "A session in Redis is left out, and its tokens are refused", "session", name)
		f.sink.Delete("", name)
		return
	}
	f.sink.Set(&store.Object{Name: name, Raw: b})
}
