package store

import "k8s.io/apimachinery/pkg/runtime/schema"

// noKind is a kind without hidden fields.
var noKind schema.GroupResource

// lastApplied is the annotation of kubectl apply, which no kind keeps.
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"
