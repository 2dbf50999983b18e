package config_test

import (
	"strings"
	"testing"

	"kapis.dev/ks-apiserver/pkg/config"
)

func TestCache(t *testing.T) {
	for name, test := range map[string]struct {
		text, typ, want, err string
	}{
		"none":         {"", "", ":6379", ""},
		"in memory":    {"cache: {type: InMemoryCache, options: {cleanupPeriod: 2h}}", "InMemoryCache", ":6379", ""},
		"redis":        {"cache: {type: redis, options: {host: r, port: 6380, password: canary, db: 2}}", config.CacheRedis, "r:6380", ""},
		"default port": {"cache: {type: redis, options: {host: r}}", config.CacheRedis, "r:6379", ""},
		"v3.4":         {"redis: {host: r, port: 6379, password: canary, db: 0}", config.CacheRedis, "r:6379", ""},
		"v3.4, unused": {"redis: {host: '', port: 6379}", "", ":6379", ""},
		"both":         {"{redis: {host: r}, cache: {type: redis}}", "", "", "keep one"},
		"no host":      {"cache: {type: redis}", "", "", "cache.options.host"},
		"no port":      {"cache: {type: redis, options: {host: r, port: 0}}", "", "", "cache.options.port"},
		"user":         {"cache: {type: redis, options: {host: r, username: ks, password: canary}}", config.CacheRedis, "r:6379", ""},
		"no password":  {"cache: {type: redis, options: {host: r, username: ks}}", "", "", "cache.options.password"},
		"sentinel":     {"cache: {type: redis, options: {sentinel: {masterName: m, addresses: ['a:1', 'b:2']}, db: 3}}", config.CacheRedis, "a:1,b:2", ""},
		"no master":    {"cache: {type: redis, options: {sentinel: {addresses: ['a:1']}}}", "", "", "masterName"},
		"no sentinels": {"cache: {type: redis, options: {sentinel: {masterName: m}}}", "", "", "addresses"},
		"no such port": {"cache: {type: redis, options: {sentinel: {masterName: m, addresses: ['a:1', 'b:70000']}}}", "", "", "sentinel.addresses[1]"},
		"half a login": {"cache: {type: redis, options: {sentinel: {masterName: m, addresses: ['a:1'], username: x}}}", "", "", "sentinel.password"},
		"cluster":      {"cache: {type: redis, options: {cluster: {addresses: ['a:1', '[::1]:2']}}}", config.CacheRedis, "a:1,[::1]:2", ""},
		"cluster's db": {"cache: {type: redis, options: {cluster: {addresses: ['a:1']}, db: 1}}", "", "", "database 0"},
		"no address":   {"cache: {type: redis, options: {cluster: {addresses: ['a']}}}", "", "", "cluster.addresses[0]"},
		"two ways":     {"cache: {type: redis, options: {host: r, cluster: {addresses: ['a:1']}}}", "", "", "cache.options.host"},
		"three ways":   {"cache: {type: redis, options: {sentinel: {masterName: m, addresses: ['a:1']}, cluster: {addresses: ['a:1']}}}", "", "", "exclude"},
		"tls":          {"cache: {type: redis, options: {host: r, tls: {enabled: true, caFile: /ca, serverName: redis}}}", config.CacheRedis, "r:6379", ""},
		"tls is off":   {"cache: {type: redis, options: {host: r, tls: {caFile: /ca}}}", "", "", "not be encrypted"},
		"tls half":     {"cache: {type: redis, options: {host: r, tls: {enabled: true, certFile: /c}}}", "", "", "keyFile"},
		"tls unsafe":   {"cache: {type: redis, options: {host: r, tls: {enabled: true, insecureSkipVerify: true}}}", "", "", "insecureSkipVerify"},
		"unsealed":     {"cache: {type: redis, options: {host: r, acceptUnsealedUntil: 2027-01-31T00:00:00Z}}", config.CacheRedis, "r:6379", ""},
		"for ever":     {"cache: {type: redis, options: {host: r, acceptUnsealedUntil: always}}", "", "", "acceptUnsealedUntil"},
		"other type":   {"cache: {type: memcached}", "", "", "cache.type"},
		"unknown key":  {"redis: {host: r, prot: 1}", "", "", "port"},
		"no section":   {"redis: r", "", "", "section"},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := config.Parse([]byte(test.text), nil)
			if test.err != "" {
				if err == nil || !strings.Contains(err.Error(), test.err) || strings.Contains(err.Error(), "canary") {
					t.Errorf("got %v", err)
				}
				return
			}
			if err != nil || c.Cache.Type != test.typ || c.Cache.Options.String() != test.want {
				t.Errorf("got %v, %v", c, err)
			}
		})
	}
}
