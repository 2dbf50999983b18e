package client

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/klog/v2"

	"kapis.dev/ks-apiserver/pkg/iam/session"
	"kapis.dev/ks-apiserver/pkg/informer"
)

// The label of Secrets with OAuth clients, and the key in them.
const (
	clientSelector = "config.kubesphere.io/type=oauthclient"
	clientFile     = "configuration.yaml"
)

// Secrets lists and watches the Secrets of one namespace.
type Secrets interface {
	List(ctx context.Context, o metav1.ListOptions) (*corev1.SecretList, error)
	Watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error)
}

// Registry has the registered OAuth clients: those of the configuration file and those in labelled Secrets, which take precedence.
type Registry struct {
	secrets  Secrets
	lifetime session.Lifetime
	file     []Client
	synced   atomic.Bool
	table    atomic.Pointer[table]

	mu    sync.Mutex
	found map[string]secretObject // by name of the Secret
}

// secretObject is the client in a Secret.
type secretObject struct {
	created metav1.Time
	secret  string
	client  *Client
	err     error
	// before is the last client of the Secret, where this one can't be read: how long its sessions live is not to change by a mistake.
	before *Client
}

// table has the clients at one time. It is replaced as a whole.
type table struct {
	clients  map[string]*Client
	problems []string
	// broken are the clients whose Secret can't be read any more, as they were: no newer Secret gets their names.
	broken map[string]*Client
	// letters are the clients by UserCodePrefix; nil if two have the same.
	letters map[string]*Client
	// origins are those of the pages of public clients, which call some endpoints from the browser.
	origins map[string]bool
}

// complete sets what follows from the clients.
func (t *table) complete() {
	t.letters, t.origins = make(map[string]*Client, len(t.clients)), map[string]bool{}
	for name, c := range t.clients {
		key := UserCodePrefix(name)
		if _, taken := t.letters[key]; taken {
			c = nil
		}
		t.letters[key] = c
	}
	for _, name := range slices.Sorted(maps.Keys(t.clients)) {
		c := t.clients[name]
		t.problems = append(t.problems, c.problems()...)
		if c.Secret != "" {
			continue
		}
		for _, uri := range c.redirects() {
			if o := origin(uri); o != "" {
				t.origins[o] = true
			}
		}
	}
}

// NewRegistry returns a Registry of the clients in the configuration file and in Secrets. It fails if one of the file is not valid.
// lifetime is for clients that set none.
func NewRegistry(secrets Secrets, file []Client, lifetime session.Lifetime) (*Registry, error) {
	c := &Registry{secrets: secrets, lifetime: lifetime, file: file, found: map[string]secretObject{}}
	for i := range file {
		if err := file[i].check(); err != nil {
			return nil, fmt.Errorf("authentication.clients[%d]: %w", i, err)
		}
	}
	for i := range file {
		file[i].warn()
	}
	c.rebuild()
	return c, nil
}

// Client returns the client with a name, or nil.
func (r *Registry) Client(name string) *Client { return r.table.Load().clients[name] }

// Trusted reports whether a client is the platform's own.
func (r *Registry) Trusted(name string) bool {
	cl := r.Client(name)
	return cl != nil && cl.Trusted
}

// Credential returns a fingerprint of a client's secret: sessions that the client opened for itself end when it changes. It is ""
// for public clients, which may not act for themselves, and for unknown ones.
func (r *Registry) Credential(name string) string {
	cl := r.Client(name)
	if cl == nil || cl.Secret == "" {
		return ""
	}
	return cl.credential()
}

// ByUserCode returns the client whose user codes begin with a prefix, or nil.
func (r *Registry) ByUserCode(s string) *Client { return r.table.Load().letters[s] }

// AllowsOrigin reports whether pages of an origin may call from the browser.
func (r *Registry) AllowsOrigin(origin string) bool { return r.table.Load().origins[origin] }

// Lifetime returns how long the sessions and tokens of a client live.
func (r *Registry) Lifetime(name string) session.Lifetime {
	t := r.table.Load()
	if cl := cmp.Or(t.clients[name], t.broken[name]); cl != nil {
		return cl.lifetime(r.lifetime)
	}
	return r.lifetime
}

// Problems describes the Secrets that are not valid clients, for the verbose readiness. They are no reason to be unready.
func (r *Registry) Problems() []string { return r.table.Load().problems }

// Synced reports whether the Secrets have been read.
func (r *Registry) Synced() bool { return r.synced.Load() }

// Run watches the Secrets until ctx ends.
func (r *Registry) Run(ctx context.Context) {
	informer.Run(ctx, r.secrets, metav1.ListOptions{LabelSelector: clientSelector}, informer.Handler[*corev1.Secret]{
		Set:    r.set,
		Delete: func(_, name string) { r.remove(name) },
		Synced: func() { r.synced.Store(true) },
	})
}

// set adds or replaces the client of a Secret.
func (r *Registry) set(s *corev1.Secret) {
	found := secretObject{created: s.CreationTimestamp, secret: s.Name}
	if found.client, found.err = parseClient(s.Data[clientFile]); found.err != nil {
		klog.ErrorS(found.err, "An OAuth client is left out; the others are not affected", "secret", s.Name)
	} else {
		found.client.warn()
	}
	r.mu.Lock()
	if old := r.found[s.Name]; found.err != nil {
		found.before = cmp.Or(old.client, old.before)
	}
	r.found[s.Name] = found
	r.mu.Unlock()
	r.rebuild()
}

// warn logs a short secret and the problems of a client.
func (c *Client) warn() {
	if c.Secret != "" && len(c.Secret) < LeastSecret {
		klog.InfoS("The secret of an OAuth client is short enough to be guessed; give it a random one of 32 characters",
			"client", c.Name, "least", LeastSecret)
	}
	for _, p := range c.problems() {
		klog.InfoS("An OAuth client has a problem", "client", c.Name, "problem", p)
	}
}

// remove removes the client of a deleted Secret.
func (r *Registry) remove(secret string) {
	r.mu.Lock()
	delete(r.found, secret)
	r.mu.Unlock()
	r.rebuild()
}

// rebuild replaces the table. Of two Secrets with the same client name the older one counts, so that a new Secret can't take a
// client over.
func (r *Registry) rebuild() {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := &table{clients: map[string]*Client{}, broken: map[string]*Client{}}
	all := make([]secretObject, 0, len(r.found))
	for _, found := range r.found {
		all = append(all, found)
	}
	slices.SortFunc(all, func(a, b secretObject) int {
		return cmp.Or(a.created.Compare(b.created.Time), cmp.Compare(a.secret, b.secret))
	})
	for _, found := range all {
		switch {
		case found.err != nil:
			t.problems = append(t.problems, fmt.Sprintf("Secret %s: %v", found.secret, found.err))
			if found.before != nil {
				t.broken[found.before.Name] = found.before
			}
		case t.clients[found.client.Name] != nil || t.broken[found.client.Name] != nil:
			t.problems = append(t.problems,
				fmt.Sprintf("Secret %s: an older Secret has the OAuth client %q already", found.secret, found.client.Name))
		default:
			t.clients[found.client.Name] = found.client
		}
	}
	for i := range r.file {
		if cl := &r.file[i]; t.clients[cl.Name] == nil {
			t.clients[cl.Name] = cl
		}
	}
	t.complete()
	r.table.Store(t)
}

// All returns the registered clients, ordered by name. They are shared and must not be changed.
func (r *Registry) All() []*Client {
	t := r.table.Load()
	out := make([]*Client, 0, len(t.clients))
	for _, cl := range t.clients {
		out = append(out, cl)
	}
	slices.SortFunc(out, func(a, b *Client) int { return cmp.Compare(a.Name, b.Name) })
	return out
}
