// Package lite serves clusters in which no program of ours runs: with caches and a proxy of their own, whose account is one that the
// cluster's administrator has made. Whether a user may do something, the cluster's kube-apiserver says, twice: when it is asked
// (SubjectAccessReview), and when the request reaches it, as the user.
package lite
