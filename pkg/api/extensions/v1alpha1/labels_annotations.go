package v1alpha1

// LabelExtension names the extension that an object belongs to.
const LabelExtension = "kubesphere.io/extension-ref"

// LabelProxyTarget says who serves a ReverseProxy: ks-apiserver, which is the default, or TargetConsole.
const LabelProxyTarget = "kubesphere.io/reverse-proxy-target"

// TargetConsole is the value for those that the console's server serves.
const TargetConsole = "ks-console"

// AnnotationDigest is the SHA-256 of a JSBundle's content, in hexadecimal: a change of the content is so one of the object.
const AnnotationDigest = "kapis.dev/sha256"

// AnnotationRoot is, on an APIService, the path below which its backend has the group, in place of /kapis: /apis for a server that is
// built with k8s.io/apiserver.
const AnnotationRoot = "kapis.dev/backend-root"

// AnnotationForward is "true" on an APIService or a ReverseProxy whose backend gets the access tokens of its callers, with which it can
// do what they can. Only who may impersonate users can ask for that.
const AnnotationForward = "kapis.dev/forward-authorization"

// AnnotationApprovedForward is the digest of what was approved to get them. Only the webhook writes it.
const AnnotationApprovedForward = "kapis.dev/approved-forward-authorization"
