package cluster

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	restful "github.com/emicklei/go-restful/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	sigsjson "sigs.k8s.io/json"

	clusterv1alpha1 "kapis.dev/ks-apiserver/pkg/api/cluster/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/caller"
	"kapis.dev/ks-apiserver/pkg/status"
	"kapis.dev/ks-apiserver/pkg/store/index"
	"kapis.dev/ks-apiserver/pkg/web"
)

const (
	// labelBindings is the resource whose creation puts labels on clusters.
	labelBindings = "labelbindings"
	// actionUnbind is the action of an update that takes a label off clusters.
	actionUnbind = "unbind"

	// maxBody bounds a body that is no object, in bytes, and maxAtOnce how many labels, or clusters, it names.
	maxBody   = 64 << 10
	maxAtOnce = 100
	// The longest key and value of a label, in characters, as the definition of the kind has them.
	maxKey, maxValue = 316, 253
	// nameLength is the length of a generated name. letters are its characters: a multiple of their number is 256, so that all are equally
	// likely.
	nameLength = 8
	letters    = "abcdefghijkmnpqrstuvwxyz23456789"
	// nameAttempts bounds how often another name is generated where one is taken.
	nameAttempts = 5
)

var labelsResource = schema.GroupResource{Group: clusterv1alpha1.GroupName, Resource: labels}

// KeyValue is a label as pages write it.
type KeyValue struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

// Binding names labels, by the names of their objects, and the clusters that they are put on.
type Binding struct {
	Labels   []string `json:"labels"`
	Clusters []string `json:"clusters"`
}

// create creates Labels, and answers with them. If one of them is invalid, none is created.
func (h *V1alpha1) create(r *restful.Request) (any, error) {
	body, objects, err := peek(r, '[')
	if err != nil || objects {
		return h.object(r, err)
	}
	q, err := web.WriteParameters(r.Request)
	if err != nil {
		return nil, err
	}
	var asked []KeyValue
	if err := decode(body, &asked, `[{"key":"env","value":"live"}]`); err != nil {
		return nil, err
	}
	if err := count(len(asked), "labels"); err != nil {
		return nil, err
	}
	ctx := r.Request.Context()
	taken, err := h.taken(ctx, "")
	if err != nil {
		return nil, err
	}
	for _, l := range asked {
		if err := l.check(); err != nil {
			return nil, err
		}
		if taken[l] {
			return nil, duplicate(l)
		}
		taken[l] = true
	}
	out := make([]json.RawMessage, 0, len(asked))
	for _, l := range asked {
		made, err := h.createOne(ctx, l, q)
		if err != nil {
			return nil, after(err, "the label %q was not created, the %d before it were", l.Key, len(out))
		}
		out = append(out, made)
	}
	return out, nil
}

func (h *V1alpha1) createOne(ctx context.Context, l KeyValue, q url.Values) (json.RawMessage, error) {
	for attempt := 1; ; attempt++ {
		o := clusterv1alpha1.Label{
			TypeMeta:   metav1.TypeMeta{APIVersion: clusterv1alpha1.SchemeGroupVersion.String(), Kind: "Label"},
			ObjectMeta: metav1.ObjectMeta{Name: newName()}, Spec: clusterv1alpha1.LabelSpec{Key: l.Key, Value: l.Value},
		}
		body, err := json.Marshal(o)
		if err != nil {
			return nil, fmt.Errorf("encode a label: %w", err)
		}
		made, err := h.send(ctx, caller.Order{Method: http.MethodPost, Path: labelPath(""), Query: q, Body: body})
		if apierrors.IsAlreadyExists(err) && attempt < nameAttempts {
			continue
		}
		return made, err
	}
}

// newName returns a random name for a Label: keys may have characters that no name has.
func newName() string {
	b := make([]byte, nameLength)
	_, _ = rand.Read(b) // it never fails
	for i := range b {
		b[i] = letters[int(b[i])%len(letters)]
	}
	return string(b)
}

// delete deletes the Labels that the body names, each by the caller's right to delete it.
func (h *V1alpha1) delete(r *restful.Request) (any, error) {
	body, objects, err := peek(r, '[')
	if err != nil || objects {
		return h.object(r, err)
	}
	q, err := web.Parameters(r.Request, "dryRun")
	if err != nil {
		return nil, err
	}
	var names []string
	if err := decode(body, &names, `["a1b2c3d4"]`); err != nil {
		return nil, err
	}
	if err := checkNames(names, "labels"); err != nil {
		return nil, err
	}
	for i, name := range names {
		order, err := caller.Deletion(labelPath(name), metav1.DeleteOptions{}, q)
		if err != nil {
			return nil, err
		}
		// One that is gone is what the caller wants.
		if _, err := h.AsCaller.Do(r.Request.Context(), order); err != nil && !apierrors.IsNotFound(err) {
			return nil, after(err, "the label %q was not deleted, the %d before it were", name, i)
		}
	}
	return struct{}{}, nil
}

// update changes what a Label says, or takes it off clusters.
func (h *V1alpha1) update(r *restful.Request) (any, error) {
	action := r.QueryParameter("action")
	body, objects, err := peek(r, '{')
	if err != nil {
		return nil, err
	}
	if action == "" && !objects {
		var o struct {
			Kind     json.RawMessage `json:"kind"`
			Metadata json.RawMessage `json:"metadata"`
		}
		objects = json.Unmarshal(body, &o) == nil && (o.Kind != nil || o.Metadata != nil)
	}
	if action == "" && objects {
		return h.Objects(r)
	}
	q, err := web.Parameters(r.Request, "dryRun", "fieldManager", "fieldValidation")
	if err != nil {
		return nil, err
	}
	ctx, name := r.Request.Context(), r.PathParameter("label")
	switch action {
	case "":
		var l KeyValue
		if err := decode(body, &l, `{"key":"env","value":"live"}`); err != nil {
			return nil, err
		}
		if err := l.check(); err != nil {
			return nil, err
		}
		taken, err := h.taken(ctx, name)
		if err != nil {
			return nil, err
		}
		if taken[l] {
			return nil, duplicate(l)
		}
		return h.change(ctx, name, q, func(s *clusterv1alpha1.LabelSpec) { s.Key, s.Value = l.Key, l.Value })
	case actionUnbind:
		var b Binding
		if err := decode(body, &b, `{"clusters":["host"]}`); err != nil {
			return nil, err
		}
		if len(b.Labels) > 0 {
			return nil, status.BadRequestf("the label is the one in the path: the body names clusters only")
		}
		if err := checkNames(b.Clusters, "clusters"); err != nil {
			return nil, err
		}
		return h.change(ctx, name, q, func(s *clusterv1alpha1.LabelSpec) {
			s.Clusters = slices.DeleteFunc(s.Clusters, func(c string) bool { return slices.Contains(b.Clusters, c) })
		})
	}
	return nil, status.BadRequestf("there is no action %.100q of a label: leave it out to change the label, or say %s", action, actionUnbind)
}

// bind puts labels on clusters: it writes the clusters into the Labels, each by the caller's right to update it.
func (h *V1alpha1) bind(r *restful.Request) (any, error) {
	body, _, err := peek(r, '{')
	if err != nil {
		return nil, err
	}
	q, err := web.WriteParameters(r.Request)
	if err != nil {
		return nil, err
	}
	var b Binding
	if err := decode(body, &b, `{"labels":["a1b2c3d4"],"clusters":["host"]}`); err != nil {
		return nil, err
	}
	if err := checkNames(b.Labels, "labels"); err != nil {
		return nil, err
	}
	if err := checkNames(b.Clusters, "clusters"); err != nil {
		return nil, err
	}
	ctx, known := r.Request.Context(), map[string]bool{}
	if err := h.walk(ctx, "clusters", func(c *index.Record) { known[c.Name] = true }); err != nil {
		return nil, err
	}
	for _, c := range b.Clusters {
		if !known[c] {
			return nil, status.BadRequestf("there is no cluster %q: nothing was changed", c)
		}
	}
	for i, name := range b.Labels {
		_, err := h.change(ctx, name, q, func(s *clusterv1alpha1.LabelSpec) {
			for _, c := range b.Clusters {
				if !slices.Contains(s.Clusters, c) {
					s.Clusters = append(s.Clusters, c)
				}
			}
		})
		if err != nil {
			return nil, after(err, "the label %q was not put on clusters, the %d before it were", name, i)
		}
	}
	return struct{}{}, nil
}

// change writes the spec of a Label as the caller, in the version that was read.
func (h *V1alpha1) change(ctx context.Context, name string, q url.Values, edit func(*clusterv1alpha1.LabelSpec)) (any, error) {
	read := func(ctx context.Context) (*clusterv1alpha1.Label, error) {
		raw, err := h.send(ctx, caller.Order{Method: http.MethodGet, Path: labelPath(name)})
		if err != nil {
			return nil, err
		}
		now := &clusterv1alpha1.Label{}
		if err := json.Unmarshal(raw, now); err != nil {
			return nil, fmt.Errorf("read the label %q: %w", name, err)
		}
		return now, nil
	}
	return caller.Change(ctx, caller.Seen{Resource: labelsResource, Name: name}, read,
		func(ctx context.Context, now *clusterv1alpha1.Label) (any, error) {
			spec := now.Spec.DeepCopy()
			edit(spec)
			body, err := json.Marshal(map[string]any{
				"metadata": map[string]any{"resourceVersion": now.ResourceVersion},
				"spec":     map[string]any{"key": spec.Key, "value": spec.Value, "clusters": spec.Clusters},
			})
			if err != nil {
				return nil, fmt.Errorf("encode a label: %w", err)
			}
			return h.send(ctx, caller.Order{Method: http.MethodPatch, Path: labelPath(name), Query: q, Type: "application/merge-patch+json",
				Body: body})
		})
}

// send sends a write, and returns the Label in the answer, without its managedFields.
func (h *V1alpha1) send(ctx context.Context, order caller.Order) (json.RawMessage, error) {
	var o unstructured.Unstructured
	if err := h.AsCaller.Into(ctx, order, labelsResource, &o); err != nil {
		return nil, err
	}
	return o.MarshalJSON()
}

// taken returns the keys and values of all Labels but the one of a name.
func (h *V1alpha1) taken(ctx context.Context, but string) (map[KeyValue]bool, error) {
	out := map[KeyValue]bool{}
	err := h.walk(ctx, labels, func(l *index.Record) {
		if l.Name != but {
			out[KeyValue{l.JSON.GetText("spec", "key"), l.JSON.GetText("spec", "value")}] = true
		}
	})
	return out, err
}

// object answers the write of a Label as an object, whose body was read already.
func (h *V1alpha1) object(r *restful.Request, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	return h.Objects(r)
}

// peek reads the body of a request if it begins with first. Otherwise it is an object: the body is restored for the routes of objects.
func peek(r *restful.Request, first byte) (body []byte, objects bool, err error) {
	in := r.Request
	head := make([]byte, 1)
	n, err := io.ReadFull(in.Body, head)
	if err != nil && n > 0 || err != nil && !errors.Is(err, io.EOF) {
		return nil, false, status.BadRequestf("the body can't be read to its end")
	}
	rest := in.Body
	in.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(head[:n]), rest), rest}
	if n == 0 || head[0] != first {
		return nil, true, nil
	}
	body, err = web.ReadBody(in, maxBody)
	in.Body = io.NopCloser(bytes.NewReader(body))
	return body, false, err
}

// decode reads a body of the form that is described. Members that it does not have are ignored, as pages send some.
func decode(body []byte, into any, form string) error {
	strict, err := sigsjson.UnmarshalStrict(body, into, sigsjson.DisallowDuplicateFields)
	if err == nil && len(strict) > 0 {
		err = strict[0]
	}
	if err != nil {
		return status.BadRequestf("the body must have the form %s: %.200v", form, err)
	}
	return nil
}

func count(n int, what string) error {
	if n == 0 || n > maxAtOnce {
		return status.BadRequestf("the body names %d %s: name 1 to %d", n, what, maxAtOnce)
	}
	return nil
}

// checkNames refuses names that no object can have: they become a part of a path.
func checkNames(names []string, what string) error {
	if err := count(len(names), what); err != nil {
		return err
	}
	for _, name := range names {
		if wrong := validation.IsDNS1123Subdomain(name); len(wrong) > 0 {
			return status.BadRequestf("%.100q in the %s of the body can't be the name of an object: %s", name, what, wrong[0])
		}
	}
	return nil
}

func (l KeyValue) check() error {
	switch {
	case strings.TrimSpace(l.Key) == "":
		return status.BadRequestf("a label in the body has no key")
	case utf8.RuneCountInString(l.Key) > maxKey, utf8.RuneCountInString(l.Value) > maxValue:
		return status.BadRequestf("the label %.100q is too long: a key has up to %d characters, a value up to %d", l.Key, maxKey, maxValue)
	case strings.ContainsFunc(l.Key+l.Value, unicode.IsControl):
		return status.BadRequestf("the label %.100q has control characters", l.Key)
	}
	return nil
}

func duplicate(l KeyValue) error {
	return status.BadRequestf("there is a label %.100q with the value %.100q already, or it is named twice: nothing was created",
		l.Key, l.Value)
}

// after adds to the error of one of several writes which of the others were done.
func after(err error, format string, args ...any) error {
	var api *apierrors.StatusError
	if !errors.As(err, &api) {
		return fmt.Errorf(format+": %w", append(args, err)...)
	}
	s := api.ErrStatus.DeepCopy()
	s.Message = fmt.Sprintf(format, args...) + ": " + s.Message
	return &apierrors.StatusError{ErrStatus: *s}
}

func labelPath(name string) string {
	path := "/apis/" + clusterv1alpha1.SchemeGroupVersion.String() + "/" + labels
	if name != "" {
		path += "/" + name
	}
	return path
}
