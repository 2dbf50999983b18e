package rbac

import (
	"crypto/sha256"
	"runtime"
	"sync"
	"weak"

	rbacv1 "k8s.io/api/rbac/v1"
)

// textKey is the hash of a text.
type textKey [sha256.Size]byte

// interned stores once what many roles have: each namespace and each workspace has the same built-in roles, whose rules (and policies,
// where they have any) would otherwise take most of the index's memory, and most of the time to read it. It holds only weak pointers.
type interned[T any] struct {
	mu     sync.Mutex
	byText map[textKey]weak.Pointer[T]
}

// of returns what read makes of a text; the same value for the same text, as long as it is in use. An error is not cached.
func (s *interned[T]) of(text []byte, read func(text []byte) (*T, error)) (*T, error) {
	key := textKey(sha256.Sum256(text))
	s.mu.Lock()
	defer s.mu.Unlock()
	if v := s.byText[key].Value(); v != nil {
		return v, nil
	}
	v, err := read(text)
	if err != nil {
		return nil, err
	}
	if s.byText == nil {
		s.byText = map[textKey]weak.Pointer[T]{}
	}
	s.byText[key] = weak.Make(v)
	runtime.AddCleanup(v, s.forget, key)
	return v, nil
}

// forget removes a value that is no longer in use, unless the same text has been read again since.
func (s *interned[T]) forget(key textKey) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byText[key].Value() == nil {
		delete(s.byText, key)
	}
}

// readRules reads the JSON text of a list of rules.
func readRules(text []byte) (*rules, error) {
	var list []rbacv1.PolicyRule
	if len(text) > 0 {
		if err := decode(text, &list); err != nil {
			return nil, err
		}
	}
	return newRules(list), nil
}
