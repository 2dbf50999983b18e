package row

import (
	"kapis.dev/ks-apiserver/pkg/rawjson"
)

// AnnotationCluster says of which cluster an object of an answer is. What an object has stored there is not shown.
const AnnotationCluster = "kapis.dev/cluster"

// ofCluster returns an item with the annotation of its cluster.
func ofCluster(item, cluster string) (string, error) {
	stored := rawjson.Cut{"metadata": {"annotations": {AnnotationCluster: nil}}}
	cut, err := rawjson.AppendWithout(nil, item, "", stored)
	if err != nil {
		return "", ErrFaulty
	}
	marked, err := annotated(string(cut), cluster)
	return marked.String(), err
}

// annotated returns an item with the annotation of its cluster in front of those that it has.
func annotated(text, cluster string) (Item, error) {
	set := string(rawjson.AppendString(append(rawjson.AppendString(nil, AnnotationCluster), ':'), cluster))
	at, end, ok := rawjson.Span(text, "metadata", "annotations")
	if !ok {
		set = `"annotations":{` + set + "}"
		at, end, ok = rawjson.Span(text, "metadata")
	}
	if !ok || text[at] != '{' {
		return Item{}, ErrFaulty
	}
	return Item{text: text, mark: before(text[at:end], set), at: at + 1}, nil
}

// before returns the text of a member before the others of an object.
func before(object, member string) string {
	if m := rawjson.Object(object); m.Next() {
		return member + ","
	}
	return member
}
