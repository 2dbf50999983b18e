package v1beta1

// Who a ServiceAccount of kubesphere.io is to authorization: its user name is ServiceAccountUser, and it is in the group of all of them and
// in that of its namespace, which is ServiceAccountsGroup + ":" + the namespace.
const (
	ServiceAccountsGroup     = "kubesphere:serviceaccount"
	ServiceAccountUserPrefix = ServiceAccountsGroup + ":"
)

// ServiceAccountUser is the user name of a ServiceAccount of kubesphere.io: what a binding's subject of that kind and API group means.
func ServiceAccountUser(namespace, name string) string {
	return ServiceAccountUserPrefix + namespace + ":" + name
}
