package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupName is the API group of this package.
const GroupName = "kubesphere.io"

// SchemeGroupVersion is the group and version of this package's kinds.
var SchemeGroupVersion = schema.GroupVersion{Group: GroupName, Version: "v1alpha1"}

// Resource qualifies a plural resource name with the group, as errors name it.
func Resource(resource string) schema.GroupResource {
	return SchemeGroupVersion.WithResource(resource).GroupResource()
}

// AddToScheme registers this package's kinds in s.
func AddToScheme(s *runtime.Scheme) error {
	builder := runtime.NewSchemeBuilder(func(s *runtime.Scheme) error {
		s.AddKnownTypes(SchemeGroupVersion, &ServiceAccount{}, &ServiceAccountList{}, &Repository{}, &RepositoryList{},
			&Extension{}, &ExtensionList{}, &ExtensionVersion{}, &ExtensionVersionList{}, &InstallPlan{}, &InstallPlanList{},
			&Category{}, &CategoryList{})
		metav1.AddToGroupVersion(s, SchemeGroupVersion)
		return nil
	})
	return builder.AddToScheme(s)
}
