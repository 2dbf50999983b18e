package resourcequota

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	quotav1alpha2 "kapis.dev/ks-apiserver/pkg/api/quota/v1alpha2"
)

// Path is the path of the Validator's webhook.
const Path = "/validate-quota-kubesphere-io-v1alpha2"

// Validator refuses requests that would use more than a ResourceQuota has left. Before it allows a request, it reserves the amounts in
// the status of the quota, so that concurrent requests at any replica together get no more than there is. It is asked about creations
// of limited objects, and about updates of pods/resize, services and persistentvolumeclaims.
type Validator struct {
	// Client reads the quotas and the workspaces of namespaces from the cache.
	Client  client.Reader
	batcher reservationBatcher
}

var _ admission.Handler = (*Validator)(nil)

// NewValidator returns a Validator. cached reads quotas and namespaces, live reads the current state of a quota, and write writes
// its status.
func NewValidator(cached, live client.Reader, write client.StatusClient) *Validator {
	return &Validator{Client: cached, batcher: reservationBatcher{live: live, write: write}}
}

// Handle implements admission.Handler. If a quota can't be read, the request is refused.
func (v *Validator) Handle(ctx context.Context, req admission.Request) admission.Response {
	quotas, err := v.quotas(ctx, req.Namespace)
	if err != nil {
		return admission.Errored(http.StatusInternalServerError, err)
	}
	if len(quotas) == 0 || !asksForMore(&req) {
		return admission.Allowed("")
	}
	after, pod, err := measure(&req, req.Object.Raw)
	if err != nil {
		return admission.Errored(http.StatusBadRequest, err)
	}
	var before *use
	if req.Operation == admissionv1.Update {
		if before, _, err = measure(&req, req.OldObject.Raw); err != nil {
			return admission.Errored(http.StatusBadRequest, err)
		}
	}
	err = v.reserveAll(ctx, quotas, before, after, pod, req.DryRun != nil && *req.DryRun)
	var no *refusal
	switch {
	case errors.As(err, &no):
		return admission.Denied(no.message)
	case err != nil:
		return admission.Errored(http.StatusInternalServerError, err)
	}
	return admission.Allowed("")
}

// quotas returns those that select a namespace, by name: all requests reserve in the same order.
func (v *Validator) quotas(ctx context.Context, namespace string) ([]*quotav1alpha2.ResourceQuota, error) {
	list := &quotav1alpha2.ResourceQuotaList{}
	err := v.Client.List(ctx, list, client.UnsafeDisableDeepCopy)
	if meta.IsNoMatchError(err) || err == nil && len(list.Items) == 0 || namespace == "" {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list resource quotas: %w", err)
	}
	ns := &corev1.Namespace{}
	if err := v.Client.Get(ctx, types.NamespacedName{Name: namespace}, ns); err != nil {
		if !apierrors.IsNotFound(err) {
			return nil, fmt.Errorf("read which workspace namespace %q belongs to: %w", namespace, err)
		}
		// The namespace may be too new for the cache.
		if err := v.batcher.live.Get(ctx, types.NamespacedName{Name: namespace}, ns); err != nil {
			if apierrors.IsNotFound(err) {
				return nil, nil // nothing can be created in it
			}
			return nil, fmt.Errorf("read which workspace namespace %q belongs to: %w", namespace, err)
		}
	}
	var out []*quotav1alpha2.ResourceQuota
	for i := range list.Items {
		if selects(&list.Items[i], ns.Labels) {
			out = append(out, &list.Items[i])
		}
	}
	slices.SortFunc(out, func(a, b *quotav1alpha2.ResourceQuota) int {
		if a.Name < b.Name {
			return -1
		}
		return 1
	})
	return out, nil
}

// asksForMore reports whether a request could use more. A write of a status, a binding of a pod or a deletion can't.
func asksForMore(req *admission.Request) bool {
	switch req.Operation {
	case admissionv1.Create:
		return req.SubResource == ""
	case admissionv1.Update:
		gr := schema.GroupResource{Group: req.Resource.Group, Resource: req.Resource.Resource}
		return req.SubResource == "" && (gr == services() || gr == claims() || gr == pods()) || req.SubResource == "resize" && gr == pods()
	}
	return false
}

// measure returns what the object of a request uses, and the pod if it is one.
func measure(req *admission.Request, raw []byte) (u *use, pod *corev1.Pod, err error) {
	gr := schema.GroupResource{Group: req.Resource.Group, Resource: req.Resource.Resource}
	read := func(into any) {
		if err = json.Unmarshal(raw, into); err != nil {
			err = fmt.Errorf("read the %s of the request: %w", gr, err)
		}
	}
	switch gr {
	case pods():
		pod = &corev1.Pod{}
		read(pod)
		return ofPod(pod), pod, err
	case services():
		s := &corev1.Service{}
		read(s)
		return ofService(s), nil, err
	case claims():
		c := &corev1.PersistentVolumeClaim{}
		read(c)
		return ofClaim(c), nil, err
	}
	return counted(gr), nil, nil
}

// reserveAll reserves in all quotas, or in none.
func (v *Validator) reserveAll(ctx context.Context, quotas []*quotav1alpha2.ResourceQuota, before, after *use, pod *corev1.Pod,
	dry bool) error {
	type taken struct {
		name    string
		amounts corev1.ResourceList
	}
	var all []taken
	for _, q := range quotas {
		spec := &q.Spec.Quota
		if !scoped(spec, after) {
			continue
		}
		if pod != nil && before == nil {
			if missing := unlimited(pod, spec.Hard); missing != "" {
				return &refusal{fmt.Sprintf("failed quota: %s: must specify %s", q.Name, missing)}
			}
		}
		was := before
		if was != nil && !scoped(spec, was) {
			was = nil
		}
		if more := growth(was, after, spec.Hard); len(more) > 0 {
			all = append(all, taken{q.Name, more})
		}
	}
	for i, t := range all {
		err := v.batcher.reserve(ctx, t.name, order{amounts: t.amounts, dry: dry})
		if err == nil {
			continue
		}
		for _, done := range all[:i] {
			if !dry {
				// If this fails, the reservation expires.
				_ = v.batcher.reserve(ctx, done.name, order{amounts: done.amounts, back: true})
			}
		}
		return err
	}
	return nil
}
