package sharedsecret

import (
	"bytes"
	"crypto/hmac"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
)

const (
	// leastSecret and mostSecret bound a secret, in bytes; the least is that of HS256 (RFC 7518, 3.2).
	leastSecret, mostSecret = 32, 4 << 10
	// filePrefix begins the name of the file with the secret of a member.
	filePrefix = "shared-secret-"
)

// Secrets are those of the members that are listed, each in a file of its own.
type Secrets struct {
	// Members are the names of the Clusters, and Directory has their files.
	Members   []string
	Directory string
	// Own is the secret with which this server itself accepts tokens of an older installation; empty for none.
	Own []byte
}

// Of returns the secret of a listed member. It is read each time, so that it may be replaced. No error holds anything of it.
func (s *Secrets) Of(member string) ([]byte, error) {
	if s == nil || !slices.Contains(s.Members, member) {
		return nil, fmt.Errorf("the cluster %q is not one of fleet.sharedSecretMembers", member)
	}
	secret, err := s.read(member)
	if err != nil {
		return nil, fmt.Errorf("the secret that is shared with the cluster %q: %w", member, err)
	}
	if hmac.Equal(secret, bytes.TrimSpace(s.Own)) {
		return nil, fmt.Errorf("the secret that is shared with the cluster %q is authentication.issuer.jwtSecret of this server, which"+
			" would accept the cluster's tokens: give the cluster another one", member)
	}
	for _, other := range s.Members {
		if other == member {
			continue
		}
		if its, err := s.read(other); err == nil && hmac.Equal(secret, its) {
			return nil, fmt.Errorf("the clusters %q and %q share the same secret with this server, so that the tokens of one would let into the"+
				" other: give each one of its own", member, other)
		}
	}
	return secret, nil
}

func (s *Secrets) read(member string) ([]byte, error) {
	name := filePrefix + member
	f, err := os.Open(filepath.Join(s.Directory, name))
	if err != nil {
		return nil, fmt.Errorf("the file %s in fleet.sharedSecretDirectory can't be read", name)
	}
	defer func() { _ = f.Close() }()
	raw, err := io.ReadAll(io.LimitReader(f, mostSecret+1))
	if err != nil {
		return nil, fmt.Errorf("the file %s in fleet.sharedSecretDirectory can't be read", name)
	}
	secret := bytes.TrimSpace(raw)
	switch {
	case len(raw) > mostSecret:
		return nil, fmt.Errorf("it has more than %d bytes", mostSecret)
	case len(secret) < leastSecret:
		return nil, fmt.Errorf("it has %d bytes, and %d are the least", len(secret), leastSecret)
	case repeated(secret):
		return nil, errors.New("it is a few characters repeated, which can be guessed")
	}
	return secret, nil
}

// repeated reports whether s is one text over and over.
func repeated(s []byte) bool {
	for n := 1; n <= len(s)/2; n++ {
		if bytes.Equal(s[n:], s[:len(s)-n]) {
			return true
		}
	}
	return false
}
