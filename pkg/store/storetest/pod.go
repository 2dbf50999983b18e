// Package storetest has the kinds and the objects that tests of the store, and of what reads it, share.
package storetest

// Pod returns a pod as kube-apiserver sends it, with %RV% in the place of its resource version. more are the members of its labels, and of
// its status.
func Pod(namespace, name string, more ...string) string {
	labels, status := `"app":"a"`, ""
	if len(more) > 0 {
		labels = more[0]
	}
	if len(more) > 1 {
		status = more[1]
	}
	return `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"` + name + `","namespace":"` + namespace + `","uid":"u-` + namespace + `-` +
		name +
		`","resourceVersion":"%RV%","creationTimestamp":"2026-01-02T03:04:05Z","labels":{` + labels + `},` +
		`"annotations":{"kubectl.kubernetes.io/last-applied-configuration":"{}","kubesphere.io/alias-name":"Alias"},` +
		`"managedFields":[{"manager":"x","fieldsV1":{"f:a":{}}}]},"spec":{"nodeName":"n1"},"status":{` + status + `}}`
}
