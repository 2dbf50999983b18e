package rbac

import (
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/klog/v2"
	"sigs.k8s.io/json"

	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	tenantv1beta1 "kapis.dev/ks-apiserver/pkg/api/tenant/v1beta1"
	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/store"
)

// Sinks returns what has to follow each kind, for the index to know what there is.
func (x *Index) Sinks() map[schema.GroupVersionResource]store.Sink {
	iam := iamv1beta1.SchemeGroupVersion
	return map[schema.GroupVersionResource]store.Sink{
		iam.WithResource("globalroles"):           &roleSink{x, request.Global},
		iam.WithResource("workspaceroles"):        &roleSink{x, request.Workspace},
		iam.WithResource("clusterroles"):          &roleSink{x, request.Cluster},
		iam.WithResource("roles"):                 &roleSink{x, request.Namespace},
		iam.WithResource("globalrolebindings"):    &bindingSink{x, request.Global},
		iam.WithResource("workspacerolebindings"): &bindingSink{x, request.Workspace},
		iam.WithResource("clusterrolebindings"):   &bindingSink{x, request.Cluster},
		iam.WithResource("rolebindings"):          &bindingSink{x, request.Namespace},
		{Version: "v1", Resource: "namespaces"}:   &namespaceSink{x},
	}
}

// roleKind is the kind of the roles of a scope; that of their bindings ends in Binding.
func roleKind(s request.Scope) string {
	switch s {
	case request.Global:
		return iamv1beta1.KindGlobalRole
	case request.Workspace:
		return iamv1beta1.KindWorkspaceRole
	case request.Cluster:
		return iamv1beta1.KindClusterRole
	}
	return iamv1beta1.KindRole
}

// object is what the index reads of a role, a binding or a namespace: the kinds of the four scopes
// have the same fields.
type object struct {
	Metadata struct {
		Labels      map[string]string `json:"labels"`
		Annotations map[string]string `json:"annotations"`
	} `json:"metadata"`
	Rules    []rbacv1.PolicyRule `json:"rules"`
	RoleRef  rbacv1.RoleRef      `json:"roleRef"`
	Subjects []rbacv1.Subject    `json:"subjects"`
}

func decode(raw []byte, o *object) error {
	return json.UnmarshalCaseSensitivePreserveInts(raw, o)
}

func (o *object) workspace() string {
	return o.Metadata.Labels[tenantv1beta1.LabelWorkspace]
}

type roleSink struct {
	index *Index
	scope request.Scope
}

// Set says what a role grants. One that can't be understood grants nothing.
func (s *roleSink) Set(o *store.Object) {
	c, err := s.content(o)
	if err != nil {
		klog.ErrorS(err, "A role grants nothing until it is mended", "kind", roleKind(s.scope), "role", klog.KRef(o.Namespace, o.Name))
	}
	old := s.index.setRole(roleKey{s.scope, o.Namespace, o.Name}, c)
	if c != nil && c.rego && (old == nil || !old.rego) {
		klog.InfoS("The condition in Rego of a role is ignored: its rules alone count",
			"kind", roleKind(s.scope), "role", klog.KRef(o.Namespace, o.Name), "annotation", iamv1beta1.AnnotationRegoOverride)
	}
}

// Delete says that a role is gone.
func (s *roleSink) Delete(namespace, name string) {
	s.index.setRole(roleKey{s.scope, namespace, name}, nil)
}

func (s *roleSink) content(o *store.Object) (*content, error) {
	var v object
	if err := decode(o.Raw, &v); err != nil {
		return nil, fmt.Errorf("read the role: %w", err)
	}
	c := &content{rules: newRules(v.Rules), name: o.Name, scope: s.scope}
	if s.scope == request.Workspace {
		c.workspace = v.workspace()
	}
	c.rego = v.Metadata.Annotations[iamv1beta1.AnnotationRegoOverride] != ""
	expression, ok := v.Metadata.Annotations[iamv1beta1.AnnotationCELCondition]
	if !ok {
		return c, nil
	}
	program, err := s.index.conditions.compile(expression)
	if err != nil {
		return nil, fmt.Errorf("read the annotation %s: %w", iamv1beta1.AnnotationCELCondition, err)
	}
	c.condition, c.group = program, "kapis:conditional:"+o.Name
	return c, nil
}

type bindingSink struct {
	index *Index
	scope request.Scope
}

// Set says who is bound to what. A binding that can't be understood binds nobody.
func (s *bindingSink) Set(o *store.Object) {
	key := bindingKey{s.scope, o.Namespace, o.Name}
	b, err := s.binding(key, o.Raw)
	if err != nil {
		klog.ErrorS(err, "A binding binds nobody until it is mended", "kind", roleKind(s.scope)+"Binding", "binding", klog.KRef(o.Namespace, o.Name))
	}
	s.index.setBinding(key, b)
}

// Delete says that a binding is gone.
func (s *bindingSink) Delete(namespace, name string) {
	s.index.setBinding(bindingKey{s.scope, namespace, name}, nil)
}

func (s *bindingSink) binding(key bindingKey, raw []byte) (*binding, error) {
	var v object
	if err := decode(raw, &v); err != nil {
		return nil, fmt.Errorf("read the binding: %w", err)
	}
	if v.RoleRef.Kind != roleKind(s.scope) || v.RoleRef.APIGroup != "" && v.RoleRef.APIGroup != iamv1beta1.GroupName {
		return nil, fmt.Errorf("roleRef names a %q of the API group %q: expected a %s of %s",
			v.RoleRef.Kind, v.RoleRef.APIGroup, roleKind(s.scope), iamv1beta1.GroupName)
	}
	name := v.RoleRef.Name
	b := &binding{key: key, roleKey: roleKey{s.scope, key.namespace, name}, subjects: subjectsOf(v.Subjects)}
	switch s.scope {
	case request.Global:
		b.group = "kapis:global:" + name
	case request.Cluster:
		b.group = "kapis:cluster:" + name
	case request.Namespace:
		b.place = key.namespace
		b.group = "kapis:namespace:" + name
	case request.Workspace:
		b.place = v.workspace()
		if b.place == "" {
			return nil, fmt.Errorf("the label %s, which names the workspace, is missing", tenantv1beta1.LabelWorkspace)
		}
		b.group = "kapis:workspace:" + b.place + ":" + name
	}
	return b, nil
}

// subjectsOf returns the subjects that a request can be of. Service accounts are known by the user
// name that Kubernetes gives them; those of another group than Kubernetes' have none here.
func subjectsOf(list []rbacv1.Subject) []subject {
	out := make([]subject, 0, len(list))
	for n := range list {
		s := &list[n]
		switch {
		case s.Name == "":
		case s.Kind == rbacv1.UserKind || s.Kind == rbacv1.GroupKind:
			out = append(out, subject{s.Kind, s.Name})
		case s.Kind == rbacv1.ServiceAccountKind && s.Namespace != "" && (s.APIGroup == "" || s.APIGroup == rbacv1.GroupName):
			out = append(out, subject{s.Kind, "system:serviceaccount:" + s.Namespace + ":" + s.Name})
		}
	}
	return out
}

type namespaceSink struct {
	index *Index
}

// Set says which workspace a namespace is in. One that can't be read is in none.
func (s *namespaceSink) Set(o *store.Object) {
	var v object
	if err := decode(o.Raw, &v); err != nil {
		klog.ErrorS(err, "A namespace is taken to be in no workspace", "namespace", o.Name)
		v = object{}
	}
	s.index.setNamespace(o.Name, v.workspace())
}

// Delete says that a namespace is gone.
func (s *namespaceSink) Delete(_, name string) {
	s.index.dropNamespace(name)
}
