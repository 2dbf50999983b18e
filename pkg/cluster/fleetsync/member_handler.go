package fleetsync

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"kapis.dev/ks-apiserver/pkg/cluster"
	"kapis.dev/ks-apiserver/pkg/cluster/exchange"
	"kapis.dev/ks-apiserver/pkg/status"
)

const (
	// maxBody bounds what a hub sends at once, in bytes.
	maxBody = 64 << 20
	// The brake: of a kind, more than brakeCount objects and more than one in brakePart are not deleted because they are merely missing
	// from a digest. A hub that lost its data empties no member.
	brakeCount, brakePart = 20, 10
	// listLimit is how many objects are asked for at once.
	listLimit = 500
)

// Member answers, in a member cluster, what its hub asks for. It writes for the hub as clusterv1alpha1.HubUser.
type Member struct {
	// Objects reaches the member's kube-apiserver as clusterv1alpha1.HubUser.
	Objects dynamic.Interface
	// Bound returns the users whom bindings of the member alone name, sorted.
	Bound func(ctx context.Context) (*Bound, error)
	// BoundNames returns which other names those bindings have.
	BoundNames func(ctx context.Context) (*cluster.BoundNames, error)
	// About returns what the hub is told of this cluster.
	About func(ctx context.Context) (*cluster.About, error)
	// Health returns what is wrong with this cluster.
	Health func(ctx context.Context) (*Health, error)

	// writing is held while something is written: an older change must not follow a newer one.
	writing sync.Mutex
}

// Owns reports whether a path is one that Member answers.
func Owns(path string) bool {
	return path == PathDigest || path == PathObjects || path == PathBound || path == PathBoundNames || path == PathAbout ||
		path == PathHealth || path == PathCreator
}

// ServeHTTP answers a request that has come over a link from the hub.
func (m *Member) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	exchange.Answers{
		"GET " + PathBound:      func(r *http.Request) (any, error) { return m.Bound(r.Context()) },
		"GET " + PathBoundNames: func(r *http.Request) (any, error) { return m.BoundNames(r.Context()) },
		"GET " + PathAbout:      func(r *http.Request) (any, error) { return m.About(r.Context()) },
		"GET " + PathHealth:     func(r *http.Request) (any, error) { return m.Health(r.Context()) },
		"POST " + PathDigest:    exchange.To(maxBody, m.compare),
		"POST " + PathCreator:   exchange.To(maxBody, m.bindCreator),
		"POST " + PathObjects:   exchange.To(maxBody, m.apply),
	}.ServeHTTP(w, r)
}

// kindOf returns the kind of a plural, if it is one that is kept in members.
func kindOf(plural string) (schema.GroupVersionResource, bool) {
	i := slices.IndexFunc(kinds, func(k schema.GroupVersionResource) bool { return k.Resource == plural })
	if i < 0 {
		return schema.GroupVersionResource{}, false
	}
	return kinds[i], true
}

// list returns the hashes of what the hub keeps here of a kind, by name.
func (m *Member) list(ctx context.Context, k schema.GroupVersionResource, hub string) (map[string]string, error) {
	out := map[string]string{}
	o := metav1.ListOptions{LabelSelector: LabelFleet + "=" + hub, Limit: listLimit}
	for {
		list, err := m.Objects.Resource(k).List(ctx, o)
		if err != nil {
			return nil, fmt.Errorf("list %s of the fleet: %w", k.Resource, err)
		}
		for i := range list.Items {
			if list.Items[i].GetDeletionTimestamp() == nil {
				out[list.Items[i].GetName()] = list.Items[i].GetAnnotations()[annotationHash]
			}
		}
		if o.Continue = list.GetContinue(); o.Continue == "" {
			return out, nil
		}
	}
}

// compare deletes what a digest does not have, and returns what is missing.
func (m *Member) compare(ctx context.Context, d *Digest) (*Difference, error) {
	if d.Hub == "" || len(d.Objects) != len(kinds) {
		return nil, status.BadRequestf("the digest does not have every kind")
	}
	m.writing.Lock()
	defer m.writing.Unlock()
	ended := map[Ref]string{}
	isEnded := map[Ref]bool{}
	for _, c := range d.Gone {
		ended[c.Ref], isEnded[c.Ref] = c.Propagation, true
	}
	out := &Difference{}
	here := map[string]map[string]string{}
	for _, k := range slices.Backward(kinds) {
		have, err := m.list(ctx, k, d.Hub)
		if err != nil {
			return nil, err
		}
		here[k.Resource] = have
		var missing []Ref
		for name := range have {
			r := Ref{k.Resource, name}
			if _, wanted := d.Objects[k.Resource][name]; wanted {
				continue
			}
			if isEnded[r] {
				m.delete(ctx, k, Change{Ref: r, Propagation: ended[r]}, d.Hub, out.pend)
			} else {
				missing = append(missing, r)
			}
		}
		if len(missing) > brakeCount && len(missing)*brakePart > len(have) {
			for _, r := range missing {
				out.pend(r, errPaused)
			}
			continue
		}
		for _, r := range missing {
			m.delete(ctx, k, Change{Ref: r}, d.Hub, out.pend)
		}
	}
	for _, r := range refsOf(d.Objects) {
		if have, ok := here[r.Kind][r.Name]; !ok || have != stored(r.Kind, d.Objects[r.Kind][r.Name]) {
			out.Want = append(out.Want, r)
		}
	}
	return out, nil
}

var errPaused = errors.New("SyncPaused: the hub lost it together with many others; who administers this cluster deletes it, or the hub" +
	" gets it back")

func (d *Difference) pend(r Ref, err error) { d.Pending = append(d.Pending, pendingOf(r, err)) }

func (o *Outcome) pend(r Ref, err error) { o.Pending = append(o.Pending, pendingOf(r, err)) }

func pendingOf(r Ref, err error) cluster.Pending {
	return cluster.Pending{Kind: r.Kind, Name: r.Name, Reason: reason(err), Passing: passes(err)}
}

// passes reports whether an error is one that may be gone when it is tried again: that a webhook can't be asked is an internal error.
func passes(err error) bool {
	failed := (*url.Error)(nil)
	return errors.As(err, &failed) || apierrors.IsInternalError(err) || apierrors.IsServerTimeout(err) || apierrors.IsTimeout(err) ||
		apierrors.IsTooManyRequests(err) || apierrors.IsServiceUnavailable(err)
}

// reason returns what the hub is told of an error.
func reason(err error) string {
	text := exchange.Explained(err).Error()
	if len(text) > 500 {
		text = text[:500]
	}
	return text
}
