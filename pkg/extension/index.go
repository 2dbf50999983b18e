package extension

import (
	"cmp"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/klog/v2"

	"kapis.dev/ks-apiserver/pkg/api/extensions/v1alpha1"
	platform "kapis.dev/ks-apiserver/pkg/api/kubesphere/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/egress"
	"kapis.dev/ks-apiserver/pkg/store"
)

// Options are what an Index is made of.
type Options struct {
	// Taken reports whether a group and version has routes of this server, which no extension may take.
	Taken func(schema.GroupVersion) bool
	// Egress says which addresses are connected to.
	Egress egress.Options
	// ClientCertificate returns the client certificate for backends that ask for one; nil for none.
	ClientCertificate func(*tls.CertificateRequestInfo) (*tls.Certificate, error)
}

// Backend is what a request is passed on to.
type Backend struct {
	// Kind and Name are those of the object.
	Kind, Name string
	// Fault says why nothing is passed on, "" if it is.
	Fault string
	// Base is the path that the backend has here, without a slash at its end: what its cookies and redirects may name.
	Base string
	// Root is what the path of a request for an APIService begins with at the backend, in place of GroupRoot.
	Root string
	// Audience is the audience of tokens that name the caller.
	Audience string
	// Address is where the backend is, and Upstream what it shares with others there; nil where there is a Fault.
	Address  *Address
	Upstream *Upstream
	// Forwards says that it gets the access tokens of its callers, which was approved for this very object.
	Forwards bool
	// Directives change requests for a ReverseProxy; nil for an APIService.
	Directives *Directives
	// Within reports whether a path is one that the object matches.
	Within func(path string) bool

	created time.Time
}

// older orders objects by age, and then by name.
func (b *Backend) older(c *Backend) int {
	return cmp.Or(b.created.Compare(c.created), cmp.Compare(b.Name, c.Name))
}

// Index is the objects of extensions, as requests find them. It is fed by Sinks.
type Index struct {
	options Options

	mu       sync.Mutex
	services map[string]*apiService
	proxies  map[string]*reverseProxy
	bundles  map[string]*Bundle
	icons    map[string]*Bundle // by ExtensionVersion
	pool     map[addressKey]*Upstream

	tables atomic.Pointer[tables]
}

type apiService struct {
	*Backend
	of schema.GroupVersion
}

type reverseProxy struct {
	*Backend
	matcher

	owner string // the extension that it is of, "" for none
}

// served returns ReverseProxies, but those that match a part of what an older one of another extension does: that has its whole path.
func served(of map[string]*reverseProxy) []*reverseProxy {
	all := slices.SortedFunc(maps.Values(of), func(a, b *reverseProxy) int { return cmp.Compare(a.path, b.path) })
	meeting := map[*reverseProxy][]*reverseProxy{}
	var above []*reverseProxy // whose paths the next one's begins with
	for _, p := range all {
		above = slices.DeleteFunc(above, func(a *reverseProxy) bool { return !strings.HasPrefix(p.path, a.path) })
		for _, a := range above {
			if a.owner != p.owner && a.meets(&p.matcher) {
				meeting[p], meeting[a] = append(meeting[p], a), append(meeting[a], p)
			}
		}
		above = append(above, p)
	}
	slices.SortFunc(all, func(a, b *reverseProxy) int { return a.older(b.Backend) })
	has := map[*reverseProxy]bool{}
	return slices.DeleteFunc(all, func(p *reverseProxy) bool {
		has[p] = !slices.ContainsFunc(meeting[p], func(o *reverseProxy) bool { return has[o] })
		return !has[p]
	})
}

// tables are what requests look up. They do not change.
type tables struct {
	groups  map[schema.GroupVersion]*Backend
	exact   map[string][]*reverseProxy
	below   map[string][]*reverseProxy
	lengths []int // of the keys of below, the longest first
	links   map[string]*File
}

// NewIndex returns an Index without any object.
func NewIndex(o Options) *Index {
	x := &Index{options: o, services: map[string]*apiService{}, proxies: map[string]*reverseProxy{}, bundles: map[string]*Bundle{},
		icons: map[string]*Bundle{}, pool: map[addressKey]*Upstream{}}
	x.tables.Store(&tables{})
	return x
}

// Sinks returns the sinks that feed the index.
func (x *Index) Sinks() map[schema.GroupVersionResource]store.Sink {
	of := v1alpha1.SchemeGroupVersion.WithResource
	return map[schema.GroupVersionResource]store.Sink{
		of("apiservices"):    sink{x, x.setService, x.services},
		of("reverseproxies"): sink{x, x.setProxy, x.proxies},
		of("jsbundles"):      sink{x, x.setBundle, x.bundles},

		platform.SchemeGroupVersion.WithResource("extensionversions"): icons{x},
	}
}

// sink is the store.Sink of one kind.
type sink struct {
	*Index
	set  func(raw []byte) error
	from any
}

// Set implements store.Sink.
func (s sink) Set(o *store.Object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.set(o.Raw); err != nil {
		klog.ErrorS(err, "An object of an extension is left out", "name", o.Name)
		s.forget(o.Name)
	}
	s.build()
}

// Delete implements store.Sink.
func (s sink) Delete(_, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forget(name)
	s.build()
}

func (s sink) forget(name string) {
	switch of := s.from.(type) {
	case map[string]*apiService:
		delete(of, name)
	case map[string]*reverseProxy:
		delete(of, name)
	case map[string]*Bundle:
		delete(of, name)
	}
}

func (x *Index) setService(raw []byte) error {
	o := &v1alpha1.APIService{}
	if err := json.Unmarshal(raw, o); err != nil {
		return fmt.Errorf("read an APIService: %w", err)
	}
	gv := schema.GroupVersion{Group: o.Spec.Group, Version: o.Spec.Version}
	if err := CheckGroup(gv, x.options.Taken); err != nil { // where this server has routes, they answer
		return err
	}
	base := GroupRoot + "/" + gv.String()
	root, wrong := backendRoot(o)
	b := &Backend{Kind: "APIService", Name: o.Name, Base: base, Root: root, Audience: "apiservice:" + gv.String(),
		Forwards: forwards(o), created: o.CreationTimestamp.Time, Within: func(path string) bool { return below(path, base) }}
	x.connect(b, &o.Status, &o.Spec.Endpoint, wrong)
	x.services[o.Name] = &apiService{b, gv}
	return nil
}

// below reports whether a path is base, or below it.
func below(path, base string) bool {
	rest, ok := strings.CutPrefix(path, base)
	return ok && (rest == "" || rest[0] == '/')
}

func (x *Index) setProxy(raw []byte) error {
	o := &v1alpha1.ReverseProxy{}
	if err := json.Unmarshal(raw, o); err != nil {
		return fmt.Errorf("read a ReverseProxy: %w", err)
	}
	if o.Labels[v1alpha1.LabelProxyTarget] == v1alpha1.TargetConsole {
		delete(x.proxies, o.Name)
		return nil
	}
	m, wrong := parseMatcher(&o.Spec.Matcher)
	if wrong != nil {
		return wrong
	}
	d, wrong := Compile(&o.Spec.Directives)
	p := &reverseProxy{matcher: m, owner: owner(&o.ObjectMeta)}
	p.Backend = &Backend{Kind: "ReverseProxy", Name: o.Name, Base: strings.TrimSuffix(m.path, "/"), Audience: "reverseproxy:" + o.Name,
		Forwards: forwards(o), Directives: d, created: o.CreationTimestamp.Time,
		Within: func(path string) bool { return path == m.path || m.open && strings.HasPrefix(path, m.path) }}
	x.connect(p.Backend, &o.Status, &o.Spec.Upstream, wrong)
	x.proxies[o.Name] = p
	return nil
}

// connect reads the endpoint of a backend, and finds its upstream: one that is there keeps its connections, and what is known of it.
// wrong is what is wrong with the object, nil for nothing.
func (x *Index) connect(b *Backend, s *v1alpha1.Status, e *v1alpha1.Endpoint, wrong error) {
	address, err := ParseEndpoint(e)
	if wrong == nil {
		wrong = err
	}
	switch {
	case wrong != nil:
		b.Fault = "it is not valid: " + wrong.Error()
	case s.State != v1alpha1.StateAvailable:
		b.Fault = fmt.Sprintf("its status.state is %.63q, and not %s", s.State, v1alpha1.StateAvailable)
	default:
		key := address.key()
		if x.pool[key] == nil {
			x.pool[key] = newUpstream(address, &x.options)
		}
		b.Address, b.Upstream = address, x.pool[key]
	}
}

// build makes the tables of what the objects say now, and closes what no object leads to any more. It changes no Backend: requests
// read them.
func (x *Index) build() {
	next := &tables{groups: map[schema.GroupVersion]*Backend{}, exact: map[string][]*reverseProxy{}, below: map[string][]*reverseProxy{},
		links: map[string]*File{}}
	used := map[*Upstream]bool{}
	for _, s := range x.services {
		used[s.Upstream] = true
		if is := next.groups[s.of]; is == nil || s.older(is) < 0 {
			next.groups[s.of] = s.Backend
		}
	}
	for _, p := range x.proxies {
		used[p.Upstream] = true
	}
	for _, p := range served(x.proxies) {
		if p.open {
			next.below[p.path] = append(next.below[p.path], p)
		} else {
			next.exact[p.path] = append(next.exact[p.path], p)
		}
	}
	for _, of := range []map[string][]*reverseProxy{next.exact, next.below} {
		for _, all := range of {
			slices.SortFunc(all, func(a, b *reverseProxy) int {
				return cmp.Or(cmp.Compare(rank(a.method), rank(b.method)), a.older(b.Backend))
			})
		}
	}
	for prefix := range next.below {
		if !slices.Contains(next.lengths, len(prefix)) {
			next.lengths = append(next.lengths, len(prefix))
		}
	}
	slices.SortFunc(next.lengths, func(a, b int) int { return b - a })
	for _, all := range []map[string]*Bundle{x.bundles, x.icons} {
		for _, b := range all {
			for link, f := range b.files {
				if is := next.links[link]; is == nil || b.older(is.bundle) < 0 {
					next.links[link] = f
				}
			}
		}
	}
	for key, u := range x.pool {
		if !used[u] {
			delete(x.pool, key)
			u.close()
		}
	}
	x.tables.Store(next)
}

// rank puts a method before all methods.
func rank(method string) int {
	if method == "*" {
		return 1
	}
	return 0
}

// Service returns the backend of a group and version, nil if no extension has it.
func (x *Index) Service(gv schema.GroupVersion) *Backend { return x.tables.Load().groups[gv] }

// Services returns the backend of each group and version that an extension has. The map must not be changed.
func (x *Index) Services() map[schema.GroupVersion]*Backend { return x.tables.Load().groups }

// Proxy returns the ReverseProxy for a path: that of this very path, or of the longest one that it is below; among several the one of the
// method, and then the oldest. It is nil where there is none.
func (x *Index) Proxy(method, path string) *Backend {
	t := x.tables.Load()
	if b := ofMethod(t.exact[path], method); b != nil {
		return b
	}
	for _, n := range t.lengths {
		if n <= len(path) {
			if b := ofMethod(t.below[path[:n]], method); b != nil {
				return b
			}
		}
	}
	return nil
}

func ofMethod(all []*reverseProxy, method string) *Backend {
	for _, p := range all {
		if p.method == "*" || p.method == method {
			return p.Backend
		}
	}
	return nil
}

// owner returns the extension that an object belongs to, "" for none.
func owner(m *metav1.ObjectMeta) string { return m.Labels[v1alpha1.LabelExtension] }
