package dynamic

import (
	"kapis.dev/ks-apiserver/pkg/rawjson"
	"kapis.dev/ks-apiserver/pkg/redaction"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// secretPaths are fields that no read shows, by kind. A client that writes back what it read does not have them, so an update that
// lacks one leaves it unchanged.
func secretPaths(gr schema.GroupResource) [][]string { return redaction.Hidden(gr) }

// hiddenMissing returns the hidden fields that the body of an update does not have.
func (o *writeRequest) hiddenMissing(body *object) [][]string {
	if o.info.Subresource != "" {
		return nil
	}
	var missing [][]string
	for _, path := range secretPaths(o.kind.GVR.GroupResource()) {
		if rawjson.Get(body.text, path...) == "" {
			missing = append(missing, path)
		}
	}
	return missing
}

// fill returns the body with the fields at paths as the object has them now.
func (s *state) fill(body string, paths [][]string) string {
	for _, path := range paths {
		if v := rawjson.Get(s.raw.Unredacted(), path...); v != "" && v != "null" {
			body = with(body, v, path...)
		}
	}
	return body
}
