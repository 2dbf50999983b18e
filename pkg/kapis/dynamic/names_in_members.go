package dynamic

import (
	"net/http"

	"kapis.dev/ks-apiserver/pkg/admission"
	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/web"
)

// NamesInMembers makes the escalation check of writes that are passed on to kube-apiserver, where they concern users and groups that
// bindings in member clusters name: the webhooks of ks-controller-manager, which has no links to members, can't know of these.
type NamesInMembers struct {
	Guard Guard
	// Users and Groups report whether bindings in members name a user, or a group; nil where there are no members.
	Users, Groups func(name string) bool
	// Kube passes requests on.
	Kube http.Handler
}

// ServeHTTP passes a request on, if it may be made.
func (n *NamesInMembers) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if err := n.check(r); err != nil {
		web.WriteError(w, r, err)
		return
	}
	n.Kube.ServeHTTP(w, r)
}

func (n *NamesInMembers) check(r *http.Request) error {
	info, by := request.InfoFrom(r.Context()), request.UserFrom(r.Context())
	if info == nil || by == nil || !info.IsResource || info.APIGroup != iamv1beta1.GroupName ||
		info.Subresource != "" && info.Subresource != "status" {
		return nil
	}
	bound := map[string]func(string) bool{"users": n.Users, "groups": n.Groups}[info.Resource]
	if bound == nil {
		return nil
	}
	w := &admission.Write{By: by, Verb: "create", GVR: iamv1beta1.SchemeGroupVersion.WithResource(info.Resource), Name: info.Name,
		Object: []byte("{}"), DryRun: r.URL.Query().Has("dryRun")}
	switch r.Method {
	case http.MethodPost:
		name, err := nameInBody(r)
		if err != nil {
			return err
		}
		w.Name = name
	case http.MethodPut, http.MethodPatch:
		if info.Resource == "users" { // what it changes is not known: it may be what the user logs in with
			w.Verb, w.Old, w.Object = "update", w.Object, []byte(`{"spec":{"password":"changed"}}`)
		} else if r.Method == http.MethodPut { // an applied configuration alone makes a Group that is not there
			return nil
		}
	default:
		return nil
	}
	if w.Name == "" || !bound(w.Name) { // without a name, kube-apiserver makes one up
		return nil
	}
	return n.Guard.Check(r.Context(), w)
}

// nameInBody returns the name of the object that a request has, whose body it replaces by the same as JSON.
func nameInBody(r *http.Request) (string, error) {
	text, _, err := readBody(r, typeJSON, typeYAML)
	if err != nil || text == "" {
		return "", err
	}
	o, err := inspect(text)
	if err != nil {
		return "", err
	}
	web.SetBody(r, text)
	r.Header.Set("Content-Type", typeJSON)
	return o.name.value, nil
}
