// Package watch streams the changes of the answer to a query: as watch events of Kubernetes (Watching), or as a page of the
// list that is kept up to date (Live).
package watch
