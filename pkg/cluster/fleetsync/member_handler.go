package fleetsync

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	tenantv1beta1 "kapis.dev/ks-apiserver/pkg/api/tenant/v1beta1"
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
	// About returns what the hub is told of this cluster.
	About func(ctx context.Context) (*cluster.About, error)
	// Health returns what is wrong with this cluster.
	Health func(ctx context.Context) (*Health, error)

	// writing is held while something is written: an older change must not follow a newer one.
	writing sync.Mutex
}

// Owns reports whether a path is one that Member answers.
func Owns(path string) bool {
	return path == PathDigest || path == PathObjects || path == PathBound || path == PathAbout || path == PathHealth ||
		path == PathCreator
}

// ServeHTTP answers a request that has come over a link from the hub.
func (m *Member) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	exchange.Answers{
		"GET " + PathBound:    func(r *http.Request) (any, error) { return m.Bound(r.Context()) },
		"GET " + PathAbout:    func(r *http.Request) (any, error) { return m.About(r.Context()) },
		"GET " + PathHealth:   func(r *http.Request) (any, error) { return m.Health(r.Context()) },
		"POST " + PathDigest:  exchange.To(maxBody, m.compare),
		"POST " + PathCreator: exchange.To(maxBody, m.bindCreator),
		"POST " + PathObjects: exchange.To(maxBody, m.apply),
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
				out.pend(r, "SyncPaused: the hub lost it together with many others; who administers this cluster deletes it, or"+
					" the hub gets it back")
			}
			continue
		}
		for _, r := range missing {
			m.delete(ctx, k, Change{Ref: r}, d.Hub, out.pend)
		}
	}
	for _, r := range refsOf(d.Objects) {
		if have, ok := here[r.Kind][r.Name]; !ok || have != d.Objects[r.Kind][r.Name] {
			out.Want = append(out.Want, r)
		}
	}
	return out, nil
}

func (d *Difference) pend(r Ref, reason string) {
	d.Pending = append(d.Pending, cluster.Pending{Kind: r.Kind, Name: r.Name, Reason: reason})
}

func (o *Outcome) pend(r Ref, reason string) {
	o.Pending = append(o.Pending, cluster.Pending{Kind: r.Kind, Name: r.Name, Reason: reason})
}

// apply applies changes in their order.
func (m *Member) apply(ctx context.Context, in *Changes) (*Outcome, error) {
	if in.Hub == "" {
		return nil, status.BadRequestf("the changes do not say of which hub they are")
	}
	m.writing.Lock()
	defer m.writing.Unlock()
	out := &Outcome{}
	for i := range in.Changes {
		c := &in.Changes[i]
		k, ok := kindOf(c.Kind)
		switch {
		case !ok:
			out.pend(c.Ref, "this version keeps no objects of that kind for a hub")
		case c.Object == nil:
			m.delete(ctx, k, *c, in.Hub, out.pend)
		default:
			if err := m.put(ctx, k, c, in.Hub); err != nil {
				out.pend(c.Ref, reason(err))
			}
		}
	}
	return out, nil
}

var errOther = errors.New("this cluster has one of that name of its own: rename or delete it here")

// put creates or updates an object.
func (m *Member) put(ctx context.Context, k schema.GroupVersionResource, c *Change, hub string) error {
	next := &unstructured.Unstructured{}
	if err := json.Unmarshal(c.Object, &next.Object); err != nil {
		return fmt.Errorf("read the object: %w", err)
	}
	if next.GetName() != c.Name {
		return errors.New("the object has another name")
	}
	set := func(o *unstructured.Unstructured) {
		labels, annotations := o.GetLabels(), o.GetAnnotations()
		if labels == nil {
			labels = map[string]string{}
		}
		if annotations == nil {
			annotations = map[string]string{}
		}
		labels[LabelFleet], annotations[annotationHash] = hub, c.Hash
		o.SetLabels(labels)
		o.SetAnnotations(annotations)
	}
	set(next)
	objects := m.Objects.Resource(k)
	_, err := objects.Create(ctx, next, metav1.CreateOptions{})
	if !apierrors.IsAlreadyExists(err) {
		return err
	}
	now, err := objects.Get(ctx, c.Name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	switch of := now.GetLabels()[LabelFleet]; {
	case of == hub && isAnother(now, next):
		return m.replace(ctx, k, c, hub, next)
	case of == hub:
	case sameGrant(now, next):
		return nil // as the cluster's own already is
	case of != "":
		return fmt.Errorf("another hub keeps it here, whose kube-system has the UID %.64s: this cluster leaves that fleet first", of)
	default:
		return errOther
	}
	// What this cluster's own controllers wrote stays: finalizers, their labels and annotations, the status.
	next.SetResourceVersion(now.GetResourceVersion())
	next.SetUID(now.GetUID())
	next.SetFinalizers(now.GetFinalizers())
	next.SetOwnerReferences(now.GetOwnerReferences())
	next.SetLabels(merged(now.GetLabels(), next.GetLabels()))
	next.SetAnnotations(merged(now.GetAnnotations(), next.GetAnnotations()))
	if s, ok := now.Object["status"]; ok {
		next.Object["status"] = s
	}
	_, err = objects.Update(ctx, next, metav1.UpdateOptions{})
	return err
}

// isAnother reports whether the hub's object is another one than that which this cluster has of the name: the hub's was deleted and made
// anew before this cluster was told.
func isAnother(now, next *unstructured.Unstructured) bool {
	of := iamv1beta1.AnnotationFleetUID
	former, uid := now.GetAnnotations()[of], next.GetAnnotations()[of]
	return former != "" && uid != "" && former != uid
}

var errFormer = errors.New("the hub has another one of that name than before: the former is deleted here first, with what it has here")

// replace deletes an object whose name the hub has given to another one, and then creates that: what this cluster has for the former one,
// bindings of a user, or namespaces of a workspace, must not be the other's.
func (m *Member) replace(ctx context.Context, k schema.GroupVersionResource, c *Change, hub string, next *unstructured.Unstructured) error {
	var failed error
	m.delete(ctx, k, Change{Ref: c.Ref}, hub, func(_ Ref, why string) { failed = errors.New(why) })
	if failed != nil {
		return failed
	}
	_, err := m.Objects.Resource(k).Create(ctx, next, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) { // its finalizers are being worked on
		return errFormer
	}
	return err
}

func merged(now, next map[string]string) map[string]string {
	if now == nil {
		return next
	}
	for k, v := range next {
		now[k] = v
	}
	return now
}

// sameGrant reports whether two roles or bindings give the same to the same.
func sameGrant(a, b *unstructured.Unstructured) bool {
	found := false
	for _, field := range []string{"rules", "roleRef", "subjects"} {
		one, has := a.Object[field]
		other, too := b.Object[field]
		if has != too || has && !exchange.EqualJSON(one, other) {
			return false
		}
		found = found || has
	}
	return found
}

// delete deletes an object that the hub keeps here, and nothing else.
func (m *Member) delete(ctx context.Context, k schema.GroupVersionResource, c Change, hub string, pend func(Ref, string)) {
	objects := m.Objects.Resource(k)
	now, err := objects.Get(ctx, c.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || err == nil && (now.GetLabels()[LabelFleet] != hub || now.GetDeletionTimestamp() != nil) {
		return
	}
	if err == nil && k.Resource == "workspaces" {
		now, err = m.propagate(ctx, now, c.Propagation)
	}
	if err == nil {
		uid, version := now.GetUID(), now.GetResourceVersion()
		err = objects.Delete(ctx, c.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid, ResourceVersion: &version}})
	}
	if err != nil && !apierrors.IsNotFound(err) {
		pend(c.Ref, reason(err))
	}
}

// propagate writes into a workspace what becomes of its namespaces when it is deleted: they stay, unless the hub says otherwise (F28).
func (m *Member) propagate(ctx context.Context, w *unstructured.Unstructured, propagation string) (*unstructured.Unstructured, error) {
	if propagation == "" {
		propagation = string(metav1.DeletePropagationOrphan)
	}
	annotations := w.GetAnnotations()
	if annotations[tenantv1beta1.AnnotationDeletionPropagation] == propagation {
		return w, nil
	}
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[tenantv1beta1.AnnotationDeletionPropagation] = propagation
	w.SetAnnotations(annotations)
	return m.Objects.Resource(kinds[0]).Update(ctx, w, metav1.UpdateOptions{})
}

// reason returns what the hub is told of an error.
func reason(err error) string {
	text := exchange.Explained(err).Error()
	if len(text) > 500 {
		text = text[:500]
	}
	return text
}
