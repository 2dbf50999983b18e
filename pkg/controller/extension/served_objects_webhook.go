package extension

import (
	"cmp"
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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	webhook "sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"kapis.dev/ks-apiserver/pkg/api/extensions/v1alpha1"
	platform "kapis.dev/ks-apiserver/pkg/api/kubesphere/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/extension"
	"kapis.dev/ks-apiserver/pkg/extension/permission"
)

// The paths of the webhooks. Existing installations have configurations with those of the single kinds.
const (
	DefaultPath  = "/mutate-extensions-kubesphere-io-v1alpha1"
	ValidatePath = "/validate-extensions-kubesphere-io-v1alpha1"
)

// Resources are the resources that the webhooks validate.
func Resources() []string {
	return []string{"apiservices", "extensionentries", "jsbundles", "reverseproxies"}
}

// Defaulter gives objects of extensions a state, since pages read that of each, and bundles a link. It notes what access tokens of callers
// are asked for.
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
	noteForward(req, o)
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
		return webhook.Allowed("").WithWarnings(warnings(req)...)
	case errors.As(err, &refused):
		response := webhook.Errored(refused.code, err)
		if refused.code == http.StatusConflict {
			response.Result.Reason = metav1.StatusReasonAlreadyExists // and not Conflict, by which clients write the same again
		}
		return response
	}
	return webhook.Errored(http.StatusInternalServerError, err)
}

// warnings are what the writer of an APIService or a ReverseProxy should know of its backend.
func warnings(req webhook.Request) (out []string) {
	var o struct {
		metav1.ObjectMeta `json:"metadata"`

		Spec struct {
			v1alpha1.Endpoint
			Upstream v1alpha1.Endpoint
		}
	}
	if json.Unmarshal(req.Object.Raw, &o) != nil || req.Resource.Resource != "apiservices" && req.Resource.Resource != "reverseproxies" {
		return nil
	}
	field, e := "spec", &o.Spec.Endpoint
	if req.Resource.Resource == "reverseproxies" {
		field, e = "spec.upstream", &o.Spec.Upstream
	}
	a, err := extension.ParseEndpoint(e)
	if err != nil {
		return nil // of an object that was there before
	}
	switch {
	case a.Scheme == "http":
		out = append(out, field+": plain http shows the network what users ask, and the tokens that say who asks")
	case a.Insecure:
		out = append(out, field+".insecureSkipVerify: the certificate is not verified, so whoever is between reads and answers what users ask")
	}
	if extension.AsksForward(&o.ObjectMeta) {
		out = append(out, "metadata.annotations["+v1alpha1.AnnotationForward+"]: the backend gets the access tokens of its callers")
	}
	if a.Path != "" && req.Resource.Resource == "apiservices" {
		out = append(out, "spec: the path of the backend is not used: requests keep theirs, or begin with the annotation "+
			v1alpha1.AnnotationRoot)
	}
	return out
}

// refusal is an error that the writer can do something about, and its code.
type refusal struct {
	error

	code int32
}

func (r *refusal) Unwrap() error { return r.error }

// refuse refuses content; nil is no refusal.
func refuse(err error) error {
	if err == nil {
		return nil
	}
	return &refusal{err, http.StatusUnprocessableEntity}
}

// forbid refuses what the writer has no right to.
func forbid(format string, args ...any) error {
	return &refusal{fmt.Errorf(format, args...), http.StatusForbidden}
}

// taken refuses what another object has already.
func taken(format string, args ...any) error {
	return &refusal{fmt.Errorf(format, args...), http.StatusConflict}
}

// judged is the part of an object that is validated.
type judged struct {
	Labels map[string]string
	// Annotations are by their very names: a struct would take them in any case of their letters.
	Annotations map[string]string
	Spec        any
	Link        string
}

// judgedOf reads an object; nil for none, and for one that can't be read.
func judgedOf(raw []byte, annotations ...string) *judged {
	var o struct {
		Metadata metav1.ObjectMeta
		Spec     any
		Status   struct{ Link string }
	}
	if json.Unmarshal(raw, &o) != nil {
		return nil
	}
	out := &judged{Labels: o.Metadata.Labels, Annotations: map[string]string{}, Spec: o.Spec, Link: o.Status.Link}
	for _, key := range annotations {
		out.Annotations[key] = o.Metadata.Annotations[key]
	}
	return out
}

// unchanged reports whether an update leaves everything that is validated, and some annotations, as they were.
func unchanged(req webhook.Request, annotations ...string) bool {
	now, old := judgedOf(req.Object.Raw, annotations...), judgedOf(req.OldObject.Raw, annotations...)
	return now != nil && old != nil && equality.Semantic.DeepEqual(now, old)
}

// judge reads the object of a request. An update that changes only its status or its other metadata is not judged: what was there before
// this webhook can be disabled, and deleted.
func judge[T client.Object](ctx context.Context, req webhook.Request, o T, by func(context.Context, webhook.Request, T) error) error {
	if err := json.Unmarshal(req.Object.Raw, o); err != nil {
		return refuse(errors.New("the object can't be read"))
	}
	if req.Operation == admissionv1.Update &&
		unchanged(req, v1alpha1.AnnotationRoot, v1alpha1.AnnotationForward, v1alpha1.AnnotationApprovedForward) {
		return nil
	}
	return by(ctx, req, o)
}

// leadsWithin refuses an object of an installed extension whose backends, by their fields, are neither Services of its namespace nor at
// hosts that were approved with its plan. An object that no plan is there for is its writer's, as one without the label.
func (v *Validator) leadsWithin(ctx context.Context, o client.Object, to map[string]*v1alpha1.Endpoint) error {
	name, plan := o.GetLabels()[v1alpha1.LabelExtension], &platform.InstallPlan{}
	if name == "" || len(to) == 0 {
		return nil
	}
	if err := v.Live.Get(ctx, client.ObjectKey{Name: name}, plan); err != nil {
		return client.IgnoreNotFound(err)
	}
	namespace := plan.Status.TargetNamespace
	if namespace == "" { // nothing of it is installed yet, as in a preview
		version := &platform.ExtensionVersion{}
		err := v.Live.Get(ctx, client.ObjectKey{Name: platform.ExtensionVersionName(name, plan.Spec.Extension.Version)}, version)
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("read the version of the extension %s: %w", name, err)
		}
		if namespace = platform.ExtensionNamespace(name); err == nil {
			namespace = permission.NamespaceOf(version)
		}
	}
	for field, e := range to {
		address, err := extension.ParseEndpoint(e)
		if err != nil {
			return refuse(fmt.Errorf("%s: %w", field, err))
		}
		if err := permission.CheckUpstream(plan, namespace, address.Hostname()); err != nil {
			return forbid("%s: %w", field, err)
		}
	}
	return nil
}

func (v *Validator) apiService(ctx context.Context, req webhook.Request, o *v1alpha1.APIService) error {
	if err := extension.CheckAPIService(o, v.Taken); err != nil {
		return refuse(err)
	}
	if err := v.mayForward(ctx, req.UserInfo, o); err != nil {
		return err
	}
	if err := v.leadsWithin(ctx, o, map[string]*v1alpha1.Endpoint{"spec": &o.Spec.Endpoint}); err != nil {
		return err
	}
	all := &v1alpha1.APIServiceList{}
	if err := v.Live.List(ctx, all); err != nil {
		return fmt.Errorf("list APIServices: %w", err)
	}
	for i := range all.Items {
		if is := &all.Items[i]; is.Name != o.Name && is.Spec.Group == o.Spec.Group && is.Spec.Version == o.Spec.Version {
			return taken("spec.group, spec.version: the APIService %s has %s/%s already", is.Name, o.Spec.Group, o.Spec.Version)
		}
	}
	return nil
}

func (v *Validator) reverseProxy(ctx context.Context, req webhook.Request, o *v1alpha1.ReverseProxy) error {
	if err := extension.CheckReverseProxy(o); err != nil {
		return refuse(err)
	}
	if err := v.mayForward(ctx, req.UserInfo, o); err != nil {
		return err
	}
	if err := v.leadsWithin(ctx, o, map[string]*v1alpha1.Endpoint{"spec.upstream": &o.Spec.Upstream}); err != nil {
		return err
	}
	all := &v1alpha1.ReverseProxyList{}
	if err := v.Live.List(ctx, all); err != nil {
		return fmt.Errorf("list ReverseProxies: %w", err)
	}
	for i := range all.Items {
		if is := &all.Items[i]; is.Name != o.Name && extension.Takes(o, is) {
			m := &is.Spec.Matcher
			return taken("spec.matcher: the ReverseProxy %s matches %s %s already", is.Name, cmp.Or(m.Method, "*"), m.Path)
		}
	}
	return nil
}

func (v *Validator) jsBundle(ctx context.Context, req webhook.Request, o *v1alpha1.JSBundle) error {
	if err := extension.CheckJSBundle(o); err != nil {
		return refuse(err)
	}
	if err := v.leadsWithin(ctx, o, extension.Sources(o)); err != nil {
		return err
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
				return taken("the JSBundle %s has the link %s already", is.Name, link)
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
				return forbid("a bundle is read by everybody, and %q may not get %s %q in the namespace %q", req.UserInfo.Username, resource,
					r.Name, r.Namespace)
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
				return taken("the ExtensionEntry %s has an entry of the name %.100q or the link %.200q already", is.Name, e.Name, e.Link)
			}
		}
	}
	return nil
}
