// Package queryclient is the client's side of queries (docs/queries.md): it finds out which API of a cluster answers them, which
// kinds there are, and sends lists, watches and live pages. It works through ks-apiserver, and through kube-apiserver where
// query.kapis.dev is served.
package queryclient
