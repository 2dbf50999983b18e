package scope

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	restful "github.com/emicklei/go-restful/v3"
	"k8s.io/apimachinery/pkg/types"

	v2 "kapis.dev/ks-apiserver/pkg/api/application/v2"
	"kapis.dev/ks-apiserver/pkg/caller"
	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/web"
)

// Patch is Change for a kind with fields that no answer shows: by returns the merge patch itself, so that it can remove such a field. The
// patch is bound to the version that by has seen, and one that is empty writes nothing.
func (k Kind[O]) Patch(s *Store, r *restful.Request, name string, by func(O) (map[string]any, error)) (O, error) {
	var none O
	q, err := web.WriteParameters(r.Request)
	if err != nil {
		return none, err
	}
	return caller.Change(r.Request.Context(), caller.Seen{Resource: k.Resource(), Name: name},
		func(context.Context) (O, error) { return k.Live(s, r, name) },
		func(ctx context.Context, now O) (O, error) {
			patch, err := by(now)
			if err != nil || len(patch) == 0 {
				return now, err
			}
			meta := map[string]any{"uid": now.GetUID(), "resourceVersion": now.GetResourceVersion()}
			annotations := map[string]any{}
			if given, ok := patch["metadata"].(map[string]any); ok {
				if of, ok := given["annotations"].(map[string]any); ok {
					annotations = of
				}
			}
			annotations[v2.AnnotationUser], annotations[v2.AnnotationSaved] = request.UserFrom(ctx).GetName(), "true"
			meta["annotations"], patch["metadata"] = annotations, meta
			body, err := json.Marshal(patch)
			if err != nil {
				return none, fmt.Errorf("encode the change of the %s %s: %w", k.name, name, err)
			}
			return k.send(s, r, caller.Order{Method: http.MethodPatch, Path: k.path(name, ""), Query: q, Body: body,
				Type: string(types.MergePatchType)})
		})
}
