package openapi

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"
	"strings"

	openapi_v2 "github.com/google/gnostic-models/openapiv2"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// join returns the documents of this server and of extensions.
func join(own *documents, all map[schema.GroupVersion]*extensionDocument) *documents {
	out := &documents{v2: &openapi_v2.Document{}, v3: maps.Clone(own.v3)}
	texts, hash := map[string][][]byte{}, sha256.New()
	take := func(d *documents) {
		appendDocument(out.v2, d.v2)
		for _, m := range d.v2Members {
			texts[m.of] = append(texts[m.of], m.text)
		}
		hash.Write([]byte(d.v2Hash)) // all of one length
	}
	take(own)
	order := slices.SortedFunc(maps.Keys(all), func(a, b schema.GroupVersion) int { return strings.Compare(a.String(), b.String()) })
	for _, gv := range order {
		if part := all[gv].part; part != nil {
			take(part)
			for path, doc := range part.v3 {
				if _, taken := out.v3[path]; !taken {
					out.v3[path] = doc
				}
			}
		}
	}
	for _, of := range append([]string{"paths"}, sections...) {
		if len(texts[of]) > 0 {
			out.v2Members = append(out.v2Members, members{of: of, text: bytes.Join(texts[of], []byte{','})})
		}
	}
	out.v2Hash = hex.EncodeToString(hash.Sum(nil)[:8])
	return out
}

// appendDocument appends the members of from to those of to.
func appendDocument(to, from *openapi_v2.Document) {
	if from.Paths != nil {
		if to.Paths == nil {
			to.Paths = &openapi_v2.Paths{}
		}
		to.Paths.Path = append(to.Paths.Path, from.Paths.Path...)
	}
	if from.Definitions != nil {
		if to.Definitions == nil {
			to.Definitions = &openapi_v2.Definitions{}
		}
		to.Definitions.AdditionalProperties = append(to.Definitions.AdditionalProperties, from.Definitions.AdditionalProperties...)
	}
	if from.Parameters != nil {
		if to.Parameters == nil {
			to.Parameters = &openapi_v2.ParameterDefinitions{}
		}
		to.Parameters.AdditionalProperties = append(to.Parameters.AdditionalProperties, from.Parameters.AdditionalProperties...)
	}
	if from.Responses != nil {
		if to.Responses == nil {
			to.Responses = &openapi_v2.ResponseDefinitions{}
		}
		to.Responses.AdditionalProperties = append(to.Responses.AdditionalProperties, from.Responses.AdditionalProperties...)
	}
}
