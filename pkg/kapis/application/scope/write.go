package scope

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	restful "github.com/emicklei/go-restful/v3"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/ptr"

	v2 "kapis.dev/ks-apiserver/pkg/api/application/v2"
	"kapis.dev/ks-apiserver/pkg/appstore/release"
	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/caller"
	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/status"
	"kapis.dev/ks-apiserver/pkg/web"
)

const (
	// synthetic is the group that may write objects of the store at kube-apiserver. It is asserted for what this package sends alone.
	synthetic = "kapis:platform:appstore"
	// annotationCreator is who made an object.
	annotationCreator = "kubesphere.io/creator"
	subStatus         = "status"
	// discardTime bounds how long a request takes back what it has made.
	discardTime = 10 * time.Second
)

// Create creates an object as the caller, in the workspace of the path, and returns what it became. Without one in the path it is in the
// workspace of its label, or else the system's.
func (k Kind[O]) Create(s *Store, r *restful.Request, o O) (O, error) {
	var none O
	q, err := web.WriteParameters(r.Request)
	if err != nil {
		return none, err
	}
	if !IsName(o.GetName()) && o.GetGenerateName() == "" {
		return none, status.BadRequestf("%.253q is no name of an object: want lower case letters, digits, - and .", o.GetName())
	}
	at := path(r)
	if at.workspace != "" {
		setLabel(o, LabelWorkspace, at.workspace)
	} else if o.GetLabels()[LabelWorkspace] == "" {
		setLabel(o, LabelWorkspace, SystemWorkspace)
	}
	if at.namespace != "" {
		setLabel(o, LabelNamespace, at.namespace)
	}
	sign(r, o)
	setAnnotation(o, annotationCreator, request.UserFrom(r.Request.Context()).GetName())
	o.GetObjectKind().SetGroupVersionKind(k.typeMeta())
	body, err := json.Marshal(o)
	if err != nil {
		return none, fmt.Errorf("encode the %s %s: %w", k.name, o.GetName(), err)
	}
	return k.send(s, r, caller.Order{Method: http.MethodPost, Path: k.path("", ""), Query: q, Body: body})
}

// Taken returns an error of Create, and says what to do about a name that is there already: another workspace, whose objects the caller
// does not see, may have it.
func (k Kind[O]) Taken(name string, err error) error {
	if !apierrors.IsAlreadyExists(err) {
		return err
	}
	taken := apierrors.NewAlreadyExists(k.Resource(), name)
	taken.ErrStatus.Message = fmt.Sprintf("%.253q already exists, here or in another workspace: choose another name", name)
	return taken
}

// Change changes an object as the caller, bound to the version that edit has seen, and returns what it became. edit gets the object as
// kube-apiserver has it, without what no answer shows: that stays as it is, unless edit sets it. An edit that changes nothing writes
// nothing. The error of edit is returned as it is.
func (k Kind[O]) Change(s *Store, r *restful.Request, name string, edit func(O) error) (O, error) {
	return k.change(s, r, name, "", edit)
}

// ChangeStatus is Change for the status alone.
func (k Kind[O]) ChangeStatus(s *Store, r *restful.Request, name string, edit func(O) error) (O, error) {
	return k.change(s, r, name, subStatus, edit)
}

func (k Kind[O]) change(s *Store, r *restful.Request, name, sub string, edit func(O) error) (O, error) {
	var none O
	q, err := web.WriteParameters(r.Request)
	if err != nil {
		return none, err
	}
	return caller.Change(r.Request.Context(), caller.Seen{Resource: k.Resource(), Name: name},
		func(context.Context) (O, error) { return k.Live(s, r, name) },
		func(_ context.Context, now O) (O, error) {
			before, err := json.Marshal(now)
			if err != nil {
				return none, fmt.Errorf("encode the %s %s: %w", k.name, name, err)
			}
			if err := edit(now); err != nil {
				return none, err
			}
			body, err := difference(before, now)
			if err != nil || body == nil {
				return now, err
			}
			if sub == "" {
				sign(r, now)
				if body, err = difference(before, now); err != nil {
					return none, err
				}
			}
			return k.send(s, r, caller.Order{Method: http.MethodPatch, Path: k.path(name, sub), Query: q, Body: body,
				Type: string(types.MergePatchType)})
		})
}

// difference returns the merge patch that makes an object of what it was, bound to the version that it had; nil for none.
func difference(before []byte, now Object) ([]byte, error) {
	after, err := json.Marshal(now)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", now.GetName(), err)
	}
	patch, err := jsonpatch.CreateMergePatch(before, after)
	if err != nil {
		return nil, fmt.Errorf("compare %s with what it was: %w", now.GetName(), err)
	}
	all := map[string]any{}
	if err := json.Unmarshal(patch, &all); err != nil {
		return nil, fmt.Errorf("compare %s with what it was: %w", now.GetName(), err)
	}
	if len(all) == 0 {
		return nil, nil
	}
	meta, _ := all["metadata"].(map[string]any)
	if meta == nil {
		meta = map[string]any{}
	}
	meta["uid"], meta["resourceVersion"] = now.GetUID(), now.GetResourceVersion()
	all["metadata"] = meta
	return json.Marshal(all)
}

// Delete deletes an object as the caller, bound to the version that check has seen; a nil check allows.
func (k Kind[O]) Delete(s *Store, r *restful.Request, name string, check func(O) error) error {
	options, err := web.ReadDeleteOptions(r.Request)
	if err != nil {
		return err
	}
	_, err = caller.Remove(r.Request.Context(), caller.Seen{Resource: k.Resource(), Name: name}, *options,
		func(context.Context) (O, error) { return k.Live(s, r, name) },
		func(_ context.Context, now O, bound metav1.DeleteOptions) (any, error) {
			if check != nil {
				if err := check(now); err != nil {
					return nil, err
				}
			}
			return nil, k.delete(s, r, name, bound)
		})
	return err
}

// Discard deletes an object that the request itself has made, also for a caller who has gone, and whatever controllers have noted in it by
// now.
func (k Kind[O]) Discard(s *Store, r *restful.Request, made O) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Request.Context()), discardTime)
	defer cancel()
	again := *r
	again.Request = r.Request.WithContext(ctx)
	return k.delete(s, &again, made.GetName(), metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: ptr.To(made.GetUID())}})
}

func (k Kind[O]) delete(s *Store, r *restful.Request, name string, options metav1.DeleteOptions) error {
	order, err := caller.Deletion(k.path(name, ""), options, nil)
	if err != nil {
		return err
	}
	ctx, order := implied(r, order)
	_, err = s.AsCaller.Do(ctx, order)
	return err
}

// Live returns an object as kube-apiserver has it, if the path of the request may change it.
func (k Kind[O]) Live(s *Store, r *restful.Request, name string) (O, error) {
	var none O
	if !IsName(name) {
		return none, k.NotFound(name)
	}
	o, err := k.send(s, r, caller.Order{Method: http.MethodGet, Path: k.path(name, "")})
	if err != nil {
		return none, err
	}
	at, labels := path(r), o.GetLabels()
	if !at.changes(labels[LabelWorkspace], labels[LabelNamespace]) || at.names() && hasLeft(s.Namespaces, by(labels), s.Host) {
		return none, k.NotFound(name)
	}
	if release.IsElsewhereBy(by(labels), s.Host) {
		reaches, err := s.Reaches(r, labels[LabelWorkspace])
		if err != nil {
			return none, err
		}
		if !reaches {
			return none, k.NotFound(name)
		}
	}
	return o, nil
}

// Present returns an object as kube-apiserver has it, whoever may see it: for the server's own checks, where the caches would refuse what
// was written a moment ago.
func (k Kind[O]) Present(s *Store, r *restful.Request, name string) (O, error) {
	if !IsName(name) {
		var none O
		return none, k.NotFound(name)
	}
	return k.send(s, r, caller.Order{Method: http.MethodGet, Path: k.path(name, "")})
}

// send sends an order, and returns the object in the answer.
func (k Kind[O]) send(s *Store, r *restful.Request, order caller.Order) (O, error) {
	var none O
	out := k.new()
	ctx, order := implied(r, order)
	if err := s.AsCaller.Into(ctx, order, k.Resource(), out); err != nil {
		return none, err
	}
	out.GetObjectKind().SetGroupVersionKind(k.typeMeta())
	return out, nil
}

// implied returns an order as the right to the request implies it, and the context to send it in.
func implied(r *restful.Request, order caller.Order) (context.Context, caller.Order) {
	ctx := r.Request.Context()
	d := authz.DecisionFrom(ctx)
	d.Group = synthetic
	order.For, order.Implied = r.Request, true
	return authz.WithDecision(ctx, d), order
}

func (k Kind[O]) path(name, sub string) string {
	out := "/apis/" + v2.SchemeGroupVersion.String() + "/" + k.plural
	for _, segment := range []string{name, sub} {
		if segment != "" {
			out += "/" + segment
		}
	}
	return out
}

// sign records who asked for what an object says.
func sign(r *restful.Request, o Object) {
	setAnnotation(o, v2.AnnotationUser, request.UserFrom(r.Request.Context()).GetName())
	setAnnotation(o, v2.AnnotationSaved, "true")
}

func setLabel(o Object, key, value string) {
	all := o.GetLabels()
	if all == nil {
		all = map[string]string{}
	}
	all[key] = value
	o.SetLabels(all)
}

func setAnnotation(o Object, key, value string) {
	all := o.GetAnnotations()
	if all == nil {
		all = map[string]string{}
	}
	all[key] = value
	o.SetAnnotations(all)
}

// IsName reports whether a text can be the name of an object, and so a part of a path at kube-apiserver.
func IsName(text string) bool { return len(validation.IsDNS1123Subdomain(text)) == 0 }
