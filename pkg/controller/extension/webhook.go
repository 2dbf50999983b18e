package extension

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"

	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	webhook "sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"kapis.dev/ks-apiserver/pkg/api/extensions/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/extension"
)

// The paths of the webhooks. Existing installations have configurations with those of the single kinds.
const (
	DefaultPath  = "/mutate-extensions-kubesphere-io-v1alpha1"
	ValidatePath = "/validate-extensions-kubesphere-io-v1alpha1"
)

// Resources are those that the webhooks judge.
func Resources() []string {
	return []string{"apiservices", "extensionentries", "jsbundles", "reverseproxies"}
}

// Defaulter gives objects of extensions a state, since pages read that of each, and bundles a link.
type Defaulter struct{}

// Handle implements webhook.Handler.
func (Defaulter) Handle(_ context.Context, req webhook.Request) webhook.Response {
	var o, old map[string]any
	if err := json.Unmarshal(req.Object.Raw, &o); err != nil {
		return webhook.Errored(http.StatusBadRequest, errors.New("the object can't be read"))
	}
	if len(req.OldObject.Raw) > 0 && json.Unmarshal(req.OldObject.Raw, &old) != nil {
		return webhook.Errored(http.StatusBadRequest, errors.New("the object can't be read"))
	}
	status, _ := o["status"].(map[string]any)
	if status == nil {
		if status, _ = old["status"].(map[string]any); status == nil { // a write without it does not take it away
			status = map[string]any{}
		}
	}
	if state, _ := status["state"].(string); state == "" {
		status["state"] = v1alpha1.StateAvailable
	}
	if link, _ := status["link"].(string); link == "" && req.Resource.Resource == "jsbundles" {
		meta, _ := o["metadata"].(map[string]any)
		name, _ := meta["name"].(string)
		status["link"] = extension.DefaultLink(name)
	}
	o["status"] = status
	raw, err := json.Marshal(o)
	if err != nil {
		return webhook.Errored(http.StatusInternalServerError, fmt.Errorf("encode the object: %w", err))
	}
	return webhook.PatchResponseFromRaw(req.Object.Raw, raw)
}

// Validator refuses objects of extensions that nothing would be served of, and those whose path, group or link another one has. Of two that
// are written at the same moment both may be there: then the older one is served.
type Validator struct {
	// Live reads without a cache.
	Live client.Reader
	// Taken reports whether a group and version is served by ks-apiserver itself.
	Taken func(schema.GroupVersion) bool
	// May reports whether a user may do something.
	May func(ctx context.Context, u authenticationv1.UserInfo, what authorizationv1.ResourceAttributes) (bool, error)
}

// Handle implements webhook.Handler.
func (v *Validator) Handle(ctx context.Context, req webhook.Request) webhook.Response {
	var err error
	switch req.Resource.Resource {
	case "apiservices":
		err = judge(ctx, req, &v1alpha1.APIService{}, v.apiService)
	case "reverseproxies":
		err = judge(ctx, req, &v1alpha1.ReverseProxy{}, v.reverseProxy)
	case "jsbundles":
		err = judge(ctx, req, &v1alpha1.JSBundle{}, v.jsBundle)
	case "extensionentries":
		err = judge(ctx, req, &v1alpha1.ExtensionEntry{}, v.extensionEntry)
	}
	var refused *refusal
	switch {
	case err == nil:
		return webhook.Allowed("")
	case errors.As(err, &refused):
		return webhook.Denied(err.Error())
	}
	return webhook.Errored(http.StatusInternalServerError, err)
}

// refusal is an error that the writer can do something about.
type refusal struct{ error }

func (r *refusal) Unwrap() error { return r.error }

func refuse(err error) error {
	if err == nil {
		return nil
	}
	return &refusal{err}
}

// judge reads the object of a request. An update that changes only its status or its other metadata is not judged: what was there before
// this webhook can be disabled, and deleted.
func judge[T client.Object](ctx context.Context, req webhook.Request, o T, by func(context.Context, webhook.Request, T) error) error {
	if err := json.Unmarshal(req.Object.Raw, o); err != nil {
		return refuse(errors.New("the object can't be read"))
	}
	if req.Operation == admissionv1.Update {
		type judged struct {
			Metadata struct{ Labels map[string]string }
			Spec     any
			Status   struct{ Link string }
		}
		var now, old judged
		if json.Unmarshal(req.Object.Raw, &now) == nil && json.Unmarshal(req.OldObject.Raw, &old) == nil && equality.Semantic.DeepEqual(now, old) {
			return nil
		}
	}
	return by(ctx, req, o)
}

func (v *Validator) apiService(ctx context.Context, _ webhook.Request, o *v1alpha1.APIService) error {
	if err := extension.CheckAPIService(o, v.Taken); err != nil {
		return refuse(err)
	}
	all := &v1alpha1.APIServiceList{}
	if err := v.Live.List(ctx, all); err != nil {
		return fmt.Errorf("list APIServices: %w", err)
	}
	for i := range all.Items {
		if is := &all.Items[i]; is.Name != o.Name && is.Spec.Group == o.Spec.Group && is.Spec.Version == o.Spec.Version {
			return refuse(fmt.Errorf("spec.group, spec.version: the APIService %s has %s/%s already", is.Name, o.Spec.Group, o.Spec.Version))
		}
	}
	return nil
}

func (v *Validator) reverseProxy(ctx context.Context, _ webhook.Request, o *v1alpha1.ReverseProxy) error {
	if err := extension.CheckReverseProxy(o); err != nil {
		return refuse(err)
	}
	all := &v1alpha1.ReverseProxyList{}
	if err := v.Live.List(ctx, all); err != nil {
		return fmt.Errorf("list ReverseProxies: %w", err)
	}
	matches := extension.Matches(o)
	for i := range all.Items {
		if is := &all.Items[i]; is.Name != o.Name && matches != "" && extension.Matches(is) == matches {
			return refuse(fmt.Errorf("spec.matcher: the ReverseProxy %s matches %s already", is.Name, matches))
		}
	}
	return nil
}

func (v *Validator) jsBundle(ctx context.Context, req webhook.Request, o *v1alpha1.JSBundle) error {
	if err := extension.CheckJSBundle(o); err != nil {
		return refuse(err)
	}
	all := &v1alpha1.JSBundleList{}
	if err := v.Live.List(ctx, all); err != nil {
		return fmt.Errorf("list JSBundles: %w", err)
	}
	links := extension.Links(o)
	for i := range all.Items {
		is := &all.Items[i]
		for _, link := range extension.Links(is) {
			if is.Name != o.Name && slices.Contains(links, link) {
				return refuse(fmt.Errorf("the JSBundle %s has the link %s already", is.Name, link))
			}
		}
	}
	maps, secrets := extension.References(o)
	for resource, references := range map[string][]v1alpha1.KeyReference{"configmaps": maps, "secrets": secrets} {
		for _, r := range references {
			may, err := v.May(ctx, req.UserInfo, authorizationv1.ResourceAttributes{Verb: "get", Version: "v1", Resource: resource,
				Namespace: r.Namespace, Name: r.Name})
			if err != nil {
				return err
			}
			if !may {
				return refuse(fmt.Errorf("a bundle is read by everybody, and %q may not get %s %q in the namespace %q", req.UserInfo.Username, resource,
					r.Name, r.Namespace))
			}
		}
	}
	return nil
}

func (v *Validator) extensionEntry(ctx context.Context, _ webhook.Request, o *v1alpha1.ExtensionEntry) error {
	own, err := extension.Entries(o)
	if err != nil {
		return refuse(err)
	}
	all := &v1alpha1.ExtensionEntryList{}
	if err := v.Live.List(ctx, all); err != nil {
		return fmt.Errorf("list ExtensionEntries: %w", err)
	}
	for i := range all.Items {
		is := &all.Items[i]
		if is.Name == o.Name {
			continue
		}
		theirs, err := extension.Entries(is)
		if err != nil {
			continue
		}
		for _, e := range own {
			if slices.ContainsFunc(theirs, func(t extension.Entry) bool {
				return e.Name != "" && t.Name == e.Name || e.Link != "" && t.Link == e.Link
			}) {
				return refuse(fmt.Errorf("the ExtensionEntry %s has an entry of the name %.100q or the link %.200q already", is.Name, e.Name, e.Link))
			}
		}
	}
	return nil
}
