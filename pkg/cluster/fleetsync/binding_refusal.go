package fleetsync

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	manifests "kapis.dev/ks-apiserver/config"
	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	tenantv1beta1 "kapis.dev/ks-apiserver/pkg/api/tenant/v1beta1"
	"kapis.dev/ks-apiserver/pkg/boundedyaml"
	"kapis.dev/ks-apiserver/pkg/cluster/exchange"
)

// rolesOf are the kinds of roles that the kinds of bindings give.
var rolesOf = map[string]schema.GroupVersionResource{
	"globalrolebindings":    iamv1beta1.SchemeGroupVersion.WithResource("globalroles"),
	"workspacerolebindings": iamv1beta1.SchemeGroupVersion.WithResource("workspaceroles"),
}

// shippedNames are those of the roles that every installation has, in members too. The names count, and not labels: whoever may write a
// role may write its labels.
type shippedNames struct {
	// global are those of GlobalRoles, and workspace of WorkspaceRoles, without their workspace's name and "-".
	global, workspace map[string]bool
}

var shipped = sync.OnceValue(func() shippedNames {
	of, err := readShipped(manifests.Files)
	if err != nil {
		panic(err) // the files are in the program, and a test reads them
	}
	return of
})

func readShipped(files fs.FS) (shippedNames, error) {
	of := shippedNames{map[string]bool{}, map[string]bool{}}
	names, err := fs.Glob(files, "roles/*.yaml")
	if err != nil {
		return of, fmt.Errorf("look for config/roles: %w", err)
	}
	for _, name := range names {
		raw, err := fs.ReadFile(files, name)
		if err != nil {
			return of, fmt.Errorf("read config/%s: %w", name, err)
		}
		for doc := range strings.SplitSeq("\n"+string(raw), "\n---\n") {
			var o struct {
				metav1.PartialObjectMetadata `json:",inline"`
				Role                         metav1.PartialObjectMetadata `json:"role"`
			}
			if err := boundedyaml.Unmarshal([]byte(doc), &o); err != nil {
				return of, fmt.Errorf("read config/%s: %w", name, err)
			}
			switch {
			case o.Kind == iamv1beta1.KindGlobalRole:
				of.global[o.Name] = true
			case o.Role.Kind == iamv1beta1.KindWorkspaceRole: // of a BuiltinRole
				of.workspace[o.Role.Name] = true
			}
		}
	}
	return of, nil
}

// has reports whether every installation has a role of this name that a binding in a workspace gives, or in none.
func (of shippedNames) has(workspace, role string) bool {
	if workspace == "" {
		return of.global[role]
	}
	pattern, ok := strings.CutPrefix(role, workspace+"-")
	return ok && of.workspace[pattern]
}

var (
	errOthersWorkspace = errors.New("no workspace of that name is the hub's here: where this cluster has one of its own, rename or delete it")
	errOthersRole      = errors.New("it gives a role of that name which this cluster has of its own: rename or delete the role here")
	errUnsaidRole      = errors.New("it gives a role of that name which this cluster has of its own, and the hub does not say what the" +
		" hub's grants: rename or delete the role here, or upgrade the hub")
	errNoRole = errors.New("it gives a role that is not here")
)

// refusal returns why a role or a binding of the hub is not written here, nil where it is: a binding gives a role of the hub, or one that
// every installation has, in a workspace of the hub. What this cluster has of its own under the names of these grants other things than the
// writer of the binding was allowed to give, unless that is what in says of the hub's role.
func (m *Member) refusal(ctx context.Context, k schema.GroupVersionResource, next *unstructured.Unstructured,
	in *Changes) (why, err error) {
	workspace := ""
	if k.Resource == "workspaceroles" || k.Resource == "workspacerolebindings" {
		workspace = next.GetLabels()[tenantv1beta1.LabelWorkspace]
		if is, err := m.isOfHub(ctx, kinds[0], workspace, in.Hub); err != nil || !is {
			return errOthersWorkspace, err
		}
	}
	roles, binds := rolesOf[k.Resource]
	if !binds {
		return nil, nil
	}
	name, _, _ := unstructured.NestedString(next.Object, "roleRef", "name")
	if name == "" {
		return errNoRole, nil
	}
	if shipped().has(workspace, name) {
		return nil, nil
	}
	role, err := m.Objects.Resource(roles).Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return errNoRole, nil
	case err != nil:
		return nil, err
	case role.GetLabels()[LabelFleet] == in.Hub:
		return nil, nil
	}
	raw, said := in.Roles[roles.Resource][name]
	if !said {
		return errUnsaidRole, nil
	}
	hubs := &unstructured.Unstructured{}
	if err := json.Unmarshal(raw, &hubs.Object); err != nil {
		return nil, fmt.Errorf("read the role that it gives: %w", err)
	}
	if !sameGrant(role, hubs) || !sameConditions(role, hubs) {
		return errOthersRole, nil
	}
	return nil, nil
}

// sameConditions reports whether two roles hold under the same conditions.
func sameConditions(a, b *unstructured.Unstructured) bool {
	one, other := a.GetAnnotations(), b.GetAnnotations()
	for _, key := range []string{iamv1beta1.AnnotationCELCondition, iamv1beta1.AnnotationRegoOverride} {
		value, has := one[key]
		if also, too := other[key]; has != too || value != also {
			return false
		}
	}
	return true
}

// isOfHub reports whether the hub keeps an object here.
func (m *Member) isOfHub(ctx context.Context, k schema.GroupVersionResource, name, hub string) (bool, error) {
	if name == "" {
		return false, nil
	}
	o, err := m.Objects.Resource(k).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	return err == nil && o.GetLabels()[LabelFleet] == hub, err
}

// refuse leaves out what is not written here, and takes away what an earlier version wrote; of a binding whose role can't be compared, only
// what the hub no longer gives. One of this cluster's own that is the same is its own affair.
func (m *Member) refuse(ctx context.Context, k schema.GroupVersionResource, c *Change, hub string, next *unstructured.Unstructured,
	why error) error {
	now, err := m.Objects.Resource(k).Get(ctx, c.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return why
	case err != nil:
		return err
	case now.GetLabels()[LabelFleet] == hub && errors.Is(why, errUnsaidRole) &&
		exchange.EqualJSON(now.Object["roleRef"], next.Object["roleRef"]):
		if err := m.narrow(ctx, k, now, next); err != nil {
			return err
		}
	case now.GetLabels()[LabelFleet] == hub:
		m.delete(ctx, k, Change{Ref: c.Ref}, hub, func(_ Ref, failed error) { why = failed })
	case sameGrant(now, next):
		return nil
	}
	return why
}

// narrow takes a binding from the subjects whom the hub's no longer has, and gives it to nobody.
func (m *Member) narrow(ctx context.Context, k schema.GroupVersionResource, now, next *unstructured.Unstructured) error {
	had, _, err := unstructured.NestedSlice(now.Object, "subjects")
	if err != nil {
		return fmt.Errorf("read whom it names here: %w", err)
	}
	wanted, _, err := unstructured.NestedSlice(next.Object, "subjects")
	if err != nil {
		return fmt.Errorf("read whom it names on the hub: %w", err)
	}
	named := map[string]bool{}
	for _, s := range wanted {
		named[textOf(s)] = true
	}
	left := slices.DeleteFunc(slices.Clone(had), func(s any) bool { return !named[textOf(s)] })
	if len(left) == len(had) {
		return nil
	}
	now.Object["subjects"] = left
	annotations := now.GetAnnotations()
	delete(annotations, annotationHash) // it is not what was sent, and comes back when that is wanted
	now.SetAnnotations(annotations)
	_, err = m.Objects.Resource(k).Update(ctx, now, metav1.UpdateOptions{})
	return err
}

// textOf returns the JSON of a part of an object.
func textOf(part any) string {
	raw, _ := json.Marshal(part) //nolint:errcheck,errchkjson // it was JSON
	return string(raw)
}

// stored returns the hash that an object has here. Bindings from before their roles were looked at have another one, so that they are
// written again.
func stored(kind, hash string) string {
	if _, binds := rolesOf[kind]; binds {
		return hash + ".2"
	}
	return hash
}
