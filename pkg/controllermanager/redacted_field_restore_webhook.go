package controllermanager

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kjson "k8s.io/apimachinery/pkg/util/json"
	webhook "sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"kapis.dev/ks-apiserver/pkg/redaction"
)

// redactedFieldWebhook restores redacted fields when an object is written back without them, since the writer could not read them. To
// remove such a field, write it empty, or leave out the object that contains it. kube-apiserver does not say whether a write was a patch.
//
// An update that changes where such a field is sent, but not the field, is refused: the writer could have it sent to a server of their
// own.
type redactedFieldWebhook struct{}

// Handle implements webhook.Handler.
func (redactedFieldWebhook) Handle(_ context.Context, req webhook.Request) webhook.Response {
	kind := schema.GroupResource{Group: req.Resource.Group, Resource: req.Resource.Resource}
	paths := redaction.Hidden(kind)
	if req.Operation != admissionv1.Update || req.SubResource != "" || len(paths) == 0 {
		return webhook.Allowed("")
	}
	var now, old map[string]any
	if kjson.Unmarshal(req.Object.Raw, &now) != nil || kjson.Unmarshal(req.OldObject.Raw, &old) != nil {
		return webhook.Errored(http.StatusBadRequest, errors.New("the object can't be read: it is no JSON object"))
	}
	kept := false
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
			continue // the schema refuses that
		}
		last := path[len(path)-1]
		if _, has := fields[last]; !has {
			fields[last], kept = was, true
		}
	}
	if err := redaction.CheckSent(kind, old, now); err != nil {
		return webhook.Denied(err.Error())
	}
	if !kept {
		return webhook.Allowed("")
	}
	raw, err := json.Marshal(now)
	if err != nil {
		return webhook.Errored(http.StatusInternalServerError, fmt.Errorf("encode the object: %w", err))
	}
	return webhook.PatchResponseFromRaw(req.Object.Raw, raw)
}
