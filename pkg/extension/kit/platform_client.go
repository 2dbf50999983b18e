package kit

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	extensionsv1alpha1 "kapis.dev/ks-apiserver/pkg/api/extensions/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/api/kubesphere/v1alpha1"
)

// The kinds that are read and written.
var (
	configMaps     = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	extensions     = v1alpha1.SchemeGroupVersion.WithResource("extensions")
	plans          = v1alpha1.SchemeGroupVersion.WithResource("installplans")
	versions       = v1alpha1.SchemeGroupVersion.WithResource("extensionversions")
	apiServices    = extensionsv1alpha1.SchemeGroupVersion.WithResource("apiservices")
	reverseProxies = extensionsv1alpha1.SchemeGroupVersion.WithResource("reverseproxies")
	jsBundles      = extensionsv1alpha1.SchemeGroupVersion.WithResource("jsbundles")
)

// Installation is a platform, as the user of a kubeconfig has it: every request is made with that user's rights.
type Installation struct {
	// Client makes the requests.
	Client dynamic.Interface
	// Tell receives what is done.
	Tell io.Writer
	// Pause is the time between two looks at what may have changed.
	Pause time.Duration
}

// say tells the user something.
func (i *Installation) say(format string, args ...any) { fmt.Fprintf(i.Tell, format+"\n", args...) }

// get reads an object into a type; false where there is none.
func (i *Installation) get(ctx context.Context, of schema.GroupVersionResource, namespace, name string, into any) (bool, error) {
	o, err := i.Client.Resource(of).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, decode(o, into)
}

// decode reads an object into a type.
func decode(o *unstructured.Unstructured, into any) error {
	raw, err := o.MarshalJSON()
	if err != nil {
		return fmt.Errorf("read the %s %s: %w", o.GetKind(), o.GetName(), err)
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return fmt.Errorf("read the %s %s: %w", o.GetKind(), o.GetName(), err)
	}
	return nil
}

// encode returns a typed object as one that can be sent.
func encode(o any) (*unstructured.Unstructured, error) {
	raw, err := json.Marshal(o)
	if err != nil {
		return nil, fmt.Errorf("encode an object: %w", err)
	}
	out := &unstructured.Unstructured{}
	if err := out.UnmarshalJSON(raw); err != nil {
		return nil, fmt.Errorf("encode an object: %w", err)
	}
	return out, nil
}
