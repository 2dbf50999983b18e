package rbac

import (
	stdjson "encoding/json"
	"fmt"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/klog/v2"
	"sigs.k8s.io/json"

	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	tenantv1beta1 "kapis.dev/ks-apiserver/pkg/api/tenant/v1beta1"
	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/store"
)

const (
	// nativeAccountPrefix begins the user names that Kubernetes gives service accounts.
	nativeAccountPrefix = "system:serviceaccount:"
	// kubesphereGroup is the API group of KubeSphere's own service accounts.
	kubesphereGroup = "kubesphere.io"
)

// Sinks returns, for each kind that the index is made of, the sink that keeps it up to date.
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

// object is what the index reads of a role, a binding or a namespace: the kinds of the four scopes
// have the same fields.
type object struct {
	Metadata struct {
		Labels      map[string]string `json:"labels"`
		Annotations map[string]string `json:"annotations"`
		// DeletionTimestamp is nil for an object that is not being deleted.
		DeletionTimestamp *string `json:"deletionTimestamp"`
	} `json:"metadata"`
	Rules    stdjson.RawMessage `json:"rules"` // read by readRules
	RoleRef  rbacv1.RoleRef     `json:"roleRef"`
	Subjects []rbacv1.Subject   `json:"subjects"`
}

func decode(raw []byte, o any) error {
	return json.UnmarshalCaseSensitivePreserveInts(raw, o)
}

func (o *object) workspace() string {
	return o.Metadata.Labels[tenantv1beta1.LabelWorkspace]
}

type roleSink struct {
	index *Index
	scope request.Scope
}

// Set sets the content of a role. One that can't be read grants nothing.
func (s *roleSink) Set(o *store.Object) {
	c, err := s.content(o)
	if err != nil {
		klog.ErrorS(err, "A role grants nothing until it is mended", "kind", s.scope.RoleKind(), "role", klog.KRef(o.Namespace, o.Name))
	}
	old := s.index.setRole(roleKey{s.scope, o.Namespace, o.Name}, c)
	if c != nil && c.rego && s.index.compile == nil && (old == nil || !old.rego) {
		klog.InfoS("The policy in Rego of a role is ignored: its rules alone count",
			"kind", s.scope.RoleKind(), "role", klog.KRef(o.Namespace, o.Name), "annotation", iamv1beta1.AnnotationRegoOverride)
	}
}

// Delete removes a role.
func (s *roleSink) Delete(namespace, name string) {
	s.index.setRole(roleKey{s.scope, namespace, name}, nil)
}

func (s *roleSink) content(o *store.Object) (*content, error) {
	var v object
	if err := decode(o.Raw, &v); err != nil {
		return nil, fmt.Errorf("read the role: %w", err)
	}
	rules, err := s.index.rules.of(v.Rules, readRules)
	if err != nil {
		return nil, fmt.Errorf("read the rules of the role: %w", err)
	}
	if rules.wrong != nil {
		klog.ErrorS(rules.wrong, "Rules of a role are ignored until they are mended", "kind", s.scope.RoleKind(), "role",
			klog.KRef(o.Namespace, o.Name))
	}
	c := &content{rules: rules, groups: &s.index.groups, name: o.Name, scope: s.scope}
	if s.scope == request.Workspace {
		c.workspace = v.workspace()
	}
	s.readPolicy(c, o, v.Metadata.Annotations[iamv1beta1.AnnotationRegoOverride])
	expression, ok := v.Metadata.Annotations[iamv1beta1.AnnotationCELCondition]
	if !ok {
		return c, nil
	}
	program, err := s.index.conditions.compile(expression)
	if err != nil {
		return nil, fmt.Errorf("read the annotation %s: %w", iamv1beta1.AnnotationCELCondition, err)
	}
	c.condition, c.expression = program, expression
	c.group = iamv1beta1.ConditionalGroup(s.scope.Label(), o.Namespace, o.Name)
	return c, nil
}

// readPolicy sets the policy of a role. One that can't be used grants nothing, while the rules of the role do.
func (s *roleSink) readPolicy(c *content, o *store.Object, text string) {
	c.rego = text != ""
	var err error
	if c.policy, err = s.index.policyOf(roleKey{s.scope, o.Namespace, o.Name}, text); err != nil {
		klog.ErrorS(err, "The policy in Rego of a role grants nothing until it is mended, its rules do",
			"kind", s.scope.RoleKind(), "role", klog.KRef(o.Namespace, o.Name), "annotation", iamv1beta1.AnnotationRegoOverride)
	}
}

type bindingSink struct {
	index *Index
	scope request.Scope
}

// Set sets a binding. One that can't be read binds no subject.
func (s *bindingSink) Set(o *store.Object) {
	key := bindingKey{s.scope, o.Namespace, o.Name}
	b, err := s.binding(key, o.Raw)
	if err != nil {
		klog.ErrorS(err, "A binding binds nobody until it is mended", "kind", s.scope.RoleKind()+"Binding", "binding",
			klog.KRef(o.Namespace, o.Name))
	}
	s.index.setBinding(key, b)
}

// Delete removes a binding.
func (s *bindingSink) Delete(namespace, name string) {
	s.index.setBinding(bindingKey{s.scope, namespace, name}, nil)
}

func (s *bindingSink) binding(key bindingKey, raw []byte) (*binding, error) {
	var v object
	if err := decode(raw, &v); err != nil {
		return nil, fmt.Errorf("read the binding: %w", err)
	}
	if v.RoleRef.Kind != s.scope.RoleKind() || v.RoleRef.APIGroup != "" && v.RoleRef.APIGroup != iamv1beta1.GroupName {
		return nil, fmt.Errorf("roleRef names a %q of the API group %q: expected a %s of %s",
			v.RoleRef.Kind, v.RoleRef.APIGroup, s.scope.RoleKind(), iamv1beta1.GroupName)
	}
	name := v.RoleRef.Name
	b := &binding{key: key, roleKey: roleKey{s.scope, key.namespace, name}}
	if v.Metadata.DeletionTimestamp == nil { // a finalizer, which its subject may have written, is no way to keep a right that is taken away
		b.subjects = subjectsOf(v.Subjects)
	}
	switch s.scope {
	case request.Namespace:
		b.scopeName = key.namespace
	case request.Workspace:
		b.scopeName = v.workspace()
		if b.scopeName == "" {
			return nil, fmt.Errorf("the label %s, which names the workspace, is missing", tenantv1beta1.LabelWorkspace)
		}
	}
	b.group = iamv1beta1.SyntheticGroup(s.scope.Label(), b.scopeName, name)
	return b, nil
}

// subjectsOf returns the subjects that a request can have. Service accounts are known by their user names: Kubernetes' own by the one
// that Kubernetes gives them, those of kubesphere.io by another, so that neither is taken for the other of the same name. Each is there
// once: to change a binding would cost as much as the square of how often one is.
func subjectsOf(list []rbacv1.Subject) []subject {
	out := make([]subject, 0, len(list))
	for n := range list {
		s := &list[n]
		switch {
		case s.Name == "":
		case s.Kind == rbacv1.UserKind || s.Kind == rbacv1.GroupKind:
			out = append(out, subject{s.Kind, s.Name})
		case s.Kind != rbacv1.ServiceAccountKind || s.Namespace == "":
		case s.APIGroup == "" || s.APIGroup == rbacv1.GroupName:
			out = append(out, subject{s.Kind, nativeAccountPrefix + s.Namespace + ":" + s.Name})
		case s.APIGroup == kubesphereGroup:
			out = append(out, subject{s.Kind, iamv1beta1.ServiceAccountUser(s.Namespace, s.Name)})
		}
	}
	if len(out) < 2 {
		return out
	}
	seen := make(map[subject]bool, len(out))
	return slices.DeleteFunc(out, func(s subject) bool {
		was := seen[s]
		seen[s] = true
		return was
	})
}

type namespaceSink struct {
	index *Index
}

// Set sets the workspace of a namespace. A namespace that can't be read is in none.
func (s *namespaceSink) Set(o *store.Object) {
	var v object
	if err := decode(o.Raw, &v); err != nil {
		klog.ErrorS(err, "A namespace is taken to be in no workspace", "namespace", o.Name)
		v = object{}
	}
	s.index.setNamespace(o.Name, v.workspace())
}

// Delete removes a namespace.
func (s *namespaceSink) Delete(_, name string) {
	s.index.dropNamespace(name)
}
