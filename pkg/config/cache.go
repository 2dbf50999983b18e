package config

import (
	"errors"
	"fmt"
	"strings"
)

// CacheRedis is the type of Cache that is a Redis server.
const CacheRedis = "redis"

// Cache is the section cache (v3.4: redis, whose keys are those of options).
type Cache struct {
	// Type is InMemoryCache, which is nothing of its own, or redis; InMemoryCache.
	Type string `json:"type"`
	// Options are where the Redis server is.
	Options CacheOptions `json:"options"`
}

// CacheOptions is the section cache.options.
type CacheOptions struct {
	// Host and Port are the address of the Redis server; "" and 6379.
	Host string `json:"host"`
	Port int    `json:"port"`
	// Password is for its default user; "".
	Password Secret `json:"password"`
	// DB is the number of the database; 0.
	DB int `json:"db"`

	CleanupPeriod any `json:"cleanupPeriod" config:"unread"`
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
		return nil // an older installation without Redis has the section, too
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
	if c.Options.Host == "" {
		fault("cache.options.host is missing")
	}
	if c.Options.Port < 1 || c.Options.Port > 65535 {
		fault("cache.options.port: %d is not a port", c.Options.Port)
	}
	if c.Options.DB < 0 {
		fault("cache.options.db: %d is negative", c.Options.DB)
	}
}

// String names the server and no more.
func (o CacheOptions) String() string { return fmt.Sprintf("%s:%d", o.Host, o.Port) }
