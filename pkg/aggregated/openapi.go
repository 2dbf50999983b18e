package aggregated

import (
	"sync"

	queryv1alpha1 "kapis.dev/ks-apiserver/pkg/api/query/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/web"
)

const (
	pathOpenAPI        = "/openapi/v3"
	pathOpenAPIVersion = pathOpenAPI + pathVersion
)

// openAPIIndex answers /openapi/v3: the one document, with a hash by which clients cache it.
func openAPIIndex() (any, error) {
	return web.NewDocument(typeJSON, map[string]any{"paths": map[string]any{
		pathVersion[1:]: map[string]any{"serverRelativeURL": pathOpenAPIVersion + "?hash=" + openAPIDocument().Hash()},
	}})
}

// openAPIDocument returns the document of the version. It has Query alone: objects of other kinds are in the documents of their own groups.
var openAPIDocument = sync.OnceValue(func() *web.Document {
	gvk := []map[string]string{{"group": queryv1alpha1.GroupName, "version": queryv1alpha1.Version, "kind": "Query"}}
	text := map[string]any{"type": "string"}
	schema := map[string]any{"$ref": "#/components/schemas/" + schemaName}
	body := map[string]any{"content": map[string]any{typeJSON: map[string]any{"schema": schema}}}
	v := map[string]any{
		"openapi": "3.0.0", "info": map[string]any{"title": queryv1alpha1.GroupName, "version": queryv1alpha1.Version},
		"paths": map[string]any{pathVersion + "/" + queryv1alpha1.Queries: map[string]any{"post": map[string]any{
			"description":                     "Answer a query: nothing is stored",
			"operationId":                     "createQuery",
			"x-kubernetes-action":             "post",
			"x-kubernetes-group-version-kind": gvk[0],
			"parameters": []any{map[string]any{"name": "fieldValidation", "in": "query", "schema": text,
				"description": "Accepted, and without effect: parameters that a kind does not have are ignored, as in lists"}},
			"requestBody": body,
			"responses":   map[string]any{"201": map[string]any{"description": "Created", "content": body["content"]}},
		}}},
		"components": map[string]any{"schemas": map[string]any{schemaName: map[string]any{
			"type": "object", "description": "Query is a list that is requested by a create. Nothing is stored.",
			"required": []string{"spec"}, "x-kubernetes-group-version-kind": gvk,
			"properties": map[string]any{
				"apiVersion": text, "kind": text, "metadata": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true},
				"spec": map[string]any{
					"type": "object", "description": "The parameters of the list: resource, namespace, and those of docs/queries.md.",
					"x-kubernetes-preserve-unknown-fields": true,
				},
				"status": map[string]any{
					"type": "object", "description": "The page: items, totalItems, facets, resourceVersion, partial.",
					"x-kubernetes-preserve-unknown-fields": true,
				},
			},
		}}},
	}
	document, err := web.NewDocument(typeJSON, v)
	if err != nil {
		panic(err) // texts alone
	}
	return document
})

const schemaName = "dev.kapis.query.v1alpha1.Query"
