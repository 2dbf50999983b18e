package extension

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kapis.dev/ks-apiserver/pkg/api/extensions/v1alpha1"
)

// AsksForward reports whether an APIService or a ReverseProxy asks for the access tokens of its callers.
func AsksForward(o metav1.Object) bool {
	return o.GetAnnotations()[v1alpha1.AnnotationForward] == "true"
}

// CheckForward returns why an object can't get the access tokens of its callers, nil if it can, or does not ask for them.
func CheckForward(o metav1.Object) error {
	switch asked := o.GetAnnotations()[v1alpha1.AnnotationForward]; asked {
	case "", "false":
		return nil
	case "true":
	default:
		return fmt.Errorf(`metadata.annotations[%s]: %.40q is neither "true" nor "false"`, v1alpha1.AnnotationForward, asked)
	}
	var endpoint *v1alpha1.Endpoint
	switch o := o.(type) {
	case *v1alpha1.APIService:
		endpoint = &o.Spec.Endpoint
	case *v1alpha1.ReverseProxy:
		endpoint = &o.Spec.Upstream
	default:
		return fmt.Errorf("metadata.annotations[%s]: only an APIService and a ReverseProxy have callers", v1alpha1.AnnotationForward)
	}
	address, err := ParseEndpoint(endpoint)
	if err != nil {
		return err
	}
	if address.Scheme != "https" || address.Insecure {
		return fmt.Errorf("metadata.annotations[%s]: access tokens go to a backend by https whose certificate is verified, and to no other",
			v1alpha1.AnnotationForward)
	}
	return nil
}

// ForwardDigest returns the SHA-256 of what is approved with AnnotationApprovedForward, in hexadecimal: which object it is, where its
// backend is, how that is verified, and which requests go there.
func ForwardDigest(o metav1.Object) string {
	var approved struct {
		Kind, Name string
		Spec       any
	}
	approved.Name = o.GetName()
	switch o := o.(type) {
	case *v1alpha1.APIService:
		approved.Kind, approved.Spec = "APIService", &o.Spec
	case *v1alpha1.ReverseProxy:
		approved.Kind, approved.Spec = "ReverseProxy", &o.Spec
	}
	text, err := json.Marshal(&approved)
	if err != nil { // texts, numbers and bytes have a JSON text
		panic(fmt.Sprintf("encode what is approved: %v", err))
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// forwards reports whether the backend of an object gets the access tokens of its callers. What was stored while no webhook judged it, or
// has changed since, does not.
func forwards(o metav1.Object) bool {
	return AsksForward(o) && CheckForward(o) == nil && o.GetAnnotations()[v1alpha1.AnnotationApprovedForward] == ForwardDigest(o)
}
