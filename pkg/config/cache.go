package config

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"
)

// CacheRedis is the type of Cache that is a Redis server.
const CacheRedis = "redis"

// Cache is the section cache (v3.4: redis, whose keys are those of options).
type Cache struct {
	// Type is InMemoryCache, which has no server, or redis; InMemoryCache.
	Type string `json:"type"`
	// Options say where the Redis server is.
	Options CacheOptions `json:"options"`
}

// CacheOptions is the section cache.options.
type CacheOptions struct {
	// Host and Port are the address of the Redis server; "" and 6379. Sentinel or Cluster replace them.
	Host string `json:"host"`
	Port int    `json:"port"`
	// Username and Password log in to the servers; "" is the default user, and no password.
	Username string `json:"username"`
	Password Secret `json:"password"`
	// DB is the number of the database; 0.
	DB int `json:"db"`
	// TLS is for the connections to all servers, sentinels too.
	TLS CacheTLS `json:"tls"`
	// Sentinel asks sentinels which server is the master.
	Sentinel CacheSentinel `json:"sentinel"`
	// Cluster is a Redis Cluster.
	Cluster CacheCluster `json:"cluster"`
	// AcceptUnsealedUntil, a time as in 2027-01-31T00:00:00Z, accepts until then sessions that an older version of this server put into
	// Redis without sealing them; "" accepts none.
	AcceptUnsealedUntil string `json:"acceptUnsealedUntil"`

	CleanupPeriod any `json:"cleanupPeriod" config:"unread"`
}

// CacheTLS is the section cache.options.tls.
type CacheTLS struct {
	// Enabled turns TLS on; false. The certificate of the server is always verified.
	Enabled bool `json:"enabled"`
	// CAFile is a PEM file of the CAs of the servers' certificates; "" for the CAs of this machine.
	CAFile string `json:"caFile"`
	// CertFile and KeyFile are PEM files of this client's certificate, for servers that ask for one; none.
	CertFile string `json:"certFile"`
	KeyFile  string `json:"keyFile"`
	// ServerName is the name that the servers' certificates have; the host that is connected to.
	ServerName string `json:"serverName"`
}

// CacheSentinel is the section cache.options.sentinel.
type CacheSentinel struct {
	// MasterName is what the sentinels call the server; "" for no sentinels.
	MasterName string `json:"masterName"`
	// Addresses are host:port of the sentinels.
	Addresses []string `json:"addresses"`
	// Username and Password log in to the sentinels; "" is the default user, and no password.
	Username string `json:"username"`
	Password Secret `json:"password"`
}

// CacheCluster is the section cache.options.cluster.
type CacheCluster struct {
	// Addresses are host:port of some of the nodes, which name the others; none for no Cluster.
	Addresses []string `json:"addresses"`
}

// modernizeRedis moves the section redis of v3.4 to where v4 has it.
func modernizeRedis(doc map[string]any) error {
	old := existing(doc, "redis")
	drop(doc, "redis")
	if old == nil {
		return nil
	}
	options, ok := old.(map[string]any)
	if !ok {
		return errors.New("redis is a section: expected keys below it")
	}
	if host, _ := existing(options, "host").(string); host == "" {
		return nil // older installations without Redis have the section, too
	}
	cache, ok := section(doc, "cache")
	if !ok {
		cache = map[string]any{}
	}
	if existing(cache, "type") != nil || existing(cache, "options") != nil {
		return errors.New("redis is set, and cache as well; keep one of them")
	}
	cache["type"], cache["options"] = CacheRedis, options
	put(doc, "cache", cache)
	return nil
}

func (c *Cache) check(fault func(format string, args ...any)) {
	switch {
	case strings.EqualFold(c.Type, "InMemoryCache") || c.Type == "":
		return
	case c.Type != CacheRedis:
		fault("cache.type: %q is not InMemoryCache or redis", c.Type)
		return
	}
	o := &c.Options
	o.checkAddresses(fault)
	if o.DB < 0 {
		fault("cache.options.db: %d is negative", o.DB)
	}
	if o.Username != "" && o.Password == "" {
		fault("cache.options.username has no cache.options.password")
	}
	if o.Sentinel.Username != "" && o.Sentinel.Password == "" {
		fault("cache.options.sentinel.username has no cache.options.sentinel.password")
	}
	o.TLS.check(fault)
	if _, err := o.unsealedUntil(); err != nil {
		fault("cache.options.acceptUnsealedUntil: %q is not a time such as 2027-01-31T00:00:00Z", o.AcceptUnsealedUntil)
	}
}

func (o *CacheOptions) checkAddresses(fault func(format string, args ...any)) {
	sentinel, cluster := o.UsesSentinel(), len(o.Cluster.Addresses) > 0
	if sentinel && cluster {
		fault("cache.options.sentinel and cache.options.cluster exclude each other")
	}
	if (sentinel || cluster) && o.Host != "" {
		fault("cache.options.host: sentinel.addresses or cluster.addresses take its place; leave it out")
	}
	if sentinel && (o.Sentinel.MasterName == "" || len(o.Sentinel.Addresses) == 0) {
		fault("cache.options.sentinel needs masterName and addresses")
	}
	if cluster && o.DB != 0 {
		fault("cache.options.db: a Redis Cluster has the database 0 alone, and not %d", o.DB)
	}
	for name, list := range map[string][]string{"sentinel": o.Sentinel.Addresses, "cluster": o.Cluster.Addresses} {
		for i, a := range list {
			if host, port, err := net.SplitHostPort(a); err != nil || host == "" || !isPort(port) {
				fault("cache.options.%s.addresses[%d]: %q is not host:port", name, i, a)
			}
		}
	}
	if sentinel || cluster {
		return
	}
	if o.Host == "" {
		fault("cache.options.host is missing")
	}
	if !isPort(strconv.Itoa(o.Port)) {
		fault("cache.options.port: %d is not a port", o.Port)
	}
}

func isPort(s string) bool {
	n, err := strconv.ParseUint(s, 10, 16)
	return err == nil && n > 0
}

func (t *CacheTLS) check(fault func(format string, args ...any)) {
	if !t.Enabled && (t.CAFile != "" || t.CertFile != "" || t.KeyFile != "" || t.ServerName != "") {
		fault("cache.options.tls has keys, but enabled is not true: the connections would not be encrypted")
	}
	if (t.CertFile == "") != (t.KeyFile == "") {
		fault("cache.options.tls.certFile and keyFile belong together: one of them is missing")
	}
}

// UsesSentinel reports whether sentinels are asked which server is the master.
func (o *CacheOptions) UsesSentinel() bool {
	return o.Sentinel.MasterName != "" || len(o.Sentinel.Addresses) > 0
}

// Addresses returns the addresses that the client connects to: the server, the sentinels, or nodes of a Cluster.
func (o *CacheOptions) Addresses() []string {
	switch {
	case o.UsesSentinel():
		return o.Sentinel.Addresses
	case len(o.Cluster.Addresses) > 0:
		return o.Cluster.Addresses
	}
	return []string{net.JoinHostPort(o.Host, strconv.Itoa(o.Port))}
}

func (o *CacheOptions) unsealedUntil() (time.Time, error) {
	if o.AcceptUnsealedUntil == "" {
		return time.Time{}, nil
	}
	return time.Parse(time.RFC3339, o.AcceptUnsealedUntil)
}

// UnsealedUntil returns the time until which unsealed sessions are accepted.
func (o *CacheOptions) UnsealedUntil() time.Time {
	t, _ := o.unsealedUntil() // was checked by Validate
	return t
}

// Client returns the TLS settings of a client, nil where TLS is off. It reads the files.
func (t *CacheTLS) Client() (*tls.Config, error) {
	if !t.Enabled {
		return nil, nil
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: t.ServerName}
	if t.CAFile != "" {
		pem, err := os.ReadFile(t.CAFile)
		if err != nil {
			return nil, fmt.Errorf("read cache.options.tls.caFile: %w", err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("read cache.options.tls.caFile: %s has no certificate in PEM", t.CAFile)
		}
	}
	if t.CertFile != "" {
		pair, err := tls.LoadX509KeyPair(t.CertFile, t.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("read cache.options.tls.certFile and keyFile: %w", err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}

// String returns the addresses of the servers, and no password.
func (o CacheOptions) String() string { return strings.Join(o.Addresses(), ",") }
