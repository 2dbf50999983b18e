package openapi

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	restful "github.com/emicklei/go-restful/v3"
	openapi_v2 "github.com/google/gnostic-models/openapiv2"
	"k8s.io/kube-openapi/pkg/builder"
	"k8s.io/kube-openapi/pkg/builder3"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/handler3"
	"k8s.io/kube-openapi/pkg/spec3"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"kapis.dev/ks-apiserver/pkg/extension"
)

// documents are what is added to those of kube-apiserver: this server's own, generated once, and those of extensions.
type documents struct {
	v2Members []members
	v2        *openapi_v2.Document // what is in v2Members, and nothing else
	v2Hash    string
	v3        map[string]*ownDocument // by the path in the index
	routes    []extension.Route       // of the backend of an extension
}

type ownDocument struct {
	json, protobuf *document
	hash           string
}

func (d *ownDocument) in(f format) *document {
	if f == asJSON {
		return d.json
	}
	return d.protobuf
}

// generate describes the routes of services: in one document of version 2, and in one of version 3
// for each group and version of the API.
func generate(services []*restful.WebService, title, version string) (*documents, error) {
	types := newTypes()
	routes := collect(services, types)
	info := &spec.Info{InfoProps: spec.InfoProps{Title: title, Version: version}}
	own := &documents{v3: map[string]*ownDocument{}}
	if err := own.generateV2(routes, types, info); err != nil {
		return nil, fmt.Errorf("version 2: %w", err)
	}
	for path, part := range byDocument(routes) {
		doc, err := generateV3(part, types, info)
		if err != nil {
			return nil, fmt.Errorf("version 3, %s: %w", path, err)
		}
		own.v3[path] = doc
	}
	return own, nil
}

func (d *documents) generateV2(routes []*route, types *types, info *spec.Info) error {
	swagger, err := builder.BuildOpenAPISpecFromRoutes([]common.RouteContainer{container(routes)}, &common.Config{
		Info:                           info,
		DefaultResponse:                &spec.Response{ResponseProps: spec.ResponseProps{Description: "the answer, or a Status"}},
		GetDefinitions:                 types.definitions,
		GetDefinitionName:              sameName,
		GetOperationIDAndTagsFromRoute: operation,
	})
	if err != nil {
		return err
	}
	whole, err := json.Marshal(swagger)
	if err != nil {
		return err
	}
	doc, err := openapi_v2.ParseDocument(whole)
	if err != nil {
		return fmt.Errorf("the generated document is not valid: %w", err)
	}
	d.v2 = &openapi_v2.Document{Paths: doc.Paths, Definitions: doc.Definitions, Parameters: doc.Parameters}
	var top map[string]json.RawMessage
	if err := json.Unmarshal(whole, &top); err != nil {
		return err
	}
	for _, of := range []string{"paths", "definitions", "parameters"} {
		if text := bytes.TrimSpace(top[of]); len(text) > 2 && text[0] == '{' {
			d.v2Members = append(d.v2Members, membersOf(of, text))
		}
	}
	sum := sha256.Sum256(whole)
	d.v2Hash = hex.EncodeToString(sum[:8])
	return nil
}

func generateV3(routes []*route, types *types, info *spec.Info) (*ownDocument, error) {
	for _, r := range routes {
		r.formAsBody(types)
	}
	built, err := builder3.BuildOpenAPISpecFromRoutes([]common.RouteContainer{container(routes)}, &common.OpenAPIV3Config{
		Info:                           info,
		DefaultResponse:                &spec3.Response{ResponseProps: spec3.ResponseProps{Description: "the answer, or a Status"}},
		GetDefinitions:                 types.definitions,
		GetDefinitionName:              sameName,
		GetOperationIDAndTagsFromRoute: operation,
	})
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(built)
	if err != nil {
		return nil, err
	}
	return newOwnDocument(text)
}

// newOwnDocument returns a document of version 3 in both formats.
func newOwnDocument(text []byte) (*ownDocument, error) {
	binary, err := handler3.ToV3ProtoBinary(text)
	if err != nil {
		return nil, fmt.Errorf("the generated document is not valid: %w", err)
	}
	sum := sha256.Sum256(text)
	hash := strings.ToUpper(hex.EncodeToString(sum[:]))
	d := document{etag: `"` + hash + `"`, modified: time.Time{}}
	asText, asBinary := d, d
	asText.body, asText.contentType = text, asJSON.mediaType("v3")
	asBinary.body, asBinary.contentType = binary, asProtobuf.mediaType("v3")
	return &ownDocument{json: &asText, protobuf: &asBinary, hash: hash}, nil
}

// byDocument groups routes by their document of version 3.
func byDocument(routes []*route) map[string][]*route {
	parts := map[string][]*route{}
	for _, r := range routes {
		parts[r.document] = append(parts[r.document], r)
	}
	return parts
}

// documentOf returns the path in the index for a service: kapis/{group}/{version} for an API group, and the first segment for anything
// else, such as a service for all groups.
func documentOf(root string) string {
	segments := strings.Split(strings.Trim(root, "/"), "/")
	if len(segments) >= 3 && segments[0] == "kapis" && !strings.ContainsAny(segments[1]+segments[2], "{*") {
		return strings.Join(segments[:3], "/")
	}
	if segments[0] == "" {
		return "root"
	}
	return segments[0]
}

func sameName(name string) (string, spec.Extensions) { return name, nil }

func operation(r common.Route) (string, []string, error) {
	return r.OperationName(), []string{r.(*route).document}, nil
}

// operationID returns a name made of a method and a path that no other route has.
func operationID(method, path string, taken map[string]bool) string {
	var b strings.Builder
	b.WriteString(strings.ToLower(method))
	up := true
	for _, c := range path {
		switch {
		case c == '{':
			b.WriteString("By")
			up = true
		case c >= 'a' && c <= 'z' && up:
			b.WriteRune(c - 'a' + 'A')
			up = false
		case c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9':
			b.WriteRune(c)
			up = false
		default:
			up = true
		}
	}
	id := b.String()
	for n := 2; taken[id]; n++ {
		id = fmt.Sprintf("%s%d", b.String(), n)
	}
	taken[id] = true
	return id
}

var described = map[string]bool{
	http.MethodGet: true, http.MethodHead: true, http.MethodPost: true, http.MethodPut: true,
	http.MethodPatch: true, http.MethodDelete: true, http.MethodOptions: true,
}
