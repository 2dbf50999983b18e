package config

import (
	"strings"
	"testing"
)

func TestCache(t *testing.T) {
	for name, test := range map[string]struct {
		text, typ, want, err string
	}{
		"none":         {"", "", ":6379", ""},
		"in memory":    {"cache: {type: InMemoryCache, options: {cleanupPeriod: 2h}}", "InMemoryCache", ":6379", ""},
		"redis":        {"cache: {type: redis, options: {host: r, port: 6380, password: canary, db: 2}}", CacheRedis, "r:6380", ""},
		"default port": {"cache: {type: redis, options: {host: r}}", CacheRedis, "r:6379", ""},
		"v3.4":         {"redis: {host: r, port: 6379, password: canary, db: 0}", CacheRedis, "r:6379", ""},
		"v3.4, unused": {"redis: {host: '', port: 6379}", "", ":6379", ""},
		"both":         {"{redis: {host: r}, cache: {type: redis}}", "", "", "keep one"},
		"no host":      {"cache: {type: redis}", "", "", "cache.options.host"},
		"no port":      {"cache: {type: redis, options: {host: r, port: 0}}", "", "", "cache.options.port"},
		"other type":   {"cache: {type: memcached}", "", "", "cache.type"},
		"unknown key":  {"redis: {host: r, prot: 1}", "", "", "port"},
		"no section":   {"redis: r", "", "", "section"},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := Parse([]byte(test.text), nil)
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
