package workloadtemplate

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"strings"

	restful "github.com/emicklei/go-restful/v3"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	sigsjson "sigs.k8s.io/json"

	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/caller"
	"kapis.dev/ks-apiserver/pkg/status"
	"kapis.dev/ks-apiserver/pkg/web"
)

const (
	// synthetic is the group that may write templates at kube-apiserver, and list them before that. It is asserted for what this package
	// sends alone. config/rbac/workload-templates.yaml lets it write no Secret that is none.
	synthetic = "kapis:platform:workloadtemplates"
	// platform is the namespace whose Secrets are the platform's own, some of them known by their names alone.
	platform = "kubesphere-system"
	// maxBody bounds the body of a write: what a Secret holds (1 MiB), and room for its encoding.
	maxBody = 2 << 20
)

var typeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}

func (h *V1alpha1) create(r *restful.Request) (any, error) {
	q, err := web.WriteParameters(r.Request)
	if err != nil {
		return nil, err
	}
	body, err := read(r)
	if err != nil {
		return nil, err
	}
	if body.GenerateName == "" && !isName(body.Name) {
		return nil, status.BadRequestf("metadata.name %.253q: want the name of a Secret, such as web-1", body.Name)
	}
	next := &corev1.Secret{TypeMeta: typeMeta, Type: secretType, ObjectMeta: metav1.ObjectMeta{
		Namespace: r.PathParameter("namespace"), Name: body.Name, GenerateName: body.GenerateName}}
	edit(next, body)
	return h.send(r.Request, body.Name, caller.Order{Method: http.MethodPost, Path: path(next.Namespace, ""), Query: q}, next)
}

func (h *V1alpha1) update(r *restful.Request) (any, error) {
	q, err := web.WriteParameters(r.Request)
	if err != nil {
		return nil, err
	}
	body, err := read(r)
	if err != nil {
		return nil, err
	}
	namespace, name := r.PathParameter("namespace"), r.PathParameter("workloadtemplate")
	if body.Name != "" && body.Name != name {
		return nil, status.BadRequestf("metadata.name is %.253q, and the path names %.253q", body.Name, name)
	}
	return caller.Change(r.Request.Context(), caller.Seen{Resource: templates, Name: name, Version: body.ResourceVersion},
		func(context.Context) (*corev1.Secret, error) { return h.now(r.Request, namespace, name, body.UID) },
		func(_ context.Context, now *corev1.Secret) (*corev1.Secret, error) {
			edit(now, body)
			return h.send(r.Request, name, caller.Order{Method: http.MethodPut, Path: path(namespace, name), Query: q}, now)
		})
}

func (h *V1alpha1) delete(r *restful.Request) (any, error) {
	options, err := web.ReadDeleteOptions(r.Request)
	if err != nil {
		return nil, err
	}
	namespace, name := r.PathParameter("namespace"), r.PathParameter("workloadtemplate")
	if err := writable(namespace); err != nil {
		return nil, err
	}
	_, err = caller.Remove(r.Request.Context(), caller.Seen{Resource: templates, Name: name}, *options,
		func(context.Context) (*corev1.Secret, error) { return h.now(r.Request, namespace, name, "") },
		func(_ context.Context, _ *corev1.Secret, bound metav1.DeleteOptions) (any, error) {
			order, err := caller.Deletion(path(namespace, name), bound, nil)
			if err != nil {
				return nil, err
			}
			_, err = h.AsCaller.Do(asserted(r.Request), implied(r.Request, order))
			return nil, named(err, name)
		})
	if err != nil {
		return nil, err
	}
	return map[string]string{"message": "success"}, nil
}

// writable returns why no template is written in a namespace, or nil.
func writable(namespace string) error {
	switch {
	case namespace == platform:
		return status.Forbiddenf("the namespace %s has no templates: its Secrets are the platform's own", platform)
	case len(validation.IsDNS1123Label(namespace)) > 0:
		return apierrors.NewNotFound(corev1.Resource("namespaces"), namespace)
	}
	return nil
}

// read returns the Secret in the body of a write, which says nothing that a template can't be.
func read(r *restful.Request) (*corev1.Secret, error) {
	namespace := r.PathParameter("namespace")
	if err := writable(namespace); err != nil {
		return nil, err
	}
	raw, err := web.ReadBody(r.Request, maxBody)
	if err != nil {
		return nil, err
	}
	body := &corev1.Secret{}
	// Pages send members that no Secret has, such as the cluster. Nothing but what edit takes is sent on.
	strict, err := sigsjson.UnmarshalStrict(raw, body, sigsjson.DisallowDuplicateFields)
	if err == nil && len(strict) > 0 {
		err = strict[0]
	}
	switch {
	case err != nil: // its text may repeat what the body has
		return nil, status.BadRequestf("the body is no Secret as JSON, or has a member twice")
	case body.Kind != "" && body.Kind != typeMeta.Kind, body.APIVersion != "" && body.APIVersion != typeMeta.APIVersion:
		return nil, status.BadRequestf("the body is a %.63q of %.63q, and not a Secret of v1", body.Kind, body.APIVersion)
	case body.Type != "" && body.Type != secretType:
		return nil, status.BadRequestf("type is %.253q, and that of a template is %s", body.Type, secretType)
	case body.Namespace != "" && body.Namespace != namespace:
		return nil, status.BadRequestf("metadata.namespace is %.63q, and the path names %.63q", body.Namespace, namespace)
	}
	for key, value := range body.Labels {
		if reserved(key, value) {
			return nil, status.BadRequestf("metadata.labels: %.253q gives a Secret a meaning of its own, which a template has not", key)
		}
	}
	return body, nil
}

// reserved reports whether a label makes a Secret something that others act upon: a configuration of the platform, or a release of Helm.
// The policy in config/rbac/workload-templates.yaml refuses the same labels.
func reserved(key, value string) bool {
	domain, _, _ := strings.Cut(key, "/")
	return domain == "config.kubesphere.io" || domain == "kapis.dev" || strings.HasSuffix(domain, ".kapis.dev") ||
		key == "owner" && value == "helm"
}

// edit replaces what a write replaces.
func edit(now, by *corev1.Secret) {
	now.Labels = maps.Clone(by.Labels)
	if now.Labels == nil {
		now.Labels = map[string]string{}
	}
	now.Labels[label] = labelValue
	now.Annotations, now.Immutable = by.Annotations, by.Immutable
	if by.Data != nil || by.StringData != nil { // an item of a list across namespaces has neither, and is sent back so
		now.Data, now.StringData = by.Data, by.StringData
	}
}

// now returns a template as kube-apiserver has it, which selects it, and it is checked again: no other Secret of the name is found. uid is
// the one that it must have, empty for any.
func (h *V1alpha1) now(r *http.Request, namespace, name string, uid types.UID) (*corev1.Secret, error) {
	if !isName(name) {
		return nil, apierrors.NewNotFound(templates, name)
	}
	list := &corev1.SecretList{}
	err := h.AsCaller.Into(asserted(r), implied(r, caller.Order{Method: http.MethodGet, Path: path(namespace, ""), Query: url.Values{
		"fieldSelector": {"metadata.name=" + name + ",type=" + secretType}, "labelSelector": {label + "=" + labelValue},
	}}), secrets.GroupResource(), list)
	if err != nil {
		return nil, err
	}
	for i := range list.Items {
		s := &list.Items[i]
		switch {
		case s.Name != name || s.Namespace != namespace || s.Type != secretType || s.Labels[label] != labelValue:
		case uid != "" && uid != s.UID:
			return nil, caller.Modified(templates, name)
		default:
			return s, nil
		}
	}
	return nil, apierrors.NewNotFound(templates, name)
}

// send writes a template, and returns what it became.
func (h *V1alpha1) send(r *http.Request, name string, order caller.Order, s *corev1.Secret) (*corev1.Secret, error) {
	s.TypeMeta, s.ManagedFields = typeMeta, nil
	var err error
	if order.Body, err = json.Marshal(s); err != nil {
		return nil, fmt.Errorf("encode the template %s/%s: %w", s.Namespace, name, err)
	}
	out := &corev1.Secret{}
	err = h.AsCaller.Into(asserted(r), implied(r, order), secrets.GroupResource(), out)
	switch {
	case apierrors.IsNotFound(err) && order.Method == http.MethodPost: // the namespace
		return nil, err
	case err != nil:
		return nil, named(err, name)
	}
	return out, nil
}

func path(namespace, name string) string {
	out := "/api/v1/namespaces/" + namespace + "/secrets"
	if name != "" {
		out += "/" + name
	}
	return out
}

// asserted returns the context of what the right to a request for a template implies.
func asserted(r *http.Request) context.Context {
	d := authz.DecisionFrom(r.Context())
	d.Group = synthetic
	return authz.WithDecision(r.Context(), d)
}

func implied(r *http.Request, o caller.Order) caller.Order {
	o.For, o.Implied = r, true
	return o
}
