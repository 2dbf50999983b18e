package child

import (
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/cli-runtime/pkg/resource"

	"helm.sh/helm/v4/pkg/kube"
)

// owning is a client by which an upgrade and a rollback delete no object but the release's own. The SDK deletes whatever the former
// revision has and the next one has not, and a record may be somebody else's word for what that is.
type owning struct {
	checkedByServer
	name, namespace string
}

// Update implements kube.Interface.
func (c *owning) Update(originals, targets kube.ResourceList, options ...kube.ClientUpdateOption) (*kube.Result, error) {
	rest := originals.Intersect(targets)
	for _, info := range originals.Difference(targets) {
		// What can't be read is not deleted: the SDK does not, either.
		if owned, err := isOwned(info, c.name, c.namespace); err == nil && owned {
			rest.Append(info)
		}
	}
	return c.Client.Update(rest, targets, options...)
}

// isOwned reads an object, and reports whether it is there and is a release's own.
func isOwned(info *resource.Info, name, namespace string) (bool, error) {
	if err := info.Get(); apierrors.IsNotFound(err) {
		return false, nil
	} else if err != nil {
		return false, err
	}
	object, err := meta.Accessor(info.Object)
	if err != nil {
		return false, err
	}
	notes := object.GetAnnotations()
	return notes["meta.helm.sh/release-name"] == name && notes["meta.helm.sh/release-namespace"] == namespace, nil
}
