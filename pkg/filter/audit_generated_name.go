package filter

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"

	"k8s.io/apimachinery/pkg/types"

	"kapis.dev/ks-apiserver/pkg/request"
)

// maxCreated is how many bytes of the answer to a create are searched for the name of the object: metadata stands near the beginning.
const maxCreated = 16 << 10

// createdObject retains the beginning of the answer to a create, since the name of the object may be in nothing else.
type createdObject struct {
	text []byte
}

// Write implements io.Writer. It never fails.
func (c *createdObject) Write(p []byte) (int, error) {
	c.text = append(c.text, p[:min(len(p), maxCreated-len(c.text))]...)
	return len(p), nil
}

// answersWithName reports whether the name of what a request has created is to be found in the answer.
func answersWithName(i *request.Info, h http.Header, code int) bool {
	if code != http.StatusCreated || i == nil || !i.IsResource || i.Verb != "create" || i.Name != "" || i.Subresource != "" ||
		h.Get("Content-Encoding") != "" {
		return false
	}
	isJSON, _ := mediaOf(h.Get("Content-Type"))
	return isJSON
}

// nameCreated adds to the event which object was created.
func (e *auditedRequest) nameCreated() {
	if e.created == nil || e.Object.Resource == "" || e.Object.Name != "" {
		return
	}
	text := e.created.text
	if e.recorded != nil && e.recorded.answers {
		text, _ = e.recorded.response.take()
	}
	m := metadataOf(text)
	e.Object.Name, e.Object.UID, e.Object.ResourceVersion = m["name"], types.UID(m["uid"]), m["resourceVersion"]
	if e.Object.Namespace == "" {
		e.Object.Namespace = m["namespace"]
	}
}

// metadataOf returns the strings in the metadata of an object, of which text is the beginning.
func metadataOf(text []byte) map[string]string {
	d := json.NewDecoder(bytes.NewReader(text))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil
	}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return nil
		}
		if key == "metadata" {
			return stringsOf(d)
		}
		var skipped json.RawMessage
		if err := d.Decode(&skipped); err != nil {
			return nil
		}
	}
	return nil
}

// stringsOf returns the strings that are directly in the object that comes next, as far as it is there.
func stringsOf(d *json.Decoder) map[string]string {
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil
	}
	out := map[string]string{}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return out
		}
		var value any
		if err := d.Decode(&value); err != nil {
			return out
		}
		if s, ok := value.(string); ok {
			if name, ok := key.(string); ok {
				out[name] = s
			}
		}
	}
	return out
}

// answer returns what is written of the answer to a request, too; nil for nothing.
func (e *auditedRequest) answer() io.Writer {
	switch {
	case e == nil:
		return nil
	case e.recorded != nil && e.recorded.answers:
		return &e.recorded.response
	case e.created != nil:
		return e.created
	}
	return nil
}
