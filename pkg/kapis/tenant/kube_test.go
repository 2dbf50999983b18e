package tenant_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kapis.dev/ks-apiserver/pkg/authz"
)

const (
	typeJSONPatch  = "application/json-patch+json"
	typeMergePatch = "application/merge-patch+json"
)

// kube is a kube-apiserver that allows everything and records what changed.
type kube struct {
	t       testing.TB
	objects map[string]map[string]any // by path
	version int
	// sent are the writes, as "METHOD path as group", without dry runs.
	sent []string
	// before is called once, before the next write: another writer is faster.
	before func()
	// refuses are codes to answer writes with, in order, by method and path.
	refuses map[string][]int
	// deleting and refused, where they are not nil, are called before each deletion, and before each such answer.
	deleting, refused func()
}

func newKube(t testing.TB, held map[string][]string) *kube {
	k := &kube{t: t, objects: map[string]map[string]any{}, version: 10}
	for path, all := range held {
		for _, text := range all {
			o := map[string]any{}
			if err := json.Unmarshal([]byte(text), &o); err != nil {
				t.Fatal(err)
			}
			k.objects[path+"/"+metadata(o)["name"].(string)] = o
		}
	}
	return k
}

func metadata(o map[string]any) map[string]any {
	m, _ := o["metadata"].(map[string]any)
	if m == nil {
		m = map[string]any{}
		o["metadata"] = m
	}
	return m
}

func (k *kube) workspaceOf(namespace string) string {
	if k.objects["/api/v1/namespaces/"+namespace] == nil {
		return ""
	}
	labels, _ := metadata(k.objects["/api/v1/namespaces/"+namespace])["labels"].(map[string]any)
	workspace, _ := labels["kubesphere.io/workspace"].(string)
	return workspace
}

// RoundTrip implements http.RoundTripper.
func (k *kube) RoundTrip(r *http.Request) (*http.Response, error) {
	body, _ := io.ReadAll(r.Body)
	out, err := k.answer(r.Context(), r.Method, r.URL, r.Header.Get("Content-Type"), body)
	code := http.StatusOK
	if err != nil {
		s := err.(apierrors.APIStatus).Status()
		s.Kind, s.APIVersion = "Status", "v1"
		out, code = s, int(s.Code)
	}
	raw, err := json.Marshal(out)
	return &http.Response{StatusCode: code, Body: io.NopCloser(bytes.NewReader(raw)), Header: http.Header{"Content-Type": {"application/json"}}}, err
}

func (k *kube) answer(ctx context.Context, method string, at *url.URL, mediaType string, body []byte) (any, error) {
	dry := at.Query().Get("dryRun") == "All" || bytes.Contains(body, []byte(`"dryRun":["All"]`))
	if method != http.MethodGet && !dry {
		k.sent = append(k.sent, method+" "+at.Path+" as "+authz.DecisionFrom(ctx).Group)
		if f := k.before; f != nil {
			k.before = nil
			f()
		}
	}
	path := at.Path
	if codes := k.refuses[method+" "+path]; len(codes) > 0 && !dry {
		k.refuses[method+" "+path] = codes[1:]
		if k.refused != nil {
			k.refused()
		}
		return nil, apierrors.NewGenericServerResponse(codes[0], method, schema.GroupResource{}, path, "kube-apiserver says no", 0, true)
	}
	now, ok := k.objects[path]
	if method == http.MethodPost {
		next := map[string]any{}
		_ = json.Unmarshal(body, &next)
		path += "/" + metadata(next)["name"].(string)
		if k.objects[path] != nil {
			return nil, apierrors.NewAlreadyExists(schema.GroupResource{}, path)
		}
		metadata(next)["uid"] = "made"
		return k.put(path, next, dry), nil
	}
	if !ok {
		return nil, apierrors.NewNotFound(schema.GroupResource{}, path)
	}
	switch method {
	case http.MethodPut, http.MethodPatch:
		next := map[string]any{}
		if method == http.MethodPatch {
			next = patched(k.t, now, mediaType, body)
		} else if err := json.Unmarshal(body, &next); err != nil {
			k.t.Fatal(err)
		}
		if v := metadata(next)["resourceVersion"]; v != nil && v != metadata(now)["resourceVersion"] {
			return nil, apierrors.NewConflict(schema.GroupResource{}, path, fmt.Errorf("changed"))
		}
		metadata(next)["uid"] = metadata(now)["uid"]
		return k.put(path, next, dry), nil
	case http.MethodDelete:
		var d metav1.DeleteOptions
		if err := json.Unmarshal(body, &d); err != nil || d.Preconditions == nil || *d.Preconditions.ResourceVersion != metadata(now)["resourceVersion"] {
			return nil, apierrors.NewConflict(schema.GroupResource{}, path, fmt.Errorf("changed"))
		}
		if !dry {
			if k.deleting != nil {
				k.deleting()
			}
			delete(k.objects, path)
		}
		return metav1.Status{Status: metav1.StatusSuccess}, nil
	}
	return now, nil
}

func (k *kube) put(path string, o map[string]any, dry bool) map[string]any {
	if dry {
		return o
	}
	k.version++
	metadata(o)["resourceVersion"] = strconv.Itoa(k.version)
	k.objects[path] = o
	return o
}

// touch changes an object, as another user.
func (k *kube) touch(path string, change func(o map[string]any)) {
	o := copyOf(k.t, k.objects[path])
	change(o)
	k.put(path, o, false)
}

func copyOf(t testing.TB, o map[string]any) map[string]any {
	raw, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]any{}
	if err := json.Unmarshal(raw, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// patched applies a merge patch (RFC 7386), or the operations add, replace and remove of a JSON patch.
func patched(t testing.TB, now map[string]any, mediaType string, body []byte) map[string]any {
	out := copyOf(t, now)
	if mediaType != typeJSONPatch {
		var patch map[string]any
		if err := json.Unmarshal(body, &patch); err != nil || mediaType != typeMergePatch {
			t.Fatalf("%s: %v", mediaType, err)
		}
		merge(out, patch)
		return out
	}
	var ops []struct {
		Op, Path string
		Value    any
	}
	if err := json.Unmarshal(body, &ops); err != nil {
		t.Fatal(err)
	}
	for _, op := range ops {
		steps := strings.Split(op.Path, "/")[1:]
		in := out
		for _, s := range steps[:len(steps)-1] {
			next, _ := in[unescape(s)].(map[string]any)
			if next == nil {
				next = map[string]any{}
				in[unescape(s)] = next
			}
			in = next
		}
		last := unescape(steps[len(steps)-1])
		if op.Op == "remove" {
			delete(in, last)
		} else {
			in[last] = op.Value
		}
	}
	return out
}

func unescape(s string) string { return strings.NewReplacer("~1", "/", "~0", "~").Replace(s) }

func merge(into, patch map[string]any) {
	for k, v := range patch {
		inner, isObject := v.(map[string]any)
		old, _ := into[k].(map[string]any)
		switch {
		case v == nil:
			delete(into, k)
		case isObject && old != nil:
			merge(old, inner)
		default:
			into[k] = v
		}
	}
}
