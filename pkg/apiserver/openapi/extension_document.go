package openapi

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	openapi_v2 "github.com/google/gnostic-models/openapiv2"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/kube-openapi/pkg/openapiconv"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"kapis.dev/ks-apiserver/pkg/extension"
	"kapis.dev/ks-apiserver/pkg/request"
)

const (
	// maxMediaTypes bounds the media types of an operation, and maxMediaType one of them, in bytes.
	maxMediaTypes, maxMediaType = 16, 128
	// maxWritten bounds what is written of a document, in bytes: names get longer, each operation gets what the top says for all of them,
	// and version 3 has a schema once for each media type.
	maxWritten = 4 * MaxExtension
)

// sections are the objects of a document of version 2 that its references lead to.
var sections = []string{"definitions", "parameters", "responses"}

// describe returns what the document of a backend says of the routes of one group and version, which it has below a root of its own; nil
// if it says nothing of them. What it says of other paths is left out, and its names get a prefix, so that they are those of no other
// extension and none of ours.
func describe(gv schema.GroupVersion, root string, body []byte) (out *documents, err error) {
	defer func() { // the libraries that read documents are not written for those of strangers
		if r := recover(); r != nil {
			out, err = nil, errors.New("its document can't be read")
		}
	}()
	d := &extensionReader{prefix: gv.Group + "_" + gv.Version + "_", base: "/kapis/" + gv.String(), there: root + "/" + gv.String(),
		used: map[string]map[string]any{}, left: maxWritten}
	if err := d.read(body); err != nil || len(d.paths) == 0 {
		return nil, err
	}
	whole := map[string]any{"swagger": "2.0", "info": map[string]any{"title": gv.String(), "version": gv.Version}, "paths": d.paths}
	for name, members := range d.used {
		whole[name] = members
	}
	text, err := json.Marshal(whole)
	if err != nil {
		return nil, fmt.Errorf("write the document: %w", err)
	}
	if len(text) > maxWritten { // a reference of a few bytes gets a name of some hundred
		return nil, fmt.Errorf("with the names that it has here, its document has more than %d bytes", maxWritten)
	}
	sum := sha256.Sum256(text)
	out = &documents{v2Hash: hex.EncodeToString(sum[:8]), v3: map[string]*ownDocument{}, routes: d.routes}
	parsed, err := openapi_v2.ParseDocument(text)
	if err != nil {
		return nil, errors.New("its document is not valid (OpenAPI 2.0)") // the error repeats the document
	}
	out.v2 = &openapi_v2.Document{
		Paths: parsed.Paths, Definitions: parsed.Definitions, Parameters: parsed.Parameters, Responses: parsed.Responses,
	}
	for _, of := range append([]string{"paths"}, sections...) {
		if members, _ := whole[of].(map[string]any); len(members) > 0 {
			text, err := json.Marshal(members)
			if err != nil {
				return nil, fmt.Errorf("write the document: %w", err)
			}
			out.v2Members = append(out.v2Members, membersOf(of, text))
		}
	}
	swagger := &spec.Swagger{}
	if err := json.Unmarshal(text, swagger); err != nil {
		return nil, errors.New("its document is not valid (OpenAPI 2.0)")
	}
	v3, err := json.Marshal(openapiconv.ConvertV2ToV3(swagger))
	if err != nil {
		return nil, fmt.Errorf("write the document of version 3: %w", err)
	}
	if out.v3[strings.TrimPrefix(d.base, "/")], err = newOwnDocument(v3); err != nil {
		return nil, errors.New("its document is not valid as version 3")
	}
	return out, nil
}

// extensionReader reads one document.
type extensionReader struct {
	prefix string
	base   string // of the paths here
	there  string // base, as the document has it
	top    map[string]any
	paths  map[string]any
	routes []extension.Route
	used   map[string]map[string]any // of each section, under the new names
	left   int                       // of maxWritten, for operations that follow
}

func (d *extensionReader) read(body []byte) error {
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber() // bounds of schemas may be larger than a float is exact
	if err := decoder.Decode(&d.top); err != nil || d.top["swagger"] != "2.0" {
		return errors.New("its document is not one of OpenAPI 2.0 as JSON")
	}
	d.paths = map[string]any{}
	all, _ := d.top["paths"].(map[string]any)
	for _, path := range slices.Sorted(maps.Keys(all)) {
		rest, ok := strings.CutPrefix(path, d.there)
		if !ok || rest != "" && rest[0] != '/' {
			continue
		}
		item, ok := all[path].(map[string]any)
		if !ok {
			return fmt.Errorf("the path %.200q is no object", path)
		}
		if err := d.complete(item); err != nil {
			return err
		}
		if err := d.rename(item); err != nil {
			return err
		}
		d.paths[d.base+rest] = item
		d.addRoutes(d.base+rest, item)
	}
	return nil
}

// addRoutes notes the routes of a path. One that no request could be authorized for is none.
func (d *extensionReader) addRoutes(path string, item map[string]any) {
	for _, method := range slices.Sorted(maps.Keys(item)) {
		operation, ok := item[method].(map[string]any)
		if !ok {
			continue
		}
		pattern, err := request.ParsePattern(strings.ToUpper(method), path)
		if err != nil {
			continue
		}
		gvk, _ := operation["x-kubernetes-group-version-kind"].(map[string]any)
		kind, _ := gvk["kind"].(string)
		if len(validation.IsDNS1035Label(strings.ToLower(kind))) > 0 {
			kind = ""
		}
		d.routes = append(d.routes, extension.Route{Pattern: pattern, Kind: kind})
	}
}

// complete writes into operations what the top of the document says for all of them, and leaves out what only that could explain. One that
// names no media type is one of JSON: as version 3 it would have no schema otherwise. Its error says that there is too much of them.
func (d *extensionReader) complete(item map[string]any) error {
	for _, each := range item {
		operation, ok := each.(map[string]any)
		if !ok {
			continue
		}
		delete(operation, "security")
		copies := 1
		for _, name := range []string{"consumes", "produces"} {
			types := operation[name]
			if types == nil {
				types = d.top[name]
			}
			list := mediaTypesOf(types)
			operation[name], copies = list, max(copies, len(list))
		}
		if id, ok := operation["operationId"].(string); ok {
			operation["operationId"] = d.prefix + id
		}
		text, err := json.Marshal(operation)
		if err != nil {
			return fmt.Errorf("write an operation: %w", err)
		}
		if d.left -= len(text) * copies; d.left < 0 {
			return fmt.Errorf("its operations have more than %d bytes, each as often as it has media types", maxWritten)
		}
	}
	return nil
}

// mediaTypesOf returns a list of media types, and that of JSON for what is no such list, or one that no reader needs as long as it is.
func mediaTypesOf(value any) []any {
	list, ok := value.([]any)
	if !ok || len(list) > maxMediaTypes || slices.ContainsFunc(list, func(each any) bool {
		name, ok := each.(string)
		return !ok || len(name) > maxMediaType
	}) {
		return []any{"application/json"}
	}
	return list
}

// rename gives the references in a value their new names, and takes along what they lead to.
func (d *extensionReader) rename(value any) error {
	switch v := value.(type) {
	case map[string]any:
		if reference, ok := v["$ref"].(string); ok {
			to, err := d.follow(reference)
			if err != nil {
				return err
			}
			v["$ref"] = to
		}
		for _, each := range v {
			if err := d.rename(each); err != nil {
				return err
			}
		}
	case []any:
		for _, each := range v {
			if err := d.rename(each); err != nil {
				return err
			}
		}
	}
	return nil
}

func (d *extensionReader) follow(reference string) (string, error) {
	for _, section := range sections {
		name, ok := strings.CutPrefix(reference, "#/"+section+"/")
		if !ok {
			continue
		}
		members, _ := d.top[section].(map[string]any)
		key := strings.NewReplacer("~1", "/", "~0", "~").Replace(name) // RFC 6901
		member, ok := members[key]
		if !ok {
			break
		}
		if d.used[section] == nil {
			d.used[section] = map[string]any{}
		}
		if _, ok := d.used[section][d.prefix+key]; !ok {
			d.used[section][d.prefix+key] = member
			if err := d.rename(member); err != nil {
				return "", err
			}
		}
		return "#/" + section + "/" + d.prefix + name, nil
	}
	return "", fmt.Errorf("the reference %.200q leads to nothing in its document", reference)
}
