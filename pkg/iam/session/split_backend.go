package session

import (
	"context"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"kapis.dev/ks-apiserver/pkg/api/session/v1alpha1"
)

// SplitBackend has sessions in two backends. A session's name says in which one it is, so that all replicas always agree, and one code
// can't open a session in each.
type SplitBackend struct {
	// Prefix begins the names of the sessions in Optional.
	Prefix         string
	Optional, Kube Backend
}

var _ Backend = (*SplitBackend)(nil)

// prefixOf returns the prefix of a session's name, which names its backend. Names of newName contain no dash.
func prefixOf(name string) string { return name[:strings.IndexByte(name, '-')+1] }

func (s *SplitBackend) of(name string) Backend {
	if strings.HasPrefix(name, s.Prefix) {
		return s.Optional
	}
	return s.Kube
}

// Create stores a new session.
func (s *SplitBackend) Create(ctx context.Context, o *v1alpha1.Session) (*v1alpha1.Session, error) {
	return s.of(o.Name).Create(ctx, o)
}

// Get reads a session.
func (s *SplitBackend) Get(ctx context.Context, name string) (*v1alpha1.Session, error) {
	return s.of(name).Get(ctx, name)
}

// Update replaces a session. It fails with a Conflict if others changed it.
func (s *SplitBackend) Update(ctx context.Context, o *v1alpha1.Session) (*v1alpha1.Session, error) {
	return s.of(o.Name).Update(ctx, o)
}

// Delete deletes a session.
func (s *SplitBackend) Delete(ctx context.Context, name string, uid types.UID) error {
	return s.of(name).Delete(ctx, name, uid)
}
