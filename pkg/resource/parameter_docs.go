package resource

// Parameter is a query parameter, for the documentation of the API.
type Parameter struct {
	// Name, Type (of OpenAPI) and Doc say what it is.
	Name, Type, Doc string
	// Page reports whether the parameter is about a page, and so has no effect on a watch.
	Page bool
}

// Parameters returns the parameters that every list takes.
func Parameters() []Parameter {
	return []Parameter{
		{"limit", "integer", "items on a page; all where it is absent or -1", true},
		{"page", "integer", "which page, from 1", true},
		{"sortBy", "string", "sort keys joined by commas: creationTimestamp, name, namespace, a key of the kind, or a path such as" +
			" .spec.replicas", true},
		{"ascending", "boolean", "the smallest first; default false", true},
		{"facets", "string", "field paths joined by commas whose values are counted over all matches", true},
		{"cursor", "string", "where the page begins, in place of page: what lists over several clusters are merged by", true},
		{"offset", "integer", "how many items are before the page, in place of page", true},
		{"view", "string", "live: stream the page, and then what is different whenever it changes; keys: sort values and names in place of" +
			" objects", true},
		{"watch", "boolean", "stream the changes of what matches, as watch events", true},
		{"managedFields", "boolean", "the page's objects as kube-apiserver has them, read as the caller; limit is then at most 100", true},
		{"name", "string", "part of the name or of the alias", false},
		{"nameAndAlias", "string", "the same as name", false},
		{"q", "string", "words that are all in the name, the alias, a label or an annotation", false},
		{"cel", "string", "CEL expression over object that must hold", false},
		{"names", "string", "names joined by commas", false},
		{"uid", "string", "UID of the object", false},
		{"namespace", "string", "namespace of the objects", false},
		{"ownerReference", "string", "UID or name of an owner", false},
		{"ownerKind", "string", "kind of an owner", false},
		{"annotation", "string", "key, key=value or key!=value", false},
		{"label", "string", "key, key=value or key!=value", false},
		{"labelSelector", "string", "label selector; | between alternatives", false},
		{"fieldSelector", "string", "path=value, path!=value or path=~value, joined by commas", false},
		{"fields", "string", "field paths joined by commas: the only ones that objects show", false},
		{"includeObject", "string", "of a Table (Accept: application/json;as=Table;g=meta.k8s.io;v=v1): Metadata, None or Object in its rows", false},
		{"resourceVersion", "string", "a list waits until it is as new; a watch begins after it", false},
		{"allowWatchBookmarks", "boolean", "of a watch: say from time to time up to which version everything was sent", false},
		{"sendInitialEvents", "boolean", "of a watch: begin with what matches, and mark its end with a bookmark; needs resourceVersionMatch",
			false},
		{"resourceVersionMatch", "string", "NotOlderThan, together with sendInitialEvents", false},
		{"timeoutSeconds", "integer", "how long a stream lasts; 30 to 60 minutes where it is absent", false},
	}
}
