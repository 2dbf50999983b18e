package oauth

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
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"kapis.dev/ks-apiserver/pkg/iam/session"
)

// The Secrets that OAuth clients are kept in.
const (
	clientSelector = "config.kubesphere.io/type=oauthclient"
	clientFile     = "configuration.yaml"
)

// Secrets are the calls that Clients make; the Secrets client of one namespace has them.
type Secrets interface {
	List(ctx context.Context, o metav1.ListOptions) (*corev1.SecretList, error)
	Watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error)
}

// Clients are the registered OAuth clients: those of the configuration file, and, before them, those
// in labelled Secrets, as these come and go.
type Clients struct {
	secrets  Secrets
	lifetime session.Lifetime
	file     []Client
	synced   atomic.Bool
	table    atomic.Pointer[clientTable]

	mu    sync.Mutex
	found map[string]clientSecretObject // by name of the Secret
}

// clientSecretObject is what a Secret holds.
type clientSecretObject struct {
	created metav1.Time
	secret  string
	client  *Client
	err     error
}

// clientTable is the result: it is replaced as a whole.
type clientTable struct {
	clients  map[string]*Client
	problems []string
	// letters are the clients by lettersOf; nil where two have the same.
	letters map[string]*Client
	// origins are where the pages of clients without a secret come from, which call some endpoints from the browser.
	origins map[string]bool
}

// complete makes what follows from the clients.
func (t *clientTable) complete() {
	t.letters, t.origins = make(map[string]*Client, len(t.clients)), map[string]bool{}
	for name, c := range t.clients {
		key := lettersOf(name)
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

// NewClients takes the clients of the configuration file, which fail it when they are wrong, and the
// namespace's Secrets. lifetime holds for clients that set none of their own.
func NewClients(secrets Secrets, file []Client, lifetime session.Lifetime) (*Clients, error) {
	c := &Clients{secrets: secrets, lifetime: lifetime, file: file, found: map[string]clientSecretObject{}}
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

// Client returns the client of that name, or nil.
func (c *Clients) Client(name string) *Client { return c.table.Load().clients[name] }

// Credential returns a fingerprint of a client's secret: a session that the client opened for itself ends when it changes. It is ""
// for a client without a secret, which may not act for itself, and for one that is not there.
func (c *Clients) Credential(name string) string {
	cl := c.Client(name)
	if cl == nil || cl.Secret == "" {
		return ""
	}
	return cl.credential()
}

// byLetters returns the client that the letters of a user code stand for, or nil.
func (c *Clients) byLetters(s string) *Client { return c.table.Load().letters[s] }

// fromBrowser tells whether pages of an origin may call from the browser.
func (c *Clients) fromBrowser(origin string) bool { return c.table.Load().origins[origin] }

// Lifetime returns how long the sessions and tokens of a client live.
func (c *Clients) Lifetime(name string) session.Lifetime {
	if cl := c.Client(name); cl != nil {
		return cl.lifetime(c.lifetime)
	}
	return c.lifetime
}

// Problems say which Secrets are no good clients, and why; they are for the verbose readiness, and no
// reason to be unready.
func (c *Clients) Problems() []string { return c.table.Load().problems }

// Synced tells whether the Secrets were read once.
func (c *Clients) Synced() bool { return c.synced.Load() }

// Run follows the Secrets until ctx ends.
func (c *Clients) Run(ctx context.Context) {
	_, informer := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
			ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
				o.LabelSelector = clientSelector
				return c.secrets.List(ctx, o)
			},
			WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
				o.LabelSelector = clientSelector
				return c.secrets.Watch(ctx, o)
			},
		}, c.secrets),
		ObjectType: &corev1.Secret{},
		Handler: cache.ResourceEventHandlerFuncs{
			AddFunc:    func(o any) { c.set(o) },
			UpdateFunc: func(_, o any) { c.set(o) },
			DeleteFunc: func(o any) { c.remove(o) },
		},
	})
	go func() {
		if cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
			c.synced.Store(true)
		}
	}()
	informer.RunWithContext(ctx)
}

func (c *Clients) set(o any) {
	s, ok := o.(*corev1.Secret)
	if !ok {
		return
	}
	r := clientSecretObject{created: s.CreationTimestamp, secret: s.Name}
	if r.client, r.err = parseClient(s.Data[clientFile]); r.err != nil {
		klog.ErrorS(r.err, "An OAuth client is left out; the others are not affected", "secret", s.Name)
	} else {
		r.client.warn()
	}
	c.mu.Lock()
	c.found[s.Name] = r
	c.mu.Unlock()
	c.rebuild()
}

// warn logs what is unwise about a client.
func (c *Client) warn() {
	if c.Secret != "" && len(c.Secret) < leastSecret {
		klog.InfoS("The secret of an OAuth client is short enough to be guessed; give it a random one of 32 characters", "client", c.Name, "least", leastSecret)
	}
	for _, p := range c.problems() {
		klog.InfoS("An OAuth client is not as it was meant", "client", c.Name, "problem", p)
	}
}

func (c *Clients) remove(o any) {
	if d, ok := o.(cache.DeletedFinalStateUnknown); ok {
		o = d.Obj
	}
	s, ok := o.(*corev1.Secret)
	if !ok {
		return
	}
	c.mu.Lock()
	delete(c.found, s.Name)
	c.mu.Unlock()
	c.rebuild()
}

// rebuild makes the table. Of two Secrets with one name of a client the older one counts, so that a
// new Secret can't take a client over.
func (c *Clients) rebuild() {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := &clientTable{clients: map[string]*Client{}}
	all := make([]clientSecretObject, 0, len(c.found))
	for _, r := range c.found {
		all = append(all, r)
	}
	slices.SortFunc(all, func(a, b clientSecretObject) int {
		return cmp.Or(a.created.Compare(b.created.Time), cmp.Compare(a.secret, b.secret))
	})
	for _, r := range all {
		switch {
		case r.err != nil:
			t.problems = append(t.problems, fmt.Sprintf("Secret %s: %v", r.secret, r.err))
		case t.clients[r.client.Name] != nil:
			t.problems = append(t.problems, fmt.Sprintf("Secret %s: an older Secret has the OAuth client %q already", r.secret, r.client.Name))
		default:
			t.clients[r.client.Name] = r.client
		}
	}
	for i := range c.file {
		if cl := &c.file[i]; t.clients[cl.Name] == nil {
			t.clients[cl.Name] = cl
		}
	}
	t.complete()
	c.table.Store(t)
}
