package cluster

import (
	restful "github.com/emicklei/go-restful/v3"

	"kapis.dev/ks-apiserver/pkg/store/index"
)

// Value is one of the values that are in use for a key, and the name of the Label with it.
type Value struct {
	Value string `json:"value"`
	ID    string `json:"id"`
}

// labels answers all labels by key: pages read this form, and a list would break them. Labels are few, since people make them by hand.
func (h *V1alpha1) labels(r *restful.Request) (any, error) {
	out := map[string][]Value{}
	err := h.walk(r.Request.Context(), labels, func(l *index.Record) {
		key := l.JSON.GetText("spec", "key")
		out[key] = append(out[key], Value{Value: l.JSON.GetText("spec", "value"), ID: l.Name})
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}
