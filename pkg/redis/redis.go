// Package redis keeps sessions in a Redis server, for fleets with more logins than the Kubernetes API should hold.
package redis

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync/atomic"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"kapis.dev/ks-apiserver/pkg/api/session/v1alpha1"
)

// Prefix begins the name of every session that lives in Redis. No other name has it.
const Prefix = "r-"

const (
	// keyPrefix begins the key of every session, and seqKey counts the changes of all of them.
	keyPrefix = "kapis:session:"
	seqKey    = "kapis:sessions:changes"
	// channelPrefix and the number of the database name the channel that carries the changes, as they are made: keys are a
	// database's own, and channels the whole server's.
	channelPrefix = "kapis:sessions:"
	// probeKey is written to see whether anything can be, and stays for probeLife.
	probeKey  = "kapis:sessions:probe"
	probeLife = time.Minute
	// callTimeout bounds each call: a server that hangs is one that is lost.
	callTimeout = time.Second
	connections = 32
	// afterlife is how long Redis keeps a session that is over, whose deletion nobody has seen to.
	afterlife = time.Hour
)

// Options are where the Redis server is.
type Options struct {
	// Address is host:port.
	Address string
	// Password is for the default user; "" for none. DB is the number of the database.
	Password string
	DB       int
}

// Sessions are the sessions in Redis. Each change is one script, which the server runs whole: it compares, changes, counts and
// tells the others.
type Sessions struct {
	client  *goredis.Client
	channel string
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
	s := &Sessions{channel: channelPrefix + strconv.Itoa(o.DB), checkEvery: checkEvery, client: goredis.NewClient(&goredis.Options{
		Addr: o.Address, Password: o.Password, DB: o.DB, Protocol: 2, DisableIdentity: true,
		DialTimeout: callTimeout, ReadTimeout: callTimeout, WriteTimeout: callTimeout, PoolTimeout: callTimeout,
		ContextTimeoutEnabled: true, PoolSize: connections,
		MaxRetries:               -1, // a script whose answer was lost must not run twice
		DialerRetries:            1,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})}
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

// KEYS: the session, the count. ARGV: the JSON without its version, the end in milliseconds, the channel, the name.
var createScript = goredis.NewScript(`
if redis.call('EXISTS', KEYS[1]) == 1 then return -1 end
local n = redis.call('INCR', KEYS[2])
redis.call('HSET', KEYS[1], 'v', n, 'o', ARGV[1])
redis.call('PEXPIREAT', KEYS[1], ARGV[2])
redis.call('PUBLISH', ARGV[3], n .. ' ' .. ARGV[4] .. ' ' .. ARGV[1])
return n`)

// ARGV: as above, and the version that is changed.
var updateScript = goredis.NewScript(`
local v = redis.call('HGET', KEYS[1], 'v')
if not v then return -2 end
if v ~= ARGV[5] then return -3 end
local n = redis.call('INCR', KEYS[2])
redis.call('HSET', KEYS[1], 'v', n, 'o', ARGV[1])
redis.call('PEXPIREAT', KEYS[1], ARGV[2])
redis.call('PUBLISH', ARGV[3], n .. ' ' .. ARGV[4] .. ' ' .. ARGV[1])
return n`)

// ARGV: the UID or "", the channel, the name.
var deleteScript = goredis.NewScript(`
local o = redis.call('HGET', KEYS[1], 'o')
if not o then return -2 end
if ARGV[1] ~= '' and cjson.decode(o).metadata.uid ~= ARGV[1] then return -3 end
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
	raw, err := json.Marshal(o)
	if err != nil {
		return nil, fmt.Errorf("write session: %w", err)
	}
	end := o.Spec.ExpiresAt.Add(afterlife).UnixMilli()
	n, err := s.run(ctx, script, o.Name, append([]any{raw, end, s.channel, o.Name}, version...)...)
	if err != nil {
		return nil, err
	}
	return parse(raw, n)
}

// Get reads a session.
func (s *Sessions) Get(ctx context.Context, name string) (*v1alpha1.Session, error) {
	got, err := s.client.HMGet(ctx, keyPrefix+name, "v", "o").Result()
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
	return parse([]byte(o), n)
}

// Delete ends a session. An empty uid stands for any.
func (s *Sessions) Delete(ctx context.Context, name string, uid types.UID) error {
	_, err := s.run(ctx, deleteScript, name, string(uid), s.channel, name)
	return err
}

// run runs a script for the session of that name.
func (s *Sessions) run(ctx context.Context, script *goredis.Script, name string, args ...any) (int64, error) {
	n, err := script.Run(ctx, s.client, []string{keyPrefix + name, seqKey}, args...).Int64()
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
	if err := probeScript.Run(ctx, s.client, []string{probeKey}, end, s.channel).Err(); err != nil {
		return fmt.Errorf("redis: try a write: %w", err)
	}
	return nil
}

// failed wraps the error of a call. Where Redis is lost by it, that is noted, so that the next login goes elsewhere: a write that is refused is
// as bad as one without an answer. That a caller waits no longer says nothing about the server.
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

// parse makes a session of what is stored and its version.
func parse(raw []byte, version int64) (*v1alpha1.Session, error) {
	o := &v1alpha1.Session{}
	if err := json.Unmarshal(raw, o); err != nil {
		return nil, fmt.Errorf("read session: %w", err)
	}
	o.TypeMeta = metav1.TypeMeta{APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: "Session"}
	o.ResourceVersion, o.Generation = strconv.FormatInt(version, 10), version
	return o, nil
}
