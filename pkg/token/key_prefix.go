package token

import "strings"

// ClusterPrefix begins the token in the kubeconfig of a Cluster (pkg/cluster/hub): `ksc_<what it says>.<MAC>`.
const ClusterPrefix = "ksc_"

// IsKey reports whether a bearer token is an API key, or a key of a service account or of a Cluster, of this server, good or bad.
func IsKey(s string) bool {
	return strings.HasPrefix(s, APIKeyPrefix) || strings.HasPrefix(s, ServiceAccountPrefix) || strings.HasPrefix(s, ClusterPrefix)
}
