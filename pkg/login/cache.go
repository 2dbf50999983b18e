package login

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"
)

const (
	// maxKept bounds the file, in bytes.
	maxKept = 256 << 10
	// lockWait is how long another process may hold the lock: as long as a login takes, and a little more.
	lockWait = loginTimeout + time.Minute
	// lockEvery is the interval of attempts to lock, and lockSilence the time after which the user is told about the wait.
	lockEvery   = 20 * time.Millisecond
	lockSilence = 2 * time.Second
)

// kept is the content of the file.
type kept struct {
	// Issuer, Client, Scopes and For identify the login of the file; a file of another login is ignored.
	Issuer string   `json:"issuer"`
	Client string   `json:"client_id"`
	Scopes []string `json:"scopes"`
	For    string   `json:"for,omitempty"`

	User    string    `json:"user,omitempty"`
	Access  string    `json:"access_token"`
	Refresh string    `json:"refresh_token,omitempty"`
	ID      string    `json:"id_token,omitempty"`
	Expiry  time.Time `json:"expiry"`
}

// fresh reports whether there is a token that is valid for that time.
func (k *kept) fresh(now time.Time, left time.Duration) bool {
	return k != nil && k.Access != "" && (k.Expiry.IsZero() || k.Expiry.Sub(now) > left)
}

func (k *kept) token() *Token { return &Token{Access: k.Access, ID: k.ID, Expiry: k.Expiry} }

// cache is the file of one login, with a second file that is locked while a process writes the first.
type cache struct {
	dir, name string
	key       kept
}

func newCache(o *Options) *cache {
	key := kept{Issuer: o.Issuer, Client: o.Client, Scopes: o.Scopes, For: o.User}
	text, _ := json.Marshal([]any{key.Issuer, key.Client, key.Scopes, key.For}) // strings always encode
	sum := sha256.Sum256(text)
	return &cache{dir: o.Dir, name: filepath.Join(o.Dir, hex.EncodeToString(sum[:16])), key: key}
}

// read returns the stored login; nil if there is none, or none that can be used: then the user logs in again.
func (c *cache) read() *kept {
	f, err := os.Open(c.name + ".json")
	if err != nil {
		return nil
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() || !isPrivate(info) {
		return nil
	}
	data, err := io.ReadAll(io.LimitReader(f, maxKept))
	if err != nil {
		return nil
	}
	var k kept
	if json.Unmarshal(data, &k) != nil || k.Access == "" ||
		k.Issuer != c.key.Issuer || k.Client != c.key.Client || k.For != c.key.For || !slices.Equal(k.Scopes, c.key.Scopes) {
		return nil
	}
	return &k
}

// write replaces the file atomically: readers take no lock.
func (c *cache) write(k *kept) error {
	data, err := json.Marshal(k)
	if err != nil {
		return fmt.Errorf("keep the login: %w", err)
	}
	f, err := os.CreateTemp(c.dir, ".new-*") // readable for its owner only
	if err != nil {
		return fmt.Errorf("keep the login: %w", err)
	}
	defer func() { _ = os.Remove(f.Name()) }() // after the rename there is nothing to remove
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), c.name+".json")
	}
	if err != nil {
		return fmt.Errorf("keep the login: %w", err)
	}
	return nil
}

// remove deletes the file. The lock file stays, since another process may wait for it.
func (c *cache) remove() error {
	if err := os.Remove(c.name + ".json"); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("forget the login: %w", err)
	}
	return nil
}

// lock waits until no other process refreshes or logs in. The kernel releases the lock of a process that dies.
func (c *cache) lock(ctx context.Context, tell io.Writer) (unlock func(), err error) {
	if err := c.makeDir(); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(c.name+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock the login: %w", err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, lockWait, fmt.Errorf("another program has held %s for %v: stop it", f.Name(), lockWait))
	defer cancel()
	tick := time.NewTicker(lockEvery)
	defer tick.Stop()
	quiet := time.NewTimer(lockSilence)
	defer quiet.Stop()
	for {
		taken, err := tryLock(f)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("lock the login: %w", err), f.Close())
		}
		if taken {
			return func() { _ = f.Close() }, nil // closing the file unlocks it
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(fmt.Errorf("lock the login: %w", context.Cause(ctx)), f.Close())
		case <-quiet.C:
			fmt.Fprintln(tell, "Waiting for another program that is logging in.")
		case <-tick.C:
		}
	}
}

// makeDir makes the folder, which has to be private to this user: anyone who could put a file into it could make this
// user act with another login.
func (c *cache) makeDir() error {
	if err := os.MkdirAll(c.dir, 0o700); err != nil {
		return fmt.Errorf("make the folder of logins: %w", err)
	}
	info, err := os.Lstat(c.dir)
	if err != nil {
		return fmt.Errorf("look at the folder of logins: %w", err)
	}
	if !info.IsDir() || !isPrivate(info) {
		return fmt.Errorf("the folder of logins %s has to be yours alone: chmod 700 it, or name another with XDG_CACHE_HOME", c.dir)
	}
	return nil
}
