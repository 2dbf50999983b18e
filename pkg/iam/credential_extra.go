package iam

import iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"

// ExtraCredential is the key in a user.Info's extra for the kind of credential, and CredentialAPIKey its value for API keys. An API key
// gives no right to change passwords, second factors or API keys.
const (
	ExtraCredential  = iamv1beta1.ExtraCredential
	CredentialAPIKey = "api-key"
	// ExtraProven marks the one write for which a user proved more than the token; ProvenPassword says that it was the current password.
	// Only this server sets it; the policy own-password.users.iam.kapis.dev requires it.
	ExtraProven    = "authentication.kapis.dev/proven"
	ProvenPassword = "password"
	// ExtraCredentialID is where Kubernetes' authenticators put the credential's ID for audit logs.
	ExtraCredentialID = "authentication.kubernetes.io/credential-id"
)
