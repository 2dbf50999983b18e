package iam

// ExtraCredential is the key of a user.Info's extra that says with what kind of credential a request came, and CredentialAPIKey
// what it says of an API key. What is a person's own business (a password, a second factor, further keys) is not done with one.
const (
	ExtraCredential  = "authentication.kapis.dev/credential"
	CredentialAPIKey = "api-key"
	// ExtraProven is the key of what says that a person has shown more than his token for the write that is under way, and ProvenPassword that it was his
	// current password. Only this server sets it, on that one write; the policy own-password.users.iam.kapis.dev asks for it.
	ExtraProven    = "authentication.kapis.dev/proven"
	ProvenPassword = "password"
	// ExtraCredentialID is where Kubernetes' own authenticators tell which credential it was, for audit logs.
	ExtraCredentialID = "authentication.kubernetes.io/credential-id"
)
