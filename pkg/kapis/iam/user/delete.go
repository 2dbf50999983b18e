package user

import (
	"encoding/json"
	"fmt"

	restful "github.com/emicklei/go-restful/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kapis.dev/ks-apiserver/pkg/caller"
	"kapis.dev/ks-apiserver/pkg/kapis/iam/wire"
	"kapis.dev/ks-apiserver/pkg/web"
)

// deleteUser deletes another user.
func (h *Handler) deleteUser(r *restful.Request) (any, error) {
	e, err := h.edit(r)
	if err != nil {
		return nil, err
	}
	options, err := web.ReadDeleteOptions(r.Request)
	if err != nil {
		return nil, err
	}
	ctx := r.Request.Context()
	old, err := json.Marshal(map[string]any{"metadata": map[string]any{"name": e.user.Name}, "spec": map[string]any{"groups": e.user.Groups}})
	if err != nil {
		return nil, fmt.Errorf("delete a user: %w", err)
	}
	checked, err := h.Target.CheckWrite(ctx, "delete", e.user.Name, nil, old)
	if err != nil {
		return nil, err
	}
	if options.Preconditions == nil {
		options.Preconditions = metav1.NewUIDPreconditions(e.user.UID)
	}
	order, err := caller.Deletion(usersPath+"/"+e.user.Name, *options, nil)
	if err != nil {
		return nil, err
	}
	order.Implied = true
	if _, err := h.AsCaller.Do(ctx, order); err != nil {
		return nil, err
	}
	if len(options.DryRun) == 0 {
		checked.Made()
	}
	return wire.Success(), nil
}
