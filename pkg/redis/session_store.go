// Package redis keeps sessions in a Redis server, for installations with more logins than the Kubernetes API should hold.
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

// Prefix begins the name of every session in Redis. No other name begins with it.
const Prefix = "r-"

const (
	// channelPrefix and the number of the database are the name of the channel for changes: keys belong to a database, but
	// channels to the whole server.
	channelPrefix = "kapis:sessions:"
	// probeLife is the life of the value that is written to test whether Redis takes writes.
	probeLife   = time.Minute
	connections = 32
	// afterlife is how long Redis keeps an expired session that was not deleted.
	afterlife = time.Hour
)

// callTimeout bounds each call: a server that hangs counts as lost. Tests on a busy machine have more patience.
var callTimeout = time.Second

// Sessions stores sessions in Redis. Each change is one script, which the server runs atomically: it compares, changes, counts
// and publishes.
type Sessions struct {
	client  goredis.UniversalClient
	names   names
	channel string
	keys    token.KeySource
	// acceptUnsealed is the time until which unsealed sessions are accepted.
	acceptUnsealed time.Time
	// checkEvery is the interval of the feed's checks.
	checkEvery time.Duration
	// good says that the feed is up to date, that Redis takes writes, and that the last call was answered.
	good  atomic.Bool
	fault atomic.Pointer[error]
}

// errNotYet is the fault before the first contact.
var errNotYet = errors.New("not connected yet")

// New returns Sessions. It makes no call: a server that is down is used once it is up.
func New(o Options) *Sessions {
	s := &Sessions{
		client: connect(&o), names: namesFor(&o), channel: channelPrefix + strconv.Itoa(o.DB), checkEvery: checkEvery,
		keys: o.Keys, acceptUnsealed: o.AcceptUnsealed,
	}
	s.fault.Store(&errNotYet)
	return s
}

// Place returns the prefix of new sessions' names: Prefix, or "" while Redis is lost, so that logins go on.
func (s *Sessions) Place() string {
	if s.good.Load() {
		return Prefix
	}
	return ""
}

// Fault returns why Redis is lost, or nil if it is not. It contains no password.
func (s *Sessions) Fault() error {
	if s.good.Load() {
		return nil
	}
	return *s.fault.Load()
}

// Close closes the connections.
func (s *Sessions) Close() error { return s.client.Close() }

// The scripts return the count of the change, or the reason why there was none.
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

// ARGV: the UID or "", the channel, the name. A session of an older version has its UID in its JSON.
var deleteScript = goredis.NewScript(`
local o = redis.call('HGET', KEYS[1], 'o')
if not o then return -2 end
local u = redis.call('HGET', KEYS[1], 'u')
if ARGV[1] ~= '' and (u or cjson.decode(o).metadata.uid) ~= ARGV[1] then return -3 end
local n = redis.call('INCR', KEYS[2])
redis.call('DEL', KEYS[1])
redis.call('PUBLISH', ARGV[2], n .. ' ' .. ARGV[3] .. ' ')
return n`)

// KEYS: the probe's key. ARGV: its end in milliseconds, the channel.
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

// Update replaces a session, unless it has changed in the meantime.
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

// probe makes Redis do what each change needs. A server that is full, that can't save, or that became a replica in a failover,
// answers reads and refuses this. The message that it publishes is no change, and is ignored.
func (s *Sessions) probe(ctx context.Context) error {
	end := time.Now().Add(probeLife).UnixMilli()
	if err := probeScript.Run(ctx, s.client, []string{s.names.probe}, end, s.channel).Err(); err != nil {
		return fmt.Errorf("redis: try a write: %w", err)
	}
	return nil
}

// failed wraps the error of a call. If Redis is lost, that is recorded, so that the next login uses the other backend: a refused
// write is as bad as a missing answer. A caller who stops waiting says nothing about the server.
func (s *Sessions) failed(ctx context.Context, doing string, err error, lost bool) error {
	err = fmt.Errorf("redis: %s: %w", doing, err)
	if lost && ctx.Err() == nil {
		s.lost(err)
	}
	return err
}

// silent reports whether an error is not an answer of the server.
func silent(err error) bool {
	var n net.Error
	return errors.As(err, &n) || errors.Is(err, io.EOF) || errors.Is(err, goredis.ErrPoolTimeout) || errors.Is(err, goredis.ErrClosed)
}

func (s *Sessions) lost(err error) {
	s.fault.Store(&err)
	s.good.Store(false)
}
