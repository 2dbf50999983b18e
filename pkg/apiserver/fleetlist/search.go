package fleetlist

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"

	"kapis.dev/ks-apiserver/pkg/cluster/merge"
	"kapis.dev/ks-apiserver/pkg/query"
)

const (
	// searchPath is that of a search over kinds.
	searchPath = prefix + "/search"
	// mostKinds bounds the kinds of a search, mostHits the objects of each, and kindsAtOnce how many kinds are searched at once: a search
	// counts as so many lists.
	mostKinds, mostHits, kindsAtOnce = 10, 5, 4
	// legacyPath begins the path of a kind that is named by its resource alone.
	legacyPath = "/kapis/resources.kubesphere.io/v1alpha3/"
	// hitFields are the fields of a hit where none are asked for: what it is, and what words are found in.
	hitFields = ".kind,.apiVersion,.metadata.creationTimestamp,.metadata.labels,.metadata.annotations['kubesphere.io/alias-name']"
)

// usualKinds are searched where none are named. Kinds with secrets have to be asked for.
var usualKinds = []string{"v1/namespaces", "v1/pods", "apps/v1/deployments", "apps/v1/statefulsets", "apps/v1/daemonsets", "v1/services",
	"networking.k8s.io/v1/ingresses", "v1/configmaps", "v1/persistentvolumeclaims", "batch/v1/jobs"}

// kindPart is a part of the name of a kind. It becomes a part of a path.
var kindPart = regexp.MustCompile(`^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$`)

// kindPath returns the path of the list of a kind at one cluster: of pods, v1/pods, or apps/v1/deployments.
func kindPath(kind string) (string, error) {
	parts := strings.Split(kind, "/")
	for _, p := range parts {
		if !kindPart.MatchString(p) {
			parts = nil
		}
	}
	var path string
	switch len(parts) {
	case 1:
		path = legacyPath + kind
	case 2:
		path = "/kapi/" + kind
	case 3:
		path = "/kapis/" + kind
	default:
		return "", query.Invalid("kinds", kind, "kinds as pods, v1/pods or apps/v1/deployments, joined by commas")
	}
	if verb, err := listAt(path, ""); err != nil || verb != "list" {
		return "", query.Invalid("kinds", kind, "a kind that there may be a list of")
	}
	return path, nil
}

// kindsOf returns which kinds are searched, each once.
func kindsOf(text string) ([]string, error) {
	if text == "" {
		return usualKinds, nil
	}
	var out []string
	for kind := range strings.SplitSeq(text, ",") {
		if kind != "" && !slices.Contains(out, kind) {
			out = append(out, kind)
		}
	}
	if len(out) == 0 || len(out) > mostKinds {
		return nil, query.Invalid("kinds", text, fmt.Sprintf("1 to %d kinds", mostKinds))
	}
	return out, nil
}

// search answers a search for words in several kinds over all clusters: of each kind the first page of a list over clusters, with the
// total, the rights and the gaps of the list, and where it goes on.
func (l *lists) search(r *http.Request, u user.Info, share *merge.Share) (any, error) {
	v := maps.Clone(r.URL.Query())
	if strings.TrimSpace(v.Get("q")) == "" {
		return nil, query.Invalid("q", v.Get("q"), "words to search for")
	}
	kinds, err := kindsOf(v.Get("kinds"))
	if err != nil {
		return nil, err
	}
	limit := mostHits
	if text := v.Get("limit"); text != "" {
		if limit, err = strconv.Atoi(text); err != nil || limit < 0 || limit > mostHits {
			return nil, query.Invalid("limit", text, "0 to 5: the list of a kind has more")
		}
	}
	for _, own := range []string{"kinds", "limit", "page", "next", "watch", "view", "facets", "managedFields", "resourceVersion"} {
		v.Del(own)
	}
	s := &search{lists: l, user: u, header: header(r), share: share, lost: map[string]*merge.Missing{}, hits: make([]hits, len(kinds))}
	for i, kind := range kinds {
		path, err := kindPath(kind)
		if err != nil {
			return nil, err
		}
		s.hits[i] = hits{kind: kind, list: prefix + path + "?" + v.Encode()}
	}
	if v.Get("fields") == "" {
		v.Set("fields", hitFields)
	}
	v.Set("limit", strconv.Itoa(limit))
	if _, err := merge.ParseOptions(maps.Clone(v)); err != nil { // before anybody is asked
		return nil, err //nolint:wrapcheck // a Status
	}
	leave, err := l.enter(u, kindsAtOnce)
	if err != nil {
		return nil, err
	}
	defer leave()
	if s.all(r.Context(), v); s.withoutLargest() {
		s.all(r.Context(), v)
	}
	return newFound(s.hits, l.sends)
}

// search is a search that is being answered.
type search struct {
	*lists
	user   user.Info
	header http.Header
	hits   []hits
	share  *merge.Share

	mu sync.Mutex
	// lost are clusters that did not answer for one kind: they are not waited for again.
	lost map[string]*merge.Missing
}

// all searches all kinds, some at once.
func (s *search) all(ctx context.Context, v url.Values) {
	next := make(chan int, len(s.hits))
	for i := range s.hits {
		next <- i
	}
	close(next)
	var wait sync.WaitGroup
	for range kindsAtOnce {
		wait.Go(func() {
			for i := range next {
				s.hits[i].page, s.hits[i].err = s.one(ctx, s.hits[i].list, maps.Clone(v))
			}
		})
	}
	wait.Wait()
}

// withoutLargest reports whether what was found is too much although most of it is one cluster's: that one is not asked again, and is named
// as missing. Else a cluster that sends much would take the search from all.
func (s *search) withoutLargest() bool {
	sent, found := map[string]int64{}, 0
	for i := range s.hits {
		if h := &s.hits[i]; h.err == nil {
			found += h.bytes()
			h.page.AddSent(sent)
		}
	}
	largest, all := "", int64(0)
	for name, n := range sent {
		if all += n; n > sent[largest] {
			largest = name
		}
	}
	if found <= mostFoundBytes || sent[largest] <= all/2 || sent[largest] == all {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lost[largest] = &merge.Missing{Name: largest, Reason: merge.Faulty, Since: metav1.NewTime(s.now().UTC())}
	return true
}

// one searches one kind.
func (s *search) one(ctx context.Context, list string, v url.Values) (*merge.Answer, error) {
	path, _, _ := strings.Cut(strings.TrimPrefix(list, prefix), "?")
	o, err := merge.ParseOptions(v)
	if err != nil {
		return nil, err //nolint:wrapcheck // a Status
	}
	q := merge.List{Path: path, Header: s.header, Now: time.Now, Missed: s.missed, Share: s.share}
	if q.Sources, q.Refused, err = s.sources(ctx, s.user, path, o); err != nil {
		return nil, err
	}
	s.mu.Lock()
	for i := range q.Sources {
		if m := s.lost[q.Sources[i].Name]; m != nil && q.Sources[i].Missing == nil {
			q.Sources[i].Missing = m
		}
	}
	s.mu.Unlock()
	a, err := q.Answer(ctx, o)
	if err != nil {
		return nil, err //nolint:wrapcheck // a Status
	}
	s.Asked.count(q.Sources, a.Missing())
	return a, nil
}

// missed remembers a cluster that has cost its time.
func (s *search) missed(m merge.Missing) {
	if m.Reason != merge.Timeout && m.Reason != merge.Unreachable {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lost[m.Name] = &m
}
