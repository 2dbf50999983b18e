// Package redis keeps sessions in a Redis server, for fleets with more logins than the Kubernetes API should hold.
package redis

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync/atomic"
	"time"

	goredis "github.com/redis/go-redis/v9"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"kapis.dev/ks-apiserver/pkg/api/session/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/token"
)

// Prefix begins the name of every session that lives in Redis. No other name has it.
const Prefix = "r-"

const (
	// channelPrefix and the number of the database name the channel that carries the changes, as they are made: keys are a
	// database's own, and channels the whole server's.
	channelPrefix = "kapis:sessions:"
	// probeLife is how long what is written stays that tells whether anything can be.
	probeLife = time.Minute
	// callTimeout bounds each call: a server that hangs is one that is lost.
	callTimeout = time.Second
	connections = 32
	// afterlife is how long Redis keeps a session that is over, whose deletion nobody has seen to.
	afterlife = time.Hour
)

// Sessions are the sessions in Redis. Each change is one script, which the server runs whole: it compares, changes, counts and
// tells the others.
type Sessions struct {
	client  goredis.UniversalClient
	names   names
	channel string
	keys    token.KeySource
	// acceptUnsealed is the time until which sessions count that are not sealed.
	acceptUnsealed time.Time
	// checkEvery is the time between two looks of the feed.
	checkEvery time.Duration
	// good says that the feed is up to date, that Redis takes writes, and that the last call was answered.
	good  atomic.Bool
	fault atomic.Pointer[error]
}

// errNotYet is the fault of the time before the first contact.
var errNotYet = errors.New("not connected yet")

// New makes a client. It makes no call: a server that is down is one that comes later.
func New(o Options) *Sessions {
	s := &Sessions{
		client: connect(&o), names: namesFor(&o), channel: channelPrefix + strconv.Itoa(o.DB), checkEvery: checkEvery,
		keys: o.Keys, acceptUnsealed: o.AcceptUnsealed,
	}
	s.fault.Store(&errNotYet)
	return s
}

// Place returns how the name of a new session is to begin: Prefix, and "" while Redis is lost, so that nobody is locked out.
func (s *Sessions) Place() string {
	if s.good.Load() {
		return Prefix
	}
	return ""
}

// Fault says why Redis is lost; nil where it is not. It holds no password.
func (s *Sessions) Fault() error {
	if s.good.Load() {
		return nil
	}
	return *s.fault.Load()
}

// Close ends the connections.
func (s *Sessions) Close() error { return s.client.Close() }

// The scripts give back the count of the change, or why there is none.
const (
	exists  = -1
	missing = -2
	stale   = -3
)

// KEYS: the session, the count. ARGV: the sealed session without its version, the end in milliseconds, the channel, the name, the UID.
var createScript = goredis.NewScript(`
if redis.call('EXISTS', KEYS[1]) == 1 then return -1 end
local n = redis.call('INCR', KEYS[2])
redis.call('HSET', KEYS[1], 'v', n, 'o', ARGV[1], 'u', ARGV[5])
redis.call('PEXPIREAT', KEYS[1], ARGV[2])
redis.call('PUBLISH', ARGV[3], n .. ' ' .. ARGV[4] .. ' ' .. ARGV[1])
return n`)

// ARGV: as above, and the version that is changed.
var updateScript = goredis.NewScript(`
local v = redis.call('HGET', KEYS[1], 'v')
if not v then return -2 end
if v ~= ARGV[6] then return -3 end
local n = redis.call('INCR', KEYS[2])
redis.call('HSET', KEYS[1], 'v', n, 'o', ARGV[1], 'u', ARGV[5])
redis.call('PEXPIREAT', KEYS[1], ARGV[2])
redis.call('PUBLISH', ARGV[3], n .. ' ' .. ARGV[4] .. ' ' .. ARGV[1])
return n`)

// ARGV: the UID or "", the channel, the name. A session that an older version wrote has its UID in its JSON.
var deleteScript = goredis.NewScript(`
local o = redis.call('HGET', KEYS[1], 'o')
if not o then return -2 end
local u = redis.call('HGET', KEYS[1], 'u')
if ARGV[1] ~= '' and (u or cjson.decode(o).metadata.uid) ~= ARGV[1] then return -3 end
local n = redis.call('INCR', KEYS[2])
redis.call('DEL', KEYS[1])
redis.call('PUBLISH', ARGV[2], n .. ' ' .. ARGV[3] .. ' ')
return n`)

// KEYS: what is written. ARGV: its end in milliseconds, the channel.
var probeScript = goredis.NewScript(`
redis.call('HSET', KEYS[1], 'v', 0)
redis.call('PEXPIREAT', KEYS[1], ARGV[1])
redis.call('PUBLISH', ARGV[2], '')
return 1`)

// Create stores a new session.
func (s *Sessions) Create(ctx context.Context, o *v1alpha1.Session) (*v1alpha1.Session, error) {
	o = o.DeepCopy()
	o.UID, o.CreationTimestamp = types.UID(rand.Text()), o.Spec.CreatedAt
	return s.write(ctx, createScript, o)
}

// Update replaces a session where nobody else did in the meantime.
func (s *Sessions) Update(ctx context.Context, o *v1alpha1.Session) (*v1alpha1.Session, error) {
	return s.write(ctx, updateScript, o.DeepCopy(), o.ResourceVersion)
}

func (s *Sessions) write(ctx context.Context, script *goredis.Script, o *v1alpha1.Session, version ...any) (*v1alpha1.Session, error) {
	o.ResourceVersion, o.Generation = "", 0
	sealed, err := s.seal(o)
	if err != nil {
		return nil, err
	}
	end := o.Spec.ExpiresAt.Add(afterlife).UnixMilli()
	n, err := s.run(ctx, script, o.Name, append([]any{sealed, end, s.channel, o.Name, string(o.UID)}, version...)...)
	if err != nil {
		return nil, err
	}
	return stamp(o, n), nil
}

// Get reads a session.
func (s *Sessions) Get(ctx context.Context, name string) (*v1alpha1.Session, error) {
	got, err := s.client.HMGet(ctx, s.names.prefix+name, "v", "o").Result()
	if err != nil {
		return nil, s.failed(ctx, "read session", err, silent(err))
	}
	v, okV := got[0].(string)
	o, okO := got[1].(string)
	if !okV || !okO {
		return nil, apierrors.NewNotFound(v1alpha1.Resource("sessions"), name)
	}
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil {
		return nil, fmt.Errorf("read session: its version is no number: %w", err)
	}
	return s.open(name, o, n)
}

// Delete ends a session. An empty uid stands for any.
func (s *Sessions) Delete(ctx context.Context, name string, uid types.UID) error {
	_, err := s.run(ctx, deleteScript, name, string(uid), s.channel, name)
	return err
}

// run runs a script for the session of that name.
func (s *Sessions) run(ctx context.Context, script *goredis.Script, name string, args ...any) (int64, error) {
	n, err := script.Run(ctx, s.client, []string{s.names.prefix + name, s.names.changes}, args...).Int64()
	switch {
	case err != nil:
		return 0, s.failed(ctx, "change session", err, true)
	case n == exists:
		return 0, apierrors.NewAlreadyExists(v1alpha1.Resource("sessions"), name)
	case n == missing:
		return 0, apierrors.NewNotFound(v1alpha1.Resource("sessions"), name)
	case n == stale:
		return 0, apierrors.NewConflict(v1alpha1.Resource("sessions"), name, errors.New("it was changed in the meantime"))
	}
	return n, nil
}

// probe has Redis do what each change needs. A server that is full, that can't save, or that follows another one since a failover,
// answers reads and refuses this. What it publishes is no change, and is passed over.
func (s *Sessions) probe(ctx context.Context) error {
	end := time.Now().Add(probeLife).UnixMilli()
	if err := probeScript.Run(ctx, s.client, []string{s.names.probe}, end, s.channel).Err(); err != nil {
		return fmt.Errorf("redis: try a write: %w", err)
	}
	return nil
}

// failed wraps the error of a call. Where Redis is lost by it, that is noted, so that the next login goes elsewhere: a write that is
// refused is as bad as one without an answer. That a caller waits no longer says nothing about the server.
func (s *Sessions) failed(ctx context.Context, doing string, err error, lost bool) error {
	err = fmt.Errorf("redis: %s: %w", doing, err)
	if lost && ctx.Err() == nil {
		s.lost(err)
	}
	return err
}

// silent tells whether an error is anything but an answer.
func silent(err error) bool {
	var n net.Error
	return errors.As(err, &n) || errors.Is(err, io.EOF) || errors.Is(err, goredis.ErrPoolTimeout) || errors.Is(err, goredis.ErrClosed)
}

func (s *Sessions) lost(err error) {
	s.fault.Store(&err)
	s.good.Store(false)
}
