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

// Mapping says how an identity becomes a User where none is linked to it.
type Mapping string

// The mappings.
const (
	// MapManual has the person register: he may choose the name of his User.
	MapManual Mapping = "manual"
	// MapAuto makes a User, of a name that is derived from the identity, and never takes over one that is there.
	MapAuto Mapping = "auto"
	// MapLookup lets in only whom an administrator has linked.
	MapLookup Mapping = "lookup"
	// MapMixed is MapAuto where the name is free, and MapManual where it is not.
	MapMixed Mapping = "mixed"
)

// Entry is a configured provider. It is never changed: a change makes a new one.
type Entry struct {
	// Name identifies the provider; it stands in links of Users, in sessions and in addresses.
	Name string
	// Type is the kind of provider, and DisplayName what pages call it; "" for its name.
	Type, DisplayName string
	Mapping           Mapping
	// Hidden leaves the provider out of pages. Disabled refuses logins, and ends the sessions that it vouched for.
	Hidden, Disabled bool
	// Provider is nil where its configuration is wrong, and Fault says how; it holds no secret.
	Provider Provider
	Fault    error
}

// Usable tells whether people can log in with the provider, as far as its configuration goes.
func (e *Entry) Usable() bool { return e != nil && !e.Disabled && e.Provider != nil }

// Secrets are the calls that a Directory makes; the Secrets client of one namespace has them.
type Secrets interface {
	List(ctx context.Context, o metav1.ListOptions) (*corev1.SecretList, error)
	Watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error)
}

// DirectoryOptions are what a Directory works with.
type DirectoryOptions struct {
	// Secrets are where providers are configured, beside the file.
	Secrets Secrets
	// Types are the kinds of providers that are compiled in.
	Types []Type
	// File are the providers of the configuration file, each as the YAML or JSON of its keys.
	File [][]byte
	// AllowLoopback is that of OpenOptions.
	AllowLoopback bool
	// Now is the clock; nil for time.Now.
	Now func() time.Time
}

// Directory has the configured providers: those of the configuration file, and those in labelled Secrets, as these come and go.
// A provider whose configuration is wrong affects itself alone. All methods may be called on nil, which has none.
type Directory struct {
	options DirectoryOptions
	entries atomic.Pointer[map[string]*Entry]
	state   atomic.Pointer[state]
	synced  atomic.Bool
	wake    chan struct{} // says that a provider is new, and was never checked

	mu    sync.Mutex
	file  []*definition
	found map[string]*definition // by name of the Secret
}

// state is what follows from the definitions besides the entries. It is replaced as a whole.
type state struct {
	sorted   []*Entry
	proxies  []*Entry
	by       map[string]*definition // by name of the provider
	problems []string
}

// nothing is the state of a Directory without any. It stays as it is.
var nothing state

// NewDirectory opens the providers of the configuration file. One that is wrong does not fail it: its entry says so.
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

// Entries returns all providers, sorted by name. The list is shared and not to be changed.
func (d *Directory) Entries() []*Entry { return d.current().sorted }

// Enabled tells whether sessions that the provider vouched for may go on: it is there, and not disabled. A provider whose
// configuration is wrong for now ends none. Until the Secrets were read once, one that is not known yet counts.
func (d *Directory) Enabled(name string) bool {
	synced := d.Synced() // before the look: what is read after it may be there already
	e := d.Entry(name)
	if e == nil {
		return !synced
	}
	return !e.Disabled
}

// Refresh asks a provider about a person again. Its errors are ErrGone, ErrUnavailable, and ErrUnaskable where the provider can't be asked
// that.
func (d *Directory) Refresh(ctx context.Context, name, subject, refresh string) (*Identity, error) {
	synced := d.Synced() // before the look: what is read after it may be there already
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

// Problems say which configurations are wrong, and how; they are for the verbose readiness, and no reason to be unready. They
// hold no secret.
func (d *Directory) Problems() []string { return d.current().problems }

// Synced tells whether the Secrets were read once.
func (d *Directory) Synced() bool { return d == nil || d.synced.Load() }

func (d *Directory) current() *state {
	if d != nil {
		if s := d.state.Load(); s != nil {
			return s
		}
	}
	return &nothing
}

// rebuild makes what others read of the definitions. Of two with one name the older counts, and the configuration file
// is older than any Secret: so a new Secret can't take a provider over, and with it the Users that are linked to it.
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
	for _, e := range s.sorted {
		if _, ok := e.Provider.(Proxy); ok && e.Usable() {
			s.proxies = append(s.proxies, e)
		}
	}
	d.state.Store(s)
	d.entries.Store(&entries)
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// open makes the provider of a definition, or takes over the one that was there, with its connections, where nothing
// that it is made of has changed.
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
	def.settings = nil // it holds secrets, and the provider has read it
	if err != nil {
		e.Fault = fmt.Errorf("provider: %w", err)
		return
	}
	e.Provider = p
}

// discard closes a provider that nobody finds any more, unless next took it over. Logins that are under way end as they would.
func discard(old, next *definition) {
	if old == nil || old.entry.Provider == nil || next != nil && next.entry.Provider == old.entry.Provider {
		return
	}
	if c, ok := old.entry.Provider.(io.Closer); ok {
		_ = c.Close() // what it can't give back is the other side's to notice
	}
}
