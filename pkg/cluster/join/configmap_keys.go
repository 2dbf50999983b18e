package join

// A direct member is invited and let in through a ConfigMap in its namespace kubesphere-system: the hub reaches the member's kube-apiserver,
// and the member need not reach the hub. The hub writes who invites; the member adds a certificate request for a key that it keeps; the hub
// adds the certificate.
const (
	// Invitation is the name of the ConfigMap.
	Invitation = "ks-fleet-invitation"

	// What the hub writes: the UID of its kube-system, its address for people, and the name and the UID of the Cluster.
	InvitationHub        = "hub"
	InvitationCluster    = "cluster"
	InvitationClusterUID = "clusterUID"
	// What the member adds: a Request without a token, in JSON.
	InvitationRequest = "request"
	// What the hub adds then: an Answer, in JSON. Its certificate is for the key of the request.
	InvitationAnswer = "answer"
)

// A lite member runs no program of ours. Its administrator says yes to a hub by a ConfigMap in its namespace kubesphere-system, and makes
// the account that the hub acts by there.
const (
	// Consent is the name of the ConfigMap.
	Consent = "ks-fleet-lite"
	// LiteAccount is the name of the ServiceAccount.
	LiteAccount = "ks-fleet-lite"

	// What it says: the UID of the hub's kube-system, the name of the Cluster, and the groups of the hub's users that count there, one on a
	// line.
	ConsentHub     = "hub"
	ConsentCluster = "cluster"
	ConsentGroups  = "groups"
)
