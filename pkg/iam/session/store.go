// Package session opens, finds, refreshes and ends the sessions of all replicas.
package session

import (
	"context"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apiserver/pkg/authentication/user"

	"kapis.dev/ks-apiserver/pkg/iam"
	"kapis.dev/ks-apiserver/pkg/recent"
	"kapis.dev/ks-apiserver/pkg/token"
)

const (
	// defaultGrace is how long the previous refresh token can still be exchanged for its successor.
	defaultGrace = 10 * time.Second
	// defaultPerUser bounds a user's sessions.
	defaultPerUser = 64
	// unconfirmed bounds the trust in a session that the feed has not brought yet.
	unconfirmed = time.Minute
	// lookTimeout and lookAtOnce bound the reads of sessions that this replica has not seen. A busy control plane answers after
	// seconds, and a login at another replica would count here only after its feed has brought it; where nothing answers, the queue
	// bounds who waits.
	lookTimeout           = 10 * time.Second
	lookAtOnce, lookQueue = 8, 1024
	// goneSize is how many names of ended sessions are remembered.
	goneSize = 32 << 10
)

// Options are what a Store works with.
type Options struct {
	API   Backend
	Users *iam.UserIndex
	Keys  token.KeySource
	// Prefix returns the prefix of new sessions' names, which names their backend; nil for none.
	Prefix func() string
	// Enabled reports whether an identity provider is known and enabled; nil for always. It is asked at each request.
	Enabled func(provider string) bool
	// Linked returns the User of an identity that had none at the login; nil for none, and for one who has to log in again.
	Linked func(provider, subject string) (*iam.User, error)
	// Refresher asks a provider about a user again, to learn whether they still exist and in which groups they are, once for each rotation
	// of a refresh token; nil for never. subject and refresh are those of the login. idp.ErrGone ends the session, idp.ErrUnaskable one that
	// has outlived its browser's session; other errors leave it, and newRefresh is stored with them too.
	Refresher func(ctx context.Context, session *Session, subject, refresh string) (groups []string, newRefresh, hint string, err error)
	// ClientCredential returns a fingerprint of a client's secret, or "" for a client that may not act for itself. It is asked at each
	// request; nil lets no client act for itself.
	ClientCredential func(client string) string
	// Lifetime returns how long the sessions of an OAuth client live.
	Lifetime func(client string) Lifetime
	// Grace is how long the previous refresh token can still be exchanged for its successor; 0 means 10 s.
	Grace time.Duration
	// Skew is how far the clocks of replicas may differ.
	Skew time.Duration
	// PerUser is how many sessions a user may have before the oldest ends; 0 means 64.
	PerUser int
	// Single makes each login end the user's other sessions.
	Single bool
	// Now is the clock.
	Now func() time.Time
	// Synced reports whether users, sessions, OAuth clients and identity providers are all loaded; nil for always. Before that, no
	// session ends because something is missing: it can't be told whether it is over.
	Synced func() bool
	// Complete returns why there may be sessions that the store was not told of, and nil while there are none; nil itself for never.
	Complete func() error
	// Metrics registers the metrics of sessions; nil for none.
	Metrics prometheus.Registerer
}

// Store has the sessions of all replicas: each request's session is checked in memory, without a call. It is a store.Sink of
// sessions.session.kapis.dev/v1alpha1, and writes through the backend.
//
// A session ends when its object is deleted, wherever that is done. A replica that ends one refuses it at once, the others as soon
// as their feed tells them.
type Store struct {
	*ender
	*opener
	*rotation
}

// reader finds sessions, including those that this replica's feed has not brought yet, and changes their objects.
type reader struct {
	*index
	fetches fetcher
}

// ender ends sessions, and deletes the objects of sessions that are over.
type ender struct {
	*reader
	ended *prometheus.CounterVec
}

// opener opens sessions.
type opener struct{ *ender }

// rotation exchanges refresh tokens, and asks identity providers about the user again.
type rotation struct {
	*ender
	refreshes *prometheus.CounterVec
	// upstream counts what identity providers answered.
	upstream *prometheus.CounterVec
}

// New returns a Store that ends sessions when their users change. Start the feeds of both after it.
func New(o Options) (*Store, error) {
	if o.Grace == 0 {
		o.Grace = defaultGrace
	}
	if o.PerUser == 0 {
		o.PerUser = defaultPerUser
	}
	x := &index{
		Options: o,
		byName:  map[string]*cached{}, byUser: map[string][]position{},
		gone: recent.NewMap[string, struct{}](goneSize), pending: map[string]deletion{}, tombstones: map[string]tombstone{},
		wanted: make(chan struct{}, 1),
	}
	e := &ender{
		reader: &reader{index: x, fetches: newFetcher()},
		ended: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "ks_sessions_ended_total", Help: "Sessions that this replica ended, by reason."}, []string{"reason"}),
	}
	s := &Store{ender: e, opener: &opener{e}, rotation: &rotation{
		ender: e,
		refreshes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "ks_session_refreshes_total", Help: "Refresh tokens presented, by what came of it."}, []string{"result"}),
		upstream: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "ks_session_upstream_total", Help: "Questions to identity providers at refreshes, by what came of them."}, []string{"result"}),
	}}
	o.Users.OnChange(x.userChanged)
	if o.Metrics == nil {
		return s, nil
	}
	count := prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "ks_sessions", Help: "Sessions known."}, func() float64 {
		s.mu.RLock()
		defer s.mu.RUnlock()
		return float64(len(s.byName))
	})
	for _, c := range []prometheus.Collector{s.ended, s.refreshes, s.upstream, count} {
		if err := o.Metrics.Register(c); err != nil {
			return nil, fmt.Errorf("register metrics of sessions: %w", err)
		}
	}
	return s, nil
}

// Authenticate returns the user of a verified token, with the groups of the session. It fails unless the session is live and its user is
// the one who opened it, unchanged and not disabled.
func (s *reader) Authenticate(ctx context.Context, a *token.Access) (user.Info, error) {
	r, u, err := s.resolve(ctx, a)
	if err != nil {
		return nil, err
	}
	return r.info(u), nil
}

// Resolve is Authenticate for callers that need the User; for clients and registrations the User has no object.
func (s *reader) Resolve(ctx context.Context, a *token.Access) (*iam.User, error) {
	_, u, err := s.resolve(ctx, a)
	return u, err
}

func (s *reader) resolve(ctx context.Context, a *token.Access) (*cached, *iam.User, error) {
	r, err := s.find(ctx, a.Session)
	if err != nil {
		return nil, nil, err
	}
	if r.UserUID != a.Subject || r.User != a.Username || r.Client != a.Client {
		return nil, nil, fmt.Errorf("%w: the token names another user or client than its session", iam.ErrOver)
	}
	u, err := s.validate(ctx, r)
	return r, u, err
}

// validate returns the user of a session that is valid now.
func (s *reader) validate(ctx context.Context, r *cached) (*iam.User, error) {
	switch {
	case r.phase != "":
		return nil, fmt.Errorf("%w: it was not begun", iam.ErrOver)
	case !s.Now().Before(r.Expires.Add(s.Skew)):
		return nil, fmt.Errorf("%w: it has expired", iam.ErrOver)
	case !s.enabled(r.Provider):
		if synced := s.synced(); !s.enabled(r.Provider) { // it may have been loaded just before the rest was
			return nil, missing("identity provider", synced)
		}
	}
	if r.bound() {
		if _, err := s.find(ctx, r.Parent); err != nil {
			return nil, fmt.Errorf("session of the browser: %w", err)
		}
	}
	return s.userOf(r)
}

// Find returns a live session and its user, for a cookie that names it. Its errors are ErrOver and ErrUnavailable.
func (s *reader) Find(ctx context.Context, name string) (*Session, *iam.User, error) {
	r, err := s.find(ctx, name)
	if err != nil {
		return nil, nil, err
	}
	u, err := s.validate(ctx, r)
	if err != nil {
		return nil, nil, err
	}
	return &r.Session, u, nil
}
