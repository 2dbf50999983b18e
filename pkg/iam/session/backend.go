package session

import (
	"context"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"kapis.dev/ks-apiserver/pkg/api/session/v1alpha1"
)

// SplitBackend is a SessionAPI of two places. The name of a session says where it lives, on all replicas and at any time, so that a
// code can't open one in each.
type SplitBackend struct {
	// Prefix begins the names of the sessions that live There.
	Prefix         string
	Optional, Kube Backend
}

var _ Backend = (*SplitBackend)(nil)

// prefixOf returns how the name of a session begins where that says where it lives. The names of newName have no dash.
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

// Update replaces a session where nobody else did in the meantime.
func (s *SplitBackend) Update(ctx context.Context, o *v1alpha1.Session) (*v1alpha1.Session, error) {
	return s.of(o.Name).Update(ctx, o)
}

// Delete ends a session.
func (s *SplitBackend) Delete(ctx context.Context, name string, uid types.UID) error {
	return s.of(name).Delete(ctx, name, uid)
}
