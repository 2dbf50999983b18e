package apiserver

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"kapis.dev/ks-apiserver/pkg/iam/session"
	"kapis.dev/ks-apiserver/pkg/idp"
	"kapis.dev/ks-apiserver/pkg/idp/idptest"
	"kapis.dev/ks-apiserver/pkg/redis"
	"kapis.dev/ks-apiserver/pkg/store"
)

// O49: while sessions may be in a Redis server that can't be reached, or in the cluster, nobody is told that all of them are known.
func TestNotAllSessionsAreKnownBeforeRedisAndTheirListAre(t *testing.T) {
	all, err := store.New(t.Context(), store.Options{Config: &rest.Config{Host: "https://127.0.0.1:1"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := sessionsKnown(all, nil); err == nil || !strings.Contains(err.Error(), "sessions.session.kapis.dev") {
		t.Errorf("before the list of sessions: %v", err)
	}
	optional := redis.New(redis.Options{Addresses: []string{"127.0.0.1:1"}})
	t.Cleanup(func() { _ = optional.Close() })
	if err := sessionsKnown(all, optional); err == nil || !strings.Contains(err.Error(), "Redis") {
		t.Errorf("before Redis is connected: %v", err)
	}
}

// rotating is a provider that issues another refresh token, and fails then.
type rotating struct{}

func (rotating) Check(context.Context) error { return nil }

func (rotating) Refresh(_ context.Context, _, refresh string) (*idp.Identity, error) {
	return nil, idp.Renewed(refresh, refresh+"-next", fmt.Errorf("ask: %w", idp.ErrUnavailable))
}

func TestASessionIsGivenTheTokenThatCameBeforeTheProvidersFault(t *testing.T) {
	p := &components{directory: idptest.Directory(t, &idp.Entry{Name: "corp", Provider: rotating{}})}
	groups, next, hint, err := p.askProvider(t.Context(), &session.Session{Provider: "corp"}, "jane", "first")
	if !errors.Is(err, idp.ErrUnavailable) || next != "first-next" || groups != nil || hint != "" {
		t.Errorf("%v, %q, %q, %v", groups, next, hint, err)
	}
}
