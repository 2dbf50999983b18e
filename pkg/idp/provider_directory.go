package idp

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// Mapping says how an identity gets a User if none is linked to it.
type Mapping string

// The mappings.
const (
	// MapManual has the users register, and choose their user names.
	MapManual Mapping = "manual"
	// MapAuto creates a User with a name derived from the identity, and never takes over an existing one.
	MapAuto Mapping = "auto"
	// MapLookup accepts only identities that an administrator has linked.
	MapLookup Mapping = "lookup"
	// MapMixed is MapAuto if the name is free, and MapManual otherwise.
	MapMixed Mapping = "mixed"
)

// Entry is a configured provider. It is immutable: a change makes a new one.
type Entry struct {
	// Name identifies the provider in links of Users, in sessions and in URLs.
	Name string
	// Type is the type of provider, and DisplayName its name on pages; "" for Name.
	Type, DisplayName string
	Mapping           Mapping
	// Hidden leaves the provider out of pages. Disabled refuses logins, and ends the sessions of the provider's users.
	Hidden, Disabled bool
	// Provider is nil if its configuration is wrong; Fault is the reason, and contains no secret.
	Provider Provider
	Fault    error
}

// Usable reports whether users can log in with the provider, as far as its configuration goes.
func (e *Entry) Usable() bool { return e != nil && !e.Disabled && e.Provider != nil }

// Secrets lists and watches the Secrets of one namespace, as the client of client-go does.
type Secrets interface {
	List(ctx context.Context, o metav1.ListOptions) (*corev1.SecretList, error)
	Watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error)
}

// DirectoryOptions are what a Directory works with.
type DirectoryOptions struct {
	// Secrets are where providers are configured besides the file.
	Secrets Secrets
	// Types are the types of providers that are compiled in.
	Types []Type
	// File has the providers of the configuration file, each as the YAML or JSON of its keys.
	File [][]byte
	// AllowLoopback is that of OpenOptions.
	AllowLoopback bool
	// Now is the clock; nil for time.Now.
	Now func() time.Time
}

// Directory has the configured providers: those of the configuration file, and those in labelled Secrets, which it watches. A
// provider with a wrong configuration does not affect the others. All methods may be called on nil, which has no providers.
type Directory struct {
	options DirectoryOptions
	entries atomic.Pointer[map[string]*Entry]
	state   atomic.Pointer[state]
	synced  atomic.Bool
	wake    chan struct{} // signals a new provider that was never checked

	mu    sync.Mutex
	file  []*definition
	found map[string]*definition // by name of the Secret
}

// state is what follows from the definitions, besides the entries. It is replaced as a whole.
type state struct {
	sorted []*Entry
	// what authenticates single requests
	proxies, certificates, bearers []*Entry
	by                             map[string]*definition // by name of the provider
	problems                       []string
}

// nothing is the state of a Directory without providers. It is never changed.
var nothing state

// NewDirectory opens the providers of the configuration file. A wrong configuration is no error of NewDirectory, but of its entry.
func NewDirectory(o DirectoryOptions) *Directory {
	if o.Now == nil {
		o.Now = time.Now
	}
	d := &Directory{options: o, found: map[string]*definition{}, wake: make(chan struct{}, 1)}
	for i, raw := range o.File {
		def := define(raw, fmt.Sprintf("authentication.identityProviders[%d]", i))
		d.open(def, nil)
		d.file = append(d.file, def)
	}
	d.rebuild()
	return d
}

// Entry returns the provider of that name, or nil.
func (d *Directory) Entry(name string) *Entry {
	if d == nil || d.entries.Load() == nil {
		return nil
	}
	return (*d.entries.Load())[name]
}

// Entries returns all providers, sorted by name. The list is shared and must not be changed.
func (d *Directory) Entries() []*Entry { return d.current().sorted }

// Enabled reports whether sessions of the provider's users may go on: the provider is known and not disabled. A wrong configuration ends no
// session. Until the Secrets are loaded (Synced), one that is not known may be either.
func (d *Directory) Enabled(name string) bool {
	e := d.Entry(name)
	return e != nil && !e.Disabled
}

// Refresh asks a provider about a user again. Its errors are ErrGone, ErrUnavailable, and ErrUnaskable if the provider can't be asked
// about users.
func (d *Directory) Refresh(ctx context.Context, name, subject, refresh string) (*Identity, error) {
	synced := d.Synced() // before the read: what arrives after it may be there already
	e := d.Entry(name)
	switch {
	case e == nil && !synced:
		return nil, fmt.Errorf("%w: the configuration of identity provider %q is not read yet", ErrUnavailable, name)
	case e == nil || e.Disabled:
		return nil, fmt.Errorf("%w: identity provider %q is gone or disabled", ErrGone, name)
	case e.Provider == nil:
		return nil, fmt.Errorf("%w: the configuration of identity provider %q is wrong", ErrUnavailable, name)
	}
	r, ok := e.Provider.(Refresher)
	if !ok {
		return nil, fmt.Errorf("%w: a provider of the type %s knows no such question", ErrUnaskable, e.Type)
	}
	return r.Refresh(ctx, subject, refresh)
}

// Problems describes the wrong configurations, for the verbose readiness. They are no reason to be unready, and the texts
// contain no secret.
func (d *Directory) Problems() []string { return d.current().problems }

// Synced reports whether the Secrets are loaded, if there are any to load.
func (d *Directory) Synced() bool { return d == nil || d.options.Secrets == nil || d.synced.Load() }

func (d *Directory) current() *state {
	if d != nil {
		if s := d.state.Load(); s != nil {
			return s
		}
	}
	return &nothing
}

// rebuild makes the table of providers from the definitions. Of two with one name the older counts, and the
// configuration file is older than any Secret: so a new Secret can't take over a provider, and with it the Users that
// are linked to it.
func (d *Directory) rebuild() {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := make([]*definition, 0, len(d.found))
	for _, def := range d.found {
		all = append(all, def)
	}
	slices.SortFunc(all, func(a, b *definition) int {
		return cmp.Or(a.created.Compare(b.created), cmp.Compare(a.source, b.source))
	})
	s := &state{by: map[string]*definition{}}
	for _, def := range slices.Concat(d.file, all) {
		name := def.entry.Name
		switch {
		case name == "":
			s.problems = append(s.problems, fmt.Sprintf("%s: %v", def.source, def.entry.Fault))
		case s.by[name] != nil:
			s.problems = append(s.problems, fmt.Sprintf("%s: %s has the identity provider %q already", def.source, s.by[name].source, name))
		default:
			s.by[name] = def
			if def.entry.Fault != nil {
				s.problems = append(s.problems, fmt.Sprintf("%s: identity provider %q: %v", def.source, name, def.entry.Fault))
			}
		}
	}
	d.publish(s)
}

func (d *Directory) publish(s *state) {
	entries := make(map[string]*Entry, len(s.by))
	for name, def := range s.by {
		entries[name] = def.entry
		s.sorted = append(s.sorted, def.entry)
	}
	slices.SortFunc(s.sorted, func(a, b *Entry) int { return cmp.Compare(a.Name, b.Name) })
	s.proxies, s.certificates, s.bearers = usable[Proxy](s.sorted), usable[Certificate](s.sorted), usable[Bearer](s.sorted)
	d.state.Store(s)
	d.entries.Store(&entries)
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// open opens the provider of a definition. If nothing has changed that the old one was made from, that one stays, with its connections.
func (d *Directory) open(def, old *definition) {
	e := def.entry
	if e.Fault != nil {
		return
	}
	if old != nil && old.entry.Provider != nil && old.entry.Name == e.Name && old.entry.Type == e.Type && old.sum == def.sum {
		e.Provider, def.reach = old.entry.Provider, old.reach
		return
	}
	i := slices.IndexFunc(d.options.Types, func(t Type) bool { return t.Name == e.Type })
	if i < 0 {
		e.Fault = fmt.Errorf("type: %q is none of the types %s", e.Type, names(d.options.Types))
		return
	}
	p, err := d.options.Types[i].Open(def.settings, OpenOptions{Name: e.Name, AllowLoopback: d.options.AllowLoopback})
	def.settings = nil // it contains secrets, and the provider has read it
	if err != nil {
		e.Fault = fmt.Errorf("provider: %w", err)
		return
	}
	e.Provider = p
}

// discard closes a provider that is no longer configured, unless next took it over. Logins in progress end normally.
func discard(old, next *definition) {
	if old == nil || old.entry.Provider == nil || next != nil && next.entry.Provider == old.entry.Provider {
		return
	}
	if c, ok := old.entry.Provider.(io.Closer); ok {
		_ = c.Close() // the other side notices what can't be closed
	}
}
