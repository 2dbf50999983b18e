package redis

import (
	"crypto/tls"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"kapis.dev/ks-apiserver/pkg/token"
)

// Options are where the Redis servers are, and what the sessions in them are sealed with.
type Options struct {
	// Addresses are host:port: of the server, of the sentinels where Sentinel is set, or of some nodes of a Cluster.
	Addresses []string
	// Username and Password log in to the servers; "" is the default user, and no password.
	Username, Password string
	// DB is the number of the database; a Cluster has 0 alone.
	DB int
	// TLS is for all connections; nil for none.
	TLS *tls.Config
	// Sentinel says which of the servers that sentinels watch is meant; nil without sentinels.
	Sentinel *Sentinel
	// Cluster says that the servers are a Redis Cluster.
	Cluster bool

	// Keys seal what lies in Redis.
	Keys token.KeySource
	// AcceptUnsealed is the time until which sessions count that are not sealed: an older version wrote them so. Before that time everybody
	// who can write into Redis can make one.
	AcceptUnsealed time.Time
}

// Sentinel names a server that sentinels watch, and how to log in to them.
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
			Addrs: o.Addresses, Username: o.Username, Password: o.Password, TLSConfig: o.TLS, Protocol: 2, DisableIdentity: true,
			DialTimeout: callTimeout, ReadTimeout: callTimeout, WriteTimeout: callTimeout, PoolTimeout: callTimeout,
			ContextTimeoutEnabled: true, PoolSize: connections, MaxRetries: noRetries, DialerRetries: 1,
			// Redirects are what a Cluster answers while a part of it moves. Each script asks what is there before it changes it.
			MaxRedirects: 3, MaintNotificationsConfig: noMaintenance(),
		})
	case o.Sentinel != nil:
		return goredis.NewFailoverClient(&goredis.FailoverOptions{
			MasterName: o.Sentinel.Master, SentinelAddrs: o.Addresses,
			SentinelUsername: o.Sentinel.Username, SentinelPassword: o.Sentinel.Password,
			Username: o.Username, Password: o.Password, DB: o.DB, TLSConfig: o.TLS, Protocol: 2, DisableIdentity: true,
			DialTimeout: callTimeout, ReadTimeout: callTimeout, WriteTimeout: callTimeout, PoolTimeout: callTimeout,
			ContextTimeoutEnabled: true, PoolSize: connections, MaxRetries: noRetries, DialerRetries: 1,
		})
	}
	return goredis.NewClient(&goredis.Options{
		Addr: o.Addresses[0], Username: o.Username, Password: o.Password, DB: o.DB, TLSConfig: o.TLS, Protocol: 2, DisableIdentity: true,
		DialTimeout: callTimeout, ReadTimeout: callTimeout, WriteTimeout: callTimeout, PoolTimeout: callTimeout,
		ContextTimeoutEnabled: true, PoolSize: connections, MaxRetries: noRetries, DialerRetries: 1,
		MaintNotificationsConfig: noMaintenance(),
	})
}

func noMaintenance() *maintnotifications.Config {
	return &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
}

// names are those of what lies in Redis. In a Cluster all of it has one hash tag, and so is on one node: each change is one script, which
// counts it, and a script can touch one node only.
type names struct{ prefix, changes, probe string }

func namesFor(o *Options) names {
	tag := "kapis:"
	if o.Cluster {
		tag = "{kapis}:"
	}
	return names{prefix: tag + "session:", changes: tag + "sessions:changes", probe: tag + "sessions:probe"}
}
