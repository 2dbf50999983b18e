package extension

import (
	"context"
	"encoding/json"
	"fmt"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	webhook "sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"kapis.dev/ks-apiserver/pkg/api/extensions/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/extension"
)

// noteForward notes in an object what it asks its callers' access tokens for. That is an approval, since the Validator refuses the object
// unless its writer may give one; so an object that does not change keeps the note that it has, or has none. What a writer says there is
// not believed.
func noteForward(req webhook.Request, o map[string]any) {
	var typed, before client.Object
	switch req.Resource.Resource {
	case "apiservices":
		typed, before = &v1alpha1.APIService{}, &v1alpha1.APIService{}
	case "reverseproxies":
		typed, before = &v1alpha1.ReverseProxy{}, &v1alpha1.ReverseProxy{}
	default:
		return
	}
	note := ""
	switch same := unchanged(req, v1alpha1.AnnotationRoot, v1alpha1.AnnotationForward); {
	case same && json.Unmarshal(req.OldObject.Raw, before) == nil:
		note = before.GetAnnotations()[v1alpha1.AnnotationApprovedForward]
	case !same && json.Unmarshal(req.Object.Raw, typed) == nil && extension.AsksForward(typed):
		note = extension.ForwardDigest(typed)
	}
	meta, _ := o["metadata"].(map[string]any)
	annotations, _ := meta["annotations"].(map[string]any)
	switch {
	case note == "":
		delete(annotations, v1alpha1.AnnotationApprovedForward)
	case annotations != nil:
		annotations[v1alpha1.AnnotationApprovedForward] = note
	}
}

// mayForward refuses an object that asks for the access tokens of its callers unless its writer may impersonate users: with their tokens
// the backend can do what they can.
func (v *Validator) mayForward(ctx context.Context, u authenticationv1.UserInfo, o client.Object) error {
	if err := extension.CheckForward(o); err != nil || !extension.AsksForward(o) {
		return refuse(err)
	}
	may, err := v.May(ctx, u, authorizationv1.ResourceAttributes{Verb: "impersonate", Version: "v1", Resource: "users"})
	if err != nil {
		return err
	}
	if !may {
		return forbid("metadata.annotations[%s]: with the access tokens of its callers a backend can do what they can, and %q may"+
			" not impersonate users", v1alpha1.AnnotationForward, u.Username)
	}
	if o.GetAnnotations()[v1alpha1.AnnotationApprovedForward] != extension.ForwardDigest(o) {
		return refuse(fmt.Errorf("metadata.annotations[%s]: the object is another one than was looked at first: its name was generated, or"+
			" another webhook has changed it. Name it, and write it again", v1alpha1.AnnotationForward))
	}
	return nil
}
