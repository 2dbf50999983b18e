package redis

import (
	"context"
	"crypto/tls"
	"net"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"kapis.dev/ks-apiserver/pkg/clusterdns"
	"kapis.dev/ks-apiserver/pkg/token"
)

// Options describe the Redis servers, and the keys that seal the sessions.
type Options struct {
	// Addresses are host:port: of the server, of the sentinels if Sentinel is set, or of some nodes of a Cluster.
	Addresses []string
	// Username and Password log in to the servers; "" means the default user, and no password.
	Username, Password string
	// DB is the number of the database; a Cluster has only 0.
	DB int
	// TLS is for all connections; nil for none.
	TLS *tls.Config
	// Sentinel says which server of the sentinels to use; nil without sentinels.
	Sentinel *Sentinel
	// Cluster says that the servers form a Redis Cluster.
	Cluster bool

	// Keys seal the values in Redis.
	Keys token.KeySource
	// AcceptUnsealed is the time until which unsealed sessions are accepted: an older version wrote them. Until then, anyone who can write
	// to Redis can create one.
	AcceptUnsealed time.Time
}

// Sentinel names a server that sentinels monitor, and has the credentials for the sentinels.
type Sentinel struct {
	// Master is the name that the sentinels know the server by.
	Master string
	// Username and Password log in to the sentinels.
	Username, Password string
}

// connect returns a client. It makes no call.
func connect(o *Options) goredis.UniversalClient {
	// A script whose answer was lost must not run twice, so there are no retries.
	const noRetries = -1
	switch {
	case o.Cluster:
		return goredis.NewClusterClient(&goredis.ClusterOptions{
			Addrs: o.Addresses, Username: o.Username, Password: o.Password, TLSConfig: o.TLS, Dialer: o.dial, Protocol: 2, DisableIdentity: true,
			DialTimeout: callTimeout, ReadTimeout: callTimeout, WriteTimeout: callTimeout, PoolTimeout: callTimeout,
			ContextTimeoutEnabled: true, PoolSize: connections, MaxRetries: noRetries, DialerRetries: 1,
			// A Cluster answers with redirects while slots move. Each script checks the state before it changes it.
			MaxRedirects: 3, MaintNotificationsConfig: noMaintenance(),
		})
	case o.Sentinel != nil:
		return goredis.NewFailoverClient(&goredis.FailoverOptions{
			MasterName: o.Sentinel.Master, SentinelAddrs: o.Addresses,
			SentinelUsername: o.Sentinel.Username, SentinelPassword: o.Sentinel.Password,
			Username: o.Username, Password: o.Password, DB: o.DB, TLSConfig: o.TLS, Dialer: o.dial, Protocol: 2, DisableIdentity: true,
			DialTimeout: callTimeout, ReadTimeout: callTimeout, WriteTimeout: callTimeout, PoolTimeout: callTimeout,
			ContextTimeoutEnabled: true, PoolSize: connections, MaxRetries: noRetries, DialerRetries: 1,
		})
	}
	return goredis.NewClient(&goredis.Options{
		Addr: o.Addresses[0], Username: o.Username, Password: o.Password, DB: o.DB, TLSConfig: o.TLS, Dialer: o.dial, Protocol: 2,
		DisableIdentity: true,
		DialTimeout:     callTimeout, ReadTimeout: callTimeout, WriteTimeout: callTimeout, PoolTimeout: callTimeout,
		ContextTimeoutEnabled: true, PoolSize: connections, MaxRetries: noRetries, DialerRetries: 1,
		MaintNotificationsConfig: noMaintenance(),
	})
}

// dial connects to a server or a sentinel, by TLS where that is configured, whose name is that of the address as it is configured.
func (o *Options) dial(ctx context.Context, network, address string) (net.Conn, error) {
	d := &net.Dialer{Timeout: callTimeout, KeepAliveConfig: net.KeepAliveConfig{
		Enable: true, Idle: 30 * time.Second, Interval: 5 * time.Second, Count: 3}}
	conn, err := d.DialContext(ctx, network, clusterdns.Absolute(address))
	if err != nil || o.TLS == nil {
		return conn, err
	}
	config := o.TLS.Clone()
	if config.ServerName == "" {
		if config.ServerName, _, err = net.SplitHostPort(address); err != nil {
			_ = conn.Close()
			return nil, err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	secured := tls.Client(conn, config)
	if err := secured.HandshakeContext(ctx); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return secured, nil
}

func noMaintenance() *maintnotifications.Config {
	return &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
}

// names are the names of keys in Redis. In a Cluster all of them have one hash tag, and so are on one node: each change is one script,
// which counts it, and a script can use one node only.
type names struct{ prefix, changes, probe string }

func namesFor(o *Options) names {
	tag := "kapis:"
	if o.Cluster {
		tag = "{kapis}:"
	}
	return names{prefix: tag + "session:", changes: tag + "sessions:changes", probe: tag + "sessions:probe"}
}
