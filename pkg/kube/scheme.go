package kube

import (
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"

	applicationv2 "kapis.dev/ks-apiserver/pkg/api/application/v2"
	clusterv1alpha1 "kapis.dev/ks-apiserver/pkg/api/cluster/v1alpha1"
	extensionsv1alpha1 "kapis.dev/ks-apiserver/pkg/api/extensions/v1alpha1"
	gatewayv1alpha1 "kapis.dev/ks-apiserver/pkg/api/gateway/v1alpha1"
	gatewayv1alpha2 "kapis.dev/ks-apiserver/pkg/api/gateway/v1alpha2"
	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	kubespherev1alpha1 "kapis.dev/ks-apiserver/pkg/api/kubesphere/v1alpha1"
	quotav1alpha2 "kapis.dev/ks-apiserver/pkg/api/quota/v1alpha2"
	sessionv1alpha1 "kapis.dev/ks-apiserver/pkg/api/session/v1alpha1"
	tenantv1beta1 "kapis.dev/ks-apiserver/pkg/api/tenant/v1beta1"
)

// Scheme returns the types that this project reads and writes as Go structs.
func Scheme() *runtime.Scheme {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme,
		iamv1beta1.AddToScheme,
		tenantv1beta1.AddToScheme,
		clusterv1alpha1.AddToScheme,
		extensionsv1alpha1.AddToScheme,
		gatewayv1alpha1.AddToScheme,
		gatewayv1alpha2.AddToScheme,
		sessionv1alpha1.AddToScheme,
		applicationv2.AddToScheme,
		kubespherev1alpha1.AddToScheme,
		quotav1alpha2.AddToScheme,
	} {
		utilruntime.Must(add(s))
	}
	return s
}
