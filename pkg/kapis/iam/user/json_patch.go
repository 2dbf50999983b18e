package user

import (
	"encoding/json"
	"fmt"
	"mime"
	"net/http"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"kapis.dev/ks-apiserver/pkg/kapis/iam/wire"
	"kapis.dev/ks-apiserver/pkg/redaction"
	"kapis.dev/ks-apiserver/pkg/status"
)

// maxOperations bounds a JSON patch.
const maxOperations = 100

// withoutPassword returns what a patch is applied to, so that no patch copies or tests the password or the last-applied configuration.
func withoutPassword(object map[string]any) (map[string]any, error) {
	raw, err := json.Marshal(object)
	if err != nil {
		return nil, fmt.Errorf("read a user: %w", err)
	}
	out, err := redacted(redaction.Received(string(raw)))
	if err != nil {
		return nil, err
	}
	if _, found, _ := unstructured.NestedString(object, "spec", "password"); found {
		_ = unstructured.SetNestedField(out, "", "spec", "password")
	}
	unstructured.RemoveNestedField(out, "metadata", "managedFields")
	return out, nil
}

// redacted decodes a user after redaction.
func redacted(raw redaction.Raw) (map[string]any, error) {
	out := map[string]any{}
	text, err := raw.Shown(wire.Resource("users").GroupResource())
	if err == nil {
		err = json.Unmarshal([]byte(text.String()), &out)
	}
	if err != nil {
		return nil, fmt.Errorf("read a user: %w", err)
	}
	return out, nil
}

func runtimeCopy(object map[string]any) map[string]any {
	return (&unstructured.Unstructured{Object: object}).DeepCopy().Object
}

// patchOf returns a function that applies a patch to the text of an object.
func patchOf(contentType string, raw []byte) (func(text []byte) ([]byte, error), error) {
	if contentType != "" {
		media, _, err := mime.ParseMediaType(contentType)
		switch {
		case err != nil:
			return nil, apierrors.NewBadRequest("the Content-Type can't be read")
		case media != "application/json" && media != "application/json-patch+json" && media != "application/merge-patch+json":
			return nil, status.Errorf(http.StatusUnsupportedMediaType,
				"a user is patched with application/json-patch+json or application/merge-patch+json")
		}
	}
	if raw[0] != '[' {
		return func(text []byte) ([]byte, error) { return jsonpatch.MergePatch(text, raw) }, nil
	}
	patch, err := jsonpatch.DecodePatch(raw)
	if err != nil || len(patch) > maxOperations {
		return nil, status.BadRequestf("the body is not a JSON patch of at most %d operations", maxOperations)
	}
	for _, op := range patch {
		if op.Kind() == "copy" { // a few of them can make a text of any length
			return nil, apierrors.NewBadRequest("the JSON patch may not copy: send the value")
		}
	}
	return patch.Apply, nil
}

func patched(now map[string]any, patch func([]byte) ([]byte, error)) (map[string]any, error) {
	text, err := json.Marshal(now)
	if err != nil {
		return nil, fmt.Errorf("patch a user: %w", err)
	}
	if text, err = patch(text); err != nil {
		return nil, apierrors.NewBadRequest("the patch can't be applied to the user")
	}
	out := map[string]any{}
	if err := json.Unmarshal(text, &out); err != nil {
		return nil, apierrors.NewBadRequest("the patch leaves no User")
	}
	return out, nil
}
