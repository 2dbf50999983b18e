package fleetsync

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	tenantv1beta1 "kapis.dev/ks-apiserver/pkg/api/tenant/v1beta1"
)

// content is an object as it is sent to members.
type content struct {
	entry
	object json.RawMessage
	// role is the name of the role that a binding gives.
	role string
}

// hashLength is how many bytes of a SHA-256 are sent.
const hashLength = 16

// contentOf returns what of an object is sent, nil where it is not: what every installation has of its own. With an error it is what
// could be read, nil for nothing.
func contentOf(kind schema.GroupVersionResource, raw []byte) (*content, error) {
	switch kind.Resource {
	case "users":
		return userOf(raw)
	case "workspaces":
		return workspaceOf(raw)
	}
	return roleOrBindingOf(kind, raw)
}

// encode completes a content with its object.
func encode(c *content, object any) (*content, error) {
	var err error
	if c.object, err = json.Marshal(object); err != nil {
		return nil, fmt.Errorf("encode an object for member clusters: %w", err)
	}
	c.hash = hashOf(c.object)
	return c, nil
}

// hashOf returns the hash that an object is known by.
func hashOf(raw []byte) string {
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:hashLength])
}

// sentMetadata returns of an object's metadata what is sent: not what this cluster alone keeps there.
func sentMetadata(m *metav1.ObjectMeta) metav1.ObjectMeta {
	out := metav1.ObjectMeta{Name: m.Name, Labels: m.Labels, Annotations: maps.Clone(m.Annotations)}
	delete(out.Annotations, corev1.LastAppliedConfigAnnotation)
	return out
}

// subjectsOf returns the users among subjects.
func subjectsOf(subjects []subject) (out []string) {
	for _, s := range subjects {
		if s.Kind == "User" && !slices.Contains(out, s.Name) {
			out = append(out, s.Name)
		}
	}
	return out
}

type subject struct {
	Kind string `json:"kind"`
	Name string `json:"name"`
}

// roleOrBindingOf returns a role or a binding. Roles of the platform that come with the software are the member's own.
func roleOrBindingOf(kind schema.GroupVersionResource, raw []byte) (*content, error) {
	var meta struct {
		APIVersion string            `json:"apiVersion"`
		Kind       string            `json:"kind"`
		Metadata   metav1.ObjectMeta `json:"metadata"`
		Subjects   []subject         `json:"subjects"`
		RoleRef    struct {
			Name string `json:"name"`
		} `json:"roleRef"`
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(raw, &meta); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(raw, &fields); err != nil {
		return nil, err
	}
	m := &meta.Metadata
	if !m.DeletionTimestamp.IsZero() || kind.Resource == "globalroles" && shipped().has("", m.Name) {
		return nil, nil
	}
	out := map[string]any{"apiVersion": meta.APIVersion, "kind": meta.Kind, "metadata": sentMetadata(m)}
	for _, field := range []string{"aggregationRoleTemplates", "rules", "roleRef", "subjects"} {
		if v, ok := fields[field]; ok {
			out[field] = v
		}
	}
	c := &content{entry: entry{subjects: subjectsOf(meta.Subjects)}, role: meta.RoleRef.Name}
	if kind.Resource == "workspaceroles" || kind.Resource == "workspacerolebindings" {
		if c.workspace = m.Labels[tenantv1beta1.LabelWorkspace]; c.workspace == "" {
			return nil, nil // it gives nobody anything
		}
	}
	return encode(c, out)
}

// userOf returns of a user what names them, and nothing that they log in with (F27).
func userOf(raw []byte) (*content, error) {
	u := &iamv1beta1.User{}
	if err := json.Unmarshal(raw, u); err != nil {
		return nil, err
	}
	if !u.DeletionTimestamp.IsZero() {
		return nil, nil
	}
	out := &iamv1beta1.User{Spec: iamv1beta1.UserSpec{
		DisplayName: u.Spec.DisplayName, Email: u.Spec.Email, Groups: u.Spec.Groups, Lang: u.Spec.Lang}}
	out.APIVersion, out.Kind, out.Name = iamv1beta1.SchemeGroupVersion.String(), "User", u.Name
	out.Annotations = map[string]string{iamv1beta1.AnnotationFleetUID: string(u.UID)}
	return encode(&content{entry: entry{created: u.CreationTimestamp.Time}}, out)
}

// workspaceOf returns the Workspace of a WorkspaceTemplate.
func workspaceOf(raw []byte) (*content, error) {
	t := &tenantv1beta1.WorkspaceTemplate{}
	if err := json.Unmarshal(raw, t); err != nil {
		return nil, err
	}
	if t.Name == tenantv1beta1.SystemWorkspace {
		return nil, nil
	}
	p, ending := &placement{}, !t.DeletionTimestamp.IsZero()
	for _, c := range t.Spec.Placement.Clusters {
		p.clusters = append(p.clusters, c.Name)
	}
	if of := t.Spec.Placement.ClusterSelector; of != nil && len(p.clusters) == 0 && !ending { // else it does not count
		var err error
		if p.selector, err = metav1.LabelSelectorAsSelector(of); err != nil {
			return &content{entry: entry{subjects: managerOf(t)}}, fmt.Errorf("read the selector of clusters: %w", err)
		}
	}
	out := &tenantv1beta1.Workspace{}
	out.APIVersion, out.Kind, out.Name = tenantv1beta1.SchemeGroupVersion.String(), "Workspace", t.Name
	out.Annotations = map[string]string{iamv1beta1.AnnotationFleetUID: string(t.UID)}
	for _, key := range []string{tenantv1beta1.AnnotationAliasName, tenantv1beta1.AnnotationDescription, tenantv1beta1.AnnotationCreator,
		tenantv1beta1.AnnotationDeletionPropagation} {
		for _, from := range []map[string]string{t.Spec.Template.ObjectMeta.Annotations, t.Annotations} {
			if v, ok := from[key]; ok {
				out.Annotations[key] = v
			}
		}
	}
	out.Spec.Manager = t.Spec.Template.Spec.Manager
	c, err := encode(&content{entry: entry{subjects: managerOf(t), placed: p, ending: ending,
		propagation: t.Annotations[tenantv1beta1.AnnotationDeletionPropagation]}}, out)
	if err != nil {
		return nil, err
	}
	return c.withPlacement(t)
}

func managerOf(t *tenantv1beta1.WorkspaceTemplate) []string {
	if name := t.Spec.Template.Spec.Manager; name != "" {
		return []string{name}
	}
	return nil
}

// withPlacement makes the placement part of the hash that changes are known by.
func (c *content) withPlacement(t *tenantv1beta1.WorkspaceTemplate) (*content, error) {
	raw, err := json.Marshal(t.Spec.Placement)
	if err != nil {
		return nil, fmt.Errorf("encode a placement: %w", err)
	}
	c.hash = hashOf(append(raw, c.object...)) // both are objects or null in JSON, which say where they end
	return c, nil
}
