package controllermanager

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kjson "k8s.io/apimachinery/pkg/util/json"
	webhook "sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// keeper keeps the fields that no read shows where an object is written back without them: whoever read it did not get them. To take one away, write
// it empty, or leave out the object that it is in. kube-apiserver does not tell whether a write was a patch.
//
// Where the object changes to whom such a field is sent, it is not kept: whoever may not see it could have it sent to himself.
type keeper struct {
	// hidden returns the paths of such fields of a kind, addresses those of the fields that say where these are sent to.
	hidden, addresses func(gr schema.GroupResource) [][]string
}

// Handle implements webhook.Handler.
func (k keeper) Handle(_ context.Context, req webhook.Request) webhook.Response {
	kind := schema.GroupResource{Group: req.Resource.Group, Resource: req.Resource.Resource}
	paths := k.hidden(kind)
	if req.Operation != admissionv1.Update || req.SubResource != "" || len(paths) == 0 {
		return webhook.Allowed("")
	}
	var now, old map[string]any
	if kjson.Unmarshal(req.Object.Raw, &now) != nil || kjson.Unmarshal(req.OldObject.Raw, &old) != nil {
		return webhook.Errored(http.StatusBadRequest, errors.New("the object can't be read: it is no JSON object"))
	}
	var kept []string
	for _, path := range paths {
		was, had, err := unstructured.NestedFieldNoCopy(old, path...)
		if err != nil || !had || was == nil {
			continue
		}
		in, ok, err := unstructured.NestedFieldNoCopy(now, path[:len(path)-1]...)
		if err != nil || !ok {
			continue
		}
		fields, ok := in.(map[string]any)
		if !ok {
			continue // which the schema refuses
		}
		last := path[len(path)-1]
		if _, has := fields[last]; !has {
			fields[last], kept = was, append(kept, strings.Join(path, "."))
		}
	}
	if kept == nil {
		return webhook.Allowed("")
	}
	for _, path := range k.addresses(kind) {
		before, _, _ := unstructured.NestedFieldNoCopy(old, path...)
		if after, _, _ := unstructured.NestedFieldNoCopy(now, path...); !reflect.DeepEqual(before, after) {
			return webhook.Denied(fmt.Sprintf("%s changes, which %s would be sent to: write that too, as it is or empty", strings.Join(path, "."), strings.Join(kept, " and ")))
		}
	}
	raw, err := json.Marshal(now)
	if err != nil {
		return webhook.Errored(http.StatusInternalServerError, fmt.Errorf("encode the object: %w", err))
	}
	return webhook.PatchResponseFromRaw(req.Object.Raw, raw)
}
