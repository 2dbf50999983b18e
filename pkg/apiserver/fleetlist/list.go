// Package fleetlist answers lists over all clusters of a fleet: which clusters a caller asks, how, and how much at once. How their answers
// become one is in pkg/cluster/merge.
package fleetlist

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apiserver/pkg/authentication/user"

	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/cluster"
	"kapis.dev/ks-apiserver/pkg/cluster/merge"
	"kapis.dev/ks-apiserver/pkg/cluster/revalidate"
	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/resource/httpcache"
	"kapis.dev/ks-apiserver/pkg/resource/lru"
	"kapis.dev/ks-apiserver/pkg/resource/table"
	"kapis.dev/ks-apiserver/pkg/status"
	"kapis.dev/ks-apiserver/pkg/stream"
	"kapis.dev/ks-apiserver/pkg/web"
)

const (
	// prefix begins the paths of lists over all clusters; what follows is the path of the list at each.
	prefix = "/fleet"
	// atOnce bounds the lists that are answered at once, and ofOne those of one user.
	atOnce, ofOne = 64, 8
	// watchesOfOne bounds the watches and live pages of one user, and membersOfOne the clusters of all of these together.
	watchesOfOne, membersOfOne = 10, 500
	// mostRead bounds the bytes of clusters' answers that all lists hold together, and oneRead those of one list or search: it may ask 512
	// clusters, and each may send 36 MiB.
	mostRead, oneRead = 512 << 20, 128 << 20
)

// Owns reports whether a request is at a path of lists over all clusters, or of a search. Others below /fleet are those by which clusters
// join.
func Owns(r *request.Info) bool {
	if r == nil || r.Cluster != "" {
		return false
	}
	path, below := strings.CutPrefix(r.Path, prefix)
	return r.Path == searchPath || below && isList(path)
}

// isList reports whether a path may be that of a list at one cluster.
func isList(path string) bool {
	return strings.HasPrefix(path, "/kapis/") || strings.HasPrefix(path, "/kapi/")
}

// Options are what lists are made of.
type Options struct {
	Members *cluster.Members
	// Host is the name of this cluster, and HostLabels returns the labels of its own Cluster.
	Host       string
	HostLabels func(context.Context) map[string]string
	// Known returns nil once all Members are known: before that no answer would name those that are missing. The error is a Status.
	Known func() error
	// May decides who may enter a cluster.
	May     authz.Authorizer
	Streams *stream.Guard
	Asked   *Asked
	// Read reads from members; nil has them asked as this cluster is.
	Read Reader
	// Unchanged asks members whether their earlier answers are still current; nil reads all answers again.
	Unchanged *revalidate.Hub
}

// Reader reads from members as a user. proxy.MemberReader is one.
type Reader interface {
	Read(ctx context.Context, u user.Info, d authz.Decision, i *request.Info, rawQuery string, h http.Header) (*http.Response, error)
	// Caller returns the headers that state the caller to members; nil for a caller that members can't know.
	Caller(u user.Info) http.Header
}

// lists answers lists over all clusters.
type lists struct {
	Options
	ask     http.Handler
	now     func() time.Time
	pages   *keyPages
	answers *lru.Cache[*slot]
	sends   *httpcache.Responses
	reads   *merge.Budget

	mu       sync.Mutex
	running  map[cluster.Caller]int
	followed map[cluster.Caller]following
	total    int
}

// New returns a handler of lists over all clusters, which asks each of them through ask.
func New(o Options, ask http.Handler) http.Handler {
	l := &lists{Options: o, ask: ask, now: time.Now, pages: newKeyPages(time.Now, o.Asked.unchangedAt), answers: lru.New[*slot](answerBounds),
		sends: httpcache.NewResponses(mostSent, oneSent), reads: merge.NewBudget(mostRead, oneRead),
		running: map[cluster.Caller]int{}, followed: map[cluster.Caller]following{}}
	size := l.answers.Size
	o.Asked.kept.Store(&size)
	return l
}

// ServeHTTP answers a list.
func (l *lists) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	share := l.reads.Share()
	defer share.Release() // the answer is sent from what was read
	v, err := l.answer(r, share)
	web.Write(w, r, v, err)
}

func (l *lists) answer(r *http.Request, share *merge.Share) (any, error) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		return nil, status.Errorf(http.StatusMethodNotAllowed, "lists over all clusters are read: write at one cluster, /clusters/{cluster}/...")
	}
	ctx := r.Context()
	info, u := request.InfoFrom(ctx), request.UserFrom(ctx)
	if u == nil || info == nil {
		return nil, errors.New("a list over all clusters: it was neither parsed nor authenticated")
	}
	if info.Path == searchPath {
		return l.search(r, u, share)
	}
	path, verb, err := inner(r, info)
	if err != nil {
		return nil, err
	}
	o, err := merge.ParseOptions(r.URL.Query())
	if err != nil {
		return nil, err
	}
	if table.Requested(r.Header) {
		o.AsTable()
	}
	q := &merge.List{Path: path, Header: header(r), Now: time.Now, Share: share}
	clusters := func(ctx context.Context) ([]merge.Source, error) {
		all, _, err := l.sources(ctx, u, path, o)
		return all, err
	}
	page := func(ctx context.Context) (*merge.Answer, error) { return l.page(ctx, u, path, *q, o) }
	switch {
	case verb == "watch":
		return l.watch(r, u, path, q, o, clusters)
	case o.Live():
		return l.live(r, u, q, o, clusters, page)
	case stream.WantsEvents(r.Header):
		return nil, status.Errorf(http.StatusNotAcceptable, "a list is JSON: events come with watch=true, or with view=live")
	}
	return l.list(r, u, path, *q, o)
}

// page answers a list, from the clusters that there are now. It is one of a stream, which lasts: what was read for it is not counted for
// longer than it takes to make it.
func (l *lists) page(ctx context.Context, u user.Info, path string, q merge.List, o *merge.Options) (*merge.Answer, error) {
	leave, err := l.enter(u, 1)
	if err != nil {
		return nil, err
	}
	defer leave()
	q.Share = l.reads.Share()
	defer q.Share.Release()
	if q.Sources, q.Refused, err = l.sources(ctx, u, path, o); err != nil {
		return nil, err
	}
	return l.merged(ctx, q, o)
}

// watch opens a watch.
func (l *lists) watch(r *http.Request, u user.Info, path string, q *merge.List, o *merge.Options, clusters sources) (any, error) {
	after := ""
	if stream.WantsEvents(r.Header) {
		after = r.Header.Get("Last-Event-ID")
	}
	w, err := q.Watch(o, after)
	if err != nil {
		return nil, err //nolint:wrapcheck // a Status
	}
	w.Clusters = clusters
	if from := w.Versions(); from != nil {
		a, err := l.page(r.Context(), u, path, *q, from)
		if err != nil {
			return nil, err
		}
		w.Begin(a)
	}
	if w.Closed, err = l.begin(r.Context(), u, clusters); err != nil {
		return nil, err
	}
	return l.Streams.Answer(w), nil
}

// live opens a live page.
func (l *lists) live(r *http.Request, u user.Info, q *merge.List, o *merge.Options, clusters sources,
	page func(context.Context) (*merge.Answer, error)) (any, error) {
	closed, err := l.begin(r.Context(), u, clusters)
	if err != nil {
		return nil, err
	}
	live, err := q.Live(r.Context(), o, page)
	if err != nil {
		closed()
		return nil, err //nolint:wrapcheck // a Status
	}
	return l.Streams.Answer(live.Source(clusters, closed)), nil
}

type sources func(context.Context) ([]merge.Source, error)

// begin counts a stream of a user, and those of its clusters.
func (l *lists) begin(ctx context.Context, u user.Info, clusters sources) (closed func(), err error) {
	now, err := clusters(ctx)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	caller, n := cluster.CallerOf(u), len(now)
	if of := l.followed[caller]; of.watches >= watchesOfOne || of.members+n > membersOfOne {
		return nil, apierrors.NewTooManyRequests(fmt.Sprintf("a user may have %d watches and live pages over all clusters, of %d streams"+
			" together: close some, or name fewer clusters", watchesOfOne, membersOfOne), 5)
	}
	l.count(caller, 1, n)
	return sync.OnceFunc(func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.count(caller, -1, -n)
	}), nil
}

// count adds streams of a caller.
func (l *lists) count(caller cluster.Caller, watches, members int) {
	of := l.followed[caller]
	of.watches, of.members = of.watches+watches, of.members+members
	if l.followed[caller] = of; of.watches == 0 {
		delete(l.followed, caller)
	}
}

// following is how many streams a user has, and of how many clusters together.
type following struct{ watches, members int }

// inner returns the path of the list at each cluster, and its verb: list or watch.
func inner(r *http.Request, info *request.Info) (path, verb string, err error) {
	path = strings.TrimPrefix(info.Path, prefix)
	if !isList(path) {
		return "", "", status.NoResource()
	}
	verb, err = listAt(path, r.URL.RawQuery)
	return path, verb, err
}

// listAt returns the verb of a list at a path: list or watch. Its error is the Status for a path that is no list.
func listAt(path, raw string) (verb string, err error) {
	of, err := request.Parse(&http.Request{Method: http.MethodGet, URL: &url.URL{Path: path, RawQuery: raw}})
	switch {
	case err != nil:
		return "", err //nolint:wrapcheck // a Status
	case of.Cluster != "" || !of.IsResource || of.Name != "" || of.Subresource != "" || of.Verb != "list" && of.Verb != "watch" ||
		strings.Contains(path, "/watch/"):
		return "", status.Errorf(http.StatusNotFound,
			"there is no list over all clusters at this path: it is /fleet and the path of a list at one")
	}
	return of.Verb, nil
}

// header returns the headers of the requests to clusters.
func header(r *http.Request) http.Header {
	h := http.Header{"Accept": {"application/json"}}
	for _, name := range []string{"User-Agent", "Audit-Id"} {
		if v := r.Header[name]; len(v) > 0 {
			h[name] = v
		}
	}
	return h
}

// enter counts a user's concurrent lists, and refuses one too many.
func (l *lists) enter(u user.Info, n int) (leave func(), err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	caller := cluster.CallerOf(u)
	switch {
	case l.total+n > atOnce:
		return nil, apierrors.NewTooManyRequests("this server answers as many lists over all clusters as it can: try again", 1)
	case l.running[caller]+n > ofOne:
		return nil, apierrors.NewTooManyRequests(fmt.Sprintf("%d lists over all clusters are answered for you already: try again", ofOne), 1)
	}
	l.total += n
	l.running[caller] += n
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.total -= n
		if l.running[caller] -= n; l.running[caller] == 0 {
			delete(l.running, caller)
		}
	}, nil
}

// sources returns the clusters that a list asks for a user: the host, and the members that the user may enter. refused are the requested
// names that are neither, no matter whether such a cluster exists (F14).
func (l *lists) sources(ctx context.Context, u user.Info, path string, o *merge.Options) (out []merge.Source, refused []string, err error) {
	if err := l.Known(); err != nil {
		return nil, nil, err
	}
	wanted := func(name string) bool { return len(o.Clusters) == 0 || slices.Contains(o.Clusters, name) }
	var found []string
	if host := l.Host; wanted(host) || len(o.Clusters) > 0 && slices.Contains(o.Clusters, "host") {
		found = append(found, host, "host")
		if o.Selector == nil || o.Selector.Matches(labels.Set(l.HostLabels(ctx))) {
			out = append(out, merge.Source{Name: host, Own: true, Ask: l.asking(path)}) //nolint:bodyclose // who asks closes it
		}
	}
	of, err := request.Parse(&http.Request{Method: http.MethodGet, URL: &url.URL{Path: path}})
	if err != nil {
		return nil, nil, err //nolint:wrapcheck // a Status
	}
	for _, m := range l.Members.All() {
		if !wanted(m.Name) {
			continue
		}
		at := *of
		at.Cluster = m.Name
		d, err := l.May.Authorize(ctx, u, &at)
		if err != nil {
			return nil, nil, fmt.Errorf("authorize: %w", err)
		}
		if !d.Allowed() {
			continue
		}
		found = append(found, m.Name)
		if o.Selector == nil || o.Selector.Matches(labels.Set(m.Labels)) {
			s := merge.Source{Name: m.Name, UID: m.UID, Missing: missing(m)}
			s.Ask = l.pages.of(u, &s, path, l.askingMember(u, d, &at)) //nolint:bodyclose // the same
			out = append(out, s)
		}
	}
	for _, name := range o.Clusters {
		if !slices.Contains(found, name) {
			refused = append(refused, name)
		}
	}
	slices.SortFunc(out, func(a, b merge.Source) int { return strings.Compare(a.Name, b.Name) })
	return out, refused, nil
}

// asking returns the function that sends a request to a cluster.
func (l *lists) asking(path string) askFunc {
	return func(ctx context.Context, parameters url.Values, h http.Header) (*http.Response, error) {
		at := &url.URL{Path: path, RawQuery: parameters.Encode()}
		r := (&http.Request{Method: http.MethodGet, URL: at, Header: h.Clone(), Body: http.NoBody,
			Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1}).WithContext(ctx)
		return Serve(l.ask, r)
	}
}

// askingMember returns the function that sends a request to a member: i is what it asks for, which decision d allows.
func (l *lists) askingMember(u user.Info, d authz.Decision, i *request.Info) askFunc {
	handled := l.asking("/clusters/" + i.Cluster + i.Path) //nolint:bodyclose // who asks closes it
	if l.Read == nil {
		return handled
	}
	return func(ctx context.Context, parameters url.Values, h http.Header) (*http.Response, error) {
		if parameters.Get("watch") != "" || parameters.Get("view") == "live" { // streams are checked again and again
			return handled(ctx, parameters, h)
		}
		return l.Read.Read(ctx, u, d, i, parameters.Encode(), h)
	}
}

// missing returns why a member is not asked, nil where it is.
func missing(m *cluster.Member) *merge.Missing {
	linked, since := m.Linked()
	synced, _ := m.Synced()
	out := &merge.Missing{Name: m.Name, Since: metav1.NewTime(since.UTC())}
	switch {
	case !linked:
		out.Reason = merge.Unreachable
	case !synced || m.Trouble != "":
		out.Reason = merge.NotReady
	default:
		return nil
	}
	return out
}
