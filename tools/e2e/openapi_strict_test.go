package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	openapi_v2 "github.com/google/gnostic-models/openapiv2"
	openapi_v3 "github.com/google/gnostic-models/openapiv3"
	"k8s.io/kube-openapi/pkg/spec3"
	"k8s.io/kube-openapi/pkg/util/proto"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// Readers that are as strict as encoding/json/v2 refuse a document with two members of one name (RFC 7493, 2.3), and so do the clients of
// Kubernetes that validate with the models of kube-openapi.
func TestOpenAPIDocumentsAreReadByStrictReaders(t *testing.T) {
	a := admin(t)
	v2 := []byte(a.must(t, http.StatusOK, http.MethodGet, "/openapi/v2", nil).body)
	if err := strictJSON(v2); err != nil {
		t.Errorf("/openapi/v2: %v", err)
	}
	var swagger spec.Swagger
	if err := swagger.UnmarshalJSON(v2); err != nil {
		t.Errorf("/openapi/v2 as kube-openapi reads it: %v", err)
	}
	document, err := openapi_v2.ParseDocument(v2)
	if err != nil {
		t.Fatalf("/openapi/v2 as gnostic validates it: %v", err)
	}
	if _, err := proto.NewOpenAPIData(document); err != nil {
		t.Errorf("the schemas of /openapi/v2: %v", err)
	}
	operations := map[string]string{}
	for path, item := range swagger.Paths.Paths {
		for method, o := range map[string]*spec.Operation{
			"GET": item.Get, "PUT": item.Put, "POST": item.Post, "DELETE": item.Delete, "PATCH": item.Patch, "HEAD": item.Head, "OPTIONS": item.Options,
		} {
			if o == nil || o.ID == "" {
				continue
			}
			if other, twice := operations[o.ID]; twice {
				t.Errorf("operation %s is of %s and of %s %s", o.ID, other, method, path)
			}
			operations[o.ID] = method + " " + path
		}
	}

	var documents map[string]string
	eventually(t, "all documents of an index are there", func(ctx context.Context) error { // unless what another test made, or deleted, changes them
		documents = map[string]string{}
		r, err := a.do(ctx, http.MethodGet, "/openapi/v3", nil)
		if err != nil || r.code != http.StatusOK {
			return fmt.Errorf("the index: %d %s %w", r.code, clip(r.body), err)
		}
		index := decode[struct {
			Paths map[string]struct {
				ServerRelativeURL string `json:"serverRelativeURL"`
			} `json:"paths"`
		}](t, r.body)
		for name, at := range index.Paths {
			r, err := a.do(ctx, http.MethodGet, at.ServerRelativeURL, nil)
			if err != nil || r.code != http.StatusOK {
				return fmt.Errorf("%s: %d %s %w", name, r.code, clip(r.body), err)
			}
			documents[name] = r.body
		}
		return nil
	})
	if len(documents) < 40 {
		t.Errorf("the index has %d documents only", len(documents))
	}
	for name, text := range documents {
		body := []byte(text)
		if err := strictJSON(body); err != nil {
			t.Errorf("/openapi/v3/%s: %v", name, err)
		}
		var document spec3.OpenAPI
		if err := document.UnmarshalJSON(body); err != nil {
			t.Errorf("/openapi/v3/%s as kube-openapi reads it: %v", name, err)
		}
		parsed, err := openapi_v3.ParseDocument(body)
		if err != nil {
			t.Errorf("/openapi/v3/%s as gnostic validates it: %v", name, err)
			continue
		}
		if _, err := proto.NewOpenAPIV3Data(parsed); err != nil {
			t.Errorf("the schemas of /openapi/v3/%s: %v", name, err)
		}
	}
}

func TestStrictJSONRefusesWhatEncodingJSONTakes(t *testing.T) {
	for _, good := range []string{`{}`, `[]`, `{"a":{"b":1},"b":[{"b":1},{"b":2}]}`, `"x"`} {
		if err := strictJSON([]byte(good)); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
	for _, bad := range []string{`{"a":1,"a":1}`, `{"x":[{"a":{"b":1,"c":2,"b":3}}]}`, `{"a":1,"\u0061":2}`, `{} {}`, `{`, "\"\xff\"", ``} {
		if err := strictJSON([]byte(bad)); err == nil {
			t.Errorf("%s is taken", bad)
		}
	}
}

// strictJSON returns an error for what encoding/json/v2 refuses, and version 1 of it takes: two members of one name in an object, text that
// is not UTF-8. It names the member and the objects around it.
func strictJSON(text []byte) error {
	if bad := bytes.ToValidUTF8(text, nil); len(bad) != len(text) {
		return errors.New("it is not UTF-8")
	}
	type open struct {
		members map[string]bool // nil in an array
		name    string          // of the member that is being read
		value   bool            // a value comes next, in an object
	}
	var stack []*open
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	for values := 0; ; {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			if values != 1 || len(stack) > 0 {
				return fmt.Errorf("it is not one whole value: %d, %d open", values, len(stack))
			}
			return nil
		}
		if err != nil {
			return err
		}
		var in *open
		if len(stack) > 0 {
			in = stack[len(stack)-1]
		}
		if name, ok := token.(string); ok && in != nil && in.members != nil && !in.value {
			if in.members[name] {
				var path []string
				for _, o := range stack {
					path = append(path, o.name)
				}
				return fmt.Errorf("member %q is there twice, in %s", name, strings.Join(path[:len(path)-1], "."))
			}
			in.members[name], in.name, in.value = true, name, true
			continue
		}
		if token == json.Delim('}') || token == json.Delim(']') {
			stack = stack[:len(stack)-1]
			continue
		}
		if in == nil {
			values++
		} else {
			in.value = false
		}
		switch token {
		case json.Delim('{'):
			stack = append(stack, &open{members: map[string]bool{}})
		case json.Delim('['):
			stack = append(stack, &open{})
		}
	}
}
